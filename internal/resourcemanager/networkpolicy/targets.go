package networkpolicy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/networkpolicy"
)

// applyTargets writes the webhooks that the API server of a control plane may call. Without any there is no ConfigMap.
func (r *Reconciler) applyTargets(
	ctx context.Context, namespace string, namespaces []*corev1.Namespace, services []*corev1.Service,
) error {
	var targets []string
	if at := slices.IndexFunc(namespaces, func(ns *corev1.Namespace) bool { return ns.Name == namespace }); at >= 0 {
		targets = networkpolicy.WebhookTargets(namespaces[at], namespaces, services)
	}
	want, have := networkpolicy.WebhookTargetsOf(namespace, targets), &corev1.ConfigMap{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(want), have)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("read ConfigMap %s/%s: %w", namespace, want.Name, err)
	case err != nil && len(targets) > 0:
		err = r.Client.Create(ctx, want)
	case err != nil:
		return nil
	case len(targets) == 0:
		err = client.IgnoreNotFound(r.Client.Delete(ctx, want))
	case !equality.Semantic.DeepEqual(have.Data, want.Data):
		have = have.DeepCopy()
		have.Data = want.Data
		err = r.Client.Update(ctx, have)
	default:
		return nil
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", namespace, want.Name, err)
	}
	return r.refresh(ctx, namespace, want)
}

// annotationTargets on the pods that read a list of webhooks is a hash of the list.
const annotationTargets = "networking.hortus.dev/webhook-targets"

// refresh changes the pods that read the list, so that their kubelets update the file at once. Otherwise they would do
// so within about 90 seconds, which is also what happens if this is not reached.
func (r *Reconciler) refresh(ctx context.Context, namespace string, list *corev1.ConfigMap) error {
	pods := &metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	reading := resourcesv1alpha1.NetworkPolicyToGroup(resourcesv1alpha1.NetworkPolicyGroupWebhooks)
	if err := r.Live.List(ctx, pods, client.InNamespace(namespace),
		client.MatchingLabels{reading: resourcesv1alpha1.NetworkPolicyAllowed}); err != nil {
		return fmt.Errorf("list pods of namespace %s that call webhooks: %w", namespace, err)
	}
	sum := sha256.Sum256([]byte(list.Data[networkpolicy.WebhookTargetsKey]))
	for i := range pods.Items {
		pod := &pods.Items[i]
		before := pod.DeepCopy()
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, annotationTargets, hex.EncodeToString(sum[:8]))
		if err := r.Client.Patch(ctx, pod, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("annotate Pod %s/%s: %w", namespace, pod.Name, err)
		}
	}
	return nil
}
