package steps

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/component/machinecontrollermanager"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/kube"
)

// MachineControllerManager creates, drains and deletes machines. It starts at the same time as the API server and
// waits for it.
var MachineControllerManager = &flow.Step[*Scope]{
	Name:   "machine-controller-manager",
	After:  []*flow.Step[*Scope]{CloudCredentials, KubeAPIServer},
	SkipIf: when(workerless),
	Ensure: use3(ensureMachineControllerManager),
	Remove: use1(removeMachineControllerManager),
}

func ensureMachineControllerManager(
	ctx context.Context, s *Values, seed *SeedNamespace, secrets Secrets,
) (flow.Outcome, error) {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Name: machinecontrollermanager.Name, Namespace: s.Namespace,
	}}
	found, err := kube.Exists(ctx, seed, deployment)
	if err != nil {
		return flow.Outcome{}, err
	}
	missing, err := machinesAreMissing(ctx, s, seed)
	if err != nil || missing && found {
		return flow.Done(), err // The extension of the Worker starts it.
	}
	stopped, err := machinesAreGone(ctx, s, seed, deployment)
	if err != nil {
		return flow.Outcome{}, err
	}
	replicas := s.Replicas()
	if missing || stopped {
		replicas = 0
	}
	access, err := secrets.access(machinecontrollermanager.Name)
	if err != nil {
		return flow.Outcome{}, err
	}
	return applyWorkload(ctx, s, seed, machinecontrollermanager.Render(machinecontrollermanager.Values{
		Namespace: s.Namespace, Image: s.Images.Hortus, Replicas: replicas, Access: access, Size: s.size(),
	}))
}

// machinesAreMissing reports whether the Worker has not been restored yet. A controller that does not know the machines
// would take them for orphans and delete them.
func machinesAreMissing(ctx context.Context, s *Values, seed *SeedNamespace) (bool, error) {
	if !s.Restoring() {
		return false, nil
	}
	worker := &extensionsv1alpha1.Worker{ObjectMeta: s.extensionMeta(s.Shoot.Name)}
	found, err := kube.Exists(ctx, seed, worker)
	if err != nil || !found {
		return true, err
	}
	op := worker.Status.LastOperation
	return op == nil || toRestore(worker) || op.State != corev1beta1.LastOperationStateSucceeded, nil
}

// machinesAreGone reports whether the extension of the Worker has stopped the controller since a Shoot that is being
// hibernated has no machine any more. If it were started again for nothing, hibernation would wait for it.
func machinesAreGone(ctx context.Context, s *Values, seed *SeedNamespace, controller *appsv1.Deployment) (bool, error) {
	if !s.Shoot.HibernationEnabled() || s.Asleep() || s.Deleting() || ptr.Deref(controller.Spec.Replicas, 1) > 0 {
		return false, nil
	}
	left := map[string][]metav1.PartialObjectMetadata{}
	for _, kind := range machineKinds {
		objects, err := seed.metadata(ctx, machineGroupVersion.WithKind(kind))
		if err != nil {
			return false, err
		}
		left[kind] = objects
	}
	return !controllerHasWork(left), nil
}

// controllerHasWork reports whether a machine-controller-manager has to end a machine, or to remove its finalizer from
// another object that is being deleted. The objects are listed by their kind.
func controllerHasWork(objects map[string][]metav1.PartialObjectMetadata) bool {
	for kind, ofKind := range objects {
		for _, o := range ofKind {
			if kind == "Machine" || !o.DeletionTimestamp.IsZero() {
				return true
			}
		}
	}
	return false
}

func removeMachineControllerManager(ctx context.Context, seed *SeedNamespace) (flow.Outcome, error) {
	objects := machinecontrollermanager.Render(machinecontrollermanager.Values{Namespace: seed.namespace})
	_, err := seed.remove(ctx, objects...)
	return flow.Done(), err
}

