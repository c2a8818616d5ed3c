package extensionobject

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// Kind is a kind of extension object in control plane namespaces.
type Kind struct {
	Name    string
	New     func() extensionsv1alpha1.Object
	NewList func() client.ObjectList
}

// Kinds lists all such kinds. Which extension objects the gardenlet watches, checks, migrates, saves and deletes
// follows from this table. The order is that of a deletion without waiting: dependents come first.
var Kinds = []Kind{
	kind[extensionsv1alpha1.Worker, extensionsv1alpha1.WorkerList](),
	kind[extensionsv1alpha1.OperatingSystemConfig, extensionsv1alpha1.OperatingSystemConfigList](),
	kind[extensionsv1alpha1.Network, extensionsv1alpha1.NetworkList](),
	kind[extensionsv1alpha1.ContainerRuntime, extensionsv1alpha1.ContainerRuntimeList](),
	kind[extensionsv1alpha1.ControlPlane, extensionsv1alpha1.ControlPlaneList](),
	kind[extensionsv1alpha1.Extension, extensionsv1alpha1.ExtensionList](),
	kind[extensionsv1alpha1.Infrastructure, extensionsv1alpha1.InfrastructureList](),
	kind[extensionsv1alpha1.DNSRecord, extensionsv1alpha1.DNSRecordList](),
}

// Bastions are in control plane namespaces, too, but belong to Bastions of the garden: they are neither migrated nor
// saved.
var Bastions = kind[extensionsv1alpha1.Bastion, extensionsv1alpha1.BastionList]()

func kind[T, L any, O interface {
	*T
	extensionsv1alpha1.Object
}, OL interface {
	*L
	client.ObjectList
}]() Kind {
	return Kind{
		Name:    reflect.TypeFor[T]().Name(),
		New:     func() extensionsv1alpha1.Object { return O(new(T)) },
		NewList: func() client.ObjectList { return OL(new(L)) },
	}
}

// KindOf is the name of the object's kind.
func KindOf(o extensionsv1alpha1.Object) string { return reflect.TypeOf(o).Elem().Name() }

// List reads the objects of the kind in a namespace.
func (k Kind) List(ctx context.Context, seed client.Reader, namespace string) ([]extensionsv1alpha1.Object, error) {
	list := k.NewList()
	if err := seed.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list %ss of namespace %q: %w", k.Name, namespace, err)
	}
	var objects []extensionsv1alpha1.Object
	err := meta.EachListItem(list, func(o runtime.Object) error {
		objects = append(objects, o.(extensionsv1alpha1.Object))
		return nil
	})
	return objects, err
}

// List reads the objects of several kinds.
func List(
	ctx context.Context, seed client.Reader, namespace string, kinds ...Kind,
) ([]extensionsv1alpha1.Object, error) {
	var all []extensionsv1alpha1.Object
	for _, k := range kinds {
		objects, err := k.List(ctx, seed, namespace)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}
