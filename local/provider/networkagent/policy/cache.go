package policy

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// CacheOptions keeps only the fields of the watched objects that Decide reads: one agent runs on every node and caches
// all of them. The API server does not even send Pods that take no part in policies. The labels and ports of Pods
// without address, which are few, are kept only for Pods of the node: the container runtime may report their addresses
// first.
func CacheOptions(node string) map[client.Object]cache.ByObject {
	takePart := fields.AndSelectors(
		fields.OneTermEqualSelector("spec.hostNetwork", "false"),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	)
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}: {
			Field: takePart, Transform: transform(func(p *corev1.Pod) *corev1.Pod { return slimPod(p, node) }),
		},
		&corev1.Namespace{}:           {Transform: transform(slimNamespace)},
		&networkingv1.NetworkPolicy{}: {Transform: transform(slimPolicy)},
	}
}

// transform adapts a function on one type to what caches call, also with tombstones of deleted objects.
func transform[T client.Object](slim func(T) T) func(any) (any, error) {
	return func(obj any) (any, error) {
		if o, ok := obj.(T); ok {
			return slim(o), nil
		}
		return obj, nil
	}
}

// slimMeta keeps the metadata that caches and Decide need of all kinds.
func slimMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}
}

func slimPod(p *corev1.Pod, node string) *corev1.Pod {
	slim := &corev1.Pod{ObjectMeta: slimMeta(&p.ObjectMeta)}
	slim.Spec.NodeName = p.Spec.NodeName
	if p.Spec.NodeName != node && len(addressesOf(p)) == 0 {
		return slim
	}
	if hash, ok := p.Annotations[corev1.MirrorPodAnnotationKey]; ok {
		slim.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: hash}
	}
	slim.Labels = p.Labels
	slim.CreationTimestamp, slim.DeletionTimestamp = p.CreationTimestamp, p.DeletionTimestamp
	slim.Spec.HostNetwork = p.Spec.HostNetwork
	slim.Status.Phase, slim.Status.PodIP = p.Status.Phase, p.Status.PodIP
	if len(p.Status.PodIPs) > 1 { // The first is PodIP.
		slim.Status.PodIPs = p.Status.PodIPs
	}
	if ports := namedPorts(p); len(ports) > 0 { // Which container has them does not matter.
		slim.Spec.Containers = []corev1.Container{{Ports: ports}}
	}
	return slim
}

func slimNamespace(n *corev1.Namespace) *corev1.Namespace {
	slim := &corev1.Namespace{ObjectMeta: slimMeta(&n.ObjectMeta)}
	slim.Labels = n.Labels
	return slim
}

func slimPolicy(p *networkingv1.NetworkPolicy) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: slimMeta(&p.ObjectMeta), Spec: p.Spec}
}

// updates passes an update on if the objects differ in what Decide reads, and everything else.
func updates[T client.Object](differ func(before, after T) bool) predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok1 := e.ObjectOld.(T)
		after, ok2 := e.ObjectNew.(T)
		return ok1 && ok2 && differ(before, after)
	}}
}

// podEvents drops events that the rules do not depend on: of Pods without address whose network the container runtime
// has not reported either, and updates of fields that only other controllers read, such as conditions.
func podEvents(reported func(client.ObjectKey) bool) predicate.Funcs {
	concerned := func(o client.Object) bool {
		p, ok := o.(*corev1.Pod)
		return ok && (len(addressesOf(p)) > 0 || reported(client.ObjectKeyFromObject(p)))
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return concerned(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return concerned(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return podChanged.Update(e) && (concerned(e.ObjectOld) || concerned(e.ObjectNew))
		},
	}
}

var podChanged = updates(func(before, after *corev1.Pod) bool {
	return takesPart(before) != takesPart(after) || before.Spec.NodeName != after.Spec.NodeName ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		!slices.Equal(addressesOf(before), addressesOf(after)) ||
		!maps.Equal(before.Labels, after.Labels) || !slices.Equal(namedPorts(before), namedPorts(after))
})

var namespaceChanged = updates(func(before, after *corev1.Namespace) bool {
	return !maps.Equal(before.Labels, after.Labels)
})

var policyChanged = updates(func(before, after *networkingv1.NetworkPolicy) bool {
	return !equality.Semantic.DeepEqual(before.Spec, after.Spec)
})
