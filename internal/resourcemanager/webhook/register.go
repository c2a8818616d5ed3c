package webhook

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"hortus.dev/hortus/internal/resourcemanager/webhook/configuration"
	"hortus.dev/hortus/internal/resourcemanager/webhook/highavailability"
	"hortus.dev/hortus/internal/resourcemanager/webhook/seccomp"
	"hortus.dev/hortus/internal/resourcemanager/webhook/servicehost"
	"hortus.dev/hortus/internal/resourcemanager/webhook/systemcomponents"
	"hortus.dev/hortus/internal/resourcemanager/webhook/tokenmount"
	"hortus.dev/hortus/internal/resourcemanager/webhook/topologyspread"
	"hortus.dev/hortus/internal/webhook/mutation"
)

// Settings are the inputs of a Shoot's webhooks besides the objects.
type Settings struct {
	// SystemComponentTolerations are the tolerations of pods of system components.
	SystemComponentTolerations []corev1.Toleration
	// APIServerHost is the host name by which pods of system components reach the API server at port 443. Empty leaves
	// them the Service kubernetes.
	APIServerHost string
}

// Register adds the handlers of all webhooks to the server. The reader is for the cluster whose API server calls them,
// without a cache.
func Register(server webhook.Server, reader client.Reader, scheme *runtime.Scheme, s Settings) {
	pod := func() *corev1.Pod { return &corev1.Pod{} }
	for path, change := range map[string]mutation.Change[*corev1.Pod]{
		configuration.PathTokenMount:     tokenmount.Change(reader),
		configuration.PathSeccomp:        alone(seccomp.Default),
		configuration.PathTopologySpread: alone(topologyspread.SameRevision),
		configuration.PathSystemComponents: alone(func(pod *corev1.Pod) bool {
			return systemcomponents.Place(pod, s.SystemComponentTolerations)
		}),
		configuration.PathServiceHost: alone(func(pod *corev1.Pod) bool { return servicehost.Set(pod, s.APIServerHost) }),
	} {
		server.Register(path, mutation.Webhook(scheme, pod, change))
	}
	availability := &highavailability.Changes{Reader: reader}
	server.Register(configuration.PathDeploymentAvailability, mutation.Webhook(scheme,
		func() *appsv1.Deployment { return &appsv1.Deployment{} }, availability.Deployment))
	server.Register(configuration.PathStatefulSetAvailability, mutation.Webhook(scheme,
		func() *appsv1.StatefulSet { return &appsv1.StatefulSet{} }, availability.StatefulSet))
	server.Register(configuration.PathAutoscalerAvailability, mutation.Webhook(scheme,
		func() *autoscalingv2.HorizontalPodAutoscaler { return &autoscalingv2.HorizontalPodAutoscaler{} },
		availability.Autoscaler))
}

// alone is a change that depends on nothing but the pod.
func alone(change func(*corev1.Pod) bool) mutation.Change[*corev1.Pod] {
	return func(_ context.Context, _ string, pod *corev1.Pod) (bool, error) { return change(pod), nil }
}
