package explain

import (
	"fmt"
	"strings"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/component/managedresource"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
	"hortus.dev/hortus/internal/kube"
)

// area is what a cause breaks.
type area int

// Of a Shoot the first three, of a Seed the others.
const (
	controlPlane area = iota
	nodes
	systemComponents
	gardenlet
	buckets
	extensions
	seedComponents
	areas // Their number.
)

// causes are problems of objects, each of which is shown once.
type causes struct{ of map[area][]Problem }

// take returns the causes of an area that nothing has shown yet.
func (c *causes) take(a area) []Problem {
	taken := c.of[a]
	delete(c.of, a)
	return taken
}

// takeAll returns all causes that nothing has shown yet.
func (c *causes) takeAll() (all []Problem) {
	for a := range areas {
		all = append(all, c.take(a)...)
	}
	return all
}

func (c *causes) empty() bool { return len(c.of) == 0 }

func (c *causes) add(a area, problems ...Problem) {
	if len(problems) > 0 {
		c.of[a] = append(c.of[a], problems...)
	}
}

func causesOf(f *ShootFacts, now time.Time) *causes {
	c := &causes{of: map[area][]Problem{}}
	if p := f.ControlPlane; p != nil {
		c.add(controlPlane, workloads(InSeed, &p.Workloads, now)...)
		machines := machineProblems(p.Machines)
		for _, o := range p.Extensions {
			if problem := extension(o); problem != nil {
				if _, isWorker := o.(*extensionsv1alpha1.Worker); isWorker {
					problem.Causes, machines = machines, nil
					c.add(nodes, *problem)
				} else {
					c.add(controlPlane, *problem)
				}
			}
		}
		c.add(nodes, machines...)
		for i := range p.Resources {
			a, problem := resource(&p.Resources[i])
			if problem != nil {
				c.add(a, *problem)
			}
		}
	}
	if s := f.Cluster; s != nil {
		for i := range s.Nodes {
			if p := node(InShoot, &s.Nodes[i]); p != nil {
				c.add(nodes, *p)
			}
		}
		c.add(systemComponents, workloads(InShoot, &s.Workloads, now)...)
	}
	return c
}

// extension is the problem of an extension object: its operation has not succeeded.
func extension(o extensionsv1alpha1.Object) *Problem {
	status := o.GetDefaultStatus()
	object := Object{InSeed, extensionobject.KindOf(o), o.GetNamespace(), o.GetName()}
	switch last := status.LastOperation; {
	case status.LastError != nil:
		p := &Problem{Object: object, Message: sentence(status.LastError.Description), Action: advice(status.LastError.Codes)}
		if status.LastError.LastUpdateTime != nil {
			p.Since = since(*status.LastError.LastUpdateTime)
		}
		return p
	case last == nil:
		return &Problem{
			Object: object, Since: since(o.GetCreationTimestamp()), Message: "The extension has not begun yet.",
			Action: "If this lasts, an operator has to look at the extension for type " + o.GetDefaultSpec().Type +
				": its ControllerInstallation in the garden, and its pods in the Seed.",
		}
	case last.State != corev1beta1.LastOperationStateSucceeded:
		return &Problem{
			Object: object, Since: since(last.LastUpdateTime),
			Message: fmt.Sprintf("%s is %s: %s", last.Type, last.State, sentence(last.Description)),
		}
	}
	return nil
}

func machineProblems(machines []machinev1alpha1.Machine) (out []Problem) {
	for i := range machines {
		m := &machines[i]
		phase := m.Status.CurrentStatus.Phase
		if phase == machinev1alpha1.MachineRunning {
			continue
		}
		if phase == "" {
			phase = "new"
		}
		out = append(out, Problem{
			Object: Object{InSeed, "Machine", m.Namespace, m.Name}, Since: since(m.Status.CurrentStatus.LastUpdateTime),
			Message: fmt.Sprintf("It is %s: %s", phase, sentence(m.Status.LastOperation.Description)),
		})
	}
	return out
}

