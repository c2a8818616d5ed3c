package apiserverproxy

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/component"
)

// ResourceName is the name of the ManagedResource.
const ResourceName = "shoot-core-apiserver-proxy"

const (
	name       = "apiserver-proxy"
	namespace  = metav1.NamespaceSystem
	healthPort = 16910
)

// Values is the input of the rendering.
type Values struct {
	Image string
	// Address is the IP that the API server advertises; Gateway is the host:port at which the seed accepts the PROXY
	// protocol.
	Address string
	Gateway string
}

// Render returns the objects for the Shoot.
func Render(v Values) []client.Object {
	own := map[string]string{
		component.LabelApp: name, component.LabelRole: "system-component", "node.gardener.cloud/critical-component": "true",
	}
	return []client.Object{
		&corev1.ServiceAccount{
			ObjectMeta:                   metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: own},
			AutomountServiceAccountToken: ptr.To(false),
		},
		&appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: own},
			Spec: appsv1.DaemonSetSpec{
				Selector:             &metav1.LabelSelector{MatchLabels: map[string]string{component.LabelApp: name}},
				RevisionHistoryLimit: ptr.To(int32(2)),
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: own},
					Spec: corev1.PodSpec{
						HostNetwork:                  true,
						ServiceAccountName:           name,
						AutomountServiceAccountToken: ptr.To(false),
						EnableServiceLinks:           ptr.To(false),
						PriorityClassName:            "system-node-critical",
						SecurityContext: &corev1.PodSecurityContext{
							SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
						},
						DNSPolicy:                     corev1.DNSDefault,
						TerminationGracePeriodSeconds: ptr.To(int64(5)),
						Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
						Containers: []corev1.Container{{
							Name:            name,
							Image:           v.Image,
							ImagePullPolicy: corev1.PullIfNotPresent,
							Command: []string{
								"/usr/local/bin/hortus", "apiserver-proxy",
								"--address=" + v.Address,
								"--gateway=" + v.Gateway,
								fmt.Sprintf("--health-address=:%d", healthPort),
							},
							Resources: component.Requests("5m", "24Mi"),
							SecurityContext: &corev1.SecurityContext{
								AllowPrivilegeEscalation: ptr.To(false),
								// The address is put on the loopback interface and port 443 is bound.
								Capabilities: &corev1.Capabilities{
									Add: []corev1.Capability{"NET_ADMIN", "NET_BIND_SERVICE"}, Drop: []corev1.Capability{"ALL"},
								},
							},
							ReadinessProbe: &corev1.Probe{
								ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
									Path: "/readyz", Port: intstr.FromInt32(healthPort),
								}},
								PeriodSeconds: 2, TimeoutSeconds: 5, FailureThreshold: 5,
							},
						}},
					},
				},
			},
		},
	}
}
