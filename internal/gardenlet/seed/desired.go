package seed

import (
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/component/gateway"
	"hortus.dev/hortus/internal/component/resourcemanager"
	"hortus.dev/hortus/internal/gardenlet/config"
)

// priorityClasses rank what runs in a seed. Extensions use them as well, so all of the contract are there. The numbers
// lie below those that Kubernetes keeps for itself (1,000,000,000).
var priorityClasses = []struct {
	name  string
	value int32
	text  string
}{
	{"gardener-system-critical", 999998950, "What all control planes of the seed depend on."},
	{"gardener-system-900", 999998900, "Extensions and the resource-manager of the seed."},
	{"gardener-system-800", 999998800, "For extensions."},
	{"gardener-system-700", 999998700, "For extensions."},
	{"gardener-system-600", 999998600, "For extensions."},
	{"gardener-system-500", 999998500, "What the API of a Shoot needs to answer."},
	{"gardener-system-400", 999998400, "For extensions."},
	{"gardener-system-300", 999998300, "What acts on a Shoot's objects."},
	{"gardener-system-200", 999998200, "For extensions."},
	{"gardener-system-100", 999998100, "What observes a Shoot."},
}

// base are the objects that everything else in the seed builds on.
func base() []client.Object {
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: corev1beta1.GardenNamespace, Labels: map[string]string{corev1beta1.LabelRole: corev1beta1.RoleGarden},
	}}}
	for _, p := range priorityClasses {
		objects = append(objects, &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: p.name}, Value: p.value, Description: p.text,
		})
	}
	return objects
}

// gatewayReplicas is how many pods the gateway has: the loss or the eviction of one cuts no control plane off.
const gatewayReplicas = 2

// resourceManagerReplicas is how many pods the resource-manager of a seed has: all serve webhooks, without which no
// pods of extensions are created, and one of them applies ManagedResources.
const resourceManagerReplicas = 2

// components are the workloads of the seed.
func components(seed *corev1beta1.Seed, image string) []client.Object {
	var annotations map[string]string
	if s := seed.Spec.Settings; s != nil && s.LoadBalancerServices != nil {
		annotations = s.LoadBalancerServices.Annotations
	}
	networks := []string{seed.Spec.Networks.Pods, seed.Spec.Networks.Services}
	if nodes := seed.Spec.Networks.Nodes; nodes != nil {
		networks = append(networks, *nodes)
	}
	return append(
		gateway.Render(gateway.Values{Image: image, Replicas: gatewayReplicas, Annotations: annotations}),
		resourcemanager.Render(resourcemanager.Values{
			Namespace: corev1beta1.GardenNamespace, Image: image, Replicas: resourceManagerReplicas,
			Class:           resourcesv1alpha1.ClassSeed,
			ClusterNetworks: networks, BlockedNetworks: seed.Spec.Networks.BlockCIDRs,
		})...,
	)
}

// capacity converts the configured resources to those in the Seed's status: the total, and the total without the
// reserved part.
func capacity(r *config.Resources) (total, allocatable corev1.ResourceList) {
	if r == nil || len(r.Capacity) == 0 {
		return nil, nil
	}
	total, allocatable = corev1.ResourceList{}, corev1.ResourceList{}
	for name, value := range r.Capacity {
		q := resource.MustParse(value) // Checked with the configuration.
		total[corev1.ResourceName(name)] = q
		rest := q.DeepCopy()
		if reserved, ok := r.Reserved[name]; ok {
			rest.Sub(resource.MustParse(reserved))
		}
		allocatable[corev1.ResourceName(name)] = rest
	}
	return total, allocatable
}
