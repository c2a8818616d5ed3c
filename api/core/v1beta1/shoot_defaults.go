package v1beta1

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Defaults that more than one place must agree on.
const (
	DefaultMaxPods                int32 = 110 // The kubelet's default.
	DefaultNodeCIDRMaskSizeIPv6   int32 = 64
	DefaultETCDEventTTL                 = time.Hour
	DefaultRotationPeriod               = 168 * time.Hour
	maintenanceWindowBeginHours         = 23 // 00 to 22, so that no default window passes midnight UTC.
	maintenanceWindowTimeTemplate       = "%02d0000+0000"
)

// HasWorkers reports whether a Shoot has nodes. Without workers it is a control plane only.
func (s *Shoot) HasWorkers() bool {
	return len(s.Spec.Provider.Workers) > 0
}

// SSHAccess reports whether users can log in to the nodes of a Shoot.
func (s *Shoot) SSHAccess() bool {
	w := s.Spec.Provider.WorkersSettings
	return s.HasWorkers() && (w == nil || w.SSHAccess == nil || w.SSHAccess.Enabled)
}

// HibernationEnabled reports whether a Shoot is to be hibernated.
func (s *Shoot) HibernationEnabled() bool {
	return s.Spec.Hibernation != nil && deref(s.Spec.Hibernation.Enabled)
}

// SourceIsDead reports whether an operator has declared the Seed that runs the control plane lost.
func (s *Shoot) SourceIsDead() bool {
	on := deref(s.Status.SeedName)
	return on != "" && s.Annotations[AnnotationSourceIsDead] == on
}

// SetDefaultsShoot fills the empty fields of a Shoot that have a default. All are constants but the maintenance
// window, which is random and therefore fixed when the Shoot is stored.
func SetDefaultsShoot(shoot *Shoot) {
	spec, workers := &shoot.Spec, shoot.HasWorkers()

	setDefault(&spec.Purpose, ShootPurposeEvaluation)
	setDefault(&spec.SchedulerName, DefaultSchedulerName)
	setDefault(&spec.Networking, Networking{})
	if len(spec.Networking.IPFamilies) == 0 {
		spec.Networking.IPFamilies = []IPFamily{IPFamilyIPv4}
	}
	setDefaultsCloudProfile(spec)
	setDefaultsDNS(spec.DNS)
	setDefaultsKubernetes(spec, workers)
	setDefaultsMaintenance(spec, workers)
	setDefaultsAddons(spec.Addons)
	if workers {
		setDefault(&spec.Provider.WorkersSettings, WorkersSettings{})
		setDefault(&spec.Provider.WorkersSettings.SSHAccess, SSHAccess{Enabled: true})
		setDefaultsSystemComponents(spec)
	}
	for i := range spec.Provider.Workers {
		setDefaultsWorker(&spec.Provider.Workers[i], spec)
	}
}

// setDefaultsCloudProfile accepts the older spelling. The API server keeps the two equal when it stores a Shoot.
func setDefaultsCloudProfile(spec *ShootSpec) {
	if spec.CloudProfile == nil && spec.CloudProfileName != nil && *spec.CloudProfileName != "" {
		spec.CloudProfile = &CloudProfileReference{Kind: CloudProfileKind, Name: *spec.CloudProfileName}
	}
	if spec.CloudProfile != nil && spec.CloudProfile.Kind == "" {
		spec.CloudProfile.Kind = CloudProfileKind
	}
}

// setDefaultsDNS accepts the older spelling. The API server keeps the two equal when it stores a Shoot.
func setDefaultsDNS(dns *DNS) {
	if dns == nil {
		return
	}
	for i := range dns.Providers {
		provider := &dns.Providers[i]
		if provider.CredentialsRef == nil && provider.SecretName != nil {
			provider.CredentialsRef = &autoscalingv1.CrossVersionObjectReference{
				APIVersion: "v1", Kind: "Secret", Name: *provider.SecretName,
			}
		}
	}
}

