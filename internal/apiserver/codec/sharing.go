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

// sharing is a codec that lets stored objects share memory for equal content. Sets of managed fields, 40% of a Shoot,
// are shared by all objects that have the same set. A Shoot's spec, status, labels and annotations are shared with the
// Shoot's previous version. The watch cache keeps the versions of the last 75 seconds, so that clients can resume
// watches; without sharing, a status that is written every minute would double the memory of a Shoot.
//
// Shared memory is never changed in place: decoding replaces managed fields, and DeepCopy copies them. Only Shoots
// decoded for a watch of etcd share memory; they are in caches, which are read-only.
type sharing struct {
	runtime.Codec
	sets   *lru.Cache // From the content of a set, as a string, to its bytes.
	latest *lru.Cache // From UIDs to weak pointers to Shoots.
}

// Objects written by the same clients have equal sets, so a garden has few different ones; a Shoot's take 2 to 6 KB.
// Sets larger than longestShared, in bytes, are rare and not shared.
const (
	sharedSets    = 1000
	longestShared = 64 << 10
	// sharedShoots is the number of Shoots that share memory with their previous version: the largest number measured. An
	// entry takes about 200 bytes until it is evicted.
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
		// Only watches let the decoder allocate the object.
		s.shareWithLatest(shoot)
	}
	return decoded, gvk, nil
}

// shareSet returns the first slice seen with the same content, or set itself.
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

// shareWithLatest lets a new version of a Shoot share equal content with the previous version, if that is still
// referenced. Fields that the storage sets after decoding are not shared.
func (s *sharing) shareWithLatest(shoot *corev1beta1.Shoot) {
	if latest, ok := s.latest.Get(shoot.UID); ok {
		if before := latest.(weak.Pointer[corev1beta1.Shoot]).Value(); before != nil {
			share(&shoot.Spec, &before.Spec)
			share(&shoot.Status, &before.Status)
			share(&shoot.Labels, &before.Labels)
			share(&shoot.Annotations, &before.Annotations)
		}
	}
	s.latest.Add(shoot.UID, weak.Make(shoot)) // Last, because others may read it from now on.
}

// share makes a value refer to the memory of another one if they are equal.
func share[T any](value, from *T) {
	if reflect.DeepEqual(value, from) {
		*value = *from
	}
}
