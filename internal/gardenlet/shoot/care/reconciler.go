package care

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/boundedlist"
	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/reconnect"
)

const (
	// unassignedPeriod is the time after which a Shoot without a control plane is checked again.
	unassignedPeriod = 30 * time.Second
	// changedPause is the time after which a Shoot that has changed during a check is checked again.
	changedPause = time.Second
	// writeTimeout bounds the write of the findings. It is not part of the period, all of which an observation takes that
	// hangs.
	writeTimeout = 20 * time.Second
)

// rewrites bounds the attempts to write findings to a Shoot that others write, too. It is read again for each of them,
// so there is no reason for longer pauses.
var rewrites = wait.Backoff{Steps: 5, Duration: 10 * time.Millisecond}

// errChanged means that a Shoot has changed so that what was observed says nothing about it.
var errChanged = errors.New("the Shoot has changed during the check")

// Connector connects to Shoots' API servers and to the processes that run their etcds.
type Connector interface {
	Connect(kubeconfig []byte) (client.Client, error)
	Status(ctx context.Context, kubeconfig []byte) (int, error)
	// CertificatesUntil returns the expiration of the API server's certificate, as of its last answer, and of the
	// certificate in the kubeconfig; zero if not known. It sends no request.
	CertificatesUntil(kubeconfig []byte) (server, client time.Time)
	TunnelWorks(ctx context.Context, kubeconfig []byte) error
	// BackupStatus queries the process that takes the backups of an etcd. It gives up after a few seconds.
	BackupStatus(ctx context.Context, access steps.EtcdAccess) (etcdbackup.Status, error)
	// ConfirmOwner sends the process that runs an etcd the epoch that the garden has for the control plane.
	ConfirmOwner(ctx context.Context, access steps.EtcdAccess, epoch int64) error
}

// Reconciler writes conditions and constraints of the Shoots of one seed.
type Reconciler struct {
	Garden client.Client // Direct reads and writes.
	Cache  client.Reader // For objects in the garden that are the same for all Shoots.
	Seed   client.Client // Direct reads and writes.
	Clock  clock.PassiveClock
	Shoots Connector
	Events events.EventRecorder // Of the garden.

	SeedName string
	// Period is the time between two checks of a Shoot, and the timeout of one check.
	Period            time.Duration
	Settings          Settings
	RemediateWebhooks bool
	// Metrics count checks and repairs; nil counts nothing.
	Metrics *Metrics

	repairs repairs
}

// AddToManager registers the controller. Changes of a Shoot's status trigger it only when an operation has ended. Each
// event of resumed, after an outage, triggers it for all Shoots, whose conditions the garden may have set to Unknown.
func (r *Reconciler) AddToManager(mgr ctrl.Manager, concurrency int, resumed <-chan event.GenericEvent) error {
	ended := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		old, ok1 := e.ObjectOld.(*corev1beta1.Shoot)
		now, ok2 := e.ObjectNew.(*corev1beta1.Shoot)
		return ok1 && ok2 && (operationEnded(old, now) || ptr.Deref(old.Status.SeedName, "") != ptr.Deref(now.Status.SeedName,
			""))
	}}
	return ctrl.NewControllerManagedBy(mgr).
		Named("shoot-care").
		For(&corev1beta1.Shoot{}, builder.WithPredicates(ended)).
		WatchesRawSource(source.Channel(resumed, handler.EnqueueRequestsFromMapFunc(all(mgr.GetClient())))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrency, RateLimiter: reconnect.RateLimiter(),
		}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

// all returns the Shoots of the seed for whatever has happened.
func all(cache client.Reader) handler.MapFunc {
	return func(ctx context.Context, _ client.Object) []reconcile.Request {
		return kube.RequestsFor(ctx, cache, &corev1beta1.ShootList{}, client.UnsafeDisableDeepCopy)
	}
}

func operationEnded(old, now *corev1beta1.Shoot) bool {
	a, b := old.Status.LastOperation, now.Status.LastOperation
	return b != nil && b.State == corev1beta1.LastOperationStateSucceeded &&
		(a == nil || a.State != b.State || a.LastUpdateTime != b.LastUpdateTime)
}

