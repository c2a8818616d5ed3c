// Package network acts on Networks of type bridge: it puts the network agent, which enforces NetworkPolicies too, on
// every node of a Shoot.
package network

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/extension/managedresource"
)

// Type of the Networks acted upon.
const Type = "bridge"

const (
	managedResource = "extension-networking-bridge"
	agentName       = "network-agent"
	healthPort      = 10290
	recheck         = 5 * time.Second

	// Directories of the machine, which the agent mounts at the same paths.
	cniConfDir = "/etc/cni/net.d"
	cniBinDir  = "/opt/cni/bin"
	runDir     = "/run/hortus"
)

// Actuator acts on Networks.
type Actuator struct {
	Client client.Client
	Image  string // Of the agent.
}

var (
	_ extension.Actuator[*extensionsv1alpha1.Network]  = &Actuator{}
	_ extension.Validator[*extensionsv1alpha1.Network] = &Actuator{}
)

// Validate refuses what the agent does not support.
func (a *Actuator) Validate(_ context.Context, n *extensionsv1alpha1.Network, _ *extension.Cluster) field.ErrorList {
	path := field.NewPath("spec")
	var out field.ErrorList
	if p, err := netip.ParsePrefix(n.Spec.PodCIDR); err != nil || !p.Addr().Is4() {
		out = append(out, field.Invalid(path.Child("podCIDR"), n.Spec.PodCIDR, "must be an IPv4 network"))
	}
	for i, family := range n.Spec.IPFamilies {
		if family != extensionsv1alpha1.IPFamilyIPv4 {
			out = append(out, field.NotSupported(path.Child("ipFamilies").Index(i), family, []extensionsv1alpha1.IPFamily{
				extensionsv1alpha1.IPFamilyIPv4,
			}))
		}
	}
	return out
}

// Reconcile hands the agent to the Shoot's resource-manager.
func (a *Actuator) Reconcile(
	ctx context.Context, n *extensionsv1alpha1.Network, cluster *extension.Cluster,
) (extension.Result, error) {
	err := managedresource.Apply(ctx, a.Client, a.Client.Scheme(), managedresource.Set{
		Namespace: n.Namespace, Name: managedResource,
		Objects: Objects(Values{Image: a.Image, PodCIDR: n.Spec.PodCIDR, APIServer: apiServer(cluster.Shoot)}),
	})
	n.Status.IPFamilies = []extensionsv1alpha1.IPFamily{extensionsv1alpha1.IPFamilyIPv4}
	return extension.Done(), err
}

// Restore does what Reconcile does.
func (a *Actuator) Restore(
	ctx context.Context, n *extensionsv1alpha1.Network, cluster *extension.Cluster,
) (extension.Result, error) {
	return a.Reconcile(ctx, n, cluster)
}

// Migrate has nothing to stop. The ManagedResource stays until the gardenlet drops it: the resource-manager of a
// hibernated Shoot would not release it.
func (a *Actuator) Migrate(context.Context, *extensionsv1alpha1.Network, *extension.Cluster) (extension.Result, error) {
	return extension.Done(), nil
}

// Delete removes the agent from the Shoot.
func (a *Actuator) Delete(
	ctx context.Context, n *extensionsv1alpha1.Network, _ *extension.Cluster,
) (extension.Result, error) {
	return a.remove(ctx, n, false)
}

// ForceDelete leaves the agent to the user.
func (a *Actuator) ForceDelete(
	ctx context.Context, n *extensionsv1alpha1.Network, _ *extension.Cluster,
) (extension.Result, error) {
	return a.remove(ctx, n, true)
}

func (a *Actuator) remove(ctx context.Context, n *extensionsv1alpha1.Network, keep bool) (extension.Result, error) {
	gone, err := managedresource.Delete(ctx, a.Client, n.Namespace, managedResource, keep)
	if err != nil {
		return extension.Result{}, err
	}
	if !gone {
		return extension.Waiting("The network agent is being removed from the Shoot", recheck), nil
	}
	return extension.Done(), nil
}