func setDefaultsKubernetes(spec *ShootSpec, workers bool) {
	kubernetes := &spec.Kubernetes
	setDefault(&kubernetes.KubeAPIServer, KubeAPIServerConfig{})
	setDefaultsKubeAPIServer(kubernetes.KubeAPIServer, workers)
	if kubernetes.ClusterAutoscaler != nil {
		setDefaultsClusterAutoscaler(kubernetes.ClusterAutoscaler)
	}
	if kubernetes.VerticalPodAutoscaler != nil {
		setDefaultsVerticalPodAutoscaler(kubernetes.VerticalPodAutoscaler)
	}
	if !workers {
		return
	}

	setDefault(&kubernetes.Kubelet, KubeletConfig{})
	setDefaultsKubelet(kubernetes.Kubelet)
	setDefault(&kubernetes.KubeControllerManager, KubeControllerManagerConfig{})
	controllerManager := kubernetes.KubeControllerManager
	setDefault(&controllerManager.NodeMonitorGracePeriod, metav1.Duration{Duration: 40 * time.Second})
	switch families := spec.Networking.IPFamilies; {
	case len(families) == 1 && families[0] == IPFamilyIPv6:
		setDefault(&controllerManager.NodeCIDRMaskSize, DefaultNodeCIDRMaskSizeIPv6)
	default:
		setDefault(&controllerManager.NodeCIDRMaskSize, nodeCIDRMaskSize(largestMaxPods(spec)))
		if len(families) > 1 {
			setDefault(&controllerManager.NodeCIDRMaskSizeIPv6, DefaultNodeCIDRMaskSizeIPv6)
		}
	}
	setDefault(&kubernetes.KubeScheduler, KubeSchedulerConfig{})
	setDefault(&kubernetes.KubeScheduler.Profile, SchedulingProfileBalanced)
	setDefault(&kubernetes.KubeProxy, KubeProxyConfig{})
	setDefault(&kubernetes.KubeProxy.Mode, ProxyModeIPTables)
	setDefault(&kubernetes.KubeProxy.Enabled, true)
}

// nodeCIDRMaskSize leaves a node twice as many addresses as it has pods, so that new pods need not wait for the
// addresses of those that end: 32 - ceil(log2(2 * maxPods)).
func nodeCIDRMaskSize(maxPods int32) int32 {
	if maxPods < 1 {
		maxPods = DefaultMaxPods
	}
	return 32 - int32(bits.Len32(2*uint32(maxPods)-1))
}

func largestMaxPods(spec *ShootSpec) int32 {
	largest := int32(0)
	consider := func(kubelet *KubeletConfig) {
		if kubelet != nil && kubelet.MaxPods != nil {
			largest = max(largest, *kubelet.MaxPods)
		}
	}
	consider(spec.Kubernetes.Kubelet)
	for _, worker := range spec.Provider.Workers {
		if worker.Kubernetes != nil {
			consider(worker.Kubernetes.Kubelet)
		}
	}
	if largest == 0 {
		return DefaultMaxPods
	}
	return largest
}

func setDefaultsKubeAPIServer(config *KubeAPIServerConfig, workers bool) {
	setDefault(&config.Requests, APIServerRequests{})
	setDefault(&config.Requests.MaxNonMutatingInflight, 400)
	setDefault(&config.Requests.MaxMutatingInflight, 200)
	setDefault(&config.EventTTL, metav1.Duration{Duration: DefaultETCDEventTTL})
	setDefault(&config.Logging, APIServerLogging{})
	setDefault(&config.Logging.Verbosity, 2)
	if workers {
		setDefault(&config.DefaultNotReadyTolerationSeconds, 300)
		setDefault(&config.DefaultUnreachableTolerationSeconds, 300)
	}
	if config.EncryptionConfig != nil {
		setDefault(&config.EncryptionConfig.Provider.Type, EncryptionProviderTypeAESCBC)
	}
}

func setDefaultsKubelet(config *KubeletConfig) {
	setDefaultsSwap(config)
	setDefault(&config.ImageGCHighThresholdPercent, 50)
	setDefault(&config.ImageGCLowThresholdPercent, 40)
	setDefault(&config.ImageMinimumGCAge, metav1.Duration{Duration: 2 * time.Minute})
	setDefault(&config.ImageMaximumGCAge, metav1.Duration{})
	setDefault(&config.SerializeImagePulls, config.MaxParallelImagePulls == nil || *config.MaxParallelImagePulls < 2)
}

func setDefaultsSwap(config *KubeletConfig) {
	setDefault(&config.FailSwapOn, true)
	if config.FeatureGates["NodeSwap"] && !*config.FailSwapOn {
		setDefault(&config.MemorySwap, MemorySwapConfiguration{})
		setDefault(&config.MemorySwap.SwapBehavior, LimitedSwap)
	}
}

