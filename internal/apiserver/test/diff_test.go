package test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/diff"
)

// 'hortus diff' shows the effects of edits that the API server has tried, and changes nothing.
func TestEffectsOfEdits(t *testing.T) {
	g := newGarden(t)
	kubeconfig := g.writeKubeconfig("")
	run := func(t *testing.T, input string, args ...string) (string, error) {
		t.Helper()
		cmd := diff.NewCommand()
		var out bytes.Buffer
		cmd.SetIn(strings.NewReader(input))
		cmd.SetOut(&out)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetArgs(append([]string{"-f", "-", "--kubeconfig", kubeconfig}, args...))
		err := cmd.ExecuteContext(g.ctx)
		return out.String(), err
	}
	diffOf := func(t *testing.T, s *corev1beta1.Shoot) diff.Diff {
		t.Helper()
		out, err := run(t, manifestOf(t, s), "-o", "json")
		var diffs []diff.Diff
		if err != nil || json.Unmarshal([]byte(out), &diffs) != nil || len(diffs) != 1 {
			t.Fatalf("%v:\n%s", err, out)
		}
		return diffs[0]
	}

	shoot := g.newShoot()
	applied := shoot.DeepCopy()
	applied.Spec.Addons = &corev1beta1.Addons{}
	applied.Spec.Purpose = new(corev1beta1.ShootPurposeTesting)
	shoot.Spec.Purpose = applied.Spec.Purpose
	ours := corev1beta1.AdmissionPlugin{Name: "PodNodeSelector"}
	other := corev1beta1.AdmissionPlugin{Name: "AlwaysPullImages"}
	applied.Spec.Kubernetes.KubeAPIServer = &corev1beta1.KubeAPIServerConfig{
		AdmissionPlugins: []corev1beta1.AdmissionPlugin{ours},
	}
	shoot.Spec.Kubernetes.KubeAPIServer = &corev1beta1.KubeAPIServerConfig{
		AdmissionPlugins: []corev1beta1.AdmissionPlugin{ours, other},
	}
	shoot.Spec.Provider.Workers[0].Machine.Image = &corev1beta1.ShootMachineImage{
		Name: "hortus-machine", Version: new("1.0.0"),
	}
	shoot.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: manifestOf(t, applied)}
	g.Create(t, shoot)
	before := shoot.DeepCopy()

	t.Run("what has been read changes nothing", func(t *testing.T) {
		got := diffOf(t, shoot)
		if want := []diff.Pool{{Name: "pool", Effect: diff.Kept}}; len(got.Fields) > 0 || !cmp.Equal(want, got.Pools) {
			t.Errorf("%+v", got)
		}
	})
	t.Run("changed and removed fields", func(t *testing.T) {
		edited := shoot.DeepCopy()
		edited.Spec.Purpose = nil // The last manifest had it.
		edited.Spec.Provider.Workers[0].Machine.Image.Version = new("1.1.0")
		edited.Spec.Provider.Workers[0].Minimum, edited.Spec.Provider.Workers[0].Maximum = 2, 3
		got := diffOf(t, edited)
		var paths []string
		for _, f := range got.Fields {
			paths = append(paths, f.Path)
		}
		want := []string{
			"spec.provider.workers[pool].machine.image.version", "spec.provider.workers[pool].maximum",
			"spec.provider.workers[pool].minimum", "spec.purpose",
		}
		if diff := cmp.Diff(want, paths); diff != "" {
			t.Errorf("changed fields (-want +got):\n%s", diff)
		}
		pools := []diff.Pool{{Name: "pool", Effect: diff.Rolled, Machines: "1 -> 2", Reasons: []string{
			"machine image: hortus-machine 1.0.0 -> hortus-machine 1.1.0",
		}}}
		if diff := cmp.Diff(pools, got.Pools); diff != "" {
			t.Errorf("pools (-want +got):\n%s", diff)
		}
		if !slices.ContainsFunc(got.Warnings, func(w string) bool { return strings.Contains(w, "maximum has no effect") }) {
			t.Errorf("the warnings of the API server are missing: %q", got.Warnings)
		}
		table, err := run(t, manifestOf(t, edited))
		if err != nil || !strings.Contains(table, "pool  rolled  1 -> 2    machine image: ") {
			t.Errorf("%v:\n%s", err, table)
		}
	})
	t.Run("elements that others have added to a list with a merge key stay, as with kubectl", func(t *testing.T) {
		edited := shoot.DeepCopy()
		edited.Spec.Kubernetes.KubeAPIServer.AdmissionPlugins = []corev1beta1.AdmissionPlugin{ours}
		if got := diffOf(t, edited); len(got.Fields) > 0 {
			t.Errorf("changed fields: %+v", got.Fields)
		}
	})
	t.Run("a Shoot that does not exist yet", func(t *testing.T) {
		got := diffOf(t, g.newShoot())
		if want := []diff.Pool{{Name: "pool", Effect: diff.Created, Machines: "1"}}; !cmp.Equal(want, got.Pools) {
			t.Errorf("%+v", got)
		}
		key := client.ObjectKey{Namespace: got.Namespace, Name: got.Name}
		if err := g.Client.Get(g.ctx, key, &corev1beta1.Shoot{}); !apierrors.IsNotFound(err) {
			t.Errorf("it was created: %v", err)
		}
	})
	t.Run("refused edits, with every reason", func(t *testing.T) {
		invalid := shoot.DeepCopy()
		invalid.Spec.Provider.Workers[0].Minimum = 5
		invalid.Spec.Networking.Type = new("other")
		out, err := run(t, manifestOf(t, invalid)+"\n---\n"+manifestOf(t, shoot))
		for _, want := range []string{
			"Shoot " + shoot.Namespace + "/" + shoot.Name + ": the API server refuses the edit: ",
			"spec.networking.type", "spec.provider.workers[0].maximum",
		} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %v, want %q", err, want)
			}
		}
		if !strings.Contains(out, "pool  kept") {
			t.Errorf("the other Shoot is missing:\n%s", out)
		}
	})
	t.Run("bad input", func(t *testing.T) {
		for input, want := range map[string]string{
			"kind: [":                           "invalid syntax",
			"apiVersion: v1\nkind: Secret":      "manifests with at least one Shoot",
			manifestOf(t, &corev1beta1.Shoot{}): "metadata.name: required",
		} {
			if _, err := run(t, input); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", input, err, want)
			}
		}
		if _, err := run(t, "", "-o", "csv"); err == nil || !strings.Contains(err.Error(), "(table, json, yaml)") {
			t.Errorf("an unknown format: %v", err)
		}
	})
	if g.get(shoot); shoot.ResourceVersion != before.ResourceVersion {
		t.Errorf("the Shoot was changed: %s", cmp.Diff(before, shoot))
	}
}

// manifestOf returns a Shoot as 'kubectl get -o json' writes it.
func manifestOf(t *testing.T, s *corev1beta1.Shoot) string {
	t.Helper()
	s = s.DeepCopy()
	s.SetGroupVersionKind(corev1beta1.SchemeGroupVersion.WithKind("Shoot"))
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
