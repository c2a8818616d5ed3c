package maintenance

import (
	"time"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Options are set by the operator.
type Options struct {
	RestartControlPlane bool // Restart the pods of the control plane that opt in to it.
	RestartCoreAddons   bool // Restart CoreDNS.
}

// Outcome is what one maintenance does to a Shoot.
type Outcome struct {
	Shoot       *corev1beta1.Shoot // The Shoot with the changes in spec and annotations; a copy.
	Decision    Decision
	Credentials []Credential
	Operations  []string // Further changes, as sentences.
}

// Maintain decides what a maintenance at the given time does with the Shoot. The Shoot itself is not changed.
func Maintain(shoot *corev1beta1.Shoot, decider *Decider, now time.Time, options Options) Outcome {
	cluster := ClusterOf(shoot)
	o := Outcome{Shoot: shoot.DeepCopy(), Decision: decider.Decide(&cluster, now)}
	apply(&o.Shoot.Spec, cluster.Apply(&o.Decision))
	o.Operations = fixUp(&o.Shoot.Spec, shoot.Spec.Kubernetes.Version)
	if CanStartOperations(shoot.Status.LastOperation) {
		o.Credentials = DueRotations(RotationsOf(shoot), DeferredOperations(shoot), hibernating(shoot), now)
	}
	if text := startOperations(o.Shoot, o.Credentials); text != "" {
		o.Operations = append(o.Operations, text)
	}
	addTasks(o.Shoot, maintenanceTasks...)
	if options.RestartControlPlane {
		addTasks(o.Shoot, corev1beta1.ShootTaskRestartControlPlanePods)
	}
	if options.RestartCoreAddons {
		addTasks(o.Shoot, corev1beta1.ShootTaskRestartCoreAddons)
	}
	return o
}

func hibernating(shoot *corev1beta1.Shoot) bool {
	h := shoot.Spec.Hibernation
	return h != nil && h.Enabled != nil && *h.Enabled
}

// apply writes the versions of a cluster that was made from this spec back to it.
func apply(spec *corev1beta1.ShootSpec, c Cluster) {
	spec.Kubernetes.Version = c.Kubernetes
	for i := range c.Pools {
		pool, w := &c.Pools[i], &spec.Provider.Workers[i]
		if pool.Kubernetes != "" {
			w.Kubernetes.Version = &pool.Kubernetes
		}
		if pool.ImageVersion != "" && w.Machine.Image != nil {
			w.Machine.Image.Version = &pool.ImageVersion
		}
	}
}

// Record reports whether the maintenance should be recorded in the Shoot's status.
func (o *Outcome) Record() bool {
	return len(o.Operations) > 0 || len(o.Decision.Items) > 0 || len(o.Credentials) > 0
}

// Failed reports whether a change that is due cannot be made.
func (o *Outcome) Failed() bool {
	for _, c := range o.Credentials {
		if c.Err != "" {
			return true
		}
	}
	return o.Decision.Failed()
}
