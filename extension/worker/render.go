package worker

import (
	"cmp"
	"fmt"
	"maps"
	"strings"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension/poolhash"
)

const (
	labelName       = "name" // Selects the machines of a MachineDeployment.
	labelWorkerName = "worker.gardener.cloud/name"
	labelPurpose    = "gardener.cloud/purpose"
	// annotationInPlace of a MachineDeployment is the hash of the update in place that was requested last.
	annotationInPlace = "worker.hortus.dev/in-place-hash"
	purposeClass      = "machineclass"

	keyUserData = "userData" // The key that machine-controller-manager reads.

	// Values that the contract prescribes for every provider.
	minReadySeconds      = 500
	revisionHistoryLimit = 0

	autoscalerPrefix = "autoscaler.gardener.cloud/"

	resourceGPU corev1.ResourceName = "gpu"
)

// Wanted is one desired MachineDeployment of a Worker, with its class.
type Wanted struct {
	Name      string // Of the MachineDeployment.
	ClassName string
	PoolName  string
	Zone      string
	Min, Max  int32
	Priority  *int32

	pool     *extensionsv1alpha1.WorkerPool
	machine  Machine
	surge    intstr.IntOrString
	missing  intstr.IntOrString // Maximum number of unavailable machines.
	inPlace  string             // Hash of an update in place, for pools that are updated so.
	worker   *extensionsv1alpha1.Worker
	replicas int32
	waitsFor string // What the pool's machines cannot be created without; "" if it is there. See [Preparer].
}

// wanted computes the MachineDeployment of a pool in its zone with the given index.
func wanted(
	worker *extensionsv1alpha1.Worker, shoot *corev1beta1.Shoot, pool *extensionsv1alpha1.WorkerPool, index int,
	machine Machine,
) (Wanted, error) {
	zones, zone := max(len(pool.Zones), 1), ""
	if len(pool.Zones) > 0 {
		zone = pool.Zones[index]
	}
	w := Wanted{
		Name:     fmt.Sprintf("%s-%s-z%d", worker.Namespace, pool.Name, index+1),
		PoolName: pool.Name, Zone: zone, Priority: pool.Priority,
		Min: spread(pool.Minimum, index, zones), Max: spread(pool.Maximum, index, zones),
		pool: pool, machine: machine, worker: worker,
	}
	var err error
	if w.surge, err = spreadIntOrPercent(pool.MaxSurge, index, zones, pool.Maximum); err != nil {
		return w, fmt.Errorf("maxSurge of pool %q: %w", pool.Name, err)
	}
	if w.missing, err = spreadIntOrPercent(pool.MaxUnavailable, index, zones, pool.Minimum); err != nil {
		return w, fmt.Errorf("maxUnavailable of pool %q: %w", pool.Name, err)
	}
	hash, err := w.classHash(shoot)
	if err != nil {
		return w, fmt.Errorf("hash of pool %q: %w", pool.Name, err)
	}
	w.ClassName = w.Name + "-" + hash
	return w, nil
}

func (w *Wanted) classHash(shoot *corev1beta1.Shoot) (string, error) {
	inputs := poolhash.FromWorkerPool(shoot, w.pool)
	key := ptr.Deref(w.pool.NodeAgentSecretName, "")
	if inPlace(w.pool) {
		hash, err := poolhash.InPlace(inputs)
		if err != nil {
			return "", err
		}
		w.inPlace = hash
		return poolhash.ClassInPlace(key, hash, w.machine.HashInPlace...), nil
	}
	if key == "" {
		return poolhash.ClassV1(inputs, w.machine.HashV1...)
	}
	return poolhash.ClassV2(key, w.machine.HashV2...), nil
}

// renderSecret renders the Secret with the user data of a class.
func (w *Wanted) renderSecret(userData []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.worker.Namespace, Name: w.ClassName,
			Labels: map[string]string{labelPurpose: purposeClass},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{keyUserData: userData},
	}
}

// renderClass renders the MachineClass.
func (w *Wanted) renderClass() *machinev1alpha1.MachineClass {
	class := &machinev1alpha1.MachineClass{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.worker.Namespace, Name: w.ClassName,
			Labels: map[string]string{labelPurpose: purposeClass, corev1beta1.LabelWorkerPool: w.PoolName},
		},
		Provider:     w.machine.Provider,
		ProviderSpec: w.machine.Spec,
		SecretRef:    &corev1.SecretReference{Namespace: w.worker.Namespace, Name: w.ClassName},
		CredentialsSecretRef: &corev1.SecretReference{
			Namespace: w.worker.Spec.SecretRef.Namespace, Name: w.worker.Spec.SecretRef.Name,
		},
	}
	if t := w.pool.NodeTemplate; t != nil {
		class.NodeTemplate = &machinev1alpha1.NodeTemplate{
			Capacity: withGPU(t.Capacity), VirtualCapacity: t.VirtualCapacity, InstanceType: w.pool.MachineType,
			// The machine controller requires a zone. A pool without zones has only its region.
			Region: w.worker.Spec.Region, Zone: cmp.Or(w.Zone, w.worker.Spec.Region),
			Architecture: ptr.To(ptr.Deref(w.pool.Architecture, "amd64")),
		}
	}
	return class
}

// withGPU adds a count of no GPUs if there is none: the machine controller refuses a template that leaves it open.
func withGPU(capacity corev1.ResourceList) corev1.ResourceList {
	if _, ok := capacity[resourceGPU]; ok {
		return capacity
	}
	out := capacity.DeepCopy()
	out[resourceGPU] = resource.Quantity{Format: resource.DecimalSI}
	return out
}

