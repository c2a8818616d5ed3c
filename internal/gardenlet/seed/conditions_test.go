package seed

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestUnknownControlPlanesAreReported(t *testing.T) {
	namespace := func(name string) metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	going := namespace("shoot--dev--going")
	going.DeletionTimestamp = ptr.To(metav1.Now())
	namespaces := []metav1.PartialObjectMetadata{namespace("shoot--dev--b"), namespace("shoot--dev--known"), going, namespace("shoot--dev--a")}
	known := corev1beta1.Shoot{Status: corev1beta1.ShootStatus{TechnicalID: "shoot--dev--known"}}
	unknown := unknownControlPlanes(namespaces, []corev1beta1.Shoot{known})
	if diff := cmp.Diff([]string{"shoot--dev--a", "shoot--dev--b"}, unknown); diff != "" {
		t.Errorf("unknownControlPlanes() mismatch (-want +got):\n%s", diff)
	}
	c := controlPlanes(unknown)
	if c.Status != corev1beta1.ConditionFalse || !strings.Contains(c.Message, "control planes shoot--dev--a, shoot--dev--b. They") {
		t.Errorf("condition = %+v", c)
	}
	if c := controlPlanes([]string{"1", "2", "3", "4", "5", "6", "7"}); !strings.Contains(c.Message, "4, 5 and 2 more.") {
		t.Errorf("condition of many = %+v", c)
	}
	if c := controlPlanes(nil); c.Status != corev1beta1.ConditionTrue {
		t.Errorf("condition of none = %+v", c)
	}
}
