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

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/boundedlist"
	"hortus.dev/hortus/internal/component/etcd"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/kube"
)

// Hibernate scales the control plane down once no node is left. Volumes, the provider's network and the namespace
// remain. It is one of the last steps of [Reconcile]: no other may need the API server any more, or start it again.
var Hibernate = &flow.Step[*Scope]{
	Name:    "hibernate",
	SkipIf:  when(awake),
	Ensure:  use5(ensureHibernated),
	Recheck: recheck,
	Limit:   10 * time.Minute,
}

func awake(s *Values) string { return reasonIf(!s.Shoot.HibernationEnabled(), "not hibernated") }

func ensureHibernated(
	ctx context.Context, s *Values, seed *Seed, extensions *Extensions, cluster *Cluster, etcds Etcds,
) (flow.Outcome, error) {
	if !s.Asleep() && !s.Workerless() {
		if outcome, err := nodesGone(ctx, cluster); err != nil || !outcome.IsDone() {
			return outcome, err
		}
		if outcome, err := attachmentsGone(ctx, cluster); err != nil || !outcome.IsDone() {
			return outcome, err
		}
	}
	for _, d := range slices.Backward(Deployments) {
		if err := seed.scaleDeployment(ctx, d.Name, 0); err != nil {
			return flow.Outcome{}, err
		}
	}
	if ended, err := seed.endPods(ctx, kubeapiserver.Name); err != nil || !ended {
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
		before := set.DeepCopy()
		set.Spec.Replicas = ptr.To(int32(0))
		if err := seed.Patch(ctx, set, client.MergeFrom(before), client.FieldOwner(FieldOwner)); err != nil {
			return flow.Outcome{}, fmt.Errorf("scale etcd: %w", err)
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
func nodesGone(ctx context.Context, cluster *Cluster) (flow.Outcome, error) {
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
	var running []string
	namespaces := sets.New[string]()
	err = boundedlist.Read(ctx, shoot, readLimits, &corev1.PodList{}, func(page *corev1.PodList) (bool, error) {
		for _, p := range page.Items {
			if p.Spec.NodeName != "" && ptr.Deref(p.DeletionGracePeriodSeconds, 1) > 0 { // Otherwise only finalizers keep it.
				running = append(running, p.Namespace+"/"+p.Name)
				namespaces.Insert(p.Namespace)
			}
		}
		return len(running) < lostPodsAtOnce, nil
	}, client.MatchingFields{"status.phase": string(corev1.PodRunning)})
	if err != nil {
		return flow.Outcome{}, fmt.Errorf("list pods of the Shoot: %w", err)
	}
	if len(running) == 0 {
		return flow.Done(), nil
	}
	for _, namespace := range sets.List(namespaces) {
		err := shoot.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace), client.GracePeriodSeconds(0),
			client.MatchingFields{"status.phase": string(corev1.PodRunning)})
		if err != nil {
			return flow.Outcome{}, fmt.Errorf("delete pods of lost machines: %w", err)
		}
	}
	return flow.Waiting(waitPod, fmt.Sprintf("Pods whose nodes are gone are being deleted: %s",
		strings.Join(running[:min(shownPods, len(running))], ", "))), nil
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
func ensureRestarted(ctx context.Context, s *Values, seed *Seed) (flow.Outcome, error) {
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
