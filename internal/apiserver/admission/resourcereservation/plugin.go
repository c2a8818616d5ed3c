// Package resourcereservation reserves a share of each machine for the kubelet and other system daemons, so that pods
// do not exhaust a node's memory.
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
	// useGKEFormula reserves resources per pool, by machine size, instead of the same amount for all pools. Default
	// false.
	UseGKEFormula bool `json:"useGKEFormula,omitempty"`
	// selector of the Shoots that use the formula; empty selects all. The others get the same amount for all pools.
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
	selector labels.Selector // Of the Shoots that use the formula.
}

// Admit sets the reservations that the Shoot does not set itself.
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
		return nil // Validation requires a profile.
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

// Static reservations; a kubelet and a container runtime with few pods were measured to need less.
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

// reserveByMachine sets reservations per pool, unless the Shoot sets them for all pools. A pool keeps its reservation,
// even if its machine type changes.
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

// followGlobal updates the settings that a pool copied from the settings for all pools when those change. Settings that
// differ in more than the reservation, or that the same request changes, are the user's own and stay.
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

// share is a percentage of a range of a machine's CPU or memory. The ranges are those of Google Kubernetes Engine,
// published under "Plan node sizes".
type share struct {
	upTo      int64 // End of the range, inclusive; 0 for no end.
	permyriad int64 // Hundredths of a percent.
}

const gibibyte = 1 << 30

var (
	cpuShares = []share{{1000, 600}, {2000, 100}, {4000, 50}, {0, 25}} // In millicores.

	memoryShares = []share{
		{4 * gibibyte, 2500}, {8 * gibibyte, 2000}, {16 * gibibyte, 1000}, {128 * gibibyte, 600}, {0, 200},
	}
	// tinyMachine is the memory in bytes below which the fixed amount tinyReservation is reserved.
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