// mutate makes the MachineDeployment what is wanted, and keeps what others have put on it: template annotations, which
// force a roll-out, and whatever is not rendered here.
func (w *Wanted) mutate(md *machinev1alpha1.MachineDeployment) {
	md.Namespace, md.Name = w.worker.Namespace, w.Name
	md.Labels = merge(md.Labels, map[string]string{corev1beta1.LabelWorkerPool: w.PoolName})
	for key := range md.Annotations {
		if strings.HasPrefix(key, autoscalerPrefix) {
			delete(md.Annotations, key)
		}
	}
	if annotations := w.autoscalerAnnotations(); len(annotations) > 0 {
		md.Annotations = merge(md.Annotations, annotations)
	}
	if w.inPlace != "" {
		md.Annotations = merge(md.Annotations, map[string]string{annotationInPlace: w.inPlace})
	}
	md.Spec.Replicas = w.replicas
	md.Spec.MinReadySeconds = minReadySeconds
	md.Spec.RevisionHistoryLimit = ptr.To(int32(revisionHistoryLimit))
	md.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{labelName: w.Name}}
	md.Spec.Strategy = w.strategy()
	md.Spec.Template.Labels = map[string]string{labelName: w.Name}
	if inPlace(w.pool) {
		md.Spec.Template.Labels[labelWorkerName] = w.worker.Name
	}
	spec := &md.Spec.Template.Spec
	spec.Class = machinev1alpha1.ClassSpec{Kind: "MachineClass", Name: w.ClassName}
	spec.NodeTemplateSpec.Labels = merge(w.pool.Labels, w.machine.NodeLabels)
	spec.NodeTemplateSpec.Annotations = maps.Clone(w.pool.Annotations)
	spec.NodeTemplateSpec.Spec.Taints = w.pool.Taints
	spec.MachineConfiguration = w.configuration()
}

func (w *Wanted) strategy() machinev1alpha1.MachineDeploymentStrategy {
	update := machinev1alpha1.UpdateConfiguration{MaxSurge: ptr.To(w.surge), MaxUnavailable: ptr.To(w.missing)}
	byHand := strategy(w.pool) == corev1beta1.ManualInPlaceUpdate
	if !inPlace(w.pool) {
		return machinev1alpha1.MachineDeploymentStrategy{
			Type:          machinev1alpha1.RollingUpdateMachineDeploymentStrategyType,
			RollingUpdate: &machinev1alpha1.RollingUpdateMachineDeployment{UpdateConfiguration: update},
		}
	}
	orchestration := machinev1alpha1.OrchestrationTypeAuto
	if byHand {
		orchestration = machinev1alpha1.OrchestrationTypeManual
	}
	return machinev1alpha1.MachineDeploymentStrategy{
		Type: machinev1alpha1.InPlaceUpdateMachineDeploymentStrategyType,
		InPlaceUpdate: &machinev1alpha1.InPlaceUpdateMachineDeployment{
			UpdateConfiguration: update, OrchestrationType: orchestration,
		},
	}
}

// defaultMaxEvictRetries is the documented one. Evictions are 20 seconds apart, so a pod is deleted after 200 seconds;
// machine-controller-manager by itself would use up the drain timeout.
const defaultMaxEvictRetries = 10

// defaultNodeConditions are the documented ones. machine-controller-manager by itself would replace machines without a
// route in the cloud, too (NetworkUnavailable).
var defaultNodeConditions = []string{"KernelDeadlock", "ReadonlyFilesystem", "DiskPressure"}

func (w *Wanted) configuration() *machinev1alpha1.MachineConfiguration {
	s := w.pool.MachineControllerManagerSettings
	if s == nil {
		s = &extensionsv1alpha1.MachineControllerManagerSettings{}
	}
	out := &machinev1alpha1.MachineConfiguration{
		MachineDrainTimeout:         s.MachineDrainTimeout,
		MachineHealthTimeout:        s.MachineHealthTimeout,
		MachineCreationTimeout:      s.MachineCreationTimeout,
		MachineInPlaceUpdateTimeout: s.MachineInPlaceUpdateTimeout,
		DisableHealthTimeout:        s.DisableHealthTimeout,
		MaxEvictRetries:             cmp.Or(s.MaxEvictRetries, ptr.To[int32](defaultMaxEvictRetries)),
	}
	conditions := s.NodeConditions
	if len(conditions) == 0 {
		conditions = defaultNodeConditions
	}
	out.NodeConditions = ptr.To(strings.Join(conditions, ","))
	return out
}

func (w *Wanted) autoscalerAnnotations() map[string]string {
	c := w.pool.ClusterAutoscaler
	if c == nil {
		return nil
	}
	out := map[string]string{}
	for key, value := range map[string]*string{
		"scale-down-utilization-threshold":     c.ScaleDownUtilizationThreshold,
		"scale-down-gpu-utilization-threshold": c.ScaleDownGpuUtilizationThreshold,
	} {
		if value != nil {
			out[autoscalerPrefix+key] = *value
		}
	}
	for key, value := range map[string]*metav1.Duration{
		"scale-down-unneeded-time": c.ScaleDownUnneededTime,
		"scale-down-unready-time":  c.ScaleDownUnreadyTime,
		"max-node-provision-time":  c.MaxNodeProvisionTime,
	} {
		if value != nil {
			out[autoscalerPrefix+key] = value.Duration.String()
		}
	}
	return out
}

// merge returns a new map with the entries of both; those of b win.
func merge(a, b map[string]string) map[string]string {
	if len(a)+len(b) == 0 {
		return nil
	}
	out := make(map[string]string, len(a)+len(b))
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}
