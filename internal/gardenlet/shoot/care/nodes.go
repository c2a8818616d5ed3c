package care

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

const (
	// maxExpiredLeases is the share of expired node leases, in percent, from which on something is wrong with more than
	// single nodes.
	maxExpiredLeases = 20
	// annotationNotManaged marks nodes that no Machine stands for; they do not count for the sizes of pools.
	annotationNotManaged = "node.machine.sapcloud.io/not-managed-by-mcm"
	// annotationChecksum is of the configuration a node has applied.
	annotationChecksum = "checksum/cloud-config-data"
	// taintPreferNoSchedule marks nodes that are about to be replaced.
	taintPreferNoSchedule = "deployment.machine.sapcloud.io/prefer-no-schedule"
)

// nodes judges the nodes of all pools; the first thing that is wrong decides.
func nodes(o *Observed, s Settings) Finding {
	for _, w := range o.Shoot.Spec.Provider.Workers {
		pool := poolNodes(o.Nodes, w.Name)
		if f, ok := unhealthyNodes(pool); ok {
			return f
		}
		if f, ok := oldKubelets(o.Shoot, w, pool); ok {
			return f
		}
		if len(pool) < int(w.Minimum) {
			return bad("MissingNodes", fmt.Sprintf("Not enough worker nodes registered in worker pool %q to meet minimum desired machine count. (%d/%d).", w.Name, len(pool), w.Minimum))
		}
	}
	for _, f := range []func() (Finding, bool){
		func() (Finding, bool) { return outdatedConfigs(o) },
		func() (Finding, bool) { return scaling(o) },
		func() (Finding, bool) { return silentAgents(o) },
		func() (Finding, bool) { return expiredLeases(o) },
		func() (Finding, bool) { return reports(o, s, corev1beta1.ShootEveryNodeReady) },
	} {
		if finding, ok := f(); ok {
			return finding
		}
	}
	return good("EveryNodeReady", "All nodes are ready.")
}

func poolNodes(all []corev1.Node, pool string) []*corev1.Node {
	var out []*corev1.Node
	for i := range all {
		if all[i].Labels[corev1beta1.LabelWorkerPool] == pool {
			out = append(out, &all[i])
		}
	}
	return out
}

// userReasons are kubelet reports about machines that are too small for what users run on them.
var userReasons = []string{"KubeletHasInsufficientMemory", "KubeletHasDiskPressure", "KubeletHasInsufficientPID"}

func unhealthyNodes(nodes []*corev1.Node) (Finding, bool) {
	for _, n := range nodes {
		seen := false
		for _, c := range n.Status.Conditions {
			want := corev1.ConditionFalse
			switch c.Type {
			case corev1.NodeReady:
				want, seen = corev1.ConditionTrue, true
			case corev1.NodeDiskPressure, corev1.NodeMemoryPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable:
			default:
				continue
			}
			if c.Status == want {
				continue
			}
			var codes []corev1beta1.ErrorCode
			if slices.Contains(userReasons, c.Reason) {
				codes = append(codes, corev1beta1.ErrorConfigurationProblem)
			}
			return bad("NodeUnhealthy", fmt.Sprintf("Node %q is unhealthy: condition %q has invalid status %s (expected %s) due to %s: %s", n.Name, c.Type, c.Status, want, c.Reason, c.Message), codes...), true
		}
		if !seen {
			return bad("NodeUnhealthy", fmt.Sprintf("Node %q is unhealthy: it has not reported whether it is ready.", n.Name)), true
		}
	}
	return Finding{}, false
}

// oldKubelets finds nodes whose kubelet is behind the pool's patch version. Another minor is a roll-out, judged elsewhere.
func oldKubelets(shoot *corev1beta1.Shoot, w corev1beta1.Worker, nodes []*corev1.Node) (Finding, bool) {
	version := shoot.Spec.Kubernetes.Version
	if w.Kubernetes != nil && w.Kubernetes.Version != nil {
		version = *w.Kubernetes.Version
	}
	want, err := semver.NewVersion(version)
	if err != nil {
		return Finding{}, false
	}
	for _, n := range nodes {
		have, err := semver.NewVersion(n.Status.NodeInfo.KubeletVersion)
		if err != nil || have.Major() != want.Major() || have.Minor() != want.Minor() || !have.LessThan(want) {
			continue
		}
		return bad("KubeletVersionMismatch", fmt.Sprintf("The kubelet version for node %q (%s) does not match the desired Kubernetes version (v%s).", n.Name, n.Status.NodeInfo.KubeletVersion, version)), true
	}
	return Finding{}, false
}

func outdatedConfigs(o *Observed) (Finding, bool) {
	var outdated []string
	for i := range o.Nodes {
		n := &o.Nodes[i]
		want, ok := o.ConfigChecksums[n.Labels[corev1beta1.LabelWorkerNodeAgentSecretName]]
		replaced := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taintPreferNoSchedule })
		if ok && !replaced && n.Annotations[annotationChecksum] != want {
			outdated = append(outdated, n.Name)
		}
	}
	if len(outdated) == 0 {
		return Finding{}, false
	}
	slices.Sort(outdated)
	return bad("OperatingSystemConfigOutdated", fmt.Sprintf("Nodes have not applied their newest configuration: %s.", strings.Join(outdated, ", "))), true
}

