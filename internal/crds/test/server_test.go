// Package test installs the definitions and policies of seeds on a real API server.
package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/crds"
	"hortus.dev/hortus/test/env"
)

// TestServerEnforces installs all definitions and policies on a real API server and checks what it rejects.
func TestServerEnforces(t *testing.T) {
	e := env.Start(t, env.WithCRDs(crds.Seed()...), env.WithScheme(extensionsv1alpha1.AddToScheme))
	for _, policy := range crds.Policies() {
		if err := e.Client.Create(t.Context(), policy); err != nil {
			t.Fatal(err)
		}
	}
	e.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}})
	infra := &extensionsv1alpha1.Infrastructure{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "a", Finalizers: []string{"extensions.gardener.cloud/infrastructure"},
		},
		Spec: extensionsv1alpha1.InfrastructureSpec{
			DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "local"}, Region: "r",
			SecretRef: corev1.SecretReference{Namespace: "ns", Name: "s"},
		},
	}
	e.Create(t, infra)
	patch := func(change func(*extensionsv1alpha1.Infrastructure)) error {
		before := infra.DeepCopy()
		after := infra.DeepCopy()
		change(after)
		return e.Client.Patch(t.Context(), after, client.MergeFrom(before))
	}
	refused := func(err error, text string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error is %v, want one with %q", err, text)
		}
	}

	refused(patch(func(i *extensionsv1alpha1.Infrastructure) { i.Spec.Region = "other" }), "is immutable")
	refused(patch(func(i *extensionsv1alpha1.Infrastructure) { i.Spec.Type = "other" }), "is immutable")

	bastion := &extensionsv1alpha1.Bastion{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"},
		Spec: extensionsv1alpha1.BastionSpec{
			DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "local"}, Ingress: []extensionsv1alpha1.BastionIngressPolicy{},
			UserData: []byte("\xfb\xff\xbf"), // In base64 "+/+/", which the alphabet for URLs does not have.
		},
	}
	e.Create(t, bastion)
	before := bastion.DeepCopy()
	bastion.Finalizers = []string{"extensions.gardener.cloud/bastion"}
	if err := e.Client.Patch(t.Context(), bastion, client.MergeFrom(before)); err != nil {
		t.Errorf("a Bastion cannot be changed: %v", err)
	}
	before = bastion.DeepCopy()
	bastion.Spec.UserData = []byte("other")
	refused(e.Client.Patch(t.Context(), bastion, client.MergeFrom(before)), "is immutable")

	// A policy takes effect a moment after it was created.
	deadline := time.Now().Add(time.Minute)
	for {
		err := e.Client.Delete(t.Context(), infra, client.DryRunAll)
		if err != nil {
			refused(err, "deletion must be confirmed")
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("an unconfirmed deletion is allowed")
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err := patch(func(i *extensionsv1alpha1.Infrastructure) {
		i.Annotations = map[string]string{extensionsv1alpha1.AnnotationConfirmDeletion: "true"}
	}); err != nil {
		t.Fatal(err)
	}
	if err := e.Client.Delete(t.Context(), infra); err != nil {
		t.Errorf("a confirmed deletion is rejected: %v", err)
	}
	if err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(infra), infra); err != nil {
		t.Fatal(err)
	}
	refused(patch(func(i *extensionsv1alpha1.Infrastructure) { i.Spec.SSHPublicKey = []byte("x") }),
		"spec must not change")
	if err := patch(func(i *extensionsv1alpha1.Infrastructure) { i.Finalizers = nil }); err != nil {
		t.Errorf("the finalizer cannot be removed: %v", err)
	}

	crd := crds.Get(crds.Extensions)[0]
	if err := e.Client.Delete(t.Context(), crd, client.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("deletion of a definition: %v, want a rejection", err)
	}
}

