package v1beta1

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// All data of a Secret is sent in one request to etcd. Cases of the corpus are too small to test this limit.
func TestDataOfAnInternalSecretIsBounded(t *testing.T) {
	with := func(size int) *InternalSecret {
		return &InternalSecret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "dev", Name: "a"}, Type: corev1.SecretTypeOpaque,
			Data: map[string][]byte{"a": make([]byte, size/2), "b": make([]byte, size-size/2)},
		}
	}
	if errs := ValidateInternalSecret(with(corev1.MaxSecretSize)); len(errs) > 0 {
		t.Errorf("1 MiB: %v", errs)
	}
	errs := ValidateInternalSecret(with(corev1.MaxSecretSize + 1))
	if len(errs) != 1 || errs[0].Type != field.ErrorTypeTooLong || errs[0].Field != "data" {
		t.Errorf("a byte more: %v", errs)
	}
}
