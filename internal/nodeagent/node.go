package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"hortus.dev/hortus/internal/nodeagent/config"
	"hortus.dev/hortus/internal/nodeagent/units"
)

// UnitRestarter restarts units that are named in an annotation of the Node, once.
type UnitRestarter struct {
	Client   client.Client
	Units    units.Manager
	Recorder record.EventRecorder
	HostName string
}

// Reconcile implements reconcile.TypedReconciler. The annotation is removed after a failure, too: it requests one
// restart, and the event reports the result.
func (r *UnitRestarter) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	node, err := FindNode(ctx, r.Client, r.HostName)
	if err != nil || node == nil {
		return reconcile.Result{}, err
	}
	value, wanted := node.Annotations[config.AnnotationRestartUnits]
	if !wanted {
		return reconcile.Result{}, nil
	}
	names, self := unitsToRestart(value)
	var errs []error
	for _, name := range names {
		log.FromContext(ctx).Info("Restarting unit on request", "unit", name)
		if err := r.Units.Restart(ctx, name); err != nil {
			errs = append(errs, fmt.Errorf("restart unit %s: %w", name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		r.Recorder.Event(node, corev1.EventTypeWarning, "UnitRestartFailed", err.Error())
	}
	before := node.DeepCopy()
	delete(node.Annotations, config.AnnotationRestartUnits)
	if err := r.Client.Patch(ctx, node, client.MergeFrom(before)); err != nil {
		return reconcile.Result{}, fmt.Errorf("patch node %q: %w", node.Name, err)
	}
	if !self {
		return reconcile.Result{}, nil
	}
	// The annotation is already removed, so the restart happens once.
	if err := r.Units.Restart(ctx, config.UnitName); err != nil {
		return reconcile.Result{}, fmt.Errorf("restart unit %s: %w", config.UnitName, err)
	}
	return reconcile.Result{}, nil
}

// unitsToRestart reads the annotation; the node agent's own unit is reported separately.
func unitsToRestart(value string) (names []string, self bool) {
	for name := range strings.SplitSeq(value, ",") {
		name = strings.TrimSpace(name)
		switch {
		case name == "" || slices.Contains(names, name):
		case name == config.UnitName:
			self = true
		default:
			names = append(names, name)
		}
	}
	return names, self
}

func listOnNode(node string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()}
}

// deleteOptions deletes just this pod and not one of the same name that has replaced it.
func deleteOptions(uid types.UID) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
}