// Worker manages the machines of all pools.
var Worker = &flow.Step[*Scope]{
	Name: "worker",
	After: []*flow.Step[*Scope]{
		MachineControllerManager, OperatingSystemConfig, ShootSystem, ShootResources, Network, ControlPlane,
		ExtensionsAfterKubeAPIServer, Route, DNSInternal,
	},
	SkipIf: when(workerless, asleep),
	Ensure: use4(ensureWorker),
	Remove: use2(removeWorker),
	// A rolling update takes as long as its slowest machine times their number; the extension reports errors earlier.
	Limit: rollLimit,
}

func ensureWorker(
	ctx context.Context, s *Values, seed *SeedNamespace, secrets Secrets, extensions *Extensions,
) (flow.Outcome, error) {
	infrastructure, err := infrastructure(ctx, s, seed)
	if err != nil {
		return flow.Outcome{}, err
	}
	sshKey, err := sshPublicKey(s, secrets)
	if err != nil {
		return flow.Outcome{}, err
	}
	o := &extensionsv1alpha1.Worker{
		ObjectMeta: s.extensionMeta(s.Shoot.Name),
		Spec: extensionsv1alpha1.WorkerSpec{
			DefaultSpec:                  extensionsv1alpha1.DefaultSpec{Type: s.Shoot.Spec.Provider.Type},
			Region:                       s.Shoot.Spec.Region,
			SecretRef:                    cloudSecretRef(s.Namespace),
			SSHPublicKey:                 sshKey,
			InfrastructureProviderStatus: infrastructure.Status.ProviderStatus,
		},
	}
	keys, err := readKeys(ctx, seed, s.Shoot, s.Namespace)
	if err != nil {
		return flow.Outcome{}, err
	}
	for i := range s.Shoot.Spec.Provider.Workers {
		w := &s.Shoot.Spec.Provider.Workers[i]
		pool, err := desiredPool(ctx, s, seed, w, keys[w.Name])
		if err != nil {
			return flow.Outcome{}, fmt.Errorf("worker pool %q: %w", w.Name, err)
		}
		o.Spec.Pools = append(o.Spec.Pools, *pool)
	}
	if err := requestRollouts(ctx, s, seed); err != nil {
		return flow.Outcome{}, err
	}
	outcome, err := extensions.reconcile(ctx, extensionRequest{object: o, trigger: triggerAlways, severe: severeDefault})
	if err != nil || !outcome.IsDone() {
		return outcome, err
	}
	waiting, err := waitingForRollouts(ctx, s, seed)
	if err != nil || waiting == "" {
		return outcome, err
	}
	return flow.Waiting(waitWorker, waiting), nil
}

// desiredPool describes the machines of a pool to the provider.
func desiredPool(
	ctx context.Context, s *Values, seed *SeedNamespace, w *corev1beta1.Worker, key poolKey,
) (*extensionsv1alpha1.WorkerPool, error) {
	provision := &extensionsv1alpha1.OperatingSystemConfig{}
	if err := seed.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: key.name + suffixProvision},
		provision); err != nil {
		return nil, fmt.Errorf("read OperatingSystemConfig: %w", err)
	}
	if provision.Status.CloudConfig == nil {
		return nil, fmt.Errorf("OperatingSystemConfig %q has no user data", provision.Name)
	}
	p := renderPool(s.Shoot, s.CloudProfile, w, key)
	p.UserDataSecretRef = corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: provision.Status.CloudConfig.SecretRef.Name},
		Key:                  extensionsv1alpha1.OperatingSystemConfigSecretDataKey,
	}
	return p, nil
}

