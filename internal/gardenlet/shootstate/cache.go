package shootstate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
	"hortus.dev/hortus/internal/reconnect"
)

// annotationChecksum is on objects in the cache only: over what counts of them for a ShootState. Without it nothing
// does.
const annotationChecksum = "hortus.dev/checksum-in-cache"

// watched are the kinds whose changes may change a ShootState.
func watched() []client.Object {
	objects := []client.Object{
		&corev1.Secret{}, &extensionsv1alpha1.BackupEntry{},
		&machinev1alpha1.MachineDeployment{}, &machinev1alpha1.MachineSet{}, &machinev1alpha1.Machine{},
	}
	for _, kind := range extensionobject.Kinds {
		objects = append(objects, kind.New())
	}
	return objects
}

// CacheOptions are for a cache of the seed that holds checksums instead of objects: no credentials are kept in memory,
// and a large state costs no more than a small one. The cache is only for events: do not read objects from it.
func CacheOptions(scheme *runtime.Scheme) cache.Options {
	o := cache.Options{Scheme: scheme, NewInformer: reconnect.NewInformer, ByObject: map[client.Object]cache.ByObject{}}
	for _, object := range watched() {
		by := cache.ByObject{Transform: reduce}
		if _, ok := object.(*corev1.Secret); ok {
			by.Label = labels.SelectorFromSet(labels.Set(persisted))
		}
		o.ByObject[object] = by
	}
	return o
}

// reduce is a cache's transform: an empty object of the same kind with the checksum.
func reduce(in any) (any, error) {
	object, ok := in.(client.Object)
	if !ok || checksum(object) != "" { // A transform may be called again with its result.
		return in, nil
	}
	counts := relevant(object)
	out, err := empty(object)
	if err != nil {
		return nil, err
	}
	out.SetNamespace(object.GetNamespace())
	out.SetName(object.GetName())
	out.SetUID(object.GetUID())
	out.SetResourceVersion(object.GetResourceVersion())
	if counts == nil {
		return out, nil
	}
	raw, err := json.Marshal(counts)
	if err != nil {
		return nil, fmt.Errorf("encode %T %s: %w", object, client.ObjectKeyFromObject(object), err)
	}
	sum := sha256.Sum256(raw)
	out.SetAnnotations(map[string]string{annotationChecksum: hex.EncodeToString(sum[:16])})
	return out, nil
}

// empty returns a new object of the same type.
func empty(object client.Object) (client.Object, error) {
	for _, kind := range watched() {
		if fmt.Sprintf("%T", kind) == fmt.Sprintf("%T", object) {
			return kind, nil
		}
	}
	return nil, fmt.Errorf("%T is not part of a ShootState", object)
}

// relevant is the part of an object that a ShootState depends on; nil if it depends on nothing.
func relevant(object client.Object) any {
	deleting := object.GetDeletionTimestamp() != nil
	switch o := object.(type) {
	case *corev1.Secret:
		return []any{o.Labels, o.Data, deleting}
	case *machinev1alpha1.MachineDeployment:
		return []any{o.Spec.Replicas}
	case *machinev1alpha1.MachineSet:
		return []any{machineMeta(&o.ObjectMeta), o.Spec}
	case *machinev1alpha1.Machine:
		if o.Labels[machinev1alpha1.NodeLabelKey] == "" && o.Spec.ProviderID == "" {
			return nil
		}
		return []any{machineMeta(&o.ObjectMeta), o.Spec}
	case extensionsv1alpha1.Object:
		if state, ok := extensionState(o); ok {
			return state
		}
	}
	return nil
}

// machineMeta is what a state has of the metadata.
func machineMeta(m *metav1.ObjectMeta) []any { return []any{m.Labels, m.Annotations} }