// Reconcile checks one Shoot.
func (r *Reconciler) Reconcile(ctx context.Context, shoot *corev1beta1.Shoot) (reconcile.Result, error) {
	if !r.responsible(shoot) {
		return reconcile.Result{RequeueAfter: unassignedPeriod}, nil
	}
	observing, cancel := context.WithTimeout(ctx, r.Period)
	defer cancel()
	if err := r.Garden.Get(observing, client.ObjectKeyFromObject(shoot), shoot); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !r.responsible(shoot) { // The control plane has moved, which the cache does not show yet.
		return reconcile.Result{RequeueAfter: unassignedPeriod}, nil
	}
	start := r.Clock.Now()
	o, user, err := r.observe(observing, shoot)
	r.Metrics.check(r.Clock.Since(start), err)
	before, writeErr := r.write(ctx, shoot, func(now time.Time) {
		if err != nil {
			setUnknown(shoot, err, now)
		} else {
			set(shoot, Conditions(o, r.Settings), Constraints(o), now)
		}
	})
	if errors.Is(writeErr, errChanged) {
		return reconcile.Result{RequeueAfter: changedPause}, nil
	}
	if err := errors.Join(err, writeErr); err != nil {
		return reconcile.Result{}, err
	}
	r.recordEvents(ctx, before, shoot)
	if user != nil {
		ctx, cancel := context.WithTimeout(ctx, shootTimeout)
		defer cancel()
		removed, err := removeStalePods(ctx, user, shoot.DeletionTimestamp != nil)
		if removed > 0 {
			r.Metrics.removePods(removed)
			ctrl.LoggerFrom(ctx).Info("Deleted failed pods in the Shoot", "pods", removed)
		}
		if err := errors.Join(r.remediate(ctx, o, user), err); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{RequeueAfter: r.Period}, nil
}

// responsible reports whether the control plane of the Shoot is in this seed.
func (r *Reconciler) responsible(shoot *corev1beta1.Shoot) bool {
	return ptr.Deref(shoot.Status.SeedName, "") == r.SeedName && shoot.Status.TechnicalID != ""
}

// write makes the change to the status of the Shoot, and returns the Shoot before it. Others write into the same lists
// while a check runs: the change is then made again to what they wrote. It returns errChanged, and writes nothing, if
// the observation does not apply to the Shoot any more.
func (r *Reconciler) write(
	ctx context.Context, shoot *corev1beta1.Shoot, change func(now time.Time),
) (before *corev1beta1.Shoot, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err = retry.RetryOnConflict(rewrites, func() error {
		if before != nil {
			fresh := &corev1beta1.Shoot{}
			switch err := r.Garden.Get(ctx, client.ObjectKeyFromObject(shoot), fresh); {
			case apierrors.IsNotFound(err):
				return errChanged
			case err != nil:
				return err
			case !sameSubject(before, fresh):
				return errChanged
			}
			*shoot = *fresh
		}
		before = shoot.DeepCopy()
		change(r.Clock.Now())
		return kube.PatchSharedStatus(ctx, r.Garden, shoot, before)
	})
	return before, err
}

// sameSubject reports whether what was observed of a Shoot applies to it as it is now: the same spec, in the same seed,
// and hibernated or not as before. Little is observed of a hibernated Shoot; judged as one that is awake, it would have
// no control plane.
func sameSubject(observed, now *corev1beta1.Shoot) bool {
	return observed.UID == now.UID && observed.Generation == now.Generation &&
		ptr.Deref(observed.Status.SeedName, "") == ptr.Deref(now.Status.SeedName, "") &&
		observed.Status.TechnicalID == now.Status.TechnicalID && observed.Status.IsHibernated == now.Status.IsHibernated
}

// set writes conditions and constraints to the status. Conditions of others stay; constraints that are no longer shown
// go.
func set(shoot *corev1beta1.Shoot, conditions, constraints []corev1beta1.Condition, now time.Time) {
	s := &shoot.Status
	for _, c := range conditions {
		s.Conditions = corev1beta1.SetCondition(s.Conditions, c, now)
	}
	if len(shoot.Spec.Provider.Workers) == 0 {
		s.Conditions = corev1beta1.RemoveCondition(s.Conditions, corev1beta1.ShootEveryNodeReady)
	}
	for _, old := range slices.Clone(s.Constraints) {
		if corev1beta1.FindCondition(constraints, old.Type) == nil {
			s.Constraints = corev1beta1.RemoveCondition(s.Constraints, old.Type)
		}
	}
	for _, c := range constraints {
		s.Constraints = corev1beta1.SetCondition(s.Constraints, c, now)
	}
}

// setUnknown says that nothing could be checked.
func setUnknown(shoot *corev1beta1.Shoot, err error, now time.Time) {
	s, message := &shoot.Status, printable(err.Error())
	unknown := func(kind corev1beta1.ConditionType) corev1beta1.Condition {
		return corev1beta1.Condition{
			Type: kind, Status: corev1beta1.ConditionUnknown, Reason: "ConditionCheckError", Message: message,
		}
	}
	for _, kind := range conditionTypes(&Observed{Shoot: shoot}) {
		s.Conditions = corev1beta1.SetCondition(s.Conditions, unknown(kind), now)
	}
	for _, kind := range []corev1beta1.ConditionType{
		corev1beta1.ShootHibernationPossible, corev1beta1.ShootMaintenancePreconditionsSatisfied,
	} {
		s.Constraints = corev1beta1.SetCondition(s.Constraints, unknown(kind), now)
	}
}

// remediate repairs problematic webhooks if the operator has enabled that, and reports that to their owners by
// annotation. Those that are changed back are repaired at growing intervals. One that cannot be repaired does not keep
// the others from it.
func (r *Reconciler) remediate(ctx context.Context, o *Observed, user client.Client) error {
	if !r.RemediateWebhooks {
		return nil
	}
	var errs []error
	for _, c := range o.Webhooks.ToRepair {
		target := targetOf(o.Shoot, c)
		if !r.repairs.due(target, o.Now, r.Period) {
			continue
		}
		tried, err := repairConfiguration(ctx, user, c)
		if tried {
			r.repairs.made(target, o.Now, r.Period)
		}
		if errs = append(errs, err); ctx.Err() != nil {
			break
		}
		if tried && err == nil {
			r.Metrics.repairWebhooks()
			ctrl.LoggerFrom(ctx).Info("Repaired webhooks that could break the Shoot", "configuration", c.GetName(),
				"changes", c.GetAnnotations()[corev1beta1.AnnotationWarning])
		}
	}
	return errors.Join(errs...)
}

// repairConfiguration repairs the webhooks of a configuration that has only its name. It reports whether it has tried
// to write, and may have done so if it fails.
func repairConfiguration(ctx context.Context, user client.Client, o client.Object) (bool, error) {
	if err := user.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	before := o.DeepCopyObject().(client.Object)
	var changes []string
	for i, webhook := range webhooksOf(o) {
		changes = append(changes, repair(webhook, func(w Webhook) {
			switch c := o.(type) {
			case *admissionregistrationv1.MutatingWebhookConfiguration:
				old := &c.Webhooks[i]
				old.FailurePolicy, old.TimeoutSeconds = w.FailurePolicy, w.TimeoutSeconds
				old.ObjectSelector, old.NamespaceSelector = w.ObjectSelector, w.NamespaceSelector
			case *admissionregistrationv1.ValidatingWebhookConfiguration:
				old := &c.Webhooks[i]
				old.FailurePolicy, old.TimeoutSeconds = w.FailurePolicy, w.TimeoutSeconds
				old.ObjectSelector, old.NamespaceSelector = w.ObjectSelector, w.NamespaceSelector
			}
		})...)
	}
	return patchWebhooks(ctx, user, o, before, changes)
}

// repair hands the repaired webhook to store, if anything is wrong with it, and says what was changed.
func repair(w Webhook, store func(Webhook)) []string {
	f := remediate(w)
	if len(f.changes) > 0 {
		store(f.applyTo(w))
	}
	return f.changes
}

func patchWebhooks(ctx context.Context, user client.Client, c, before client.Object, changes []string) (bool, error) {
	if len(changes) == 0 || excluded(c.GetLabels()) {
		return false, nil
	}
	annotations := maps.Clone(c.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[corev1beta1.AnnotationWarning] = "This webhook configuration was changed to keep the cluster working: " +
		strings.Join(changes, "; ") + "."
	c.SetAnnotations(annotations)
	// The resource version prevents that a concurrent change by the owner is undone.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := client.IgnoreNotFound(user.Patch(ctx, c, patch)); err != nil {
		// After a conflict nothing was written; after another error it is not known, or would be refused again.
		return !apierrors.IsConflict(err), fmt.Errorf("repair webhook configuration %q: %w", c.GetName(), err)
	}
	return true, nil
}

// stalePodReasons mark pods that ended with their node and are only listed.
var stalePodReasons = []string{
	"Evicted", "OutOfCpu", "OutOfcpu", "OutOfMemory", "OutOfmemory", "OutOfDisk", "NodeAffinity", "NodeLost", "Preempting",
}

// removeStalePods deletes failed system pods with one of stalePodReasons; while the Shoot is being deleted, those of
// all namespaces. It returns their number.
func removeStalePods(ctx context.Context, user client.Client, everywhere bool) (deleted int, err error) {
	opts := []client.ListOption{client.MatchingFields{"status.phase": string(corev1.PodFailed)}}
	if !everywhere {
		opts = append(opts, client.InNamespace(metav1.NamespaceSystem))
	}
	err = boundedlist.Read(ctx, user, limits, &corev1.PodList{}, func(page *corev1.PodList) (bool, error) {
		for i := range page.Items {
			if !slices.Contains(stalePodReasons, page.Items[i].Status.Reason) {
				continue
			}
			// Another pod may have the name by now: that of a StatefulSet that replaces the failed one.
			switch err := user.Delete(ctx, &page.Items[i], client.Preconditions{UID: &page.Items[i].UID}); {
			case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			case err != nil:
				return false, fmt.Errorf("delete stale pod %s: %w", client.ObjectKeyFromObject(&page.Items[i]), err)
			default:
				deleted++
			}
		}
		return deleted < maxStalePods, nil // The next check deletes the others.
	}, opts...)
	if much := (*boundedlist.TooMuchError)(nil); err != nil && !errors.As(err, &much) {
		return deleted, fmt.Errorf("remove failed pods of the Shoot: %w", err)
	}
	return deleted, nil
}
