// Package resourcereservation keeps a share of each machine for the kubelet and its like, so that pods do not drive
// a node out of memory.
package resourcereservation

import (
	"context"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
)

// Name of the plugin.
const Name = "ShootResourceReservation"

const configurationVersion = "shootresourcereservation.admission.gardener.cloud/v1alpha1"

// Configuration applies to all projects.
type Configuration struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// useGKEFormula reserves per pool, by the size of its machines, instead of the same for all.
	UseGKEFormula bool `json:"useGKEFormula,omitempty"`
	// selector of the Shoots that the formula is for. Empty: all. The others get the same for all pools.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// New returns the plugin.
func New(reader io.Reader) (admission.Interface, error) {
	var config Configuration
	if err := hortusadmission.ReadConfiguration(reader, Name, configurationVersion, &config); err != nil {
		return nil, err
	}
	p := &plugin{Base: hortusadmission.NewBase(admission.Create, admission.Update), selector: labels.Nothing()}
	if !config.UseGKEFormula {
		return p, nil
	}
	p.selector = labels.Everything()
	if config.Selector != nil {
		var err error
		if p.selector, err = metav1.LabelSelectorAsSelector(config.Selector); err != nil {
			return nil, fmt.Errorf("read selector of %s: %w", Name, err)
		}
	}
	return p, nil
}

type plugin struct {
	hortusadmission.Base
	selector labels.Selector // Of the Shoots that the formula is for.
}

// Admit fills in what the Shoot does not reserve itself.
func (p *plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if concerns, err := p.Concerns(a, "shoots"); !concerns {
		return err
	}
	shoot, ok := a.GetObject().(*corev1beta1.Shoot)
	if !ok || shoot.DeletionTimestamp != nil || !shoot.HasWorkers() {
		return nil
	}
	if !p.selector.Matches(labels.Set(shoot.Labels)) {
		reserveForAll(shoot)
		return nil
	}
	if shoot.Spec.CloudProfile == nil || shoot.Spec.CloudProfile.Name == "" {
		return nil // Validation asks for a profile.
	}
	profile, err := p.Profile(ctx, shoot.Namespace, *shoot.Spec.CloudProfile)
	if err != nil {
		return hortusadmission.InternalError(err)
	}
	if old, ok := a.GetOldObject().(*corev1beta1.Shoot); ok && a.GetOperation() == admission.Update {
		followGlobal(shoot, old)
	}
	reserveByMachine(shoot, profile.Spec.MachineTypes)
	return nil
}

// Static reservations; measured needs of a kubelet and a container runtime with few pods are below them.
const (
	reservedCPU    = "80m"
	reservedMemory = "1Gi"
	reservedPID    = "20k"
)

func reserveForAll(shoot *corev1beta1.Shoot) {
	if shoot.Spec.Kubernetes.Kubelet == nil {
		shoot.Spec.Kubernetes.Kubelet = &corev1beta1.KubeletConfig{}
	}
	fill(shoot.Spec.Kubernetes.Kubelet, resource.MustParse(reservedCPU), resource.MustParse(reservedMemory))
}

func fill(kubelet *corev1beta1.KubeletConfig, cpu, memory resource.Quantity) {
	if kubelet.KubeReserved == nil {
		kubelet.KubeReserved = &corev1beta1.KubeletConfigReserved{}
	}
	reserved := kubelet.KubeReserved
	setDefault(&reserved.CPU, cpu)
	setDefault(&reserved.Memory, memory)
	setDefault(&reserved.PID, resource.MustParse(reservedPID))
}

func setDefault(field **resource.Quantity, value resource.Quantity) {
	if *field == nil {
		*field = &value
	}
}

