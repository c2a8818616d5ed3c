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
type Kind struct{ extensionsv1alpha1.Kind }

// Kinds lists those that belong to Shoots, in the order of a deletion without waiting: dependents come first.
var Kinds = of(extensionsv1alpha1.OwnerShoot)

// Bastions are in control plane namespaces, too, but belong to Bastions of the garden: they are neither migrated nor
// saved.
var Bastions = of(extensionsv1alpha1.OwnerBastion)[0]

func of(owner extensionsv1alpha1.KindOwner) []Kind {
	var kinds []Kind
	for _, kind := range extensionsv1alpha1.Kinds {
		if kind.Owner == owner {
			kinds = append(kinds, Kind{kind})
		}
	}
	return kinds
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
