package coredns

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/component"
)

// ResourceName is the name of the ManagedResource.
const ResourceName = "shoot-core-coredns"

// Name of the Deployment, in kube-system.
const Name = "coredns"

const (
	name        = Name
	serviceName = "kube-dns" // The name that kubelets and users expect.
	namespace   = metav1.NamespaceSystem
	port        = 8053 // Unprivileged inside the pod; the Service offers 53.
)

// Values is the input of the rendering.
type Values struct {
	Image     string
	Placement component.Placement
	// ClusterIP is the address that kubelets write into pods.
	ClusterIP string
	Replicas  int32
	// CommonSuffixes are domain suffixes for which the search path of pods is cut short, see the Shoot's
	// systemComponents.coreDNS.rewriting.
	CommonSuffixes []string
}

// Render returns the objects for the Shoot.
func Render(v Values) []client.Object {
	labels := map[string]string{"k8s-app": "kube-dns", component.LabelRole: "system-component"}
	selector := map[string]string{"k8s-app": "kube-dns"}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: labels}
	}
	config := corefile(v)
	checksum := sha256.Sum256([]byte(config))
	dnsPort := func(name string, protocol corev1.Protocol) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: 53, TargetPort: intstr.FromInt32(port), Protocol: protocol}
	}
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: meta(name), AutomountServiceAccountToken: ptr.To(false)},
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "system:coredns", Labels: labels},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"endpoints", "services", "pods", "namespaces"},
					Verbs: []string{"list", "watch"}},
				{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"list", "watch"}},
			},
		},
		component.BindClusterRole("system:coredns", "system:coredns", component.ServiceAccount(namespace, name)),
		&corev1.ConfigMap{ObjectMeta: meta(name), Data: map[string]string{"Corefile": config}},
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: serviceName, Namespace: namespace, Labels: map[string]string{
				"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS",
				component.LabelRole: "system-component",
			}},
			Spec: corev1.ServiceSpec{
				ClusterIP: v.ClusterIP,
				Selector:  selector,
				Ports: []corev1.ServicePort{
					dnsPort("dns", corev1.ProtocolUDP), dnsPort("dns-tcp", corev1.ProtocolTCP),
					{Name: "metrics", Port: 9153, TargetPort: intstr.FromInt32(9153), Protocol: corev1.ProtocolTCP},
				},
			},
		},
		&policyv1.PodDisruptionBudget{
			ObjectMeta: meta(name),
			Spec: policyv1.PodDisruptionBudgetSpec{
				MaxUnavailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: selector},
			},
		},
		deployment(v, meta(name), selector, hex.EncodeToString(checksum[:])),
	}
}

func deployment(v Values, meta metav1.ObjectMeta, selector map[string]string, checksum string) *appsv1.Deployment {
	probe := func(path string, port, period int32) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:     corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(port)}},
			PeriodSeconds:    period,
			TimeoutSeconds:   5,
			FailureThreshold: 3,
		}
	}
	return &appsv1.Deployment{
		ObjectMeta: meta,
		Spec: appsv1.DeploymentSpec{
			Replicas:             ptr.To(v.Replicas),
			RevisionHistoryLimit: ptr.To(int32(2)),
			Selector:             &metav1.LabelSelector{MatchLabels: selector},
			Strategy:             component.ReplaceWithoutGap(),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels: meta.Labels, Annotations: map[string]string{"checksum/configmap-" + name: checksum},
				},
				Spec: corev1.PodSpec{
					ServiceAccountName:           name,
					AutomountServiceAccountToken: ptr.To(true),
					PriorityClassName:            "system-cluster-critical",
					SecurityContext:              component.ConfinedPod(),
					DNSPolicy:                    corev1.DNSDefault, // The node's resolver is the upstream; the cluster's is itself.
					NodeSelector:                 v.Placement.NodeSelector,
					Tolerations:                  v.Placement.Tolerations,
					TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
						MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
						LabelSelector:  &metav1.LabelSelector{MatchLabels: selector},
						MatchLabelKeys: []string{appsv1.DefaultDeploymentUniqueLabelKey},
					}},
					Containers: []corev1.Container{{
						Name:            name,
						Image:           v.Image,
						ImagePullPolicy: corev1.PullIfNotPresent,
						Args:            []string{"-conf", "/etc/coredns/Corefile"},
						Ports: []corev1.ContainerPort{
							{Name: "dns-udp", ContainerPort: port, Protocol: corev1.ProtocolUDP},
							{Name: "dns-tcp", ContainerPort: port, Protocol: corev1.ProtocolTCP},
							{Name: "metrics", ContainerPort: 9153, Protocol: corev1.ProtocolTCP},
						},
						VolumeMounts:    []corev1.VolumeMount{{Name: "config", MountPath: "/etc/coredns", ReadOnly: true}},
						Resources:       component.Requests("10m", "24Mi"),
						ReadinessProbe:  probe("/ready", 8181, 2),
						LivenessProbe:   probe("/health", 8080, 20),
						SecurityContext: component.ConfinedContainer(),
					}},
					Volumes: []corev1.Volume{{Name: "config",
						VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
							LocalObjectReference: corev1.LocalObjectReference{Name: name},
						}}}},
				},
			},
		},
	}
}

// corefile is the server's configuration.
func corefile(v Values) string {
	var rewrites strings.Builder
	for _, suffix := range v.CommonSuffixes {
		// The search path turns a complete name into "a.b.<suffix>.<namespace>.svc.cluster.local".
		escaped := strings.ReplaceAll(strings.TrimPrefix(suffix, "."), ".", `\.`)
		fmt.Fprintf(&rewrites,
			"    rewrite stop {\n        name regex (.*)\\.%s\\.svc\\.cluster\\.local {1}.%s answer auto\n    }\n", escaped,
			strings.TrimPrefix(suffix, "."))
	}
	return fmt.Sprintf(`.:%d {
    errors
    health :8080
    ready :8181
%s    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf
    cache 30
    loop
    reload
    loadbalance round_robin
}
`, port, rewrites.String())
}
