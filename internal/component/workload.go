package component

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// Labels on control plane objects.
const (
	LabelApp         = "app"
	LabelRole        = "gardener.cloud/role"
	RoleControlPlane = "controlplane"
	// LabelComponentRole is the label with the role of a Deployment with the label app=kubernetes, see [Workload].
	LabelComponentRole = "role"
	// LabelMutatedByWebhook, "true", selects the objects that the webhooks of providers mutate.
	LabelMutatedByWebhook = "provider.extensions.gardener.cloud/mutated-by-controlplane-webhook"
	// LabelRestart, "true", lets the maintenance task restartControlPlanePods delete the pods.
	LabelRestart = "maintenance.gardener.cloud/restart"
)

// AnnotationExport with ExportAll on a Service offers it to the seed's gateway.
const (
	AnnotationExport = "networking.istio.io/exportTo"
	ExportAll        = "*"
)

// AnnotationProxyAddress on the Service of an API server is the IP that it advertises to its cluster. Connections that
// reach the gateway with the PROXY protocol and name it as their destination are for this Service.
const AnnotationProxyAddress = "hortus.dev/proxy-address"

// LabelPersist, "true" on a Secret, says that it has to survive the loss of the seed; see the package secretsmanager.
const LabelPersist = "persist"

// Priority classes of the seed, made by the gardenlet. Higher ones survive node pressure longer.
const (
	PriorityAPI         = "gardener-system-500" // For components that the API of a Shoot needs to answer.
	PriorityControllers = "gardener-system-300" // For components that act on a Shoot's objects.
)

// probeTimeoutSeconds bounds one probe: a busy host may take a while to schedule the process that answers.
const probeTimeoutSeconds = 5

// Workload describes a Deployment by the properties in which control plane components differ.
type Workload struct {
	Name      string
	Namespace string
	Replicas  int32
	Image     string
	// Command is the program. Flags belong into Args, where webhooks of extensions look for them.
	Command []string
	Args    []string
	Env     []corev1.EnvVar
	Ports   []corev1.ContainerPort
	Mounts  []Mount
	// CPU and Memory are the requests. They are small: on a big seed the vertical autoscaler raises them.
	CPU, Memory string
	// Size of the cluster that the process belongs to; empty if it belongs to none.
	Size Size
	// MemoryLimit is for processes whose memory depends on what tenants do: beyond it the kernel ends the process
	// instead of its neighbours. Empty means no limit. Go gets a soft limit of its own below it, unless Env has one.
	MemoryLimit string
	// Health is the endpoint of the probes; the startup probe runs every second, so that nothing waits for a longer
	// period.
	Health Health
	// ServiceAccount is for components that talk to the seed's API; empty means no access, and no token in the pod.
	ServiceAccount string
	PriorityClass  string
	// PodLabels and PodAnnotations are added to the template. A changed checksum annotation replaces the pods.
	PodLabels      map[string]string
	PodAnnotations map[string]string
	// KubernetesRole is the role of a component of Kubernetes: the Deployment has the labels app=kubernetes and
	// role=<this>. Its pods have the role only, since app selects them.
	KubernetesRole string
	// Mutable lets webhooks of providers change the Deployment.
	Mutable bool
	// Reaches are labels of the pods for what they may connect to: ReachDNS, ReachService(...) and the like. All other
	// connections are blocked.
	Reaches []string
	// References are annotations of the Deployment and its pods that keep unique objects which they use.
	References map[string]string
	Strategy   appsv1.DeploymentStrategy
	// Spread places the replicas on different nodes and zones, as far as there are several.
	Spread bool
	// GracePeriodSeconds is the time to stop; 0 means the default of 30 seconds.
	GracePeriodSeconds int64
}

// Mount is a volume and the path at which it is mounted, read-only.
type Mount struct {
	Name   string
	Path   string
	Source corev1.VolumeSource
}

// SecretMount mounts all keys of a Secret at path.
func SecretMount(name, secret, path string) Mount {
	return Mount{
		Name: name, Path: path, Source: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: ptr.To(int32(0o640))},
		},
	}
}

// ConfigMapMount mounts all keys of a ConfigMap at path.
func ConfigMapMount(name, configMap, path string) Mount {
	return Mount{Name: name, Path: path, Source: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: configMap}, DefaultMode: ptr.To(int32(0o644)),
	}}}
}

// Health is an HTTP endpoint of a process.
type Health struct {
	Port   int32
	Scheme corev1.URIScheme
	// Startup and Readiness are paths; an empty Readiness means that Startup is used for it as well.
	Startup, Readiness, Liveness string
	// ReadinessPeriodSeconds is how often readiness is checked; 0 means 10.
	ReadinessPeriodSeconds int32
}

// GenericKubeconfigPath is the path of the kubeconfig for components that use a token of the Shoot's API.
const GenericKubeconfigPath = "/var/run/secrets/gardener.cloud/shoot/generic-kubeconfig"

// genericKubeconfigVolume is the name of its volume.
const genericKubeconfigVolume = "kubeconfig"

// GenericKubeconfigMount joins the kubeconfig that all components share with the token of one of them.
func GenericKubeconfigMount(kubeconfigSecret, accessSecret string) Mount {
	item := func(secret, key string) corev1.VolumeProjection {
		return corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: secret},
			Items:                []corev1.KeyToPath{{Key: key, Path: key}},
			Optional:             ptr.To(false),
		}}
	}
	return Mount{Name: genericKubeconfigVolume, Path: GenericKubeconfigPath,
		Source: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			DefaultMode: ptr.To(int32(0o640)),
			Sources:     []corev1.VolumeProjection{item(kubeconfigSecret, "kubeconfig"), item(accessSecret, "token")},
		}}}
}

