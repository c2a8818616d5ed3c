package highavailability

import (
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func changes(zoneOfNode string, more ...client.Object) *Changes {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shoot--dev--a", Annotations: map[string]string{
		prefix + "failure-tolerance-type": "", prefix + "zones": "a",
	}}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n", Labels: map[string]string{corev1.LabelTopologyZone: zoneOfNode},
	}}
	return &Changes{fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(namespace, node).
		WithObjects(more...).Build()}
}

// Pods that are pinned to a zone without nodes would never run.
func TestZonesWithoutNodesAreNotPinnedTo(t *testing.T) {
	for zone, want := range map[string]bool{"a": true, "b": false} {
		d := deployment(nil, map[string]string{"type": "controller"}, nil)
		changed, err := changes(zone).Deployment(t.Context(), d.Namespace, d)
		if err != nil || !changed {
			t.Fatalf("Deployment() = %t, %v", changed, err)
		}
		if got := d.Spec.Template.Spec.Affinity != nil; got != want {
			t.Errorf("a node is in zone %s: pinned = %t, want %t", zone, got, want)
		}
		if changed, err := changes(zone).Deployment(t.Context(), d.Namespace, d); err != nil || changed {
			t.Errorf("a second Deployment() = %t, %v", changed, err)
		}
	}
}

// The number that the autoscaler has set stays; another autoscaler of the namespace does not matter.
func TestAutoscalerOfTheWorkloadIsFound(t *testing.T) {
	for target, want := range map[string]int32{"a": 4, "b": 1} {
		a := &autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shoot--dev--a", Name: "x"},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: target},
			},
		}
		d := deployment(ptr.To(int32(4)), map[string]string{"type": "controller"}, nil)
		if _, err := changes("a", a).Deployment(t.Context(), d.Namespace, d); err != nil {
			t.Fatal(err)
		}
		if got := *d.Spec.Replicas; got != want {
			t.Errorf("an autoscaler of %s: replicas = %d, want %d", target, got, want)
		}
	}
}

func TestUnknownNamespaceIsAnError(t *testing.T) {
	d := deployment(nil, map[string]string{"type": "controller"}, nil)
	if _, err := changes("a").Deployment(t.Context(), "gone", d); err == nil {
		t.Error("Deployment() of an unknown namespace has no error")
	}
}
