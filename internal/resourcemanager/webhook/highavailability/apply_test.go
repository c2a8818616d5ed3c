package highavailability

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"hortus.dev/hortus/internal/golden"
)

// prefix of the names of the annotations.
const prefix = "high-availability-config.resources.gardener.cloud/"

// annotated is a namespace with annotations, given as pairs of the name without the prefix and the value.
func annotated(pairs ...string) Settings {
	namespace := &corev1.Namespace{}
	namespace.Annotations = map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		namespace.Annotations[prefix+pairs[i]] = pairs[i+1]
	}
	return SettingsOf(namespace)
}

func TestSettings(t *testing.T) {
	for name, tc := range map[string]struct {
		got, want Settings
	}{
		"nothing":                 {annotated(), Settings{}},
		"zones alone pin nothing": {annotated("zones", "a,b"), Settings{Zones: []string{"a", "b"}}},
		"zones of a control plane": {
			annotated("zones", "a", "failure-tolerance-type", ""), Settings{ptr.To(""), []string{"a"}, true},
		},
		"zones that are pinned to": {
			annotated("zones", " a, ,b", "zone-pinning", "true"), Settings{nil, []string{"a", "b"}, true},
		},
		"pinning switched off": {annotated("zones", "a", "zone-pinning", "false"), Settings{Zones: []string{"a"}}},
		"no zones to pin to": {
			annotated("zone-pinning", "true", "failure-tolerance-type", "zone"), Settings{Tolerance: ptr.To("zone")},
		},
		"control plane in no zone": {
			annotated("zones", "", "failure-tolerance-type", "node"), Settings{Tolerance: ptr.To("node")},
		},
		"a list with commas at ends": {annotated("zones", ",a,"), Settings{Zones: []string{"a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.got); diff != "" {
				t.Errorf("SettingsOf() (-want +got):\n%s", diff)
			}
		})
	}
}

// deployment has the labels and annotations given as pairs of the name without the prefix and the value.
func deployment(replicas *int32, labels, annotations map[string]string) *appsv1.Deployment {
	own := map[string]string{"app": "a"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shoot--dev--a", Name: "a", Labels: map[string]string{}, Annotations: map[string]string{},
	}}
	for key, value := range labels {
		d.Labels[prefix+key] = value
	}
	for key, value := range annotations {
		d.Annotations[prefix+key] = value
	}
	d.Spec.Replicas, d.Spec.Selector = replicas, &metav1.LabelSelector{MatchLabels: own}
	d.Spec.Template = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: own},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}},
	}
	return d
}

func apply(d *appsv1.Deployment, s Settings, a *autoscalingv2.HorizontalPodAutoscaler) {
	Apply(Workload{&d.ObjectMeta, &d.Spec.Replicas, d.Spec.Selector, &d.Spec.Template}, s, a)
}

func autoscaler(least *int32, most int32) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MinReplicas: least, MaxReplicas: most},
	}
}

func TestReplicas(t *testing.T) {
	none, node, zone := annotated("failure-tolerance-type", ""), annotated("failure-tolerance-type", "node"),
		annotated("failure-tolerance-type", "zone")
	for name, tc := range map[string]struct {
		kind     string
		settings Settings
		replicas *int32
		override string
		scaled   bool
		want     *int32
	}{
		"a controller of no control plane":          {kind: "controller", want: ptr.To(int32(2))},
		"a controller without failures to tolerate": {kind: "controller", settings: none, want: ptr.To(int32(1))},
		"a controller that tolerates a node's":      {kind: "controller", settings: node, want: ptr.To(int32(2))},
		"a controller that tolerates a zone's":      {kind: "controller", settings: zone, want: ptr.To(int32(2))},
		"a server of no control plane":              {kind: "server", want: ptr.To(int32(2))},
		"a server without failures to tolerate":     {kind: "server", settings: none, want: ptr.To(int32(2))},
		"a server that tolerates a node's":          {kind: "server", settings: node, want: ptr.To(int32(2))},
		"a server that tolerates a zone's":          {kind: "server", settings: zone, want: ptr.To(int32(2))},
		"more than needed":                          {kind: "server", replicas: ptr.To(int32(3)), want: ptr.To(int32(2))},
		"a number of its own":                       {kind: "server", override: "3", want: ptr.To(int32(3))},
		"an own number that is invalid":             {kind: "server", override: "many", want: ptr.To(int32(2))},
		"a negative own number":                     {kind: "server", override: "-1", want: ptr.To(int32(2))},
		"turned off":                                {kind: "server", replicas: ptr.To(int32(0)), want: ptr.To(int32(0))},
		"scaled to zero, with an own number": {
			kind: "server", override: "3", replicas: ptr.To(int32(0)), want: ptr.To(int32(0)),
		},
		"more than needed, by an autoscaler": {
			kind: "server", replicas: ptr.To(int32(3)), scaled: true, want: ptr.To(int32(3)),
		},
		"less than needed, in spite of the autoscaler": {kind: "server", scaled: true, want: ptr.To(int32(2))},
		"another type": {kind: "monitor", replicas: ptr.To(int32(1)), want: ptr.To(int32(1))},
		"no type":      {replicas: ptr.To(int32(1)), want: ptr.To(int32(1))},
	} {
		t.Run(name, func(t *testing.T) {
			d := deployment(tc.replicas, map[string]string{"type": tc.kind}, map[string]string{"replicas": tc.override})
			var a *autoscalingv2.HorizontalPodAutoscaler
			if tc.scaled {
				a = autoscaler(nil, 5)
			}
			apply(d, tc.settings, a)
			if diff := cmp.Diff(tc.want, d.Spec.Replicas); diff != "" {
				t.Errorf("replicas (-want +got):\n%s", diff)
			}
			again := d.DeepCopy()
			apply(again, tc.settings, a)
			if diff := cmp.Diff(d, again); diff != "" {
				t.Errorf("a second Apply() changes (-first +second):\n%s", diff)
			}
		})
	}
}