// Selector is the label set that identifies the pods of a component.
func Selector(name string) map[string]string { return map[string]string{LabelApp: name} }

// Labels are the labels of a control plane object of the component.
func Labels(name string) map[string]string {
	return map[string]string{LabelApp: name, LabelRole: RoleControlPlane}
}

// Requests are resource requests without limits: a limit would kill processes that are merely busy.
func Requests(cpu, memory string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}}
}

// PodTemplate returns the pods of the workload.
func (w Workload) PodTemplate() corev1.PodTemplateSpec {
	labels := Labels(w.Name)
	if w.KubernetesRole != "" {
		labels[LabelComponentRole] = w.KubernetesRole
	}
	maps.Copy(labels, w.PodLabels)
	maps.Copy(labels, ReachLabels(w.Reaches))
	annotations := maps.Clone(w.PodAnnotations)
	if annotations == nil && len(w.References) > 0 {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, w.References)
	var volumes []corev1.Volume
	var mounts []corev1.VolumeMount
	for _, m := range w.Mounts {
		volumes = append(volumes, corev1.Volume{Name: m.Name, VolumeSource: m.Source})
		mounts = append(mounts, corev1.VolumeMount{Name: m.Name, MountPath: m.Path, ReadOnly: true})
	}
	container := corev1.Container{
		Name:            w.Name,
		Image:           w.Image,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         w.Command,
		Args:            w.Args,
		Env:             w.Env,
		Ports:           w.Ports,
		VolumeMounts:    mounts,
		Resources:       Requests(w.CPU, w.Memory),
		SecurityContext: ConfinedContainer(),
	}
	if w.MemoryLimit != "" {
		container.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(w.MemoryLimit)}
		soft := softMemoryLimit(w.MemoryLimit)
		if !slices.ContainsFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == soft.Name }) {
			container.Env = append(slices.Clone(container.Env), soft)
		}
	}
	container.Env = append(slices.Clone(container.Env), w.Size.collector()...)
	w.Health.probe(&container)
	spec := corev1.PodSpec{
		AutomountServiceAccountToken: ptr.To(w.ServiceAccount != ""),
		ServiceAccountName:           w.ServiceAccount,
		EnableServiceLinks:           ptr.To(false),
		SecurityContext:              w.securityContext(),
		PriorityClassName:            w.PriorityClass,
		Containers:                   []corev1.Container{container},
		Volumes:                      volumes,
	}
	if w.Spread {
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
			w.spread(corev1.LabelTopologyZone), w.spread(corev1.LabelHostname),
		}
	}
	if w.GracePeriodSeconds > 0 {
		spec.TerminationGracePeriodSeconds = ptr.To(w.GracePeriodSeconds)
	}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations}, Spec: spec}
}

// Deployment returns the workload.
func (w Workload) Deployment() *appsv1.Deployment {
	labels := Labels(w.Name)
	if w.KubernetesRole != "" {
		labels[LabelApp], labels[LabelComponentRole] = "kubernetes", w.KubernetesRole
	}
	if w.Mutable {
		labels[LabelMutatedByWebhook] = "true"
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: w.Name, Namespace: w.Namespace, Labels: labels, Annotations: w.References,
		},
		Spec: appsv1.DeploymentSpec{
			Replicas:             ptr.To(w.Replicas),
			RevisionHistoryLimit: ptr.To(int32(1)),
			Selector:             &metav1.LabelSelector{MatchLabels: Selector(w.Name)},
			Strategy:             w.Strategy,
			Template:             w.PodTemplate(),
		},
	}
}

// spread counts pods of one version only: pods that are about to be replaced do not matter for the placement of new
// ones.
func (w Workload) spread(topology string) corev1.TopologySpreadConstraint {
	return corev1.TopologySpreadConstraint{
		MaxSkew: 1, TopologyKey: topology, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector:  &metav1.LabelSelector{MatchLabels: Selector(w.Name)},
		MatchLabelKeys: []string{appsv1.DefaultDeploymentUniqueLabelKey},
	}
}

// DisruptionBudget lets one replica at a time be evicted.
func (w Workload) DisruptionBudget() *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: w.Name, Namespace: w.Namespace, Labels: Labels(w.Name)},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable:             ptr.To(intstr.FromInt32(1)),
			Selector:                   &metav1.LabelSelector{MatchLabels: Selector(w.Name)},
			UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
		},
	}
}

// ReplaceWithoutGap starts a new pod before an old one ends.
func ReplaceWithoutGap() appsv1.DeploymentStrategy {
	return appsv1.DeploymentStrategy{
		Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxSurge: ptr.To(intstr.FromInt32(1)), MaxUnavailable: ptr.To(intstr.FromInt32(0)),
		},
	}
}

func (h Health) probe(c *corev1.Container) {
	if h.Port == 0 {
		return
	}
	get := func(path string, periodSeconds, failures int32) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
				Path: path, Port: intstr.FromInt32(h.Port), Scheme: h.Scheme,
			}},
			PeriodSeconds:    periodSeconds,
			FailureThreshold: failures,
			TimeoutSeconds:   probeTimeoutSeconds,
		}
	}
	readiness := h.Readiness
	if readiness == "" {
		readiness = h.Startup
	}
	// Three minutes are enough for an API server that replays a large etcd on a slow disk.
	c.StartupProbe = get(h.Startup, 1, 180)
	period := h.ReadinessPeriodSeconds
	if period == 0 {
		period = 10
	}
	c.ReadinessProbe = get(readiness, period, 2)
	if h.Liveness != "" {
		c.LivenessProbe = get(h.Liveness, 15, 4)
	}
}
