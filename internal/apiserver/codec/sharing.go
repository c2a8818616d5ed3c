package codec

import (
	"reflect"
	"runtime"
	"sync"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// sharing is a codec that lets stored objects share memory where they are equal: all objects their sets of managed
// fields, which are 40% of a Shoot and the same in most of them, and a Shoot the rest with what it was before its last
// change. The server keeps what each object was like in the last minute and a quarter, so that clients can go on
// watching from there; without this a status that is written every minute doubles a Shoot.
//
// Nobody changes shared memory in place: for managed fields decoding replaces them, and copying copies them. A Shoot
// shares only if it comes from a watch of etcd; such objects live in caches, which are read only.
type sharing struct {
	apiruntime.Codec
	sets   fieldSets
	latest versions
}

func newSharing(codec apiruntime.Codec) *sharing {
	return &sharing{Codec: codec, latest: versions{shoots: map[types.UID]weak.Pointer[corev1beta1.Shoot]{}}}
}

// Decode implements runtime.Decoder.
func (s *sharing) Decode(
	data []byte, defaults *schema.GroupVersionKind, into apiruntime.Object,
) (apiruntime.Object, *schema.GroupVersionKind, error) {
	decoded, gvk, err := s.Codec.Decode(data, defaults, into)
	if err != nil {
		return decoded, gvk, err
	}
	if object, ok := decoded.(metav1.Object); ok {
		for _, entry := range object.GetManagedFields() {
			if entry.FieldsV1 != nil {
				entry.FieldsV1.Raw = s.sets.share(entry.FieldsV1.Raw) // SetRawBytes would copy.
			}
		}
	}
	if shoot, ok := decoded.(*corev1beta1.Shoot); ok && into == nil {
		// Watches alone leave it to the decoder to make an object.
		s.latest.share(shoot)
	}
	return decoded, gvk, nil
}

// sharedBytes bounds the sets in the table that finds equal ones; it holds each twice, as key and as what is shared.
// Objects made alike have equal ones, so a landscape needs a small part of it: a Shoot's take 2 to 6 KB. A set larger
// than longestShared is rare enough to be left alone.
const (
	sharedBytes   = 4 << 20
	longestShared = sharedBytes / 16
)

// fieldSets finds equal sets of managed fields.
type fieldSets struct {
	mu    sync.Mutex
	sets  map[string][]byte
	bytes int // Of the keys in sets.
}

// share returns an earlier slice with the same content, or this one.
func (f *fieldSets) share(set []byte) []byte {
	if len(set) > longestShared {
		return set
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if known, ok := f.sets[string(set)]; ok { // Does not copy.
		return known
	}
	if f.sets == nil || f.bytes+len(set) > sharedBytes {
		f.sets, f.bytes = map[string][]byte{}, 0
	}
	f.sets[string(set)] = set
	f.bytes += len(set)
	return set
}

// versions knows the latest version of each Shoot, as long as somebody else keeps it.
type versions struct {
	mu     sync.Mutex
	shoots map[types.UID]weak.Pointer[corev1beta1.Shoot]
}

// share lets a new version of a Shoot use the memory of the one before it where they are equal. What the storage still
// has to set is left alone.
func (v *versions) share(shoot *corev1beta1.Shoot) {
	if before := v.of(shoot.UID); before != nil {
		adopt(reflect.ValueOf(&shoot.Spec).Elem(), reflect.ValueOf(&before.Spec).Elem())
		adopt(reflect.ValueOf(&shoot.Status).Elem(), reflect.ValueOf(&before.Status).Elem())
		adopt(reflect.ValueOf(&shoot.Labels).Elem(), reflect.ValueOf(&before.Labels).Elem())
		adopt(reflect.ValueOf(&shoot.Annotations).Elem(), reflect.ValueOf(&before.Annotations).Elem())
		adopt(reflect.ValueOf(&shoot.ManagedFields).Elem(), reflect.ValueOf(&before.ManagedFields).Elem())
	}
	v.note(shoot) // Only now: others may read it at once.
}

func (v *versions) of(uid types.UID) *corev1beta1.Shoot {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.shoots[uid].Value()
}

func (v *versions) note(shoot *corev1beta1.Shoot) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shoots[shoot.UID] = weak.Make(shoot)
	runtime.AddCleanup(shoot, v.forget, shoot.UID)
}

// forget removes a Shoot of which no version is left.
func (v *versions) forget(uid types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if latest, ok := v.shoots[uid]; ok && latest.Value() == nil {
		delete(v.shoots, uid)
	}
}

// adopt says whether two values of a type are equal, and makes one refer to the memory of the other where they are. It
// writes to no bytes: those of managed fields are shared already.
func adopt(value, from reflect.Value) (equal bool) {
	switch kind := value.Kind(); {
	case kind == reflect.Pointer && !value.IsNil() && !from.IsNil():
		equal = adopt(value.Elem(), from.Elem())
	case kind == reflect.Slice && value.Type().Elem().Kind() != reflect.Uint8 && value.Len() == from.Len() &&
		value.IsNil() == from.IsNil():
		equal = true
		for i := range value.Len() {
			equal = adopt(value.Index(i), from.Index(i)) && equal
		}
	case kind == reflect.Struct && open(value.Type()):
		equal = true
		for i := range value.NumField() {
			equal = adopt(value.Field(i), from.Field(i)) && equal
		}
		return equal // Its fields have been set.
	default:
		equal = reflect.DeepEqual(value.Addr().Interface(), from.Addr().Interface()) // Pointers need no copies.
	}
	if equal {
		value.Set(from)
	}
	return equal
}

// open says whether all fields of a struct can be set from outside.
func open(t reflect.Type) bool {
	for i := range t.NumField() {
		if !t.Field(i).IsExported() {
			return false
		}
	}
	return true
}
