package highavailability

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/webhook/mutation"
)

// Changes has the changes for the three kinds. The reader is not cached: requests are rare, and follow changes of the
// namespace.
type Changes struct {
	Reader client.Reader
}

// Deployment changes a Deployment.
func (c *Changes) Deployment(ctx context.Context, namespace string, d *appsv1.Deployment) (bool, error) {
	w := Workload{&d.ObjectMeta, &d.Spec.Replicas, d.Spec.Selector, &d.Spec.Template}
	return c.workload(ctx, namespace, "Deployment", w)
}

// StatefulSet changes a StatefulSet.
func (c *Changes) StatefulSet(ctx context.Context, namespace string, s *appsv1.StatefulSet) (bool, error) {
	w := Workload{&s.ObjectMeta, &s.Spec.Replicas, s.Spec.Selector, &s.Spec.Template}
	return c.workload(ctx, namespace, "StatefulSet", w)
}

// Autoscaler changes a HorizontalPodAutoscaler.
func (c *Changes) Autoscaler(
	ctx context.Context, namespace string, a *autoscalingv2.HorizontalPodAutoscaler,
) (bool, error) {
	settings, err := c.settings(ctx, namespace)
	if err != nil {
		return false, err
	}
	before := a.Spec.DeepCopy()
	ApplyToAutoscaler(a, settings)
	return !equality.Semantic.DeepEqual(before, &a.Spec), nil
}

// The methods implement [mutation.Change].
var (
	_ mutation.Change[*appsv1.Deployment]                     = (*Changes)(nil).Deployment
	_ mutation.Change[*appsv1.StatefulSet]                    = (*Changes)(nil).StatefulSet
	_ mutation.Change[*autoscalingv2.HorizontalPodAutoscaler] = (*Changes)(nil).Autoscaler
)

func (c *Changes) workload(ctx context.Context, namespace, kind string, w Workload) (bool, error) {
	settings, err := c.settings(ctx, namespace)
	if err != nil {
		return false, err
	}
	if settings.Pinned {
		if settings.Pinned, err = c.inhabited(ctx, settings.Zones); err != nil {
			return false, err
		}
	}
	if settings.Tolerance == nil && !settings.Pinned {
		if settings.Zones, err = c.withNodes(ctx, settings.Zones); err != nil {
			return false, err
		}
	}
	autoscaler, err := c.autoscaler(ctx, namespace, kind, w.Meta.Name)
	if err != nil {
		return false, err
	}
	replicas, template := *w.Replicas, w.Template.DeepCopy()
	Apply(w, settings, autoscaler)
	return !equality.Semantic.DeepEqual(replicas, *w.Replicas) ||
		!equality.Semantic.DeepEqual(template, w.Template), nil
}

func (c *Changes) settings(ctx context.Context, name string) (Settings, error) {
	namespace := &corev1.Namespace{}
	if err := c.Reader.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return Settings{}, fmt.Errorf("read Namespace %s: %w", name, err)
	}
	return SettingsOf(namespace), nil
}

// inhabited reports whether a node is in one of the zones. Pods that are pinned to zones without nodes would never run.
func (c *Changes) inhabited(ctx context.Context, zones []string) (bool, error) {
	in, err := labels.NewRequirement(corev1.LabelTopologyZone, selection.In, zones)
	if err != nil {
		return false, nil // No node can have such a label.
	}
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := c.Reader.List(ctx, nodes, client.Limit(1),
		client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*in)}); err != nil {
		return false, fmt.Errorf("list nodes in zones %v: %w", zones, err)
	}
	return len(nodes.Items) > 0, nil
}

// withNodes returns the zones that have nodes. Tolerance of the failure of a zone was not requested: replicas
// that have to be spread over more zones than there are would never all run.
func (c *Changes) withNodes(ctx context.Context, zones []string) ([]string, error) {
	var out []string
	for _, zone := range zones {
		found, err := c.inhabited(ctx, []string{zone})
		if err != nil {
			return nil, err
		}
		if found {
			out = append(out, zone)
		}
	}
	return out, nil
}

// autoscaler returns the one that scales a workload, or nil.
func (c *Changes) autoscaler(
	ctx context.Context, namespace, kind, name string,
) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	list := &autoscalingv2.HorizontalPodAutoscalerList{}
	if err := c.Reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list HorizontalPodAutoscalers in %s: %w", namespace, err)
	}
	for i := range list.Items {
		if target := list.Items[i].Spec.ScaleTargetRef; target.Kind == kind && target.Name == name {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}
