package care

import (
	"cmp"
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
	// maxExpiredLeases is the share of expired node leases, in percent, above which the cause is not in single nodes.
	maxExpiredLeases = 20
	// annotationNotManaged marks nodes without a Machine; they do not count for the sizes of pools.
	annotationNotManaged = "node.machine.sapcloud.io/not-managed-by-mcm"
	// annotationChecksum is of the configuration a node has applied.
	annotationChecksum = "checksum/cloud-config-data"
	// taintPreferNoSchedule marks nodes that are about to be replaced.
	taintPreferNoSchedule = "deployment.machine.sapcloud.io/prefer-no-schedule"
)

// nodes judges the nodes of all pools; the first thing that is wrong decides. Nodes need not follow a change of the
// pools that has not been rolled out yet.
func nodes(o *Observed, s Settings) Finding {
	if f, ok := tooMuch(o, Nodes); ok { // A count of only some of them is meaningless.
		return f
	}
	shoot := cmp.Or(o.RolledOut, o.Shoot)
	for _, w := range shoot.Spec.Provider.Workers {
		pool := poolNodes(o.Nodes, w.Name)
		if f, ok := unhealthyNodes(pool); ok {
			return f
		}
		if f, ok := oldKubelets(shoot, w, pool); ok {
			return f
		}
		if len(pool) < int(w.Minimum) {
			return bad("MissingNodes",
				fmt.Sprintf("Not enough worker nodes registered in worker pool %q to meet minimum desired "+
					"machine count. (%d/%d).", w.Name, len(pool), w.Minimum))
		}
	}
	for _, f := range []func() (Finding, bool){
		func() (Finding, bool) { return outdatedConfigs(o) },
		func() (Finding, bool) { return scaling(o) },
		func() (Finding, bool) { return silentAgents(o) },
		func() (Finding, bool) { return tooMuch(o, NodeLeases, AgentLeases) },
		func() (Finding, bool) { return expiredLeases(o) },
		func() (Finding, bool) { return reports(o, s, corev1beta1.ShootEveryNodeReady) },
	} {
		if finding, ok := f(); ok {
			return finding
		}
	}
	return good("EveryNodeReady", "All nodes are ready.")
}

func poolNodes(all []Node, pool string) []*Node {
	var out []*Node
	for i := range all {
		if all[i].Pool == pool {
			out = append(out, &all[i])
		}
	}
	return out
}

// userReasons are kubelet reports about machines that are too small for what users run on them.
var userReasons = []string{"KubeletHasInsufficientMemory", "KubeletHasDiskPressure", "KubeletHasInsufficientPID"}

func unhealthyNodes(nodes []*Node) (Finding, bool) {
	for _, n := range nodes {
		if n.Problem == "" {
			continue
		}
		var codes []corev1beta1.ErrorCode
		if n.ByItsUsers {
			codes = append(codes, corev1beta1.ErrorConfigurationProblem)
		}
		return bad("NodeUnhealthy", fmt.Sprintf("Node %q is unhealthy: %s", n.Name, n.Problem), codes...), true
	}
	return Finding{}, false
}

// nodeProblem says what is wrong with a node by its conditions, or "", and whether what its users run on it is the
// reason.
func nodeProblem(n *corev1.Node) (problem string, byItsUsers bool) {
	seen := false
	for _, c := range n.Status.Conditions {
		want := corev1.ConditionFalse
		switch c.Type {
		case machinev1alpha1.NodeInPlaceUpdate:
			if c.Reason == machinev1alpha1.UpdateFailed { // The node stays cordoned.
				return "its update in place has failed: " + c.Message, false
			}
			continue
		case corev1.NodeReady:
			want, seen = corev1.ConditionTrue, true
		case corev1.NodeDiskPressure, corev1.NodeMemoryPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable:
		default:
			continue
		}
		if c.Status != want {
			return fmt.Sprintf("condition %q has invalid status %s (expected %s) due to %s: %s",
				c.Type, c.Status, want, c.Reason, c.Message), slices.Contains(userReasons, c.Reason)
		}
	}
	if !seen {
		return "it has not reported whether it is ready.", false
	}
	return "", false
}

// oldKubelets finds nodes whose kubelet is behind the pool's patch version. Another minor is a roll-out, judged
// elsewhere.
func oldKubelets(shoot *corev1beta1.Shoot, w corev1beta1.Worker, nodes []*Node) (Finding, bool) {
	version := shoot.Spec.Kubernetes.Version
	if w.Kubernetes != nil && w.Kubernetes.Version != nil {
		version = *w.Kubernetes.Version
	}
	want, err := semver.NewVersion(version)
	if err != nil {
		return Finding{}, false
	}
	for _, n := range nodes {
		have, err := semver.NewVersion(n.KubeletVersion)
		if err != nil || have.Major() != want.Major() || have.Minor() != want.Minor() || !have.LessThan(want) {
			continue
		}
		return bad("KubeletVersionMismatch", fmt.Sprintf(
			"The kubelet version for node %q (%s) does not match the desired Kubernetes version (v%s).",
			n.Name, n.KubeletVersion, version)), true
	}
	return Finding{}, false
}