// apiServer returns the address by which machines reach the API server without the help of kube-proxy, or "" if none is
// advertised yet. The agent and kube-proxy start at the same time, and the agent need not wait.
func apiServer(shoot *corev1beta1.Shoot) string {
	for _, a := range shoot.Status.AdvertisedAddresses {
		if a.Name == "internal" {
			if u, err := url.Parse(a.URL); err == nil && u.Hostname() != "" {
				return u.Host
			}
		}
	}
	return ""
}

func directory(name, path string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
		Path: path, Type: ptr.To(corev1.HostPathDirectoryOrCreate),
	}}}
}

// Values of the agent's objects.
type Values struct {
	Image     string
	PodCIDR   string
	APIServer string // host or host:port; empty means the Service kubernetes.
}

// Objects renders the agent.
func Objects(v Values) []client.Object {
	labels := map[string]string{
		"app": agentName, "gardener.cloud/role": "system-component", corev1beta1.LabelNodeCriticalComponent: "true",
	}
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: agentName, Labels: labels}
	readOnly := []string{"get", "list", "watch"}
	roleName := "extensions.gardener.cloud:networking-bridge:" + agentName
	env := []corev1.EnvVar{{
		Name: "NODE_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}},
	}}
	if v.APIServer != "" {
		host, port := v.APIServer, "443"
		if h, p, err := net.SplitHostPort(v.APIServer); err == nil {
			host, port = h, p
		}
		env = append(env, corev1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: host},
			corev1.EnvVar{Name: "KUBERNETES_SERVICE_PORT", Value: port})
	}
	probe := func(path string) corev1.ProbeHandler {
		return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Host: "127.0.0.1", Path: path, Port: intstr.FromInt32(healthPort),
		}}
	}
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: meta, AutomountServiceAccountToken: ptr.To(false)},
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: roleName},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"nodes", "pods", "namespaces"}, Verbs: readOnly},
				{APIGroups: []string{networkingv1.GroupName}, Resources: []string{"networkpolicies"}, Verbs: readOnly},
			},
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: roleName},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: roleName},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: meta.Namespace, Name: meta.Name}},
		},
		&appsv1.DaemonSet{
			ObjectMeta: meta,
			Spec: appsv1.DaemonSetSpec{
				RevisionHistoryLimit: ptr.To(int32(1)),
				Selector:             &metav1.LabelSelector{MatchLabels: map[string]string{"app": agentName}},
				UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
					Type:          appsv1.RollingUpdateDaemonSetStrategyType,
					RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: ptr.To(intstr.FromString("100%"))},
				},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec: corev1.PodSpec{
						ServiceAccountName:           agentName,
						AutomountServiceAccountToken: ptr.To(true),
						HostNetwork:                  true,
						DNSPolicy:                    corev1.DNSDefault,
						PriorityClassName:            "system-node-critical",
						Tolerations:                  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
						Containers: []corev1.Container{{
							Name:  agentName,
							Image: v.Image,
							Args: []string{
								"network-agent", "--node-name=$(NODE_NAME)", "--pod-cidr=" + v.PodCIDR,
								"--health-address=127.0.0.1:10290",
							},
							Env:             env,
							SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)},
							Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
								corev1.ResourceCPU: resource.MustParse("5m"), corev1.ResourceMemory: resource.MustParse("24Mi"),
							}},
							// The node accepts pods only when this pod is ready, so probe often at first.
							StartupProbe:  &corev1.Probe{ProbeHandler: probe("/readyz"), PeriodSeconds: 1, FailureThreshold: 300},
							LivenessProbe: &corev1.Probe{ProbeHandler: probe("/healthz"), PeriodSeconds: 20},
							VolumeMounts: []corev1.VolumeMount{
								{Name: "cni", MountPath: cniConfDir}, {Name: "cni-bin", MountPath: cniBinDir}, {Name: "run", MountPath: runDir},
							},
						}},
						Volumes: []corev1.Volume{directory("cni", cniConfDir), directory("cni-bin", cniBinDir), directory("run", runDir)},
					},
				},
			},
		},
	}
}
