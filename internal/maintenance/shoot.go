package maintenance

import (
	"slices"
	"strings"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// ClusterOf extracts the Cluster from a Shoot whose versions have been defaulted.
func ClusterOf(shoot *corev1beta1.Shoot) Cluster {
	c := Cluster{Kubernetes: shoot.Spec.Kubernetes.Version, AutoKubernetes: true, AutoImage: true}
	if m := shoot.Spec.Maintenance; m != nil && m.AutoUpdate != nil {
		c.AutoKubernetes = m.AutoUpdate.KubernetesVersion
		c.AutoImage = m.AutoUpdate.MachineImageVersion == nil || *m.AutoUpdate.MachineImageVersion
	}
	for i := range shoot.Spec.Provider.Workers {
		c.Pools = append(c.Pools, poolOf(&shoot.Spec.Provider.Workers[i]))
	}
	return c
}

func poolOf(w *corev1beta1.Worker) Pool {
	p := Pool{Name: w.Name, MachineType: w.Machine.Type, InPlace: inPlace(w.UpdateStrategy)}
	if w.Kubernetes != nil && w.Kubernetes.Version != nil {
		p.Kubernetes = *w.Kubernetes.Version
	}
	if w.Machine.Architecture != nil {
		p.Architecture = *w.Machine.Architecture
	}
	if w.CRI != nil {
		p.CRI = string(w.CRI.Name)
		runtimes := make([]string, 0, len(w.CRI.ContainerRuntimes))
		for _, r := range w.CRI.ContainerRuntimes {
			runtimes = append(runtimes, r.Type)
		}
		slices.Sort(runtimes)
		p.Runtimes = strings.Join(runtimes, ",")
	}
	if image := w.Machine.Image; image != nil {
		p.Image = image.Name
		if image.Version != nil {
			p.ImageVersion = *image.Version
		}
	}
	return p
}

func inPlace(strategy *corev1beta1.MachineUpdateStrategy) bool {
	return strategy != nil &&
		(*strategy == corev1beta1.AutoInPlaceUpdate || *strategy == corev1beta1.ManualInPlaceUpdate)
}