func TestAutoscalers(t *testing.T) {
	for name, tc := range map[string]struct {
		labels map[string]string
		before *autoscalingv2.HorizontalPodAutoscaler
		want   *autoscalingv2.HorizontalPodAutoscaler
	}{
		"one at least by default": {map[string]string{"type": "server"}, autoscaler(nil, 5), autoscaler(ptr.To(int32(2)), 5)},
		"more at least": {
			map[string]string{"type": "server"}, autoscaler(ptr.To(int32(3)), 5), autoscaler(ptr.To(int32(3)), 5),
		},
		"one at most": {map[string]string{"type": "server"}, autoscaler(nil, 1), autoscaler(ptr.To(int32(2)), 2)},
		"no type":     {nil, autoscaler(nil, 1), autoscaler(nil, 1)},
		"skipped":     {map[string]string{"type": "server", "skip": ""}, autoscaler(nil, 1), autoscaler(nil, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			tc.before.Labels = deployment(nil, tc.labels, nil).Labels
			ApplyToAutoscaler(tc.before, annotated())
			if diff := cmp.Diff(tc.want.Spec, tc.before.Spec); diff != "" {
				t.Errorf("ApplyToAutoscaler() (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPlaces shows the changes of the pods in testdata/places.yaml.
func TestPlaces(t *testing.T) {
	server := map[string]string{"type": "server"}
	zone := annotated("failure-tolerance-type", "zone", "zones", "a,b,c")
	zone.Pinned = true
	own := deployment(nil, server, nil)
	own.Name = "own-constraints"
	own.Spec.Template.Spec = corev1.PodSpec{
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: "arch", Operator: corev1.NodeSelectorOpIn, Values: []string{"x"}},
				}},
				{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"z"}},
				}},
			}},
		}},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{
			{TopologyKey: corev1.LabelHostname, MaxSkew: 5}, {TopologyKey: "rack", MaxSkew: 1},
		},
		Tolerations: []corev1.Toleration{
			{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute, Operator: corev1.TolerationOpExists},
		},
	}
	one := deployment(nil, map[string]string{"type": "controller"}, nil)
	one.Name = "one-replica"
	plain := deployment(nil, server, nil)
	plain.Name = "extension"
	enforced := deployment(nil, server, map[string]string{"host-spread": "true"})
	enforced.Name = "host-spread"
	scaled := deployment(nil, server, nil)
	scaled.Name = "scaled"
	tolerant := deployment(nil, server, nil)
	tolerant.Name = "tolerates-zones"
	skipped := deployment(nil, map[string]string{"type": "server", "skip": "true"}, nil)
	skipped.Name = "skipped"
	apply(own, zone, nil)
	apply(one, annotated("failure-tolerance-type", "", "zones", "a"), nil)
	apply(plain, annotated(), nil)
	apply(enforced, annotated(), nil)
	apply(scaled, zone, autoscaler(nil, 6))
	apply(tolerant, zone, nil)
	apply(skipped, zone, nil)
	golden.Objects(t, "places", plain, enforced, one, tolerant, scaled, own, skipped)
}