// resource is the problem of a ManagedResource of a Shoot, and what it breaks: objects of Shoots are system components.
func resource(mr *resourcesv1alpha1.ManagedResource) (area, *Problem) {
	a := systemComponents
	if label := mr.Labels[corev1beta1.LabelCareConditionType]; label != "" {
		if of := areasOf[corev1beta1.ConditionType(label)]; len(of) > 0 {
			a = of[0]
		}
	} else if ptr.Deref(mr.Spec.Class, "") != "" {
		a = controlPlane
	}
	return a, unready(mr)
}

// unready is the problem of a ManagedResource; nil if it has none.
func unready(mr *resourcesv1alpha1.ManagedResource) *Problem {
	ready, why := managedresource.Ready(mr, "")
	if ready {
		return nil
	}
	why = strings.TrimPrefix(strings.TrimPrefix(why, "ManagedResource "+mr.Name), ":")
	return &Problem{
		Object: Object{InSeed, "ManagedResource", mr.Namespace, mr.Name}, Message: sentence("It is not ready: " + why),
	}
}

// node is the problem of a node: it is not ready, lacks something, or takes no pods.
func node(place Place, n *corev1.Node) *Problem {
	object := Object{Place: place, Kind: "Node", Name: n.Name}
	for _, c := range n.Status.Conditions {
		healthy := corev1.ConditionFalse
		if c.Type == corev1.NodeReady {
			healthy = corev1.ConditionTrue
		}
		if c.Status != healthy {
			return &Problem{
				Object: object, Since: since(c.LastTransitionTime),
				Message: fmt.Sprintf("%s is %s: %s", c.Type, c.Status, sentence(c.Message)),
			}
		}
	}
	if n.Spec.Unschedulable {
		return &Problem{
			Object: object, Message: "It is cordoned, so that it gets no new pods.",
			Action: fmt.Sprintf("If nothing is updating it, run in the %s: kubectl uncordon %s", place.cluster(), n.Name),
		}
	}
	return nil
}

// workloads are those with too few ready pods, because of which pods.
func workloads(place Place, w *Workloads, now time.Time) (out []Problem) {
	for _, each := range w.List {
		if each.Ready >= each.Wanted {
			continue
		}
		p := Problem{
			Object:  Object{place, each.Kind, each.Namespace, each.Name},
			Message: fmt.Sprintf("%d of %d pods are ready.", each.Ready, each.Wanted),
		}
		if each.Failure != "" {
			p.Message += " Pods cannot be created: " + sentence(each.Failure)
		} else if event := w.newest(func(o *corev1.ObjectReference) bool { return each.concerns(o) }); event != nil {
			p.Message += " " + sentence(event.Message)
			p.Since = since(metav1.NewTime(kube.EventTime(event)))
		}
		for i := range w.Pods {
			if each.owns(&w.Pods[i]) {
				if problem := w.pod(place, &w.Pods[i], now); problem != nil {
					p.Causes = append(p.Causes, *problem)
				}
			}
		}
		out = append(out, p)
	}
	return out
}

// owns reports whether a pod belongs to the workload: to a Deployment by way of a ReplicaSet.
func (w *Workload) owns(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return false
	}
	if w.Kind == "Deployment" {
		return owner.Kind == "ReplicaSet" && owner.Name == w.Name+"-"+pod.Labels["pod-template-hash"]
	}
	return owner.Kind == w.Kind && owner.Name == w.Name
}

// concerns reports whether an event is about the workload, or a ReplicaSet of it.
func (w *Workload) concerns(o *corev1.ObjectReference) bool {
	if o.Kind == "ReplicaSet" && w.Kind == "Deployment" {
		hash, isPrefix := strings.CutPrefix(o.Name, w.Name+"-")
		return isPrefix && !strings.Contains(hash, "-")
	}
	return o.Kind == w.Kind && o.Name == w.Name
}

// newest is the newest warning about an object; nil if there is none.
func (w *Workloads) newest(about func(*corev1.ObjectReference) bool) (newest *corev1.Event) {
	for i := range w.Warnings {
		event := &w.Warnings[i]
		if about(&event.InvolvedObject) && (newest == nil || kube.EventTime(event).After(kube.EventTime(newest))) {
			newest = event
		}
	}
	return newest
}
