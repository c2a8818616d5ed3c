package kube

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestRewriteOnEachOccasion: a Deployment is written once per occasion. Fields of users and other steps stay.
func TestRewriteOnEachOccasion(t *testing.T) {
	replaced := 0
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Patch: func(
			ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption,
		) error {
			replaced++
			return c.Patch(ctx, o, p, opts...)
		},
	})
	ctx, cache := t.Context(), &ApplyCache{}
	rewrite := func(occasion string) *appsv1.Deployment {
		t.Helper()
		labels := map[string]string{"app": "a"}
		d := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"},
			Spec: appsv1.DeploymentSpec{
				Replicas: ptr.To(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "image"}}},
				},
			},
		}
		if err := cache.Rewrite(ctx, c, d, "us", occasion); err != nil {
			t.Fatal(err)
		}
		return d
	}
	rewrite("1")
	rewrite("1")
	if replaced != 1 {
		t.Errorf("the spec was replaced %d times on one occasion", replaced)
	}

	d := rewrite("1")
	d.Spec.Paused = true
	d.Spec.Template.Annotations = map[string]string{keptOnTemplate: "now", "other": "a webhook's"}
	d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "a-webhooks"}}
	if err := c.Update(ctx, d); err != nil {
		t.Fatal(err)
	}
	if d = rewrite("1"); len(d.Spec.Template.Spec.Volumes) != 1 {
		t.Error("the spec was replaced on the same occasion")
	}
	d = rewrite("2")
	template := d.Spec.Template
	if slices.ContainsFunc(template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "a-webhooks" }) {
		t.Error("a volume that is no longer desired is still there")
	}
	if diff := cmp.Diff(map[string]string{keptOnTemplate: "now"}, template.Annotations); diff != "" {
		t.Errorf("annotations of the template mismatch (-want +got):\n%s", diff)
	}
	if !d.Spec.Paused {
		t.Error("the Deployment is no longer paused")
	}
}

// TestRewriteKeepsVolumesOfStatefulSets: what cannot be changed stays as a webhook has made it.
func TestRewriteKeepsVolumesOfStatefulSets(t *testing.T) {
	ctx, cache, c := t.Context(), &ApplyCache{}, fake.NewClientBuilder().Build()
	rewrite := func(occasion string) *appsv1.StatefulSet {
		t.Helper()
		labels := map[string]string{"app": "a"}
		set := &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"},
			Spec: appsv1.StatefulSetSpec{
				Replicas: ptr.To(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "image"}}},
				},
			},
		}
		if err := cache.Rewrite(ctx, c, set, "us", occasion); err != nil {
			t.Fatal(err)
		}
		return set
	}
	set := rewrite("1")
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
	set.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "a-webhooks"}}
	if err := c.Update(ctx, set); err != nil {
		t.Fatal(err)
	}
	set = rewrite("2")
	if got := set.Spec.VolumeClaimTemplates; len(got) != 1 || got[0].Name != "data" {
		t.Errorf("the volumes are %+v", got)
	}
	if got := set.Spec.Template.Spec.Volumes; len(got) > 0 {
		t.Errorf("the template has %+v", got)
	}
}

// TestRewriteOfWhatCannotBeApplied: a webhook's container mounts a volume that is no longer wanted. An apply keeps the
// container, so the server refuses it until the spec has been replaced.
func TestRewriteOfWhatCannotBeApplied(t *testing.T) {
	ctx, volume := t.Context(), "old"
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Apply: func(
			ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption,
		) error {
			live := &appsv1.Deployment{}
			err := c.Get(ctx, client.ObjectKey{Namespace: "n", Name: "a"}, live)
			if err == nil && len(live.Spec.Template.Spec.Containers) > 1 && volume != "old" {
				return apierrors.NewInvalid(appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind(), "a", nil)
			}
			return c.Apply(ctx, o, opts...)
		},
	})
	rewrite := func(cache *ApplyCache, occasion string) error {
		labels := map[string]string{"app": "a"}
		return cache.Rewrite(ctx, c, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"},
			Spec: appsv1.DeploymentSpec{
				Replicas: ptr.To(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: "a", Image: "image"}},
					Volumes:    []corev1.Volume{{Name: volume}},
				}},
			},
		}, "us", occasion)
	}
	cache := &ApplyCache{}
	if err := rewrite(cache, "1"); err != nil {
		t.Fatal(err)
	}
	d := &appsv1.Deployment{}
	read := func() {
		t.Helper()
		if err := c.Get(ctx, client.ObjectKey{Namespace: "n", Name: "a"}, d); err != nil {
			t.Fatal(err)
		}
	}
	read()
	pod := &d.Spec.Template.Spec
	pod.Containers = append(pod.Containers, corev1.Container{
		Name: "sidecar", VolumeMounts: []corev1.VolumeMount{{Name: volume, MountPath: "/old"}},
	})
	if err := c.Update(ctx, d); err != nil {
		t.Fatal(err)
	}
	volume = "new"
	if err := rewrite(cache, "1"); !apierrors.IsInvalid(err) {
		t.Errorf("on the same occasion, where webhooks are not called: %v, want the refusal", err)
	}
	if err := rewrite(cache, "2"); err != nil {
		t.Fatal(err)
	}
	read()
	if pod := d.Spec.Template.Spec; len(pod.Containers) != 1 || len(pod.Volumes) != 1 || pod.Volumes[0].Name != "new" {
		t.Errorf("containers and volumes are %+v", pod)
	}
}
