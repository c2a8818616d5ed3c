package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Reconciler assigns each Shoot without a Seed to one.
type Reconciler struct {
	Garden   client.Client // Cached reads, direct writes.
	Clock    clock.PassiveClock
	Recorder events.EventRecorder
	// Name of this scheduler: only Shoots that specify it are handled.
	Name     string
	Strategy Strategy
	// Workers is the number of Shoots handled concurrently. Decisions are made one at a time, so that two Shoots cannot
	// both take the last place; only the writes of their results overlap.
	Workers int
	// Retry says how long a Shoot without a suitable Seed waits for the next attempt. Default: exponential backoff, from
	// 100 ms to 1 min.
	Retry RetryLimiter
	// Metrics count decisions; nil counts nothing.
	Metrics *Metrics

	usage   Usage
	counted func() bool // Says whether all Shoots that were there at the start are in usage.
	decide  sync.Mutex
}

const (
	// conflictRetry is the pause after a conflict. The cache gets the newer object within milliseconds.
	conflictRetry = 100 * time.Millisecond
	// refusedRetry is the pause after the API server has rejected a binding. It decides with its own caches, which may lag
	// behind the scheduler's, and no event reports when they have caught up.
	refusedRetry = time.Second
)

// RetryLimiter returns the pauses between attempts.
type RetryLimiter = workqueue.TypedRateLimiter[reconcile.Request]

const (
	minPause = 100 * time.Millisecond
	maxPause = time.Minute
)

func backOff() RetryLimiter {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minPause, maxPause)
}

// SetupWithManager registers the controller and keeps the number of Shoots per Seed up to date.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	// A buffer of one is enough: the pending event triggers reconciliations that consider all later changes, too.
	freed := make(chan event.GenericEvent, 1)
	if err := r.count(ctx, mgr.GetCache(), func() {
		select {
		case freed <- event.GenericEvent{Object: &corev1beta1.Shoot{}}:
		default:
		}
	}); err != nil {
		return err
	}
	pending := handler.EnqueueRequestsFromMapFunc(r.unscheduled)
	b := ctrl.NewControllerManagedBy(mgr).
		Named("shoot-scheduler").
		For(&corev1beta1.Shoot{}, waitingForSeed(r.Name)).
		WatchesRawSource(source.Channel(freed, pending)).
		Watches(&corev1beta1.Seed{}, pending, decisiveChanges()).
		Watches(&corev1beta1.CloudProfile{}, pending, placingChanges()).
		Watches(&corev1beta1.NamespacedCloudProfile{}, pending, placingChanges())
	if r.Strategy == MinimalDistance {
		b = b.Watches(&corev1.ConfigMap{}, pending, regionConfigs())
	}
	if r.Retry == nil {
		r.Retry = backOff()
	}
	return b.WithOptions(controller.Options{MaxConcurrentReconciles: r.Workers, RateLimiter: r.Retry}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

// count keeps usage up to date, and calls freed after a Shoot has left a seed.
func (r *Reconciler) count(ctx context.Context, informers ctrlcache.Informers, freed func()) error {
	informer, err := informers.GetInformer(ctx, &corev1beta1.Shoot{})
	if err != nil {
		return fmt.Errorf("watch Shoots: %w", err)
	}
	set := func(o any) {
		if r.usage.Set(o.(*corev1beta1.Shoot)) {
			freed()
		}
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, o any) { set(o) },
		DeleteFunc: func(o any) {
			if gone, missed := o.(cache.DeletedFinalStateUnknown); missed {
				o = gone.Obj
			}
			if r.usage.Remove(o.(*corev1beta1.Shoot)) {
				freed()
			}
		},
	})
	if err != nil {
		return fmt.Errorf("count Shoots: %w", err)
	}
	r.counted = registration.HasSynced
	return nil
}

// Reconcile decides for one Shoot and writes the decision.
func (r *Reconciler) Reconcile(ctx context.Context, shoot *corev1beta1.Shoot) (reconcile.Result, error) {
	result, err := r.schedule(ctx, shoot)
	if apierrors.IsConflict(err) { // The Shoot was changed meanwhile; the next attempt considers the change.
		r.Metrics.decided(resultConflict)
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	}
	return result, err
}

