package highavailability

import (
	"maps"
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

// In a namespace that does not specify a failure tolerance, such as that of an extension, replicas are spread over the
// zones that have nodes; elsewhere, over all.
func TestZonesOfNamespacesWithoutTolerance(t *testing.T) {
	node := func(name, zone string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone},
		}}
	}
	for name, tc := range map[string]struct {
		annotations map[string]string
		nodes       []client.Object
		want        int32 // Zones that have to be used; 0 if pods may be anywhere.
	}{
		"nodes in all zones": {nil, []client.Object{node("1", "a"), node("2", "b"), node("3", "c")}, 2},
		"nodes in two zones": {nil, []client.Object{node("1", "a"), node("2", "c"), node("3", "c")}, 2},
		"nodes in one zone":  {nil, []client.Object{node("1", "a"), node("2", "a")}, 0},
		"nodes in others":    {nil, []client.Object{node("1", "x"), node("2", "y")}, 0},
		"a tolerance": {
			map[string]string{prefix + "failure-tolerance-type": "zone"}, []client.Object{node("1", "a")}, 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: "shoot--dev--a", Annotations: map[string]string{prefix + "zones": "a,b,c"},
			}}
			maps.Copy(namespace.Annotations, tc.annotations)
			c := &Changes{fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(namespace).
				WithObjects(tc.nodes...).Build()}
			d := deployment(nil, map[string]string{"type": "controller"}, nil)
			if _, err := c.Deployment(t.Context(), d.Namespace, d); err != nil {
				t.Fatal(err)
			}
			var got int32
			for _, constraint := range d.Spec.Template.Spec.TopologySpreadConstraints {
				if constraint.TopologyKey == corev1.LabelTopologyZone {
					got = *constraint.MinDomains
				}
			}
			if got != tc.want {
				t.Errorf("pods have to be in %d zones, want %d", got, tc.want)
			}
		})
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
