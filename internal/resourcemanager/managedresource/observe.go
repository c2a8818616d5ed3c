package managedresource

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/crds"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/resourcemanager/health"
)

// judge sets the conditions about health and progress. Objects that did not change since they were judged are not read.
func (r *Reconciler) judge(
	ctx context.Context, mr *resourcesv1alpha1.ManagedResource, rec *record,
) (reconcile.Result, error) {
	healthy := finding{corev1beta1.ConditionTrue, resourcesv1alpha1.ReasonResourcesHealthy, "All resources are healthy."}
	progressing := finding{
		corev1beta1.ConditionFalse, resourcesv1alpha1.ReasonResourcesRolledOut, "All resources are rolled out.",
	}
	judged := make(map[reference]verdict, len(mr.Status.Resources))
	recheck := false
	for _, status := range mr.Status.Resources {
		ref := fromStatus(status)
		v, found, err := r.judgeOne(ctx, ref, status, rec.judged)
		if err != nil {
			message := fmt.Sprintf("%s: %s", ref, err)
			r.set(mr, resourcesv1alpha1.ResourcesHealthy, corev1beta1.ConditionFalse, resourcesv1alpha1.ReasonHealthCheckError,
				message)
			return reconcile.Result{}, fmt.Errorf("check health of %s: %w", ref, err)
		}
		judged[ref] = v
		recheck = recheck || v.recheck
		if healthy.status == corev1beta1.ConditionTrue && !found {
			healthy = finding{corev1beta1.ConditionFalse, ref.Kind + "Missing", fmt.Sprintf("%s does not exist.", ref)}
		}
		if healthy.status == corev1beta1.ConditionTrue && v.unhealthy != "" {
			healthy = finding{
				corev1beta1.ConditionFalse, ref.Kind + "Unhealthy", fmt.Sprintf("%s is unhealthy: %s.", ref, v.unhealthy),
			}
		}
		if progressing.status == corev1beta1.ConditionFalse && v.progress != "" {
			progressing = finding{
				corev1beta1.ConditionTrue, ref.Kind + "Progressing", fmt.Sprintf("%s is being rolled out: %s.", ref, v.progress),
			}
		}
	}
	rec.judged = judged
	r.set(mr, resourcesv1alpha1.ResourcesHealthy, healthy.status, healthy.reason, healthy.message)
	r.set(mr, resourcesv1alpha1.ResourcesProgressing, progressing.status, progressing.reason, progressing.message)
	if recheck {
		return reconcile.Result{RequeueAfter: pendingInterval}, nil
	}
	return reconcile.Result{RequeueAfter: r.SyncPeriod}, nil
}

type finding struct {
	status          corev1beta1.ConditionStatus
	reason, message string
}

// judgeOne judges one object and reports whether it exists.
func (r *Reconciler) judgeOne(
	ctx context.Context, ref reference, status resourcesv1alpha1.ObjectReference, before map[reference]verdict,
) (verdict, bool, error) {
	if isTrue(status.Annotations, resourcesv1alpha1.AnnotationSkipHealthCheck) {
		return verdict{}, true, nil
	}
	checked := health.Checked(schema.GroupKind{Group: ref.Group, Kind: ref.Kind})
	if m := r.owned.get(ctx, ref); m != nil {
		old, ok := before[ref]
		if ok && !old.recheck && !old.pods && old.uid == m.UID && old.version == m.ResourceVersion || !checked {
			return old, true, nil
		}
	}
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	if !checked {
		err := r.Target.Get(ctx, key, metadata(ref.GroupVersionKind))
		if gone(err) {
			return verdict{}, false, nil
		}
		return verdict{}, true, err
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(ref.GroupVersionKind)
	if err := r.Target.Get(ctx, key, u); err != nil {
		if gone(err) {
			return verdict{}, false, nil
		}
		return verdict{}, true, err
	}
	if isTrue(u.GetAnnotations(), resourcesv1alpha1.AnnotationSkipHealthCheck) {
		return verdict{}, true, nil
	}
	v := verdict{uid: u.GetUID(), version: u.GetResourceVersion()}
	var err error
	if v.unhealthy, err = health.Check(u); err != nil {
		return v, true, err
	}
	if v.progress, err = health.Progress(u); err != nil {
		return v, true, err
	}
	if v.unhealthy != "" || v.progress != "" {
		unattended, err := r.unattended(ctx, u)
		if err != nil {
			return v, true, err
		}
		if unattended {
			v.unhealthy, v.progress = "", ""
		}
	}
	if v.unhealthy != "" && slices.Contains(controllersOfPods, ref.Kind) {
		why, err := r.waiting(ctx, u)
		if err != nil {
			return v, true, err
		}
		if why != "" {
			v.unhealthy = strings.TrimSuffix(v.unhealthy, ".") + "; " + why
		}
		v.pods = true
	}
	if v.progress == "" && ref.Kind == "Deployment" {
		// The list is a request of its own, so it comes last.
		if v.progress, err = r.oldPods(ctx, u); err != nil {
			return v, true, err
		}
		v.recheck = v.progress != ""
	}
	return v, true, nil
}

// unattended reports whether no operator acts on an object: it has no status, and its definition is a placeholder. Its
// existence is all there is to judge. Who installs an operator writes the definition anew.
func (r *Reconciler) unattended(ctx context.Context, u *unstructured.Unstructured) (bool, error) {
	gvk := u.GroupVersionKind()
	if u.Object["status"] != nil || !strings.Contains(gvk.Group, ".") {
		return false, nil
	}
	mapping, err := r.Target.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return false, fmt.Errorf("find the resource of kind %s: %w", gvk.Kind, err)
	}
	definition := metadata(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	name := mapping.Resource.GroupResource().String()
	if err := r.Target.Get(ctx, client.ObjectKey{Name: name}, definition); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read definition %s: %w", name, err)
	}
	return definition.Labels[crds.LabelPlaceholder] == "true", nil
}

// controllersOfPods are the kinds whose pods say why an object is unhealthy. All have a selector.
var controllersOfPods = []string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"}

// maxWaiting bounds the pods that are examined: those of one object mostly wait for the same.
const maxWaiting = 10

// waiting returns why containers of an object's pods do not start, such as an image that does not exist; "" if there is
// no reason.
func (r *Reconciler) waiting(ctx context.Context, owner *unstructured.Unstructured) (string, error) {
	raw, _, _ := unstructured.NestedMap(owner.Object, "spec", "selector")
	selector, err := selectorOf(raw)
	if err != nil {
		return "", err
	}
	pods := &corev1.PodList{}
	if err := r.Target.List(ctx, pods, client.InNamespace(owner.GetNamespace()), client.Limit(maxWaiting),
		client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return "", fmt.Errorf("list pods: %w", err)
	}
	// Without the time: how long an image has been pulled for would change the condition again and again.
	why, _ := kube.WaitingContainers(pods.Items, time.Time{})
	return why, nil
}

// oldPods looks for pods of earlier versions of a Deployment.
func (r *Reconciler) oldPods(ctx context.Context, deployment *unstructured.Unstructured) (string, error) {
	raw, _, _ := unstructured.NestedMap(deployment.Object, "spec", "selector")
	selector, err := selectorOf(raw)
	if err != nil {
		return "", err
	}
	pods := &metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := r.Target.List(ctx, pods, client.InNamespace(deployment.GetNamespace()),
		client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return "", fmt.Errorf("list pods: %w", err)
	}
	return health.OldPods(deployment, len(pods.Items)), nil
}
