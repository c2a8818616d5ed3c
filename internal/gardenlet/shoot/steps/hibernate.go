package steps

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/boundedlist"
	"hortus.dev/hortus/internal/component/etcd"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/kube"
)

// NodesGone waits until a Shoot that is being hibernated has no machine, no node, no running pod and no volume that is
// attached.
var NodesGone = &flow.Step[*Scope]{
	Name:    "nodes-gone",
	SkipIf:  when(awake, asleep, workerless),
	Ensure:  use2(ensureNodesGone),
	Recheck: recheck,
	Limit:   10 * time.Minute,
}

// Hibernate scales the control plane down once no node is left. Volumes, the provider's network and the namespace
// remain. It is one of the last steps of [Reconcile]: no other may need the API server any more, or start it again.
var Hibernate = &flow.Step[*Scope]{
	Name:    "hibernate",
	After:   []*flow.Step[*Scope]{NodesGone},
	SkipIf:  when(awake),
	Ensure:  use4(ensureHibernated),
	Recheck: recheckPods,
	Limit:   10 * time.Minute,
}

func awake(s *Values) string { return reasonIf(!s.Shoot.HibernationEnabled(), "not hibernated") }

func ensureNodesGone(ctx context.Context, seed *SeedNamespace, cluster *ShootCluster) (flow.Outcome, error) {
	// The controller may have created one after the extension of the Worker has counted them.
	if left, err := seed.metadata(ctx, machineGroupVersion.WithKind("Machine")); err != nil {
		return flow.Outcome{}, err
	} else if n := len(left); n > 0 {
		return flow.Waiting(waitMachine, fmt.Sprintf("%d machines are still there, %s among them", n, left[0].Name)), nil
	}
	if outcome, err := nodesGone(ctx, cluster); err != nil || !outcome.IsDone() {
		return outcome, err
	}
	return attachmentsGone(ctx, cluster)
}

func ensureHibernated(
	ctx context.Context, s *Values, seed *SeedNamespace, extensions *Extensions, etcds Etcds,
) (flow.Outcome, error) {
	for _, d := range slices.Backward(Deployments) {
		if d.Name == kubeapiserver.Name && !s.Asleep() {
			// Its ReplicaSets would delete the pods with the whole grace period, which a kubelet does not shorten later, or
			// replace those that are deleted below.
			if _, err := seed.deleteReplicaSets(ctx, d.Name); err != nil {
				return flow.Outcome{}, err
			}
		}
		if err := seed.scaleDeployment(ctx, d.Name, 0); err != nil {
			return flow.Outcome{}, err
		}
	}
	// Clients lose the API in any case, and acknowledged writes are in etcd.
	ended, err := seed.deletePods(ctx, kubeapiserver.Name, func(*corev1.Pod) bool { return true })
	if err == nil && ended {
		ended, err = kubeAPIServerEnded(ctx, seed)
	}
	if err != nil || !ended {
		return waitingOr(waitAPIServer, "The API server is being stopped", err)
	}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: etcd.Name, Namespace: s.Namespace}}
	if found, err := kube.Exists(ctx, seed, set); err != nil {
		return flow.Outcome{}, err
	} else if found && ptr.Deref(set.Spec.Replicas, 1) != 0 {
		if access, ok, err := BackupAccess(ctx, seed, set); err != nil {
			return flow.Outcome{}, err
		} else if ok { // Nothing saves it later, and the control plane may move during hibernation.
			if _, err := etcds.SaveBackup(ctx, access); err != nil {
				return flow.Waiting(waitBackup, fmt.Sprintf("Waiting for the final backup before etcd is stopped: %v", err)), nil
			}
		}
		if err := seed.stopStatefulSet(ctx, set); err != nil {
			return flow.Outcome{}, err
		}
	}
	if _, err := removeRoute(ctx, seed); err != nil {
		return flow.Outcome{}, err
	}
	for _, suffix := range []string{"external", "internal"} {
		if outcome, err := removeRecord(ctx, s, extensions, suffix); err != nil || !outcome.IsDone() {
			return outcome, err
		}
	}
	return flow.Done(), nil
}

// readLimits bound what a step reads of a kind in a Shoot, page by page: 5,000 nodes, as many as Kubernetes supports,
// of 25 KiB each.
var readLimits = boundedlist.Limits{Bytes: 128 << 20}

// shownPods bounds the pods named in a message.
const shownPods = 5

