package care

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
)

// extensionScheme has the kinds of the garden and of extensions.
func extensionScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1beta1.AddToScheme, extensionsv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

func TestEveryKindOfExtensionObjectsIsHeard(t *testing.T) {
	const namespace = "shoot--p--s"
	scheme := extensionScheme(t)
	build := fake.NewClientBuilder().WithScheme(scheme)
	var want []string
	for _, kind := range extensionobject.Kinds {
		o := kind.New()
		o.SetNamespace(namespace)
		o.SetName("a")
		o.GetDefaultStatus().Conditions = []corev1beta1.Condition{{Type: corev1beta1.ShootControlPlaneHealthy}}
		build.WithObjects(o)
		want = append(want, kind.Name)
	}
	c := build.Build()
	r, o := &Reconciler{Seed: c, Cache: c}, &Observed{}
	if err := r.readReports(t.Context(), o, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, report := range o.Reports {
		got = append(got, report.Kind)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds with reports (-want +got):\n%s", diff)
	}
}

func TestWhatIsRolledOut(t *testing.T) {
	const namespace = "shoot--p--s"
	scheme := extensionScheme(t)
	cluster := &extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	cluster.Spec.Shoot.Raw = []byte(`{"spec":{"kubernetes":{"version":"1.36.1"}}}`)
	for name, tc := range map[string]struct {
		shoot  corev1beta1.Shoot
		exists bool
		want   string
	}{
		"nothing has changed": {corev1beta1.Shoot{}, true, ""},
		"a change is not observed yet": {
			corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Generation: 2}}, true, "1.36.1",
		},
		"a change may be confined to the window": {
			corev1beta1.Shoot{Spec: corev1beta1.ShootSpec{
				Maintenance: &corev1beta1.Maintenance{ConfineSpecUpdateRollout: ptr.To(true)},
			}}, true, "1.36.1",
		},
		"nothing was rolled out": {corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Generation: 1}}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			build := fake.NewClientBuilder().WithScheme(scheme)
			if tc.exists {
				build.WithObjects(cluster.DeepCopy())
			}
			r, o, got := &Reconciler{Seed: build.Build()}, &Observed{Shoot: &tc.shoot}, ""
			if err := r.readRolledOut(t.Context(), o, client.InNamespace(namespace)); err != nil {
				t.Fatal(err)
			}
			if o.RolledOut != nil {
				got = o.RolledOut.Spec.Kubernetes.Version
			}
			if got != tc.want {
				t.Errorf("version %q is rolled out, want %q", got, tc.want)
			}
		})
	}
}