func (r *Reconciler) schedule(ctx context.Context, shoot *corev1beta1.Shoot) (reconcile.Result, error) {
	if !responsible(shoot, r.Name) {
		return reconcile.Result{}, nil
	}
	if !r.counted() { // Right after the start seeds would seem emptier than they are.
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	}
	var decision Decision
	var err error
	// An attempt that the cache does not show yet is repeated: if it has succeeded, this one conflicts.
	keptSeed, kept := r.usage.Kept(shoot)
	if kept {
		decision.Seed = keptSeed
	} else if decision, err = r.choose(ctx, shoot); err != nil {
		r.Metrics.decided(resultError)
		return reconcile.Result{}, err
	}
	if decision.Seed == "" {
		r.Metrics.decided(resultNoSeed)
		return reconcile.Result{}, r.reportFailure(ctx, shoot, decision.Error)
	}
	bound := binding(shoot, decision.Seed)
	log.FromContext(ctx).Info("Assigning Shoot to seed", "seed", decision.Seed, "tiedSeeds", decision.TiedSeeds)
	err = r.Garden.SubResource("binding").Update(ctx, bound)
	switch {
	case kept && apierrors.IsConflict(err): // The watch will report what the first attempt has written.
	case rejected(err):
		r.usage.Revert(shoot, decision.Seed)
	default:
		r.usage.Keep(shoot, decision.Seed)
	}
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{}, err
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case apierrors.IsForbidden(err):
		r.Metrics.decided(resultRefused)
		return reconcile.Result{RequeueAfter: refusedRetry}, r.report(ctx, shoot, err.Error())
	case err != nil:
		r.Metrics.decided(resultError)
		return reconcile.Result{}, errors.Join(fmt.Errorf("assign Shoot to seed %q: %w", decision.Seed, err),
			r.reportFailure(ctx, shoot, err.Error()))
	}
	r.Metrics.decided(resultAssigned)
	r.Recorder.Eventf(shoot, nil, corev1.EventTypeNormal, "SchedulingSuccessful", "Reconcile", "Scheduled to seed %q",
		decision.Seed)
	return reconcile.Result{}, nil
}

// rejected reports whether an error of a request says that nothing was written. After any other error, such as a
// timeout, the Shoot may have been assigned.
func rejected(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) ||
		apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// binding returns what is sent to assign a Shoot: it without the half that the server keeps whatever is sent. It shares
// memory with the Shoot, which must not be one in a cache: the answer is read into it.
func binding(shoot *corev1beta1.Shoot, seed string) *corev1beta1.Shoot {
	bound := &corev1beta1.Shoot{ObjectMeta: shoot.ObjectMeta, Spec: shoot.Spec}
	bound.ManagedFields = nil
	bound.Spec.SeedName = &seed
	return bound
}

// choose reads what a decision depends on, decides, and counts the Shoot on the chosen seed at once.
func (r *Reconciler) choose(ctx context.Context, shoot *corev1beta1.Shoot) (Decision, error) {
	profileName, profile, err := profileOf(gardenProfiles{ctx, r.Garden}, shoot)
	if missing := (missingProfileError{}); errors.As(err, &missing) {
		return Decision{Error: err.Error()}, nil
	}
	if err != nil {
		return Decision{}, err
	}
	var configMaps corev1.ConfigMapList
	if r.Strategy == MinimalDistance {
		if err := r.Garden.List(ctx, &configMaps, client.InNamespace(corev1beta1.GardenNamespace),
			client.MatchingLabels{corev1beta1.LabelSchedulingPurpose: corev1beta1.SchedulingPurposeRegionConfig}); err != nil {
			return Decision{}, fmt.Errorf("list region ConfigMaps: %w", err)
		}
	}
	distances, distancesError := Distances(configMaps.Items, profileName, shoot.Spec.Region)
	var projects corev1beta1.ProjectList
	ofNamespace := client.MatchingFields{indexNamespace: shoot.Namespace}
	if err := r.Garden.List(ctx, &projects, ofNamespace, client.UnsafeDisableDeepCopy); err != nil {
		return Decision{}, fmt.Errorf("find the project of namespace %q: %w", shoot.Namespace, err)
	}
	var seeds corev1beta1.SeedList
	if err := r.Garden.List(ctx, &seeds, client.UnsafeDisableDeepCopy); err != nil { // Decide only reads.
		return Decision{}, fmt.Errorf("list Seeds: %w", err)
	}
	slices.SortFunc(seeds.Items, func(a, b corev1beta1.Seed) int { return strings.Compare(a.Name, b.Name) })

	r.decide.Lock()
	defer r.decide.Unlock()
	in := Input{
		Shoot: shoot, Project: ProjectName(projects.Items, shoot.Namespace), Profile: profile, Strategy: r.Strategy,
		Distances: distances, DistancesError: distancesError, DefaultDomains: DefaultDomains(seeds.Items),
	}
	for i := range seeds.Items {
		in.Candidates = append(in.Candidates, Candidate{Seed: &seeds.Items[i], Shoots: r.usage.Of(seeds.Items[i].Name)})
	}
	decision := Decide(in)
	if decision.Seed != "" {
		r.usage.Assume(shoot, decision.Seed)
	}
	return decision, nil
}

