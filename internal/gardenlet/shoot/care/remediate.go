package care

import (
	"fmt"
	"maps"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// fix has the changes that make one webhook harmless, with a sentence per change for its owner.
type fix struct {
	timeoutSeconds    *int32
	failurePolicy     *admissionregistrationv1.FailurePolicyType
	objectSelector    *metav1.LabelSelector
	namespaceSelector *metav1.LabelSelector
	changes           []string
}

// Remediate computes what to change in a webhook. Nothing is changed in one that is harmless.
func remediate(w Webhook) fix {
	var f fix
	// Leases first, as they need a shorter timeout than the general one.
	switch {
	case hits(w, systemLeases) && (w.TimeoutSeconds == nil || *w.TimeoutSeconds > maxLeaseTimeoutSeconds):
		f.setTimeout(maxLeaseTimeoutSeconds, w.TimeoutSeconds, w.Name)
	case Problematic(w) && (w.TimeoutSeconds == nil || *w.TimeoutSeconds > maxTimeoutSeconds):
		f.setTimeout(maxTimeoutSeconds, w.TimeoutSeconds, w.Name)
	}
	if ignoresFailure(w) {
		return f
	}
	object, namespace := labels.Set{}, labels.Set{}
	for _, r := range rows {
		if !hits(w, r) {
			continue
		}
		switch {
		case len(r.object) == 0 && len(r.namespaces) == 0:
			// No selector can exclude these.
			if f.failurePolicy == nil {
				f.failurePolicy = ptr.To(admissionregistrationv1.Ignore)
				f.changes = append(f.changes,
					fmt.Sprintf("webhook %q: failurePolicy was set to Ignore, because it acts on %s, which no selector can exclude",
						w.Name, r.resources[0]))
			}
		case r.cluster || len(r.namespaces) == 0:
			maps.Copy(object, r.object)
		default:
			for _, set := range r.namespaces {
				// One label is enough to exclude a namespace; the purpose is the most descriptive one.
				if value, ok := set[corev1beta1.LabelPurpose]; ok {
					namespace[corev1beta1.LabelPurpose] = value
				} else {
					maps.Copy(namespace, set)
				}
			}
		}
	}
	if len(object) > 0 {
		// Namespaces are distinguished by their own labels.
		f.objectSelector = exclude(w.ObjectSelector, labels.Set{corev1beta1.LabelPurpose: object[corev1beta1.LabelPurpose]})
		f.changes = append(f.changes, fmt.Sprintf("webhook %q: objectSelector was extended to exclude system objects",
			w.Name))
	}
	if len(namespace) > 0 {
		f.namespaceSelector = exclude(w.NamespaceSelector, namespace)
		f.changes = append(f.changes, fmt.Sprintf("webhook %q: namespaceSelector was extended to exclude system namespaces",
			w.Name))
	}
	return f
}

func (f *fix) setTimeout(seconds int32, old *int32, name string) {
	was := "not set"
	if old != nil {
		was = fmt.Sprint(*old)
	}
	f.timeoutSeconds = ptr.To(seconds)
	f.changes = append(f.changes, fmt.Sprintf("webhook %q: timeoutSeconds was changed from %s to %d", name, was, seconds))
}

// exclude adds requirements to a selector so that it no longer matches objects with any of the labels.
func exclude(selector *metav1.LabelSelector, set labels.Set) *metav1.LabelSelector {
	out := &metav1.LabelSelector{}
	if selector != nil {
		out = selector.DeepCopy()
	}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		out.MatchExpressions = append(out.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: []string{set[key]}})
	}
	return out
}

// excluded reports whether the owner has disabled repairs, or whether the system itself is the owner.
func excluded(l map[string]string) bool {
	return l[corev1beta1.LabelExcludeWebhookFromRemediation] == "true" || own(l)
}

// applyTo returns the webhook with the changes made.
func (f fix) applyTo(w Webhook) Webhook {
	if f.timeoutSeconds != nil {
		w.TimeoutSeconds = f.timeoutSeconds
	}
	if f.failurePolicy != nil {
		w.FailurePolicy = f.failurePolicy
	}
	if f.objectSelector != nil {
		w.ObjectSelector = f.objectSelector
	}
	if f.namespaceSelector != nil {
		w.NamespaceSelector = f.namespaceSelector
	}
	return w
}
