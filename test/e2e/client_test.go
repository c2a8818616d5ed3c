//go:build landscape

package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// checkClient uses a Shoot through a client that knows only the name of the resource and JSON.
func checkClient(t *testing.T) {
	resource := dynamicClient(t, kubeconfigOf("garden")).Resource(shoots).Namespace(projectNS)
	shoot := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(example(t, "shoot-workerless.yaml")), &shoot.Object); err != nil {
		t.Fatal(err)
	}
	shoot.SetName("typed")
	created, err := resource.Create(t.Context(), shoot, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	if version, _, _ := unstructured.NestedString(created.Object, "spec", "kubernetes", "version"); version != "1.36.3" {
		t.Errorf("the version 1.36 was completed to %q", version)
	}
	awaitSucceeded(t, "typed")

	patch := []byte(`{"metadata":{"labels":{"example.com/by":"patch"}}}`)
	if _, err := resource.Patch(t.Context(), "typed", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatalf("patch: %v", err)
	}
	applied := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot",
		"metadata": map[string]any{
			"name": "typed", "namespace": projectNS,
			"annotations": map[string]any{"confirmation.gardener.cloud/deletion": "true"},
		},
	}}
	got, err := resource.Apply(t.Context(), "typed", applied, metav1.ApplyOptions{FieldManager: "e2e"})
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	if got.GetLabels()["example.com/by"] != "patch" ||
		got.GetAnnotations()["confirmation.gardener.cloud/deletion"] != "true" {
		t.Errorf("after patch and apply the Shoot has labels %v and annotations %v", got.GetLabels(), got.GetAnnotations())
	}
	if err := resource.Delete(t.Context(), "typed", metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete: %v", err)
	}
	awaitShoot(t, "typed", "gone", func(o *unstructured.Unstructured) bool { return o == nil })
}

// checkInterrupt presses Ctrl-C while a landscape comes up: up must end, and the next run must continue from there.
func checkInterrupt(t *testing.T) {
	program, err := filepath.Abs(filepath.Join(repository, ".build", "hortus"))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program, "up")
	command.Dir = repository
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "the local cloud run") {
			if err := command.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := command.Wait(); err == nil {
		t.Error("up reports success although it was interrupted")
	}
}
