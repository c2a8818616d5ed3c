package v1alpha1

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Kind is a kind of extension object.
//
// +kubebuilder:object:generate=false
// +k8s:openapi-gen=false
type Kind struct {
	Name    string
	New     func() Object
	NewList func() ObjectList
	// Owner is what needs objects of the kind.
	Owner KindOwner
}

// ObjectList is a list of extension objects.
//
// +kubebuilder:object:generate=false
// +k8s:openapi-gen=false
type ObjectList interface {
	metav1.ListInterface
	runtime.Object
}

// KindOwner is what needs the objects of a kind.
type KindOwner int

const (
	// OwnerShoot: the objects are in the Shoot's control plane namespace, and move with it to another seed.
	OwnerShoot KindOwner = iota
	// OwnerBastion: the objects are in the Shoot's control plane namespace, but belong to Bastions of the garden.
	OwnerBastion
	// OwnerBackup: the objects have no namespace, and belong to BackupBuckets and BackupEntries of the garden.
	OwnerBackup
)

// Kinds lists all kinds on which extensions act. Which extension objects the gardenlet watches, checks, migrates, saves
// and deletes follows from this table. The order is that of a deletion without waiting: dependents come first.
var Kinds = []Kind{
	kind[Worker, WorkerList](OwnerShoot),
	kind[OperatingSystemConfig, OperatingSystemConfigList](OwnerShoot),
	kind[Network, NetworkList](OwnerShoot),
	kind[ContainerRuntime, ContainerRuntimeList](OwnerShoot),
	kind[ControlPlane, ControlPlaneList](OwnerShoot),
	kind[Extension, ExtensionList](OwnerShoot),
	kind[Infrastructure, InfrastructureList](OwnerShoot),
	kind[DNSRecord, DNSRecordList](OwnerShoot),
	kind[Bastion, BastionList](OwnerBastion),
	kind[BackupEntry, BackupEntryList](OwnerBackup),
	kind[BackupBucket, BackupBucketList](OwnerBackup),
}

func kind[T, L any, O interface {
	*T
	Object
}, OL interface {
	*L
	ObjectList
}](owner KindOwner) Kind {
	return Kind{
		Name:    reflect.TypeFor[T]().Name(),
		New:     func() Object { return O(new(T)) },
		NewList: func() ObjectList { return OL(new(L)) },
		Owner:   owner,
	}
}
