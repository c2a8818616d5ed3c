package shoot

import (
	"slices"
	"strings"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// tasksOf are the tasks that a Shoot is annotated with.
func tasksOf(shoot *corev1beta1.Shoot) []string {
	return corev1beta1.Tasks(shoot.Annotations, corev1beta1.AnnotationShootTasks)
}

// removeTasks takes tasks that an operation has carried out out of the annotation. Those that were added since it began
// lead to another operation. So do all if the Shoot has changed: a change may need a task that was in the list already.
func removeTasks(shoot *corev1beta1.Shoot, done []string) {
	if shoot.Generation != shoot.Status.ObservedGeneration {
		return
	}
	rest := slices.DeleteFunc(tasksOf(shoot), func(task string) bool { return slices.Contains(done, task) })
	if len(rest) == 0 {
		delete(shoot.Annotations, corev1beta1.AnnotationShootTasks)
		return
	}
	shoot.Annotations[corev1beta1.AnnotationShootTasks] = strings.Join(rest, ",")
}