func setDefaultsMaintenance(spec *ShootSpec, workers bool) {
	setDefault(&spec.Maintenance, Maintenance{})
	maintenance := spec.Maintenance
	setDefault(&maintenance.AutoUpdate, MaintenanceAutoUpdate{KubernetesVersion: true})
	if workers {
		setDefault(&maintenance.AutoUpdate.MachineImageVersion, true)
	}
	if maintenance.TimeWindow == nil {
		hour := rand.IntN(maintenanceWindowBeginHours)
		maintenance.TimeWindow = &MaintenanceTimeWindow{
			Begin: fmt.Sprintf(maintenanceWindowTimeTemplate, hour),
			End:   fmt.Sprintf(maintenanceWindowTimeTemplate, hour+1),
		}
	}
	if rotation := maintenance.AutoRotation; rotation != nil && rotation.Credentials != nil {
		credentials := rotation.Credentials
		for _, config := range []*MaintenanceRotationConfig{
			credentials.Observability, credentials.SSHKeypair, credentials.ETCDEncryptionKey,
		} {
			if config != nil {
				setDefault(&config.RotationPeriod, metav1.Duration{Duration: DefaultRotationPeriod})
			}
		}
	}
}

func setDefaultsAddons(addons *Addons) {
	if addons == nil {
		return
	}
	if addons.KubernetesDashboard != nil {
		setDefault(&addons.KubernetesDashboard.AuthenticationMode, "token")
	}
	if addons.NginxIngress != nil {
		setDefault(&addons.NginxIngress.ExternalTrafficPolicy, ServiceExternalTrafficPolicyCluster)
	}
}

func setDefaultsSystemComponents(spec *ShootSpec) {
	setDefault(&spec.SystemComponents, SystemComponents{})
	setDefault(&spec.SystemComponents.CoreDNS, CoreDNS{})
	coreDNS := spec.SystemComponents.CoreDNS
	setDefault(&coreDNS.Autoscaling, CoreDNSAutoscaling{})
	switch coreDNS.Autoscaling.Mode {
	case CoreDNSAutoscalingModeHorizontal, CoreDNSAutoscalingModeClusterProportional:
	default:
		coreDNS.Autoscaling.Mode = CoreDNSAutoscalingModeHorizontal
	}
}

func setDefaultsWorker(worker *Worker, spec *ShootSpec) {
	setDefault(&worker.UpdateStrategy, AutoRollingUpdate)
	switch *worker.UpdateStrategy {
	case AutoRollingUpdate:
		setDefault(&worker.MaxSurge, intstr.FromInt32(1))
		setDefault(&worker.MaxUnavailable, intstr.FromInt32(0))
	case AutoInPlaceUpdate:
		setDefault(&worker.MaxSurge, intstr.FromInt32(0))
		setDefault(&worker.MaxUnavailable, intstr.FromInt32(1))
	}
	if worker.UpdatesInPlace() {
		setDefault(&worker.MachineControllerManagerSettings, MachineControllerManagerSettings{})
		setDefault(&worker.MachineControllerManagerSettings.DisableHealthTimeout, true)
	}
	setDefault(&worker.CRI, CRI{Name: CRINameContainerD})
	setDefault(&worker.SystemComponents, WorkerSystemComponents{Allow: true})
	if worker.Kubernetes != nil && worker.Kubernetes.Kubelet != nil {
		setDefaultsSwap(worker.Kubernetes.Kubelet)
	}
	if exposure := worker.ControlPlane; exposure != nil && exposure.Exposure != nil && exposure.Exposure.Extension != nil {
		setDefault(&exposure.Exposure.Extension.Type, spec.Provider.Type)
	}
}

// UpdatesInPlace reports whether the pool's machines are updated without being replaced.
func (w *Worker) UpdatesInPlace() bool {
	return w.UpdateStrategy != nil && (*w.UpdateStrategy == AutoInPlaceUpdate || *w.UpdateStrategy == ManualInPlaceUpdate)
}

// Operations returns the operations that an annotation requests, each once, in order.
func Operations(annotations map[string]string, key string) []string {
	var operations []string
	for operation := range strings.SplitSeq(annotations[key], OperationSeparator) {
		if operation = strings.TrimSpace(operation); operation != "" && !slices.Contains(operations, operation) {
			operations = append(operations, operation)
		}
	}
	return operations
}

// Tasks returns the tasks of an annotation, such as AnnotationShootTasks, which commas or spaces separate.
func Tasks(annotations map[string]string, key string) []string {
	return strings.FieldsFunc(annotations[key], func(r rune) bool { return r == ',' || r == ' ' })
}

// ShootTasks returns the tasks that a gardenlet carries out. It ignores all others.
func ShootTasks() []string {
	return []string{
		ShootTaskDeployInfrastructure, ShootTaskDeployDNSRecordInternal, ShootTaskDeployDNSRecordExternal,
		ShootTaskRestartControlPlanePods, ShootTaskRestartCoreAddons,
	}
}
