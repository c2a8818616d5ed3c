package explain

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"hortus.dev/hortus/internal/kube"
)

// pod is why a pod is not ready; nil if it is.
func (w *Workloads) pod(place Place, p *corev1.Pod, now time.Time) *Problem {
	problem := &Problem{Object: Object{place, "Pod", p.Namespace, p.Name}, Since: since(p.CreationTimestamp)}
	ready := condition(p, corev1.PodReady)
	if ready != nil {
		problem.Since = since(ready.LastTransitionTime)
	}
	scheduled := condition(p, corev1.PodScheduled)
	switch {
	case p.DeletionTimestamp != nil:
		problem.Since = since(*p.DeletionTimestamp)
		problem.Message = fmt.Sprintf("It should have been gone for %s, and is on node %s.", age(p.DeletionTimestamp.Time, now),
			p.Spec.NodeName)
		if now.Before(p.DeletionTimestamp.Time) {
			return nil // Within its grace period.
		}
	case ready != nil && ready.Status == corev1.ConditionTrue:
		return nil
	case scheduled != nil && scheduled.Status != corev1.ConditionTrue:
		problem.Since = since(scheduled.LastTransitionTime)
		problem.Message = "It has no node: " + sentence(scheduled.Message)
		problem.Action = "Make room for it, or more nodes."
	default:
		problem.Message, problem.Action = w.containers(p, now)
	}
	return problem
}

func condition(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == kind {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// containers are why the first container that does not run is not ready, and what to do about it. The newest warning is
// added, unless the state of the container says more.
func (w *Workloads) containers(p *corev1.Pod, now time.Time) (message, action string) {
	warning := ""
	about := func(o *corev1.ObjectReference) bool { return o.Kind == "Pod" && o.Name == p.Name }
	if event := w.newest(about); event != nil {
		warning = " " + sentence(event.Message)
	}
	for i := range p.Status.InitContainerStatuses {
		s := &p.Status.InitContainerStatuses[i]
		if s.State.Terminated != nil && s.State.Terminated.ExitCode == 0 || s.Ready {
			continue
		}
		return container(p, s, warning, now)
	}
	for i := range p.Status.ContainerStatuses {
		if s := &p.Status.ContainerStatuses[i]; !s.Ready {
			return container(p, s, warning, now)
		}
	}
	return "It is not ready." + warning, ""
}

func container(p *corev1.Pod, s *corev1.ContainerStatus, warning string, now time.Time) (message, action string) {
	logs := fmt.Sprintf("Read why: kubectl logs -n %s %s -c %s", p.Namespace, p.Name, s.Name)
	before, waits, ended := s.LastTerminationState.Terminated, s.State.Waiting, s.State.Terminated
	switch {
	case ended != nil:
		return fmt.Sprintf("Container %s has ended with exit code %d (%s).", s.Name, ended.ExitCode, ended.Reason), logs
	case before != nil:
		message = fmt.Sprintf("Container %s has ended %d times, with exit code %d last (%s).", s.Name, s.RestartCount,
			before.ExitCode, before.Reason)
		if waits == nil {
			message += " It runs again, and is not ready." + warning
		}
		return message, logs + " --previous"
	case waits == nil:
		return fmt.Sprintf("Container %s runs, and is not ready.", s.Name) + warning, ""
	}
	if why, _ := kube.WaitingContainers([]corev1.Pod{*p}, now); why != "" {
		return "It waits: " + sentence(why), ""
	}
	return fmt.Sprintf("Container %s waits: %s.", s.Name, waits.Reason) + warning, ""
}