// renderPool is the part of a pool that follows from Shoot and CloudProfile.
func renderPool(
	shoot *corev1beta1.Shoot, profile *corev1beta1.CloudProfile, w *corev1beta1.Worker, key poolKey,
) *extensionsv1alpha1.WorkerPool {
	p := &extensionsv1alpha1.WorkerPool{
		Name:        w.Name,
		MachineType: w.Machine.Type,
		MachineImage: extensionsv1alpha1.MachineImage{
			Name: w.Machine.Image.Name, Version: ptr.Deref(w.Machine.Image.Version, ""),
		},
		Minimum:               w.Minimum,
		Maximum:               w.Maximum,
		MaxSurge:              ptr.Deref(w.MaxSurge, intstr.FromInt32(0)),
		MaxUnavailable:        ptr.Deref(w.MaxUnavailable, intstr.FromInt32(0)),
		Annotations:           w.Annotations,
		Labels:                nodeLabels(shoot, w, key.name),
		Taints:                w.Taints,
		ProviderConfig:        w.ProviderConfig,
		KubeletDataVolumeName: w.KubeletDataVolumeName,
		Zones:                 w.Zones,
		KubernetesVersion:     ptr.To(poolVersion(shoot, *w)),
		KubeletConfig:         corev1beta1.EffectiveKubelet(shoot, w),
		NodeTemplate:          nodeTemplate(profile, w.Machine.Type),
		Architecture:          w.Machine.Architecture,
		Priority:              w.Priority,
		UpdateStrategy:        w.UpdateStrategy,
	}
	if key.version != hashV1 { // Without a name the provider computes the classic hash.
		p.NodeAgentSecretName = ptr.To(key.name)
	}
	if v := w.Volume; v != nil {
		p.Volume = &extensionsv1alpha1.Volume{Name: v.Name, Type: v.Type, Size: v.VolumeSize, Encrypted: v.Encrypted}
	}
	for _, v := range w.DataVolumes {
		p.DataVolumes = append(p.DataVolumes,
			extensionsv1alpha1.DataVolume{Name: v.Name, Type: v.Type, Size: v.VolumeSize, Encrypted: v.Encrypted})
	}
	if m := w.MachineControllerManagerSettings; m != nil {
		p.MachineControllerManagerSettings = &extensionsv1alpha1.MachineControllerManagerSettings{
			MachineDrainTimeout: m.MachineDrainTimeout, MachineHealthTimeout: m.MachineHealthTimeout,
			MachineCreationTimeout:      m.MachineCreationTimeout,
			MachineInPlaceUpdateTimeout: m.MachineInPlaceUpdateTimeout, DisableHealthTimeout: m.DisableHealthTimeout,
			MaxEvictRetries: m.MaxEvictRetries, NodeConditions: m.NodeConditions,
			MachinePreserveTimeout:       m.MachinePreserveTimeout,
			AutoPreserveFailedMachineMax: m.AutoPreserveFailedMachineMax,
		}
	}
	if c := w.ClusterAutoscaler; c != nil {
		number := func(f *float64) *string {
			if f == nil {
				return nil
			}
			return ptr.To(strconv.FormatFloat(*f, 'f', -1, 64))
		}
		p.ClusterAutoscaler = &extensionsv1alpha1.ClusterAutoscalerOptions{
			ScaleDownUtilizationThreshold:    number(c.ScaleDownUtilizationThreshold),
			ScaleDownGpuUtilizationThreshold: number(c.ScaleDownGpuUtilizationThreshold),
			ScaleDownUnneededTime:            c.ScaleDownUnneededTime, ScaleDownUnreadyTime: c.ScaleDownUnreadyTime,
			MaxNodeProvisionTime: c.MaxNodeProvisionTime,
		}
	}
	return p
}

// nodeTemplate is the capacity that the CloudProfile promises for a machine type.
func nodeTemplate(profile *corev1beta1.CloudProfile, machineType string) *extensionsv1alpha1.NodeTemplate {
	if profile == nil {
		return nil
	}
	i := slices.IndexFunc(profile.Spec.MachineTypes, func(t corev1beta1.MachineType) bool { return t.Name == machineType })
	if i < 0 {
		return nil
	}
	t := profile.Spec.MachineTypes[i]
	capacity := corev1.ResourceList{corev1.ResourceCPU: t.CPU, corev1.ResourceMemory: t.Memory, "gpu": t.GPU}
	return &extensionsv1alpha1.NodeTemplate{Capacity: maps.Clone(capacity)}
}

func removeWorker(ctx context.Context, s *Values, extensions *Extensions) (flow.Outcome, error) {
	return extensions.delete(ctx, &extensionsv1alpha1.Worker{
		ObjectMeta: metav1.ObjectMeta{Name: s.Shoot.Name, Namespace: s.Namespace},
	}, severeDefault)
}