// reserveByMachine reserves per pool, unless the Shoot reserves for all pools. What a pool has stays, even when its
// machine type changes.
func reserveByMachine(shoot *corev1beta1.Shoot, types []corev1beta1.MachineType) {
	global := shoot.Spec.Kubernetes.Kubelet
	if global != nil && global.KubeReserved != nil {
		return
	}
	for i := range shoot.Spec.Provider.Workers {
		worker := &shoot.Spec.Provider.Workers[i]
		for j := range types {
			if types[j].Name != worker.Machine.Type {
				continue
			}
			if worker.Kubernetes == nil {
				worker.Kubernetes = &corev1beta1.WorkerKubernetes{}
			}
			if worker.Kubernetes.Kubelet == nil {
				worker.Kubernetes.Kubelet = &corev1beta1.KubeletConfig{}
				if global != nil { // A pool's settings replace the global ones as a whole.
					global.DeepCopyInto(worker.Kubernetes.Kubelet)
				}
			}
			if worker.Kubernetes.Kubelet.KubeReserved == nil {
				fill(worker.Kubernetes.Kubelet, cpuShare(types[j].CPU), memoryShare(types[j].Memory))
			}
		}
	}
}

// followGlobal changes the settings of pools along with those for all pools that they were copied from. Those that
// differ by more than the reservation, and those that change in the same request, are the user's own.
func followGlobal(shoot, old *corev1beta1.Shoot) {
	global, before := shoot.Spec.Kubernetes.Kubelet, old.Spec.Kubernetes.Kubelet
	if global == nil || before == nil || global.KubeReserved != nil || before.KubeReserved != nil ||
		equality.Semantic.DeepEqual(global, before) {
		return
	}
	for i := range shoot.Spec.Provider.Workers {
		pool := &shoot.Spec.Provider.Workers[i]
		at := slices.IndexFunc(old.Spec.Provider.Workers, func(w corev1beta1.Worker) bool { return w.Name == pool.Name })
		if at < 0 || pool.Kubernetes == nil || pool.Kubernetes.Kubelet == nil ||
			old.Spec.Provider.Workers[at].Kubernetes == nil ||
			!equality.Semantic.DeepEqual(pool.Kubernetes.Kubelet, old.Spec.Provider.Workers[at].Kubernetes.Kubelet) {
			continue
		}
		reserved := pool.Kubernetes.Kubelet.KubeReserved
		copied := before.DeepCopy()
		copied.KubeReserved = reserved
		if !equality.Semantic.DeepEqual(pool.Kubernetes.Kubelet, copied) {
			continue
		}
		global.DeepCopyInto(pool.Kubernetes.Kubelet)
		pool.Kubernetes.Kubelet.KubeReserved = reserved
	}
}

// share takes a percentage of a part of a machine. The parts are those of Google Kubernetes Engine, which publishes
// them under "Plan node sizes".
type share struct {
	upTo      int64 // Inclusive; 0 for all that is left.
	permyriad int64 // Hundredths of a percent.
}

const gibibyte = 1 << 30

var (
	cpuShares = []share{{1000, 600}, {2000, 100}, {4000, 50}, {0, 25}} // Of millicores.

	memoryShares = []share{
		{4 * gibibyte, 2500}, {8 * gibibyte, 2000}, {16 * gibibyte, 1000}, {128 * gibibyte, 600}, {0, 200},
	}
	// tinyMachine is the memory below which a fixed amount is reserved.
	tinyMachine, tinyReservation = int64(gibibyte), int64(255 << 20)
)

func cpuShare(cpu resource.Quantity) resource.Quantity {
	return *resource.NewMilliQuantity(sum(cpu.MilliValue(), cpuShares), resource.DecimalSI)
}

func memoryShare(memory resource.Quantity) resource.Quantity {
	if memory.Value() < tinyMachine {
		return *resource.NewQuantity(tinyReservation, resource.BinarySI)
	}
	return *resource.NewQuantity(sum(memory.Value(), memoryShares), resource.BinarySI)
}

func sum(whole int64, shares []share) int64 {
	total, from := int64(0), int64(0)
	for _, s := range shares {
		to := whole
		if s.upTo != 0 {
			to = min(whole, s.upTo)
		}
		if to > from {
			total += (to - from) * s.permyriad / 10000
			from = to
		}
	}
	return total
}