func outdatedConfigs(o *Observed) (Finding, bool) {
	var outdated Names
	for i := range o.Nodes {
		n := &o.Nodes[i]
		if want, ok := o.ConfigChecksums[n.ConfigKey]; ok && !n.BeingReplaced && n.Checksum != want {
			outdated.add(n.Name)
		}
	}
	if outdated.Count == 0 {
		return Finding{}, false
	}
	return bad("OperatingSystemConfigOutdated",
		fmt.Sprintf("Nodes have not applied their newest configuration: %s.", &outdated)), true
}

// beingUpdated reports whether the machine controller is updating a node in place: from its selection until it is
// uncordoned.
func beingUpdated(n *corev1.Node) bool {
	_, candidate := n.Labels[corev1beta1.LabelNodeCandidateForUpdate]
	_, selected := n.Labels[corev1beta1.LabelNodeSelectedForUpdate]
	return candidate && selected
}

// updatedByHand reports whether a node is cordoned because a user has selected it for an update in place, so that its
// pool neither shrinks nor rolls by itself.
func (o *Observed) updatedByHand(n *Node) bool {
	return n.BeingUpdated && slices.ContainsFunc(o.Shoot.Spec.Provider.Workers, func(w corev1beta1.Worker) bool {
		return w.Name == n.Pool && w.UpdateStrategy != nil && *w.UpdateStrategy == corev1beta1.ManualInPlaceUpdate
	})
}

// scaling explains why there are more or fewer nodes than the machine deployments want. Nodes that are updated by hand
// count as if they were ready.
func scaling(o *Observed) (Finding, bool) {
	var desired int32
	for _, d := range o.MachineDeployments {
		desired += d.Spec.Replicas
	}
	var registered, ready, cordoned int32
	for i := range o.Nodes {
		n := &o.Nodes[i]
		if n.NotManaged {
			continue
		}
		registered++
		switch {
		case o.updatedByHand(n):
			ready++
		case n.Unschedulable:
			cordoned++
		case n.Ready:
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
			if c.Type == machinev1alpha1.MachineDeploymentProgressing && c.Status == machinev1alpha1.ConditionTrue &&
				c.Reason != "NewMachineSetAvailable" {
				return bad("NodesRollOutScalingUp",
					fmt.Sprintf("Machine deployment %q is being rolled out: %s", d.Name, c.Message)), true
			}
			if c.Type == machinev1alpha1.MachineDeploymentAvailable && c.Status != machinev1alpha1.ConditionTrue &&
				registered < desired {
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
		case machinev1alpha1.MachineRunning, machinev1alpha1.MachineAvailable,
			machinev1alpha1.MachineInPlaceUpdating, machinev1alpha1.MachineInPlaceUpdateSuccessful:
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
		if n := &o.Nodes[i]; n.Unschedulable && !deleting[n.Name] && !o.updatedByHand(n) {
			return bad("NodesScalingDown", fmt.Sprintf(
				"Node %q was cordoned but its machine is not being deleted; somebody else has cordoned it.", n.Name))
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
	leases := map[string]Lease{}
	for _, lease := range o.AgentLeases {
		leases[strings.TrimPrefix(lease.Name, corev1beta1.NodeAgentLeasePrefix)] = lease
	}
	for i := range o.Nodes {
		lease, found := leases[o.Nodes[i].Name]
		if !found {
			continue // No Lease yet; the check of the configuration covers this.
		}
		if lease.End.Before(o.Now) {
			return bad("NodeAgentUnhealthy", fmt.Sprintf("The node agent of node %q has stopped: its lease expired at %s.",
				o.Nodes[i].Name, lease.End.UTC().Format(time.RFC3339))), true
		}
	}
	return Finding{}, false
}

func expiredLeases(o *Observed) (Finding, bool) {
	if len(o.NodeLeases) == 0 {
		return Finding{}, false
	}
	n := 0
	for _, lease := range o.NodeLeases {
		if lease.End.Before(o.Now) {
			n++
		}
	}
	if percent := 100 * n / len(o.NodeLeases); percent >= maxExpiredLeases {
		return bad("TooManyExpiredNodeLeases",
			fmt.Sprintf("%d of %d node leases (%d%%) have expired.", n, len(o.NodeLeases), percent)), true
	}
	return Finding{}, false
}

// leaseEnd is when the lease runs out; one that was never renewed has run out already.
func leaseEnd(l *coordinationv1.Lease) time.Time {
	if l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil {
		return time.Time{}
	}
	return l.Spec.RenewTime.Add(time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second)
}
