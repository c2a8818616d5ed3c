package cleanup

import (
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Step is a group of kinds that are deleted together, with their timeouts.
type Step struct {
	Name  string
	Kinds []schema.GroupVersionKind
	// Grace is the longest grace period of a deletion: Pods have their own, and get it unless it is longer. Finalize is
	// the time after which finalizers are removed.
	Grace, Finalize time.Duration
}

const (
	defaultGrace  = 5 * time.Minute
	finalizeSoon  = corev1beta1.CleanupFinalizeSoon
	finalizeLater = corev1beta1.CleanupFinalizeLater
)

// The steps, in order. VolumeSnapshots runs together with KubernetesResources.
const (
	Webhooks            = "webhooks"
	ExtendedAPIs        = "extended-apis"
	KubernetesResources = "kubernetes-resources"
	VolumeSnapshots     = "volume-snapshots"
)

// entry is a row of the specification's table.
type entry struct {
	finalize   time.Duration
	annotation string  // Overrides finalize with fewer seconds.
	factor     float64 // Share of the override that becomes the grace period.
	kinds      []schema.GroupVersionKind
}

func kinds(group, version string, names ...string) []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for _, n := range names {
		out = append(out, schema.GroupVersionKind{Group: group, Version: version, Kind: n})
	}
	return out
}

func join(lists ...[]schema.GroupVersionKind) []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// costly kinds represent external resources that would be left over.
var costly = kinds("", "v1", "Service", "PersistentVolumeClaim")

var table = map[string]entry{
	Webhooks: {finalizeSoon, corev1beta1.AnnotationShootCleanupWebhooksFinalizeGracePeriodSeconds, 1,
		kinds("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")},
	ExtendedAPIs: {finalizeLater, corev1beta1.AnnotationShootCleanupExtendedAPIsFinalizeGracePeriodSeconds, 0.1,
		join(kinds("apiregistration.k8s.io", "v1", "APIService"),
			kinds("apiextensions.k8s.io", "v1", "CustomResourceDefinition"))},
	KubernetesResources: {finalizeSoon, corev1beta1.AnnotationShootCleanupKubernetesResourcesFinalizeGracePeriodSeconds, 1,
		join(
			kinds("batch", "v1", "CronJob"), kinds("apps", "v1", "DaemonSet", "Deployment"),
			kinds("networking.k8s.io", "v1", "Ingress"),
			kinds("batch", "v1", "Job"), kinds("", "v1", "Pod"), kinds("apps", "v1", "ReplicaSet"),
			kinds("", "v1", "ReplicationController"),
			kinds("apps", "v1", "StatefulSet"), costly)},
	VolumeSnapshots: {finalizeLater, corev1beta1.AnnotationShootCleanupKubernetesResourcesFinalizeGracePeriodSeconds, 0.5,
		kinds("snapshot.storage.k8s.io", "v1", "VolumeSnapshot", "VolumeSnapshotContent")},
}

// Plan returns a step with the timeouts in the Shoot's annotations; ok is false if the step is skipped.
func Plan(name string, annotations map[string]string) (step Step, ok bool, err error) {
	e, known := table[name]
	if !known {
		panic(fmt.Sprintf("cleanup: there is no step %q", name))
	}
	step = Step{Name: name, Kinds: e.kinds, Grace: defaultGrace, Finalize: e.finalize}
	if value, set := annotations[e.annotation]; set {
		// The API server checks what is written; the value may be older than that check.
		override, err := corev1beta1.CleanupTime(value)
		if err != nil {
			return Step{}, false, fmt.Errorf("annotation %s: %q %w", e.annotation, value, err)
		}
		// Only a shorter time is honoured: nobody may keep a deletion waiting forever.
		if override < e.finalize {
			step.Finalize = override
			step.Grace = time.Duration(int64(override.Seconds()*e.factor)) * time.Second
		}
	}
	if skip, err := strconv.ParseBool(annotations[corev1beta1.AnnotationShootSkipCleanup]); err == nil && skip {
		switch name {
		case ExtendedAPIs:
			return Step{}, false, nil
		case KubernetesResources:
			step.Kinds = costly
		}
	}
	return step, true, nil
}

// Labels of objects that are kept.
const (
	labelSystemComponent = corev1beta1.LabelRole
	labelProvider        = "provider"
	labelAutomanaged     = "kube-aggregator.kubernetes.io/automanaged"
)

// Kept reports whether an object of a kind is kept.
func Kept(kind string, labels map[string]string) bool {
	if labels[labelSystemComponent] == corev1beta1.RoleSystemComponent {
		return true
	}
	switch kind {
	case "APIService":
		_, automanaged := labels[labelAutomanaged]
		return automanaged
	case "Service":
		if labels[labelProvider] == "kubernetes" {
			return true
		}
	}
	return labels[corev1beta1.LabelNoCleanup] == "true"
}

// Action is what one pass does with an object.
type Action int

const (
	Keep     Action = iota // Leave it alone; it does not count as remaining.
	Delete                 // Request its deletion, or shorten the grace period of one.
	Wait                   // Its deletion is in progress, and its time is not over.
	Finalize               // Its time is over: remove the finalizers.
	Force                  // Its time is over, and no kubelet confirms its end: delete it without a grace period.
)

// Decide decides what to do with an object at the time now.
func Decide(step Step, kind string, o metav1.Object, now time.Time) Action {
	if Kept(kind, o.GetLabels()) {
		return Keep
	}
	if o.GetDeletionTimestamp() == nil {
		return Delete
	}
	over, own := o.GetDeletionTimestamp().Add(step.Finalize).Before(now), o.GetDeletionGracePeriodSeconds()
	switch {
	case over && len(o.GetFinalizers()) > 0:
		return Finalize
	case own != nil && time.Duration(*own)*time.Second > step.Grace:
		return Delete
	case over && kind == "Pod":
		return Force
	}
	return Wait
}
