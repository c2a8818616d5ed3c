// Package garbage deletes ConfigMaps and Secrets with unique names that are no longer referenced. Components create
// such an object for every version of their configuration and reference it in an annotation of the objects that mount
// it.
package garbage

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

const (
	// DefaultPeriod is the time between two collections.
	DefaultPeriod = time.Hour
	// minAge protects objects whose users are not written yet.
	minAge = 10 * time.Minute
	// pageSize bounds the memory of a list.
	pageSize = 500
)

// Collector deletes unreferenced objects once per Period. It keeps no cache: a few lists of metadata per hour are
// cheaper.
type Collector struct {
	Target client.Client // Direct.
	Clock  clock.WithTicker
	Period time.Duration
}

// Start collects garbage until ctx ends.
func (c *Collector) Start(ctx context.Context) error {
	ticker := c.Clock.NewTicker(c.Period)
	defer ticker.Stop()
	for {
		if err := c.Collect(ctx); err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "Garbage collection failed")
		}
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return nil
		}
	}
}

// item is a collectable object.
type item struct {
	kind, namespace, name string
}

// users are the kinds whose annotations are references.
var users = []schema.GroupVersionKind{
	appsv1.SchemeGroupVersion.WithKind("Deployment"),
	appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
	appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
	batchv1.SchemeGroupVersion.WithKind("Job"),
	batchv1.SchemeGroupVersion.WithKind("CronJob"),
	corev1.SchemeGroupVersion.WithKind("Pod"),
	resourcesv1alpha1.SchemeGroupVersion.WithKind("ManagedResource"),
	{Group: "monitoring.coreos.com", Version: "v1", Kind: "Prometheus"},
}

// Collect deletes the objects that are unreferenced now and at least ten minutes old.
func (c *Collector) Collect(ctx context.Context) error {
	garbage := map[item]metav1.PartialObjectMetadata{}
	for _, kind := range []string{"ConfigMap", "Secret"} {
		err := c.each(ctx, corev1.SchemeGroupVersion.WithKind(kind), func(m metav1.PartialObjectMetadata) {
			if m.DeletionTimestamp == nil && c.Clock.Since(m.CreationTimestamp.Time) >= minAge {
				garbage[item{kind, m.Namespace, m.Name}] = m
			}
		}, client.MatchingLabels{resourcesv1alpha1.LabelGarbageCollectable: "true"})
		if err != nil {
			return err
		}
	}
	if len(garbage) == 0 {
		return nil
	}
	for _, gvk := range users {
		err := c.each(ctx, gvk, func(m metav1.PartialObjectMetadata) {
			for _, used := range references(m.Namespace, m.Annotations) {
				delete(garbage, used)
			}
		})
		if err != nil && !meta.IsNoMatchError(err) {
			return err
		}
	}
	var errs []error
	for i, m := range garbage {
		m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(i.kind))
		err := c.Target.Delete(ctx, &m, client.Preconditions{UID: ptr.To(m.UID), ResourceVersion: ptr.To(m.ResourceVersion)})
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("delete %s %s/%s: %w", i.kind, i.namespace, i.name, err))
		}
	}
	return errors.Join(errs...)
}

// each calls fn for the metadata of every object of a kind, page by page.
func (c *Collector) each(
	ctx context.Context, gvk schema.GroupVersionKind, fn func(metav1.PartialObjectMetadata), options ...client.ListOption,
) error {
	list := &metav1.PartialObjectMetadataList{}
	for {
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := c.Target.List(ctx, list,
			append(options, client.Limit(pageSize), client.Continue(list.Continue))...); err != nil {
			return fmt.Errorf("list %s: %w", gvk.Kind, err)
		}
		for _, m := range list.Items {
			fn(m)
		}
		if list.Continue == "" {
			return nil
		}
	}
}

// referenceKey matches annotations that name an object. The suffix keeps several of a kind apart.
var referenceKey = regexp.MustCompile(`^reference\.resources\.gardener\.cloud/(configmap|secret)-[0-9a-f]{8}$`)

func references(namespace string, annotations map[string]string) []item {
	var out []item
	for key, name := range annotations {
		m := referenceKey.FindStringSubmatch(key)
		if m == nil {
			continue
		}
		kind := "ConfigMap"
		if m[1] == "secret" {
			kind = "Secret"
		}
		out = append(out, item{kind, namespace, name})
	}
	return out
}
