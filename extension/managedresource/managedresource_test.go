package managedresource

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(resourcesv1alpha1.AddToScheme(scheme))
	return scheme
}

func TestApplyAndDelete(t *testing.T) {
	scheme := newScheme()
	c := fake.NewClientBuilder().WithScheme(scheme).Build()
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "c"}, Data: map[string]string{"a": "b"},
	}
	for name, set := range map[string]Set{
		"for-shoot": {Namespace: "n", Name: "for-shoot", Objects: []client.Object{object}},
		"for-seed":  {Namespace: "n", Name: "for-seed", Seed: true, Objects: []client.Object{object, object}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				if err := Apply(t.Context(), c, scheme, set); err != nil {
					t.Fatal(err)
				}
			}
			mr := &resourcesv1alpha1.ManagedResource{}
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: name}, mr); err != nil {
				t.Fatal(err)
			}
			if got := ptr.Deref(mr.Spec.Class, "") == resourcesv1alpha1.ClassSeed; got != set.Seed {
				t.Errorf("class is %v, want seed: %v", mr.Spec.Class, set.Seed)
			}
			secret := &corev1.Secret{}
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: mr.Spec.SecretRefs[0].Name},
				secret); err != nil {
				t.Fatal(err)
			}
			const one = "---\napiVersion: v1\ndata:\n  a: b\nkind: ConfigMap\nmetadata:\n  name: c\n  namespace: kube-system\n"
			want := ""
			for range set.Objects {
				want += one
			}
			if diff := cmp.Diff(want, string(secret.Data[dataKey])); diff != "" {
				t.Errorf("objects mismatch (-want +got):\n%s", diff)
			}
			gone, err := Delete(t.Context(), c, "n", name, true)
			if err != nil || gone {
				t.Fatalf("Delete() = %v, %v, want a retry", gone, err)
			}
			if gone, err = Delete(t.Context(), c, "n", name, true); err != nil || !gone {
				t.Fatalf("Delete() = %v, %v, want gone", gone, err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(secret),
				secret); client.IgnoreNotFound(err) != nil || err == nil {
				t.Errorf("the secret is still there (%v)", err)
			}
		})
	}
}

func TestProblem(t *testing.T) {
	good := func() *resourcesv1alpha1.ManagedResource {
		mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Name: "x", Generation: 2}}
		mr.Status.ObservedGeneration = 2
		mr.Status.Conditions = []corev1beta1.Condition{
			{Type: resourcesv1alpha1.ResourcesApplied, Status: corev1beta1.ConditionTrue},
			{Type: resourcesv1alpha1.ResourcesHealthy, Status: corev1beta1.ConditionTrue},
			{Type: resourcesv1alpha1.ResourcesProgressing, Status: corev1beta1.ConditionFalse},
		}
		return mr
	}
	for name, tc := range map[string]struct {
		change func(*resourcesv1alpha1.ManagedResource)
		want   string
	}{
		"applied, healthy and rolled out": {func(*resourcesv1alpha1.ManagedResource) {}, ""},
		"not seen yet": {
			func(mr *resourcesv1alpha1.ManagedResource) { mr.Generation = 3 }, `managed resource "x" has not been applied yet`,
		},
		"a condition is missing": {func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Status.Conditions = mr.Status.Conditions[:2]
		},
			`managed resource "x" has no condition ResourcesProgressing yet`},
		"not healthy": {func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Status.Conditions[1].Status, mr.Status.Conditions[1].Message = corev1beta1.ConditionFalse, "down"
		}, `managed resource "x": ResourcesHealthy is False: down`},
	} {
		t.Run(name, func(t *testing.T) {
			mr := good()
			tc.change(mr)
			if diff := cmp.Diff(tc.want, Problem(mr)); diff != "" {
				t.Errorf("Problem() mismatch (-want +got):\n%s", diff)
			}
		})
	}
}
