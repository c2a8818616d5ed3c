package kube

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func configMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m"}, Data: data}
}

func TestApplyStoresTheAnswerAndLeavesOthersTheirs(t *testing.T) {
	ctx, c := t.Context(), fake.NewClientBuilder().Build()
	m := configMap(map[string]string{"a": "1"})
	if err := Apply(ctx, c, m, "us"); err != nil {
		t.Fatal(err)
	}
	if m.ResourceVersion == "" {
		t.Error("the object does not have the server's response")
	}
	if err := Apply(ctx, c, configMap(map[string]string{"b": "2"}), "others"); err != nil {
		t.Fatal(err)
	}
	m = configMap(map[string]string{"a": "3"})
	if err := Apply(ctx, c, m, "us"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a": "3", "b": "2"}, m.Data); diff != "" {
		t.Errorf("data mismatch (-want +got):\n%s", diff)
	}
}

func TestApplyCacheOnlyReadsWhatIsAsItLeftIt(t *testing.T) {
	applies := 0
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			applies++
			return c.Apply(ctx, o, opts...)
		},
	})
	ctx, cache := t.Context(), &ApplyCache{}
	apply := func(data map[string]string) *corev1.ConfigMap {
		t.Helper()
		m := configMap(data)
		if err := cache.Apply(ctx, c, m, "us"); err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, step := range []struct {
		name   string
		before func()
		data   map[string]string
		want   int // Number of applies so far.
	}{
		{"first", func() {}, map[string]string{"a": "1"}, 1},
		{"the same", func() {}, map[string]string{"a": "1"}, 1},
		{"the desired object has changed", func() {}, map[string]string{"a": "2"}, 2},
		{"another client has changed it", func() {
			if err := c.Update(ctx, configMap(map[string]string{"a": "9"})); err != nil {
				t.Fatal(err)
			}
		}, map[string]string{"a": "2"}, 3},
		{"another client has deleted it", func() {
			if err := c.Delete(ctx, configMap(nil)); err != nil {
				t.Fatal(err)
			}
		}, map[string]string{"a": "2"}, 4},
		{"it was forgotten", func() { cache.Forget("n") }, map[string]string{"a": "2"}, 5},
	} {
		step.before()
		m := apply(step.data)
		if applies != step.want {
			t.Errorf("%s: %d applies, want %d", step.name, applies, step.want)
		}
		if m.Data["a"] != step.data["a"] || m.ResourceVersion == "" {
			t.Errorf("%s: object = %v", step.name, m)
		}
	}
}

func TestDeploymentReady(t *testing.T) {
	ready := appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
	for name, tc := range map[string]struct {
		change func(*appsv1.Deployment)
		want   bool
	}{
		"ready":                  {func(*appsv1.Deployment) {}, true},
		"not observed":           {func(d *appsv1.Deployment) { d.Generation = 3 }, false},
		"an old replica is left": {func(d *appsv1.Deployment) { d.Status.Replicas = 2 }, false},
		"not available":          {func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 }, false},
		"none wanted": {func(d *appsv1.Deployment) {
			d.Spec.Replicas = ptr.To(int32(0))
			d.Status = appsv1.DeploymentStatus{ObservedGeneration: 2}
		}, true},
		"the default is one replica": {func(d *appsv1.Deployment) { d.Spec.Replicas = nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Generation: 2}, Spec: appsv1.DeploymentSpec{Replicas: ptr.To(int32(1))},
				Status: ready,
			}
			tc.change(d)
			if got := DeploymentReady(d); got != tc.want {
				t.Errorf("DeploymentReady() = %t, want %t", got, tc.want)
			}
		})
	}
}
