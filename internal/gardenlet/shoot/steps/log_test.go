package steps

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/kube"
)

// TestWritesAreLoggedOnce repeats what steps do in every pass: only the pass that changes something logs.
func TestWritesAreLoggedOnce(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, resourcesv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	meta := metav1.ObjectMeta{Namespace: "here", Name: "a"}
	held := meta
	held.Finalizers = []string{"hortus.dev/held"}
	started := now
	d := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: ptr.To(int32(1))}}
	d.UID = "1"
	set := &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: ptr.To(int32(1))}}
	pod := &corev1.Pod{ObjectMeta: held}
	pod.CreationTimestamp = metav1.Time{Time: started.Add(-time.Minute)}
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: held}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(d, set, pod, mr, &corev1.Secret{ObjectMeta: held}).Build()
	seed := &SeedNamespace{Client: c, namespace: "here", applied: &kube.ApplyCache{}}
	var lines []string
	logger := funcr.New(func(_, args string) {
		_, args, _ = strings.Cut(args, `"msg"=`)
		lines = append(lines, args)
	}, funcr.Options{})
	ctx := log.IntoContext(t.Context(), logger)
	read := func(o client.Object) bool {
		t.Helper()
		found, err := kube.Exists(ctx, c, o)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	const name = `{"name"="a" "namespace"="here"}`
	for _, step := range []struct {
		name string
		pass func() error
		want []string
	}{
		{"scaled", func() error { return seed.scaleDeployment(ctx, "a", 0) },
			[]string{`"Scaled Deployment" "Deployment"=` + name + ` "replicas"=0`}},
		{"paused", func() error {
			d := &appsv1.Deployment{ObjectMeta: meta}
			read(d)
			return seed.pauseDeployment(ctx, d, true)
		}, []string{`"Paused or resumed Deployment" "Deployment"=` + name + ` "paused"=true`}},
		{"stopped", func() error {
			set := &appsv1.StatefulSet{ObjectMeta: meta}
			read(set)
			return seed.stopStatefulSet(ctx, set)
		}, []string{`"Scaled StatefulSet" "StatefulSet"=` + name + ` "replicas"=0`}},
		{"released", func() error {
			mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: meta}
			if !read(mr) {
				return nil
			}
			return seed.releaseResource(ctx, mr, true)
		}, []string{
			`"Removed the finalizers of ManagedResource, whose objects nobody deletes" "ManagedResource"=` + name +
				` "finalizers"=["hortus.dev/held"]`,
			`"Deleting object" "object"="ManagedResource here/a"`,
		}},
		{"without its finalizers", func() error {
			_, err := seed.release(ctx, corev1.SchemeGroupVersion, "Secret")
			return err
		}, []string{
			`"Removed the finalizers of object, which nobody handles any more" "object"="Secret here/a"` +
				` "finalizers"=["hortus.dev/held"]`,
			`"Deleting object" "object"="Secret here/a"`,
		}},
		{"removed", func() error {
			_, err := seed.remove(ctx, &corev1.Pod{ObjectMeta: meta})
			return err
		}, []string{`"Deleting object" "object"="Pod here/a"`}},
	} {
		lines = nil
		for range 2 {
			if err := step.pass(); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
		}
		if diff := cmp.Diff(step.want, lines); diff != "" {
			t.Errorf("%s: lines mismatch (-want +got):\n%s", step.name, diff)
		}
	}
}
