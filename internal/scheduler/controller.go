package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Reconciler assigns Shoots without a seed to one.
type Reconciler struct {
	Garden   client.Client // Cached reads, direct writes.
	Clock    clock.PassiveClock
	Recorder events.EventRecorder
	// Name of this scheduler: only Shoots that ask for it are handled.
	Name     string
	Strategy Strategy
	// Workers is how many Shoots are looked at side by side. Decisions are taken one at a time, so that two Shoots can't
	// both take the last place; the writes of their results overlap.
	Workers int

	usage  Usage
	decide sync.Mutex
}

// SetupWithManager registers the controller and keeps the load per seed up to date.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &corev1beta1.Shoot{})
	if err != nil {
		return fmt.Errorf("watch Shoots: %w", err)
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { r.usage.Set(o.(*corev1beta1.Shoot)) },
		UpdateFunc: func(_, o any) { r.usage.Set(o.(*corev1beta1.Shoot)) },
		DeleteFunc: func(o any) {
			if gone, missed := o.(cache.DeletedFinalStateUnknown); missed {
				o = gone.Obj
			}
			r.usage.Remove(o.(*corev1beta1.Shoot))
		},
	})
	if err != nil {
		return fmt.Errorf("count Shoots: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("shoot-scheduler").
		For(&corev1beta1.Shoot{}, waitingForSeed(r.Name)).
		Watches(&corev1beta1.Seed{}, handler.EnqueueRequestsFromMapFunc(r.unscheduled), decisiveChanges()).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.Workers}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

// Reconcile decides for one Shoot and writes the decision.
func (r *Reconciler) Reconcile(ctx context.Context, shoot *corev1beta1.Shoot) (reconcile.Result, error) {
	if !responsible(shoot, r.Name) {
		return reconcile.Result{}, nil
	}
	decision, err := r.choose(ctx, shoot)
	if err != nil {
		return reconcile.Result{}, err
	}
	if decision.Seed == "" {
		return reconcile.Result{}, r.reportFailure(ctx, shoot, decision.Error)
	}
	bound := shoot.DeepCopy()
	bound.Spec.SeedName = &decision.Seed
	log.FromContext(ctx).Info("Assigning Shoot to seed", "seed", decision.Seed, "tiedSeeds", decision.TiedSeeds)
	if err := r.Garden.SubResource("binding").Update(ctx, bound); err != nil {
		r.usage.Set(shoot)
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		return reconcile.Result{}, errors.Join(fmt.Errorf("assign Shoot to seed %q: %w", decision.Seed, err), r.reportFailure(ctx, shoot, err.Error()))
	}
	r.Recorder.Eventf(shoot, nil, corev1.EventTypeNormal, "SchedulingSuccessful", "Reconcile", "Scheduled to seed %q", decision.Seed)
	return reconcile.Result{}, nil
}

// choose reads what a decision depends on, decides, and counts the Shoot on the chosen seed at once.
func (r *Reconciler) choose(ctx context.Context, shoot *corev1beta1.Shoot) (Decision, error) {
	profileName, profile, err := profileOf(ctx, r.Garden, shoot)
	if err != nil {
		return Decision{}, err
	}
	var configMaps corev1.ConfigMapList
	if r.Strategy == MinimalDistance {
		if err := r.Garden.List(ctx, &configMaps, client.InNamespace(gardenNamespace), client.MatchingLabels{labelPurpose: purposeRegionConfig}); err != nil {
			return Decision{}, fmt.Errorf("list region ConfigMaps: %w", err)
		}
	}
	distances, err := Distances(configMaps.Items, profileName, shoot.Spec.Region)
	if err != nil {
		return Decision{Error: err.Error()}, nil
	}
	var seeds corev1beta1.SeedList
	if err := r.Garden.List(ctx, &seeds, client.UnsafeDisableDeepCopy); err != nil { // Decide only reads.
		return Decision{}, fmt.Errorf("list Seeds: %w", err)
	}
	slices.SortFunc(seeds.Items, func(a, b corev1beta1.Seed) int { return strings.Compare(a.Name, b.Name) })

	r.decide.Lock()
	defer r.decide.Unlock()
	in := Input{Shoot: shoot, Profile: profile, Distances: distances, Strategy: r.Strategy}
	for i := range seeds.Items {
		in.Candidates = append(in.Candidates, Candidate{Seed: &seeds.Items[i], Shoots: r.usage.Of(seeds.Items[i].Name)})
	}
	decision := Decide(in)
	if decision.Seed != "" {
		r.usage.Assume(shoot, decision.Seed)
	}
	return decision, nil
}

// reportFailure tells the user through the last operation and an event, and returns an error so that it is tried again
// with growing pauses; a change of a seed triggers a try at once.
func (r *Reconciler) reportFailure(ctx context.Context, shoot *corev1beta1.Shoot, reason string) error {
	text := "Failed to schedule Shoot: " + reason
	r.Recorder.Eventf(shoot, nil, corev1.EventTypeWarning, "SchedulingFailed", "Reconcile", "%s", text)
	if last := shoot.Status.LastOperation; last == nil || last.Description != text {
		before := shoot.DeepCopy()
		shoot.Status.LastOperation = &corev1beta1.LastOperation{
			Type: corev1beta1.LastOperationTypeCreate, State: corev1beta1.LastOperationStatePending,
			Description: text, LastUpdateTime: metav1.NewTime(r.Clock.Now()),
		}
		if err := r.Garden.Status().Patch(ctx, shoot, client.MergeFrom(before)); err != nil {
			return client.IgnoreNotFound(fmt.Errorf("report scheduling failure: %w", err))
		}
	}
	return errors.New(reason)
}

// profileOf returns the name of the CloudProfile a Shoot goes back to and the effective spec of its profile.
func profileOf(ctx context.Context, reader client.Reader, shoot *corev1beta1.Shoot) (string, *corev1beta1.CloudProfileSpec, error) {
	ref := shoot.Spec.CloudProfile
	if ref == nil {
		ref = &corev1beta1.CloudProfileReference{Kind: kindCloudProfile, Name: deref(shoot.Spec.CloudProfileName)}
	}
	if ref.Kind == kindNamespacedCloudProfile {
		var profile corev1beta1.NamespacedCloudProfile
		if err := reader.Get(ctx, client.ObjectKey{Namespace: shoot.Namespace, Name: ref.Name}, &profile); err != nil {
			return "", nil, fmt.Errorf("read NamespacedCloudProfile %s/%s: %w", shoot.Namespace, ref.Name, err)
		}
		return profile.Spec.Parent.Name, &profile.Status.CloudProfileSpec, nil
	}
	var profile corev1beta1.CloudProfile
	if err := reader.Get(ctx, client.ObjectKey{Name: ref.Name}, &profile); err != nil {
		return "", nil, fmt.Errorf("read CloudProfile %s: %w", ref.Name, err)
	}
	return ref.Name, &profile.Spec, nil
}

const (
	kindCloudProfile           = "CloudProfile"
	kindNamespacedCloudProfile = "NamespacedCloudProfile"
	defaultSchedulerName       = "default-scheduler"
)

// responsible says whether this scheduler has to find a seed for the Shoot.
func responsible(shoot *corev1beta1.Shoot, name string) bool {
	wanted := deref(shoot.Spec.SchedulerName)
	if wanted == "" {
		wanted = defaultSchedulerName
	}
	return shoot.Spec.SeedName == nil && shoot.DeletionTimestamp == nil && wanted == name
}

// unscheduled lists the Shoots that wait for a seed; the cache has an index for them.
func (r *Reconciler) unscheduled(ctx context.Context, _ client.Object) []reconcile.Request {
	var shoots corev1beta1.ShootList
	if err := r.Garden.List(ctx, &shoots, client.MatchingFields{indexSeedName: ""}, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Listing Shoots without seed")
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

const indexSeedName = "spec.seedName"

// AddIndexes makes the cache find Shoots by seed without a scan.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &corev1beta1.Shoot{}, indexSeedName, func(o client.Object) []string {
		return []string{deref(o.(*corev1beta1.Shoot).Spec.SeedName)}
	})
}
