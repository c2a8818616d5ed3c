package apiserver

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/apiserver/codec"
)

func TestStoredObjectsShareManagedFields(t *testing.T) {
	scheme := newServerScheme()
	stored := codec.NewStorage(scheme, groupVersions...)
	shoot := func(fields string) *corev1beta1.Shoot {
		return &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Name: "a", ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "m", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}, {Manager: "none"},
		}}}
	}
	decode := func(fields string) *corev1beta1.Shoot {
		data, err := runtime.Encode(stored, shoot(fields))
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := runtime.Decode(stored, data)
		if err != nil {
			t.Fatal(err)
		}
		return decoded.(*corev1beta1.Shoot)
	}
	raw := func(s *corev1beta1.Shoot) []byte { return s.ManagedFields[0].FieldsV1.GetRawBytes() }

	first, second, other := decode(`{"f:spec":{}}`), decode(`{"f:spec":{}}`), decode(`{"f:status":{}}`)
	if &raw(first)[0] != &raw(second)[0] {
		t.Error("equal sets do not share memory")
	}
	if string(raw(first)) != `{"f:spec":{}}` || string(raw(other)) != `{"f:status":{}}` {
		t.Errorf("sets are %s and %s", raw(first), raw(other))
	}
	if changed := second.DeepCopy(); &raw(changed)[0] == &raw(second)[0] {
		t.Error("a copy shares memory, so a change of it would change others")
	}
	data, err := runtime.Encode(stored, shoot(`{"f:x":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	gvk := schema.GroupVersionKind{}
	if _, _, err := stored.Decode(data, &gvk, second); err != nil {
		t.Fatal(err)
	}
	if string(raw(first)) != `{"f:spec":{}}` {
		t.Errorf("decoding into another object changed a shared set to %s", raw(first))
	}
}
