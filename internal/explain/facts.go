package explain

import (
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

// Facts are the objects on which an explanation is based.
type Facts struct {
	Shoot        *corev1beta1.Shoot
	Seed         *corev1beta1.Seed // Nil if the Shoot has none.
	ControlPlane *ControlPlane     // Nil if it was not read.
	Cluster      *Cluster          // Nil if it was not read.
	Unread       []string          // What was not read, with the reason, in sentences without full stop.
}

// ControlPlane has the objects of the Shoot's namespace in the Seed.
type ControlPlane struct {
	Extensions []extensionsv1alpha1.Object
	Resources  []resourcesv1alpha1.ManagedResource
	Machines   []machinev1alpha1.Machine
	Workloads
}

// Cluster has the objects in the Shoot that Hortus is responsible for: its nodes, and the namespace kube-system.
type Cluster struct {
	Nodes []corev1.Node
	Workloads
}

// Workloads are those of a namespace, with what belongs to them.
type Workloads struct {
	List     []Workload
	Pods     []corev1.Pod
	Warnings []corev1.Event // Of type Warning.
}

// Workload is a Deployment, StatefulSet or DaemonSet.
type Workload struct {
	Kind, Namespace, Name string
	Wanted, Ready         int32  // Pods.
	Failure               string // Why pods cannot be created; empty if they can.
}
