package test

import (
	"context"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// A task that is added at the very end of an operation is carried out by the next one.
func TestTasksThatAreAddedWhileAnOperationEnds(t *testing.T) {
	t.Parallel()
	const first, second = corev1beta1.ShootTaskDeployInfrastructure, corev1beta1.ShootTaskRestartControlPlanePods
	w := newWorld(t)
	s := w.run(w.newShoot(), succeeded)
	tasks := func() string { return w.latest(s).Annotations[corev1beta1.AnnotationShootTasks] }
	write := func(value string) {
		t.Helper()
		now := w.latest(s)
		before := now.DeepCopy()
		if now.Annotations == nil {
			now.Annotations = map[string]string{}
		}
		now.Annotations[corev1beta1.AnnotationShootTasks] = value
		w.must(w.Client.Patch(w.ctx, now, client.MergeFrom(before)))
	}
	if left := tasks(); left != "" {
		t.Errorf("tasks after the creation: %q", left)
	}

	direct, err := client.NewWithWatch(w.Config, client.Options{Scheme: w.Scheme, Mapper: w.Client.RESTMapper()})
	w.must(err)
	added := false
	w.r.Garden = interceptor.NewClient(direct, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			if _, ok := o.(*corev1beta1.Shoot); ok && !added { // It removes the first task.
				added = true
				write(first + "," + second)
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	write(first)
	s = w.run(s, succeeded)
	if left := tasks(); !added || left != second {
		t.Fatalf("tasks after the first operation: %q, want %q", left, second)
	}
	ended := func() time.Time { return w.latest(s).Status.LastOperation.LastUpdateTime.Time }
	before := ended()
	s = w.run(s, succeeded)
	if left := tasks(); left != "" || !ended().After(before) {
		t.Errorf("tasks after another operation: %q; it has ended at %s, the first at %s", left, ended(), before)
	}
	before = ended()
	if _, err := w.step(s); err != nil || !ended().Equal(before) {
		t.Errorf("a third operation: %+v, %v", w.latest(s).Status.LastOperation, err)
	}
}