// reportFailure reports the reason to the user, and returns an error so that the Shoot is retried with growing pauses;
// a change of what decisions depend on triggers a try at once.
func (r *Reconciler) reportFailure(ctx context.Context, shoot *corev1beta1.Shoot, reason string) error {
	if err := r.report(ctx, shoot, reason); err != nil {
		return err
	}
	return errors.New(reason)
}

// report writes through the last operation and an event why the Shoot has no seed. A Shoot that has changed since the
// attempt may have one: that is a conflict.
func (r *Reconciler) report(ctx context.Context, shoot *corev1beta1.Shoot, reason string) error {
	text := "Failed to schedule Shoot: " + reason
	if last := shoot.Status.LastOperation; last == nil || last.Description != text {
		before := shoot.DeepCopy()
		shoot.Status.LastOperation = &corev1beta1.LastOperation{
			Type: corev1beta1.LastOperationTypeCreate, State: corev1beta1.LastOperationStatePending,
			Description: text, LastUpdateTime: metav1.NewTime(r.Clock.Now()),
		}
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.Garden.Status().Patch(ctx, shoot, patch); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("report scheduling failure: %w", err)
		}
	}
	r.Recorder.Eventf(shoot, nil, corev1.EventTypeWarning, "SchedulingFailed", "Reconcile", "%s", text)
	return nil
}

// gardenProfiles reads profiles from the garden.
type gardenProfiles struct {
	ctx    context.Context
	reader client.Reader
}

func (g gardenProfiles) cloudProfile(name string) (*corev1beta1.CloudProfile, error) {
	return found(g, client.ObjectKey{Name: name}, &corev1beta1.CloudProfile{})
}

func (g gardenProfiles) namespacedCloudProfile(namespace, name string) (*corev1beta1.NamespacedCloudProfile, error) {
	return found(g, client.ObjectKey{Namespace: namespace, Name: name}, &corev1beta1.NamespacedCloudProfile{})
}

// found reads an object, nil if there is none.
func found[T client.Object](g gardenProfiles, key client.ObjectKey, object T) (T, error) {
	var none T
	if err := g.reader.Get(g.ctx, key, object); err != nil {
		return none, client.IgnoreNotFound(err)
	}
	return object, nil
}

// responsible says whether this scheduler has to find a seed for the Shoot.
func responsible(shoot *corev1beta1.Shoot, name string) bool {
	wanted := cmp.Or(ptr.Deref(shoot.Spec.SchedulerName, ""), corev1beta1.DefaultSchedulerName)
	return shoot.Spec.SeedName == nil && shoot.DeletionTimestamp == nil && wanted == name
}

// unscheduled lists the Shoots that wait for a seed; the cache has an index for them.
func (r *Reconciler) unscheduled(ctx context.Context, _ client.Object) []reconcile.Request {
	var shoots corev1beta1.ShootList
	if err := r.Garden.List(ctx, &shoots, client.MatchingFields{indexSeedName: ""},
		client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Failed to list Shoots without seed")
		return nil
	}
	var requests []reconcile.Request
	for i := range shoots.Items {
		if responsible(&shoots.Items[i], r.Name) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&shoots.Items[i])})
		}
	}
	return requests
}

const (
	indexSeedName  = "spec.seedName"  // Of Shoots.
	indexNamespace = "spec.namespace" // Of Projects.
)

// AddIndexes adds the indexes by which the cache finds Shoots by Seed and Projects by namespace.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &corev1beta1.Project{}, indexNamespace, func(o client.Object) []string {
		return []string{namespaceOf(o.(*corev1beta1.Project))}
	}); err != nil {
		return err
	}
	return indexer.IndexField(ctx, &corev1beta1.Shoot{}, indexSeedName, func(o client.Object) []string {
		return []string{ptr.Deref(o.(*corev1beta1.Shoot).Spec.SeedName, "")}
	})
}