// lostPodsAtOnce bounds the pods that one pass reads to find the namespaces in which it ends such pods.
const lostPodsAtOnce = 500

// nodesGone reports whether the Shoot has neither nodes nor running pods. Pods whose nodes are gone are ended: no
// kubelet will confirm their end, and the garbage collector of pods lets a minute pass before it takes them.
func nodesGone(ctx context.Context, cluster *ShootCluster) (flow.Outcome, error) {
	shoot, err := cluster.client()
	if err != nil {
		return flow.Outcome{}, err
	}
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := shoot.List(ctx, nodes, client.Limit(1)); err != nil { // The response has the number of further nodes.
		return flow.Outcome{}, fmt.Errorf("list nodes of the Shoot: %w", err)
	}
	if n := int64(len(nodes.Items)) + ptr.Deref(nodes.RemainingItemCount, 0); n > 0 {
		return flow.Waiting(waitNode, fmt.Sprintf("%d nodes are still there", n)), nil
	}
	running, err := runningPods(ctx, shoot)
	if err != nil || len(running) == 0 {
		return flow.Done(), err
	}
	for _, namespace := range sets.List(namespacesOf(running)) {
		err := shoot.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace), client.GracePeriodSeconds(0),
			client.MatchingFields{"status.phase": string(corev1.PodRunning)})
		if err != nil {
			return flow.Outcome{}, fmt.Errorf("delete pods of lost machines: %w", err)
		}
		log.FromContext(ctx).Info("Deleted pods of the Shoot whose nodes are gone", "namespace", namespace)
	}
	if running, err = runningPods(ctx, shoot); err != nil || len(running) == 0 {
		return flow.Done(), err
	}
	var names []string
	for _, p := range running[:min(shownPods, len(running))] {
		names = append(names, p.String())
	}
	return flow.WaitingWithCodes(waitPod, "Pods whose nodes are gone are being deleted: "+strings.Join(names, ", "),
		string(corev1beta1.ErrorCleanupClusterResources)), nil
}

// runningPods returns pods of a Shoot that run on a node, according to its API: all, or at least [lostPodsAtOnce].
func runningPods(ctx context.Context, shoot client.Client) ([]client.ObjectKey, error) {
	var running []client.ObjectKey
	err := boundedlist.Read(ctx, shoot, readLimits, &corev1.PodList{}, func(page *corev1.PodList) (bool, error) {
		for _, p := range page.Items {
			if p.Spec.NodeName != "" && ptr.Deref(p.DeletionGracePeriodSeconds, 1) > 0 { // Otherwise only finalizers keep it.
				running = append(running, client.ObjectKeyFromObject(&p))
			}
		}
		return len(running) < lostPodsAtOnce, nil
	}, client.MatchingFields{"status.phase": string(corev1.PodRunning)})
	if err != nil {
		return nil, fmt.Errorf("list pods of the Shoot: %w", err)
	}
	return running, nil
}

func namespacesOf(pods []client.ObjectKey) sets.Set[string] {
	namespaces := sets.New[string]()
	for _, p := range pods {
		namespaces.Insert(p.Namespace)
	}
	return namespaces
}

// RestartControlPlane deletes the pods that maintenance may restart when that task is requested.
var RestartControlPlane = &flow.Step[*Scope]{
	Name:   "restart-control-plane",
	After:  []*flow.Step[*Scope]{ControlPlane, KubeControllerManager},
	SkipIf: when(asleep, withoutRestartTask),
	Ensure: use2(ensureRestarted),
}

func withoutRestartTask(s *Values) string {
	return reasonIf(!s.hasTask(corev1beta1.ShootTaskRestartControlPlanePods), "not requested")
}

// ensureRestarted deletes only pods from before the operation, so that another pass does not restart the new ones.
func ensureRestarted(ctx context.Context, s *Values, seed *SeedNamespace) (flow.Outcome, error) {
	pods := &corev1.PodList{}
	if err := seed.List(ctx, pods, client.InNamespace(s.Namespace),
		client.MatchingLabels{corev1beta1.LabelMaintenanceRestart: "true"}); err != nil {
		return flow.Outcome{}, fmt.Errorf("list pods to restart: %w", err)
	}
	for i := range pods.Items {
		if pods.Items[i].CreationTimestamp.Time.Before(s.Started) {
			if _, err := seed.remove(ctx, &pods.Items[i]); err != nil {
				return flow.Outcome{}, err
			}
		}
	}
	return flow.Done(), nil
}