// scaling explains why there are more or fewer nodes than the machine deployments want.
func scaling(o *Observed) (Finding, bool) {
	var desired int32
	for _, d := range o.MachineDeployments {
		desired += d.Spec.Replicas
	}
	var registered, ready, cordoned int32
	for i := range o.Nodes {
		n := &o.Nodes[i]
		if n.Annotations[annotationNotManaged] == "1" {
			continue
		}
		registered++
		if n.Spec.Unschedulable {
			cordoned++
		} else if nodeReady(n) {
			ready++
		}
	}
	if registered == desired && ready == desired {
		return Finding{}, false
	}
	for i := range o.MachineDeployments {
		d := &o.MachineDeployments[i]
		if len(d.Status.FailedMachines) > 0 {
			break
		}
		for _, c := range d.Status.Conditions {
			if c.Type == machinev1alpha1.MachineDeploymentProgressing && c.Status == machinev1alpha1.ConditionTrue && c.Reason != "NewMachineSetAvailable" {
				return bad("NodesRollOutScalingUp", fmt.Sprintf("Machine deployment %q is being rolled out: %s", d.Name, c.Message)), true
			}
			if c.Type == machinev1alpha1.MachineDeploymentAvailable && c.Status != machinev1alpha1.ConditionTrue && registered < desired {
				return scalingUp(o, desired), true
			}
		}
	}
	if registered > desired || cordoned > 0 {
		return scalingDown(o, registered, desired, cordoned), true
	}
	return scalingUp(o, desired), true
}

func scalingUp(o *Observed, desired int32) Finding {
	if missing := int(desired) - len(o.Machines); missing > 0 {
		return bad("NodesScalingUp", fmt.Sprintf("%d machine objects are missing: they are being created.", missing))
	}
	var pending, erroneous int
	for _, m := range o.Machines {
		switch m.Status.CurrentStatus.Phase {
		case machinev1alpha1.MachineRunning, machinev1alpha1.MachineAvailable:
		case machinev1alpha1.MachinePending, "":
			pending++
		default:
			erroneous++
		}
	}
	if erroneous > 0 {
		return bad("NodesScalingUp", fmt.Sprintf("Cannot create nodes: %d machines are in a state of error.", erroneous))
	}
	if pending == 0 {
		return bad("NodesScalingUp", "Machines are running, but their nodes are not ready yet.")
	}
	return bad("NodesScalingUp", fmt.Sprintf("%d machines are provisioning and should join the cluster soon.", pending))
}

func scalingDown(o *Observed, registered, desired, cordoned int32) Finding {
	deleting := map[string]bool{}
	for _, m := range o.Machines {
		if m.DeletionTimestamp != nil {
			deleting[m.Labels[machinev1alpha1.NodeLabelKey]] = true
		}
	}
	for i := range o.Nodes {
		if n := &o.Nodes[i]; n.Spec.Unschedulable && !deleting[n.Name] {
			return bad("NodesScalingDown", fmt.Sprintf("Node %q was cordoned but its machine is not being deleted; somebody else has cordoned it.", n.Name))
		}
	}
	if registered-cordoned == desired {
		return bad("NodesScalingDown", fmt.Sprintf("%d nodes are waiting to be drained from pods.", cordoned))
	}
	return bad("NodesScalingDown", fmt.Sprintf("%d nodes are registered, %d wanted.", registered, desired))
}

func nodeReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// silentAgents finds nodes whose node agent no longer renews its Lease.
func silentAgents(o *Observed) (Finding, bool) {
	leases := map[string]*coordinationv1.Lease{}
	for i := range o.AgentLeases {
		leases[strings.TrimPrefix(o.AgentLeases[i].Name, corev1beta1.NodeAgentLeasePrefix)] = &o.AgentLeases[i]
	}
	for i := range o.Nodes {
		lease := leases[o.Nodes[i].Name]
		if lease == nil {
			continue // Not there yet; the configuration check waits for it.
		}
		if expired(lease, o.Now) {
			return bad("NodeAgentUnhealthy", fmt.Sprintf("The node agent of node %q has stopped: its lease expired at %s.", o.Nodes[i].Name, leaseEnd(lease).UTC().Format(time.RFC3339))), true
		}
	}
	return Finding{}, false
}

func expiredLeases(o *Observed) (Finding, bool) {
	if len(o.NodeLeases) == 0 {
		return Finding{}, false
	}
	n := 0
	for i := range o.NodeLeases {
		if expired(&o.NodeLeases[i], o.Now) {
			n++
		}
	}
	if percent := 100 * n / len(o.NodeLeases); percent >= maxExpiredLeases {
		return bad("TooManyExpiredNodeLeases", fmt.Sprintf("%d of %d node leases (%d%%) have expired.", n, len(o.NodeLeases), percent)), true
	}
	return Finding{}, false
}

func expired(l *coordinationv1.Lease, now time.Time) bool { return leaseEnd(l).Before(now) }

// leaseEnd is when the lease runs out; one that was never renewed has run out already.
func leaseEnd(l *coordinationv1.Lease) time.Time {
	if l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil {
		return time.Time{}
	}
	return l.Spec.RenewTime.Add(time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second)
}
