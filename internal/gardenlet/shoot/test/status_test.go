package test

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// TestStatusIsWrittenOncePerPass: a pass during a creation writes the Shoot's status at most once. The pass in which an
// operation begins also writes the start first.
func TestStatusIsWrittenOncePerPass(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	writes := 0
	direct, err := client.NewWithWatch(w.Config, client.Options{Scheme: w.Scheme, Mapper: w.Client.RESTMapper()})
	w.must(err)
	w.r.Garden = interceptor.NewClient(direct, interceptor.Funcs{
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			if _, ok := o.(*corev1beta1.Shoot); ok {
				writes++
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	passes, before := 0, 0
	w.run(w.newShoot("a"), func(s *corev1beta1.Shoot) bool {
		passes++
		allowed := 1
		if passes == 1 {
			allowed = 2
		}
		if n := writes - before; n > allowed {
			t.Errorf("pass %d: %d writes (at most %d)", passes, n, allowed)
		}
		before = writes
		return succeeded(s)
	})
	t.Logf("%d writes in %d passes", writes, passes)
}

// TestEndOfAnOperationKeepsNewFindings: what care, extensions and users write while an operation ends is not
// overwritten.
func TestEndOfAnOperationKeepsNewFindings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	condition := func(of corev1beta1.ConditionType, status corev1beta1.ConditionStatus) corev1beta1.Condition {
		return corev1beta1.Condition{
			Type: of, Status: status, Reason: "Found", Message: "found meanwhile",
			LastTransitionTime: metav1.Time{Time: w.clock.Now()}, LastUpdateTime: metav1.Time{Time: w.clock.Now()},
		}
	}
	first := []corev1beta1.Condition{condition(corev1beta1.ShootEveryNodeReady, corev1beta1.ConditionTrue)}
	then := []corev1beta1.Condition{
		condition(corev1beta1.ShootEveryNodeReady, corev1beta1.ConditionFalse),
		condition(corev1beta1.ShootAPIServerAvailable, corev1beta1.ConditionTrue),
		condition("OfAnExtension", corev1beta1.ConditionTrue),
	}
	direct, err := client.NewWithWatch(w.Config, client.Options{Scheme: w.Scheme, Mapper: w.Client.RESTMapper()})
	w.must(err)
	set := func(ctx context.Context, key client.ObjectKey, conditions []corev1beta1.Condition, task string) {
		shoot := &corev1beta1.Shoot{}
		w.must(direct.Get(ctx, key, shoot))
		before := shoot.DeepCopy()
		shoot.Status.Conditions = conditions
		w.must(direct.Status().Patch(ctx, shoot, client.MergeFrom(before)))
		before = shoot.DeepCopy()
		metav1.SetMetaDataAnnotation(&shoot.ObjectMeta, corev1beta1.AnnotationShootTasks, task)
		w.must(direct.Patch(ctx, shoot, client.MergeFrom(before)))
	}
	found := false
	shoot := w.run(w.newShoot(), succeeded)
	w.r.Garden = interceptor.NewClient(direct, interceptor.Funcs{
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			if s, ok := o.(*corev1beta1.Shoot); ok && succeeded(s) && !found {
				found = true
				set(ctx, client.ObjectKeyFromObject(s), then, corev1beta1.ShootTaskRestartControlPlanePods)
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	set(t.Context(), client.ObjectKeyFromObject(shoot), first, corev1beta1.ShootTaskDeployInfrastructure)
	shoot = w.run(w.changeSpec(shoot), succeeded)
	if task := w.latest(shoot).Annotations[corev1beta1.AnnotationShootTasks]; task !=
		corev1beta1.ShootTaskRestartControlPlanePods {
		t.Errorf("tasks are %q, want the one that was added at the end", task)
	}
	var got []string
	for _, c := range w.latest(shoot).Status.Conditions {
		got = append(got, string(c.Type)+" "+string(c.Status)+" "+c.Message)
	}
	want := []string{
		"EveryNodeReady False found meanwhile", "APIServerAvailable Progressing found meanwhile",
		"OfAnExtension True found meanwhile",
	}
	if !slices.Equal(got, want) {
		t.Errorf("conditions are %q, want %q", got, want)
	}
}
