package codec

import (
	"reflect"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/lru"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// sharing is a codec that lets stored objects share memory where they are equal: all objects their sets of managed
// fields, which are 40% of a Shoot and the same in most of them, and a Shoot its spec, status, labels or annotations
// with what it was before its last change. The server keeps what each object was like in the last minute and a
// quarter, so that clients can go on watching from there; without this a status that is written every minute doubles
// a Shoot.
//
// Nobody changes shared memory in place: for managed fields decoding replaces them, and copying copies them. A Shoot
// shares only if it comes from a watch of etcd; such objects live in caches, which are read only.
type sharing struct {
	runtime.Codec
	sets   *lru.Cache // From the content of a set, a string, to its bytes.
	latest *lru.Cache // From UIDs to weak pointers to Shoots.
}

// Objects made alike have equal sets, so a garden has few of them: a Shoot's take 2 to 6 KB. A set larger than
// longestShared is rare enough to be left alone.
const (
	sharedSets    = 1000
	longestShared = 64 << 10
	// sharedShoots is how many Shoots share memory with what they were: the largest number that is measured. Each takes
	// some 200 bytes, until others take its place.
	sharedShoots = 20_000
)

func newSharing(codec runtime.Codec) *sharing {
	return &sharing{codec, lru.New(sharedSets), lru.New(sharedShoots)}
}

// Decode implements runtime.Decoder.
func (s *sharing) Decode(
	data []byte, defaults *schema.GroupVersionKind, into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	decoded, gvk, err := s.Codec.Decode(data, defaults, into)
	if err != nil {
		return decoded, gvk, err
	}
	if object, ok := decoded.(metav1.Object); ok {
		for _, entry := range object.GetManagedFields() {
			if entry.FieldsV1 != nil {
				entry.FieldsV1.Raw = s.shareSet(entry.FieldsV1.Raw) // SetRawBytes would copy.
			}
		}
	}
	if shoot, ok := decoded.(*corev1beta1.Shoot); ok && into == nil {
		// Watches alone leave it to the decoder to make an object.
		s.shareWithLatest(shoot)
	}
	return decoded, gvk, nil
}

// shareSet returns an earlier slice with the same content, or this one.
func (s *sharing) shareSet(set []byte) []byte {
	if len(set) > longestShared {
		return set
	}
	key := string(set)
	if known, ok := s.sets.Get(key); ok {
		return known.([]byte)
	}
	s.sets.Add(key, set)
	return set
}

// shareWithLatest lets a new version of a Shoot use the memory of the one before it where they are equal, as long as
// somebody keeps that. What the storage still has to set is left alone.
func (s *sharing) shareWithLatest(shoot *corev1beta1.Shoot) {
	if latest, ok := s.latest.Get(shoot.UID); ok {
		if before := latest.(weak.Pointer[corev1beta1.Shoot]).Value(); before != nil {
			share(&shoot.Spec, &before.Spec)
			share(&shoot.Status, &before.Status)
			share(&shoot.Labels, &before.Labels)
			share(&shoot.Annotations, &before.Annotations)
		}
	}
	s.latest.Add(shoot.UID, weak.Make(shoot)) // Only now: others may read it at once.
}

// share makes a value refer to the memory of another one that is equal.
func share[T any](value, from *T) {
	if reflect.DeepEqual(value, from) {
		*value = *from
	}
}
