package crds

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/golden"
)

func TestSeedHasAllKinds(t *testing.T) {
	want := []string{
		"BackupBucket", "BackupEntry", "Bastion", "Cluster", "ContainerRuntime", "ControlPlane", "DNSRecord",
		"Extension", "Infrastructure", "Network", "OperatingSystemConfig", "Worker",
		"ManagedResource",
		"MachineClass", "MachineDeployment", "Machine", "MachineSet",
		"TLSRoute",
	}
	var got []string
	for _, crd := range Seed() {
		got = append(got, crd.Spec.Names.Kind)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds of Seed() mismatch (-want +got):\n%s", diff)
	}
}

func TestExtensionKindsHaveStatusAndClusterScope(t *testing.T) {
	clusterScoped := map[string]bool{"BackupBucket": true, "BackupEntry": true, "Cluster": true}
	for _, crd := range Get(Extensions) {
		kind := crd.Spec.Names.Kind
		if got := crd.Spec.Scope == apiextensionsv1.ClusterScoped; got != clusterScoped[kind] {
			t.Errorf("%s is cluster-scoped: %v, want %v", kind, got, clusterScoped[kind])
		}
		sub := crd.Spec.Versions[0].Subresources
		if hasStatus := sub != nil && sub.Status != nil; hasStatus == (kind == "Cluster") {
			t.Errorf("%s has a status subresource: %v", kind, hasStatus)
		}
		if crd.Labels[labelDeletionProtected] != "true" {
			t.Errorf("%s is not protected against deletion", kind)
		}
	}
}

// TestExtensionKindsAreRegistered: definitions are made from all types of the contract, so one that is missing in the
// scheme is noticed.
func TestExtensionKindsAreRegistered(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := extensionsv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, crd := range Get(Extensions) {
		for _, kind := range []string{crd.Spec.Names.Kind, crd.Spec.Names.ListKind} {
			if !scheme.Recognizes(extensionsv1alpha1.SchemeGroupVersion.WithKind(kind)) {
				t.Errorf("%s is not registered in api/extensions/v1alpha1/register.go", kind)
			}
		}
	}
}

func TestPoliciesComeWithBindings(t *testing.T) {
	bound := map[string]bool{}
	for _, p := range Policies() {
		if p.GetKind() == "ValidatingAdmissionPolicyBinding" {
			bound[p.GetName()] = true
		}
	}
	for _, p := range Policies() {
		if p.GetKind() == "ValidatingAdmissionPolicy" && !bound[p.GetName()] {
			t.Errorf("policy %s has no binding", p.GetName())
		}
	}
}

func TestPlaceholders(t *testing.T) {
	var text bytes.Buffer
	for _, crd := range Placeholders() {
		fmt.Fprintf(&text, "%-14s %-58s", crd.Spec.Scope, crd.Name)
		for _, v := range crd.Spec.Versions {
			fmt.Fprintf(&text, " %s", v.Name)
			if v.Subresources != nil {
				text.WriteString("+status")
			}
		}
		text.WriteString("\n")
	}
	golden.Bytes(t, "placeholders.txt", text.Bytes())
	first := Placeholders()[0]
	first.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	golden.Objects(t, "placeholder", first)
}
