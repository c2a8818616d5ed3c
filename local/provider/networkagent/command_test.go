package networkagent

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestPodCIDRIsRequired(t *testing.T) {
	cmd := NewCommand()
	cmd.SetArgs([]string{"--node-name=self"})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "--pod-cidr") {
		t.Errorf("error %v, want one about --pod-cidr", err)
	}
}

// TestSlimNodesDecideTheSame decides with the fields that the cache keeps.
func TestSlimNodesDecideTheSame(t *testing.T) {
	var opts ctrl.Options
	slimCache(&opts, "self")
	whole := node("other", "100.96.1.0/24", "10.250.0.3")
	whole.Annotations = map[string]string{"a": "b"}
	for kind, by := range opts.Cache.ByObject {
		if _, ok := kind.(*corev1.Node); !ok {
			continue
		}
		got, err := by.Transform(whole.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		slim := *got.(*corev1.Node)
		if slim.Annotations != nil {
			t.Error("annotations are cached")
		}
		want := Decide([]corev1.Node{whole}, "self").Routes
		if got := Decide([]corev1.Node{slim}, "self").Routes; !slices.Equal(got, want) {
			t.Errorf("routes of slim nodes: %v, want %v", got, want)
		}
		return
	}
	t.Error("Nodes are cached completely")
}