// TestPoliciesProtectEveryKind: objects of every kind of the contract but Cluster are deleted only after a
// confirmation, and keep their spec from then on.
func TestPoliciesProtectEveryKind(t *testing.T) {
	definitions := crds.Get(crds.Extensions)
	for _, crd := range definitions {
		for i := range crd.Spec.Versions { // Any spec will do.
			crd.Spec.Versions[i].Schema = &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)},
			}
		}
	}
	e := env.Start(t, env.WithCRDs(definitions...))
	for _, policy := range crds.Policies() {
		if err := e.Client.Create(t.Context(), policy); err != nil {
			t.Fatal(err)
		}
	}
	for _, crd := range definitions {
		kind := crd.Spec.Names.Kind
		want := kind != extensionsv1alpha1.ClusterKind
		// A policy takes effect a moment after it was created.
		check := func(what string, act func() error) {
			t.Helper()
			deadline := time.Now().Add(time.Minute)
			err := act()
			for ; want && err == nil && time.Now().Before(deadline); err = act() {
				time.Sleep(100 * time.Millisecond)
			}
			rejected := apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
			if rejected != want || !rejected && err != nil {
				t.Errorf("%s: %s: %v, want a rejection: %t", kind, what, err, want)
			}
		}
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"type": "a"}}}
		o.SetGroupVersionKind(extensionsv1alpha1.SchemeGroupVersion.WithKind(kind))
		o.SetName("a")
		o.SetFinalizers([]string{"example.com/test"})
		if crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
			o.SetNamespace("default")
		}
		e.Create(t, o)
		check("unconfirmed deletion", func() error { return e.Client.Delete(t.Context(), o, client.DryRunAll) })
		before := o.DeepCopy()
		o.SetAnnotations(map[string]string{extensionsv1alpha1.AnnotationConfirmDeletion: "true"})
		if err := e.Client.Patch(t.Context(), o, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		if err := e.Client.Delete(t.Context(), o); err != nil {
			t.Errorf("%s: confirmed deletion: %v", kind, err)
		}
		check("change after the deletion", func() error {
			changed := o.DeepCopy()
			changed.Object["spec"] = map[string]any{"type": "b"}
			return e.Client.Patch(t.Context(), changed, client.MergeFrom(o), client.DryRunAll)
		})
	}
}

// TestPlaceholdersAreServed installs the kinds of other projects, and creates an object of each version.
func TestPlaceholdersAreServed(t *testing.T) {
	e := env.Start(t, env.WithCRDs(crds.Placeholders()...))
	for _, crd := range crds.Placeholders() {
		for i, version := range crd.Spec.Versions {
			gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}
			t.Run(gvk.String(), func(t *testing.T) {
				o := &unstructured.Unstructured{Object: map[string]any{
					"spec": map[string]any{"any": []any{map[string]any{"field": "is kept"}}},
				}}
				o.SetGroupVersionKind(gvk)
				o.SetName(fmt.Sprintf("a-%d", i))
				if crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
					o.SetNamespace("default")
				}
				want := o.DeepCopy()
				if err := e.Client.Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want.Object["spec"], o.Object["spec"]); diff != "" {
					t.Errorf("spec mismatch (-want +got):\n%s", diff)
				}
				o.Object["status"] = map[string]any{"ready": true}
				err := e.Client.Status().Update(t.Context(), o)
				if has := version.Subresources != nil; has != (err == nil) {
					t.Errorf("update of the status: %v, want it possible: %v", err, has)
				}
			})
		}
	}
}

// TestSchemasAllowWhatTheContractAllows: objects of others may lack fields that ours always have.
func TestSchemasAllowWhatTheContractAllows(t *testing.T) {
	e := env.Start(t, env.WithCRDs(crds.Get(crds.Extensions)...))
	for name, object := range map[string]string{
		"a pool without an image": `{kind: Worker, spec: {type: local, region: r, secretRef: {name: s}, pools: [{name: a,
			machineType: small, minimum: 1, maximum: 1, maxSurge: 1, maxUnavailable: 0, userDataSecretRef: {name: u, key: k}}]}}`,
		"a registry without hosts": `{kind: OperatingSystemConfig, spec: {type: local, purpose: reconcile, criConfig: {
			name: containerd, containerd: {sandboxImage: pause, registries: [{upstream: docker.io, server: "https://mirror"}]}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			o := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(strings.ReplaceAll(object, "\t", "")), &o.Object); err != nil {
				t.Fatal(err)
			}
			o.SetAPIVersion(extensionsv1alpha1.SchemeGroupVersion.String())
			o.SetNamespace("default")
			o.SetName("a")
			if err := e.Client.Create(t.Context(), o); err != nil {
				t.Error(err)
			}
		})
	}
}
