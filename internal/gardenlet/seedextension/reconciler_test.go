package seedextension

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

func registration(extensionType string, clusters ...corev1beta1.ClusterType) corev1beta1.ControllerRegistration {
	r := corev1beta1.ControllerRegistration{ObjectMeta: metav1.ObjectMeta{Name: extensionType}}
	r.Spec.Resources = []corev1beta1.ControllerResource{{
		Kind: "Extension", Type: extensionType, ClusterCompatibility: clusters,
	}}
	return r
}

func TestWanted(t *testing.T) {
	const shoot, seed = corev1beta1.ClusterTypeShoot, corev1beta1.ClusterTypeSeed
	auto := func(extensionType string, clusters ...corev1beta1.ClusterType) corev1beta1.ControllerRegistration {
		r := registration(extensionType, shoot, seed)
		r.Spec.Resources[0].AutoEnable = clusters
		return r
	}
	leaving := auto("leaving", seed)
	leaving.DeletionTimestamp = &metav1.Time{}
	leaving.DeletionTimestamp.Time = time.Unix(1, 0)
	other := auto("network", seed)
	other.Spec.Resources[0].Kind = "Network"
	secondary := auto("secondary", seed)
	secondary.Spec.Resources[0].Primary = new(false)
	registrations := []corev1beta1.ControllerRegistration{
		registration("asked", seed), registration("unasked", seed), registration("for-shoots", shoot),
		auto("everywhere", seed), auto("refused", seed), auto("shoots-only", shoot), leaving, other, secondary,
	}
	s := &corev1beta1.Seed{}
	s.Spec.Extensions = []corev1beta1.Extension{
		{Type: "asked", ProviderConfig: &runtime.RawExtension{Raw: []byte(`{"a":1}`)}}, {Type: "for-shoots"},
		{Type: "unknown"}, {Type: "refused", Disabled: new(true)},
	}
	var got []string
	for _, e := range wanted(s, registrations) {
		text := e.Namespace + "/" + e.Name + " " + string(e.Spec.GetClass())
		if e.Spec.ProviderConfig != nil {
			text += " " + string(e.Spec.ProviderConfig.Raw)
		}
		got = append(got, text)
	}
	if want := []string{`garden/asked seed {"a":1}`, "garden/everywhere seed"}; !slices.Equal(got, want) {
		t.Errorf("wanted() = %q, want %q", got, want)
	}
	s.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	if got := wanted(s, registrations); len(got) > 0 {
		t.Errorf("a seed that is being deleted requires %d Extensions", len(got))
	}
}

func TestExtensionsOfTheSeed(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1beta1.AddToScheme, extensionsv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	first := registration("first", corev1beta1.ClusterTypeSeed)
	second := registration("second", corev1beta1.ClusterTypeSeed)
	garden := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&first, &second).Build()
	others := &extensionsv1alpha1.Extension{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "others"}}
	others.Spec.Class = new(extensionsv1alpha1.ClassGarden)
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithObjects(others).
		WithStatusSubresource(&extensionsv1alpha1.Extension{}).Build()
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	r := &Reconciler{Garden: garden, Seed: cluster, Clock: clock, SeedName: "blue"}
	seed := &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "blue"}}
	step := func(want string) time.Duration {
		t.Helper()
		result, err := r.Reconcile(t.Context(), seed)
		if err != nil {
			t.Fatal(err)
		}
		list := &extensionsv1alpha1.ExtensionList{}
		if err := cluster.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range list.Items {
			got = append(got, e.Name)
		}
		if slices.Sort(got); strings.Join(got, " ") != want {
			t.Errorf("there are %q, want %q", got, want)
		}
		return result.RequeueAfter
	}
	step("others")
	seed.Spec.Extensions = []corev1beta1.Extension{{Type: "first"}, {Type: "second"}}
	step("first others second")

	e := &extensionsv1alpha1.Extension{}
	if err := cluster.Get(t.Context(), client.ObjectKey{Namespace: "garden", Name: "first"}, e); err != nil {
		t.Fatal(err)
	}
	if e.Annotations[extensionsv1alpha1.AnnotationOperation] != extensionsv1alpha1.OperationReconcile {
		t.Errorf("the extension got no request: %v", e.Annotations)
	}
	// After a failure the request is repeated later.
	delete(e.Annotations, extensionsv1alpha1.AnnotationOperation)
	if err := cluster.Update(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	e.Status.LastOperation = &corev1beta1.LastOperation{
		Type: corev1beta1.LastOperationTypeCreate, State: corev1beta1.LastOperationStateError,
	}
	e.Status.LastError = &corev1beta1.LastError{Description: "no"}
	if err := cluster.Status().Update(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if after := step("first others second"); after == 0 {
		t.Error("the failed request is not repeated")
	}

	seed.Spec.Extensions = seed.Spec.Extensions[:1]
	step("first others")
	seed.DeletionTimestamp = &metav1.Time{Time: clock.Now()}
	step("others")
}
