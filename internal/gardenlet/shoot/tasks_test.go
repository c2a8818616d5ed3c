package shoot

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// An operation removes the tasks that it has carried out; tasks that were requested meanwhile are not lost.
func TestRemoveTasks(t *testing.T) {
	const infrastructure, dns, restart = "deployInfrastructure", "deployDNSRecordInternal", "restartControlPlanePods"
	type tasks = []string
	for name, tc := range map[string]struct {
		written string
		done    tasks
		changed bool // Changes of the Shoot since the operation began.
		want    tasks
	}{
		"all were there": {written: "deployInfrastructure,deployDNSRecordInternal", done: tasks{infrastructure, dns}},
		"one was added": {
			written: "deployInfrastructure,restartControlPlanePods", done: tasks{infrastructure}, want: tasks{restart},
		},
		"all were added": {
			written: "deployInfrastructure, restartControlPlanePods", want: tasks{infrastructure, restart},
		},
		"one was taken back":    {written: "deployInfrastructure", done: tasks{infrastructure, restart}},
		"one that nobody knows": {written: "paintItBlue", done: tasks{"paintItBlue"}},
		"all were taken back":   {done: tasks{infrastructure}},
		"nothing":               {},
		"a change may need the existing task, too": {
			written: "deployInfrastructure", done: tasks{infrastructure}, changed: true, want: tasks{infrastructure},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &corev1beta1.Shoot{}
			s.Generation, s.Status.ObservedGeneration = 3, 3
			if tc.changed {
				s.Generation++
			}
			if tc.written != "" {
				s.Annotations = map[string]string{corev1beta1.AnnotationShootTasks: tc.written}
			}
			removeTasks(s, tc.done)
			if diff := cmp.Diff(tc.want, tasksOf(s)); diff != "" && len(tc.want)+len(tasksOf(s)) > 0 {
				t.Errorf("tasks (-want +got):\n%s", diff)
			}
			if _, left := s.Annotations[corev1beta1.AnnotationShootTasks]; left != (len(tc.want) > 0) {
				t.Errorf("the annotation is there: %t", left)
			}
		})
	}
}
