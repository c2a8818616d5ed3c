package explain

import (
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
)

// ShootFacts are the objects on which the explanation of a Shoot is based.
type ShootFacts struct {
	Shoot        *corev1beta1.Shoot
	Seed         *corev1beta1.Seed // Nil if the Shoot has none.
	ControlPlane *ControlPlane     // Nil if it was not read.
	Cluster      *Cluster          // Nil if it was not read.
	Unread       []string          // What was not read, with the reason, in sentences without full stop.
}

// SeedFacts are the objects on which the explanation of a Seed is based.
type SeedFacts struct {
	Seed          *corev1beta1.Seed
	Installations []corev1beta1.ControllerInstallation // Of extensions on the Seed.
	Buckets       []corev1beta1.BackupBucket           // Of the Seed.
	ManagedSeed   *seedmanagementv1alpha1.ManagedSeed  // Nil if the Seed has none.
	Gardenlet     *seedmanagementv1alpha1.Gardenlet    // Nil if the Seed has none.
	Cluster       *SeedCluster                         // Nil if it was not read.
	Unread        []string                             // As in ShootFacts.
}

// SeedCluster has the objects in a Seed that all its Shoots depend on: its nodes, and the namespaces of the gardenlet,
// the gateway and of extensions.
type SeedCluster struct {
	Nodes      []corev1.Node
	Resources  []resourcesv1alpha1.ManagedResource // In namespace garden.
	Namespaces map[string]Workloads
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
