package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/nodeagent/change"
	"hortus.dev/hortus/internal/nodeagent/config"
)

// Reconciler applies the pool's configuration to this node. There is one object to reconcile, the Secret.
type Reconciler struct {
	Client   client.Client // Sees only the Secret and this Node.
	Config   *config.Configuration
	HostName string
	Applier  *Applier
	Access   *Access
	InPlace  *InPlaceUpdater
	Recorder record.EventRecorder
	Clock    clock.PassiveClock
	Metrics  *Metrics // Nil counts nothing.

	seen pending
}

// pending is a configuration that was seen but not applied yet.
type pending struct {
	checksum string
	since    time.Time
}

// Reconcile implements reconcile.TypedReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	raw, err := r.readConfiguration(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	node, err := FindNode(ctx, r.Client, r.HostName)
	if err != nil {
		return reconcile.Result{}, err
	}
	checksum, again := change.Checksum(raw),
		reconcile.Result{RequeueAfter: r.Config.Controllers.OperatingSystemConfig.SyncPeriod.Duration}
	if node != nil && node.Annotations[config.AnnotationChecksum] == checksum && !retryFailed(node) {
		return again, r.Access.RemoveBootstrap()
	}
	round, err := r.Applier.begin(raw)
	if err != nil {
		return reconcile.Result{}, err
	}
	// A drained node may be updated now, since nodes are drained one after the other.
	switch ready := node != nil && readyForUpdate(node); {
	case ready && (round.changes.InPlace.Any() || round.changes.Drained):
		if err := round.start(true); err != nil {
			return reconcile.Result{}, err
		}
		return again, r.updateInPlace(ctx, round, node)
	case round.changes.InPlace.Any():
		log.FromContext(ctx).V(1).Info("Waiting until the node is drained for an update in place")
		return again, nil
	}
	if wait := r.delay(node, checksum, round); wait > 0 {
		log.FromContext(ctx).Info("Waiting for this node's turn", "delay", wait.String())
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if err := round.start(false); err != nil {
		return reconcile.Result{}, err
	}
	if err := round.run(ctx); err != nil {
		if !errors.Is(err, ErrRestarting) {
			r.Metrics.failed()
		}
		return waitForRestart(err)
	}
	if err := round.applied(); err != nil {
		return reconcile.Result{}, err
	}
	if err := round.finish(); err != nil {
		return reconcile.Result{}, err
	}
	if node == nil {
		return again, nil // Its appearance triggers the next reconcile.
	}
	return again, r.reportApplied(ctx, node, checksum, false)
}

// waitForRestart turns ErrRestarting into an idle wait: the process is about to be ended.
func waitForRestart(err error) (reconcile.Result, error) {
	if errors.Is(err, ErrRestarting) {
		return reconcile.Result{RequeueAfter: time.Minute}, nil
	}
	return reconcile.Result{}, err
}

func (r *Reconciler) readConfiguration(ctx context.Context) ([]byte, error) {
	key := client.ObjectKey{Namespace: "kube-system", Name: r.Config.Controllers.OperatingSystemConfig.SecretName}
	secret := &corev1.Secret{}
	if err := r.Client.Get(ctx, key, secret); err != nil {
		return nil, fmt.Errorf("read Secret %q: %w", key.Name, err)
	}
	raw, found := secret.Data[config.OSCDataKey]
	if !found {
		return nil, fmt.Errorf("the Secret %q has no key %s", key.Name, config.OSCDataKey)
	}
	return raw, nil
}

// delay spreads a change over the nodes of a cluster. A node that is new, or in the middle of a change, does not wait.
func (r *Reconciler) delay(node *corev1.Node, checksum string, round *round) time.Duration {
	if r.seen.checksum != checksum {
		r.seen = pending{checksum: checksum, since: r.Clock.Now()}
	}
	if node == nil || round.first || round.changes.Begun || node.Annotations[config.AnnotationChecksum] == "" {
		return 0
	}
	wanted, err := time.ParseDuration(node.Annotations[corev1beta1.AnnotationNodeAgentReconciliationDelay])
	if err != nil {
		return 0
	}
	return wanted - r.Clock.Now().Sub(r.seen.since)
}

// reportApplied reports on the Node the applied configuration and the result of an update in place, and removes the
// bootstrap token.
func (r *Reconciler) reportApplied(ctx context.Context, node *corev1.Node, checksum string, inPlace bool) error {
	before := node.DeepCopy()
	if inPlace {
		setLabel(node, corev1beta1.LabelNodeUpdateResult, corev1beta1.NodeUpdateResultSuccessful)
		delete(node.Annotations, corev1beta1.AnnotationNodeUpdateFailedReason)
		delete(node.Annotations, config.AnnotationUpdatingOS)
	}
	setLabel(node, corev1beta1.LabelWorkerKubernetesVersion, r.Config.Controllers.OperatingSystemConfig.KubernetesVersion)
	setLabel(node, config.LabelRoleWorker, "")
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	node.Annotations[config.AnnotationChecksum] = checksum
	if err := r.Client.Patch(ctx, node, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("patch node %q: %w", node.Name, err)
	}
	r.Metrics.applied()
	log.FromContext(ctx).Info("Applied operating system configuration", "Node", node.Name, "checksum", checksum)
	r.Recorder.Event(node, corev1.EventTypeNormal, "OSCApplied", "The operating system configuration is applied")
	return r.Access.RemoveBootstrap()
}

func setLabel(node *corev1.Node, key, value string) {
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	node.Labels[key] = value
}

// FindNode returns the Node of this host, or nil before the kubelet has registered it. Kubelets name their Node after
// the host.
func FindNode(ctx context.Context, reader client.Reader, hostName string) (*corev1.Node, error) {
	node := &corev1.Node{}
	if err := reader.Get(ctx, client.ObjectKey{Name: hostName}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("find node of host %q: %w", hostName, err)
	}
	return node, nil
}
