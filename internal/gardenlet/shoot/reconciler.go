package shoot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
	"hortus.dev/hortus/internal/gardenlet/shootstate"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/maintenance"
	"hortus.dev/hortus/internal/ownership"
	"hortus.dev/hortus/internal/secretsmanager"
)

const (
	// passPeriod is the time after which an unfinished operation is checked without an event: it covers missed events.
	passPeriod = 30 * time.Second
	// planPeriod is the time after which a finished Shoot is checked once more, to plan its next reconciliation.
	planPeriod = time.Second
	// seedPeriod is the time after which a Shoot is checked again whose seed was not ready.
	seedPeriod = 15 * time.Second
)

// Reconciler reconciles the Shoots of one seed.
type Reconciler struct {
	Garden client.Client // Direct reads and writes.
	// Cache has objects of the garden that seldom change: the Seed, and the registrations and installations for it.
	Cache  client.Reader
	Seed   client.Client // Direct reads and writes.
	Clock  clock.PassiveClock
	Events events.EventRecorder
	Shoots interface {
		steps.Connector
		steps.EtcdConnector
	}
	// States saves in the garden what another seed needs to take a control plane over.
	States *shootstate.States

	SeedName string
	// GardenIdentity returns what identities of new Shoots end with.
	GardenIdentity func(context.Context) (string, error)
	Identity       Identity
	Images         steps.Images
	// Options say when Shoots are reconciled; Jitter spreads Shoots that wait for their maintenance time window.
	Options       maintenance.ReconcileOptions
	Jitter        maintenance.Jitter
	RetryDuration time.Duration
	DNSTTL        int64
	// FenceTime is how long etcds keep running without confirmation.
	FenceTime time.Duration
	// NewWorkerPoolHash is the feature gate: which hash is used for pools that are new or rolled anyway.
	NewWorkerPoolHash bool
	// Metrics count operations; nil counts nothing.
	Metrics *Metrics
	// RSABits is the size of the RSA keys of Shoots; 0 is the default of the secrets manager.
	RSABits int
	// InOrder runs the steps of a flow one after the other, see [flow.Options].
	InOrder bool

	gardenApplied, seedApplied kube.ApplyCache
	// seen has the versions of objects in the seed that passes have read, have written or got in events.
	seen kube.Versions

	mu     sync.Mutex
	timers map[types.UID]*flow.Timers // Of unfinished operations.
}

// scope is what one reconcile has read so far.
type scope struct {
	shoot   *corev1beta1.Shoot
	project *corev1beta1.Project
	seed    *corev1beta1.Seed
	profile *corev1beta1.CloudProfile
	// namespace is the view of the control plane namespace for this pass, secrets what the gardenlet has generated there.
	namespace *kube.NamespaceView
	secrets   *secretsmanager.Manager
	// claim says which seed runs the control plane. state is its ShootState; nil unless it is being restored.
	claim ownership.Claim
	state *shootstate.Saved
}

// Reconcile makes one pass over the Shoot. It may stop after any write and be repeated.
func (r *Reconciler) Reconcile(ctx context.Context, shoot *corev1beta1.Shoot) (reconcile.Result, error) {
	// Decisions depend on the status, so it is read without the cache.
	ours := responsibleSeed(shoot) == r.SeedName || comesHere(shoot, r.SeedName) || takenOverHere(shoot, r.SeedName)
	err := r.Garden.Get(ctx, client.ObjectKeyFromObject(shoot), shoot)
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case apierrors.IsForbidden(err) && !ours:
		// The Shoot of another seed. One of our own is forbidden, too, until the API server has seen its new seed.
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("read Shoot %s: %w", client.ObjectKeyFromObject(shoot), err)
	}
	s := &scope{shoot: shoot}
	if responsibleSeed(shoot) != r.SeedName {
		switch {
		case takenOverHere(shoot, r.SeedName):
			return r.takeOver(ctx, shoot)
		case comesHere(shoot, r.SeedName):
			return r.prepareMove(ctx, shoot)
		}
		return reconcile.Result{}, nil
	}
	s.seed = &corev1beta1.Seed{}
	if err := r.Cache.Get(ctx, client.ObjectKey{Name: r.SeedName}, s.seed); err != nil {
		return reconcile.Result{}, fmt.Errorf("read Seed %q: %w", r.SeedName, err)
	}
	in := DecideInput{
		SeedName: r.SeedName, Now: r.Clock.Now(), Version: r.Identity.Version, EmergencyStop: s.seed.EmergencyStop(),
		Options: r.Options, Jitter: r.Jitter,
	}
	if mayHeal(&shoot.Status) {
		healed, err := r.healed(ctx, shoot)
		if err != nil {
			return reconcile.Result{}, err
		}
		in.Healed = healed
	}
	if in.Seen, err = r.remember(ctx, shoot); err != nil {
		return reconcile.Result{}, err
	}
	if shoot.DeletionTimestamp != nil && beingCreated(shoot) {
		claim, err := ownership.Read(ctx, r.Garden, shoot.Namespace, shoot.UID)
		if err != nil {
			return reconcile.Result{}, err
		}
		in.TakenOver = claim.Holder == r.SeedName && claim.TakenOver.From != ""
	}
	d := Decide(shoot, in)
	log.FromContext(ctx).V(1).Info("Decided on the operation",
		"action", d.Action, "operation", d.Operation, "begin", d.Begin, "reason", d.Reason)
	switch d.Action {
	case Hold:
		return reconcile.Result{}, r.reportHeld(ctx, shoot, d)
	case Refresh:
		return reconcile.Result{RequeueAfter: d.RequeueAfter}, r.refresh(ctx, s)
	case Finalize:
		return reconcile.Result{}, r.finalize(ctx, s)
	case Run:
		return r.run(ctx, s, d)
	}
	return reconcile.Result{RequeueAfter: d.RequeueAfter}, r.updateManualPools(ctx, shoot)
}

// read reads the objects of the Shoot in the garden into the scope.
func (r *Reconciler) read(ctx context.Context, s *scope) error {
	var err error
	if s.project, err = r.project(ctx, s.shoot.Namespace); err != nil {
		return err
	}
	s.profile, err = r.cloudProfile(ctx, s.shoot)
	return err
}

// project reads the project that a namespace of the garden belongs to.
func (r *Reconciler) project(ctx context.Context, namespace string) (*corev1beta1.Project, error) {
	projects := &corev1beta1.ProjectList{}
	if err := r.Garden.List(ctx, projects, client.MatchingFields{"spec.namespace": namespace}); err != nil {
		return nil, fmt.Errorf("find the project of namespace %q: %w", namespace, err)
	}
	if len(projects.Items) == 0 {
		return nil, fmt.Errorf("namespace %q belongs to no project", namespace)
	}
	return &projects.Items[0], nil
}

// cloudProfile reads the Shoot's profile; a namespaced one is rendered as the CloudProfile that it results in.
func (r *Reconciler) cloudProfile(ctx context.Context, shoot *corev1beta1.Shoot) (*corev1beta1.CloudProfile, error) {
	ref := corev1beta1.CloudProfileReference{
		Kind: corev1beta1.CloudProfileKind, Name: ptr.Deref(shoot.Spec.CloudProfileName, ""),
	}
	if shoot.Spec.CloudProfile != nil {
		ref = *shoot.Spec.CloudProfile
	}
	if ref.Kind == corev1beta1.NamespacedCloudProfileKind {
		n := &corev1beta1.NamespacedCloudProfile{}
		if err := r.Garden.Get(ctx, client.ObjectKey{Namespace: shoot.Namespace, Name: ref.Name}, n); err != nil {
			return nil, fmt.Errorf("read NamespacedCloudProfile %q: %w", ref.Name, err)
		}
		return &corev1beta1.CloudProfile{ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: n.Status.CloudProfileSpec}, nil
	}
	profile := &corev1beta1.CloudProfile{}
	if err := r.Garden.Get(ctx, client.ObjectKey{Name: ref.Name}, profile); err != nil {
		return nil, fmt.Errorf("read CloudProfile %q: %w", ref.Name, err)
	}
	return profile, nil
}

// technicalID names the Shoot's namespace in the seed, once and for all.
func technicalID(shoot *corev1beta1.Shoot, project *corev1beta1.Project) string {
	if shoot.Status.TechnicalID != "" {
		return shoot.Status.TechnicalID
	}
	return corev1beta1.TechnicalIDPrefix + project.Name + "--" + shoot.Name
}

// refresh keeps what extensions know about a Shoot that is not being worked on up to date.
func (r *Reconciler) refresh(ctx context.Context, s *scope) error {
	if s.shoot.Status.TechnicalID == "" {
		return nil
	}
	began, err := readBeginning(ctx, r.Seed, s.shoot.Status.TechnicalID)
	if err != nil || began.At.IsZero() {
		return err // Without a Cluster object there is nothing to refresh.
	}
	if err := r.read(ctx, s); err != nil {
		return err
	}
	cluster, err := desiredCluster(s.shoot.Status.TechnicalID, s.shoot, s.seed, s.profile, began)
	if err != nil {
		return err
	}
	return writeCluster(ctx, r.Seed, cluster)
}

// run begins or continues an operation and makes one pass of its flow.
func (r *Reconciler) run(ctx context.Context, s *scope, d Decision) (res reconcile.Result, err error) {
	shoot := s.shoot
	if d.Operation != corev1beta1.LastOperationTypeDelete {
		if err := kube.EnsureFinalizer(ctx, r.Garden, shoot, corev1beta1.FinalizerName); err != nil {
			return reconcile.Result{}, err
		}
	}
	if err := r.read(ctx, s); err != nil {
		return reconcile.Result{}, r.report(ctx, shoot, d.Operation, err)
	}
	if err := seedReady(s.seed, r.Identity.Version); err != nil {
		// An error would increase the pause with each attempt, so that it would last long after the seed is ready.
		log.FromContext(ctx).V(1).Info("Waiting for the seed", "reason", err.Error())
		if d.Begin && upToDate(shoot) { // Its owner has requested nothing, and nothing is wrong with the Shoot.
			return reconcile.Result{RequeueAfter: seedPeriod}, nil
		}
		return reconcile.Result{RequeueAfter: seedPeriod}, r.show(ctx, shoot, d.Operation, err)
	}
	if last := shoot.Status.LastOperation; !d.Begin && last != nil && last.State == corev1beta1.LastOperationStateError {
		r.Metrics.retry(d.Operation)
	}
	began, err := r.prepare(ctx, s, d)
	if err != nil {
		return reconcile.Result{}, err
	}

	result, before, err := r.pass(ctx, s, d.Operation, began)
	if err != nil {
		return reconcile.Result{}, r.report(ctx, shoot, d.Operation, err)
	}
	if result.Complete() && d.Operation != corev1beta1.LastOperationTypeDelete {
		if err := r.afterSuccess(ctx, s, d.Operation, began.Tasks); transient(err) {
			return reconcile.Result{RequeueAfter: planPeriod}, nil // The next pass reads the changes.
		} else if err != nil {
			return reconcile.Result{}, r.report(ctx, shoot, d.Operation, err)
		}
	}
	if result.Complete() && d.Operation == corev1beta1.LastOperationTypeDelete && !s.claim.Settled {
		if err := r.leave(ctx, s); err != nil {
			return reconcile.Result{}, r.report(ctx, shoot, d.Operation, err)
		}
	}
	if result.Complete() {
		moves := d.Operation == corev1beta1.LastOperationTypeMigrate // It leaves the machines as they are.
		if err := r.finishInPlaceUpdates(ctx, shoot, shoot.HibernationEnabled() && !moves); err != nil {
			return reconcile.Result{}, err
		}
		finishRollouts(shoot, d.Operation)
	}
	ended := apply(shoot, result, r.RetryDuration, r.Clock.Now())
	if result.Complete() && d.Operation == corev1beta1.LastOperationTypeRestore {
		shoot.Status.LastOperation.Description += lost(s.claim.TakenOver)
	}
	if err := r.writeResult(ctx, shoot, before); err != nil {
		return reconcile.Result{}, err
	}
	r.recordEvent(before, shoot)
	if ended {
		r.forget(shoot.UID)
		r.reportEnd(ctx, shoot.Status.LastOperation, began.At)
	}
	switch state := shoot.Status.LastOperation.State; {
	case state == corev1beta1.LastOperationStateError:
		return reconcile.Result{}, errors.New(shoot.Status.LastErrors[0].Description)
	case state == corev1beta1.LastOperationStateSucceeded && d.Operation == corev1beta1.LastOperationTypeDelete:
		return reconcile.Result{}, r.finalize(ctx, s)
	case state == corev1beta1.LastOperationStateSucceeded, state == corev1beta1.LastOperationStateFailed:
		// The Cluster object shows extensions the result. The next decision, soon after, plans the periodic reconciliation.
		return reconcile.Result{RequeueAfter: planPeriod}, r.refresh(ctx, s)
	case result.Recheck > 0:
		return reconcile.Result{RequeueAfter: result.Recheck}, nil
	}
	return reconcile.Result{RequeueAfter: passPeriod}, nil
}

// prepare records the start of an operation in two writes: the Cluster object, then the Shoot (writeStart). After a
// stop in between the Shoot says that nothing has begun, so the operation begins once more and none is lost. It returns
// how the operation began.
func (r *Reconciler) prepare(ctx context.Context, s *scope, d Decision) (beginning, error) {
	shoot, before, now := s.shoot, s.shoot.DeepCopy(), r.Clock.Now()
	id := technicalID(shoot, s.project)
	began, err := readBeginning(ctx, r.Seed, id)
	if err != nil {
		return beginning{}, err
	}
	if s.claim, err = r.claimFor(ctx, shoot, id, d.Operation); err != nil {
		return beginning{}, err
	}
	if d.Operation == corev1beta1.LastOperationTypeRestore {
		err = r.openState(ctx, s, id)
	} else {
		s.namespace = kube.NewNamespaceView(r.Seed, id, &r.seen)
		s.secrets, err = r.openSecrets(ctx, s.namespace, id)
	}
	if err != nil {
		return beginning{}, err
	}
	if d.Operation != corev1beta1.LastOperationTypeDelete {
		// Before any operation starts: rotations in progress determine which ones may start.
		if adopted := adoptRotations(shoot, steps.ObserveRotations(s.secrets)); len(adopted) > 0 {
			log.FromContext(ctx).Info("Adopting rotations that the status does not know", "credentials", adopted)
		}
	}
	begins := d.Begin || began.At.IsZero()
	if begins {
		log.FromContext(ctx).Info("Starting operation", "operation", d.Operation, "reason", d.Reason)
		if err := r.adopt(ctx, shoot, id, !began.At.IsZero()); err != nil {
			return beginning{}, err
		}
		if !keepsStart(d.Operation, shoot.Status.LastOperation, began.At) {
			began = beginning{At: now, Tasks: tasksOf(shoot)}
		}
		begin(shoot, d.Operation, r.Identity, id, now)
		if err := r.startOperations(ctx, shoot, d.Operation, id, now); err != nil {
			return beginning{}, err
		}
		r.forget(shoot.UID)
	} else if shoot.Status.LastOperation.State == corev1beta1.LastOperationStateFailed {
		// The cause of the failure is gone; the operation continues with a fresh retry period.
		log.FromContext(ctx).Info("Resuming operation", "operation", d.Operation, "reason", d.Reason)
		shoot.Status.RetryCycleStartTime = &metav1.Time{Time: now}
		setOperation(&shoot.Status, corev1beta1.LastOperationStateProcessing, shoot.Status.LastOperation.Progress,
			"The operation is resumed.", now)
	}
	cluster, err := desiredCluster(id, shoot, s.seed, s.profile, began)
	if err != nil {
		return beginning{}, err
	}
	if err := writeCluster(ctx, r.Seed, cluster); err != nil {
		return beginning{}, err
	}
	if err := r.writeStart(ctx, shoot, before); err != nil {
		return beginning{}, err
	}
	if begins {
		r.Metrics.start(d.Operation)
	}
	r.recordEvent(before, shoot)
	return began, nil
}

// reportEnd reports the end of an operation to operators. Users read it in the status and in an event.
func (r *Reconciler) reportEnd(ctx context.Context, operation *corev1beta1.LastOperation, began time.Time) {
	took := r.Clock.Since(began)
	r.Metrics.end(operation, took)
	message := "Operation succeeded"
	if operation.State == corev1beta1.LastOperationStateFailed { // Errors are returned, and logged by the caller.
		message = "Operation failed and is not retried"
	}
	log.FromContext(ctx).Info(message, "operation", operation.Type, "duration", took.Round(time.Second).String(),
		"description", operation.Description)
}

// pass makes one pass of the flow. The Shoot has what steps have changed in its status then; it is written against
// before.
func (r *Reconciler) pass(
	ctx context.Context, s *scope, operation corev1beta1.LastOperationType, began beginning,
) (result flow.Result, before *corev1beta1.Shoot, err error) {
	stepScope, err := r.stepScope(ctx, s, operation, began)
	if err != nil {
		return flow.Result{}, nil, err
	}
	result = flow.Run(ctx, graphFor(operation, s.shoot), stepScope, r.flowOptions(s.shoot, flowName(operation, s.shoot)))
	stepScope.FindLastEvents(ctx, result.Waiting)
	generates := operation != corev1beta1.LastOperationTypeDelete && operation != corev1beta1.LastOperationTypeMigrate
	if result.Complete() && generates {
		if err := stepScope.Secrets.Cleanup(ctx); err != nil {
			return flow.Result{}, nil, err
		}
	}
	// Others, such as care, have written to the Shoot meanwhile; the next write must be based on the newest version.
	latest := &corev1beta1.Shoot{}
	if err := r.Garden.Get(ctx, client.ObjectKeyFromObject(s.shoot), latest); err == nil {
		observed := s.shoot.Status
		latest.DeepCopyInto(s.shoot)
		if s.shoot.Status.LastOperation == nil {
			s.shoot.Status.LastOperation = observed.LastOperation
		}
	}
	before = s.shoot.DeepCopy()
	stepScope.Status.ApplyTo(&s.shoot.Status)
	return result, before, nil
}

// flowOptions are those of the Shoot's flow of a name.
func (r *Reconciler) flowOptions(shoot *corev1beta1.Shoot, name string) flow.Options {
	return flow.Options{
		Clock: r.Clock, Timers: r.timersOf(shoot), Transient: transient, Metrics: r.Metrics.ofFlows(), Flow: name,
		InOrder: r.InOrder,
	}
}

// graphFor is the flow of an operation.
func graphFor(operation corev1beta1.LastOperationType, shoot *corev1beta1.Shoot) *flow.Graph[*steps.Scope] {
	switch {
	case operation == corev1beta1.LastOperationTypeMigrate:
		return steps.Migrate()
	case operation != corev1beta1.LastOperationTypeDelete:
		return steps.Reconcile()
	case forced(shoot):
		return steps.ForceDelete()
	}
	return steps.Delete()
}

// forced: the owner accepts that the Shoot's resources at the provider are left over.
func forced(shoot *corev1beta1.Shoot) bool {
	on, err := strconv.ParseBool(shoot.Annotations[corev1beta1.AnnotationConfirmationForceDeletion])
	return err == nil && on
}

func (r *Reconciler) stepScope(
	ctx context.Context, s *scope, operation corev1beta1.LastOperationType, began beginning,
) (*steps.Scope, error) {
	namespace, seed := s.shoot.Status.TechnicalID, s.namespace
	facts, err := steps.Observe(ctx, seed, namespace, s.shoot.Name)
	if err != nil {
		return nil, err
	}
	registrations := &corev1beta1.ControllerRegistrationList{}
	if err := r.Cache.List(ctx, registrations); err != nil {
		return nil, fmt.Errorf("list ControllerRegistrations: %w", err)
	}
	installations := &corev1beta1.ControllerInstallationList{}
	if err := r.Cache.List(ctx, installations); err != nil {
		return nil, fmt.Errorf("list ControllerInstallations: %w", err)
	}
	identity, err := r.GardenIdentity(ctx)
	if err != nil {
		return nil, err
	}
	return &steps.Scope{
		Garden: r.Garden, Seed: seed, GardenApplied: &r.gardenApplied, SeedApplied: &r.seedApplied, Clock: r.Clock,
		Shoots: r.Shoots, Etcds: r.Shoots, Secrets: s.secrets, State: s.state, States: r.States,
		Values: steps.Values{
			Shoot: s.shoot.DeepCopy(), SeedObject: s.seed, Project: s.project, CloudProfile: s.profile,
			GardenIdentity: identity, Namespace: namespace,
			Operation: operation, Started: began.At, Tasks: began.Tasks, Claim: s.claim, FenceTime: r.FenceTime,
			Images: r.Images, DNSTTL: r.DNSTTL, NewWorkerPoolHash: r.NewWorkerPoolHash, Facts: facts,
			Registered: registrations.Items, Installations: installations.Items,
		},
	}, nil
}

// afterSuccess removes the annotations that have done their work, and the tasks that have been carried out. If the
// Shoot has changed since the pass, it returns a conflict.
func (r *Reconciler) afterSuccess(
	ctx context.Context, s *scope, operation corev1beta1.LastOperationType, tasks []string,
) error {
	if operation != corev1beta1.LastOperationTypeMigrate {
		if err := r.settle(ctx, s, operation); err != nil {
			return err
		}
	}
	if err := r.reportRestore(ctx, s.shoot); err != nil {
		return err
	}
	before := s.shoot.DeepCopy()
	delete(s.shoot.Annotations, corev1beta1.AnnotationShootSkipReadiness)
	if operation != corev1beta1.LastOperationTypeMigrate { // The other seed carries out the tasks.
		removeTasks(s.shoot, tasks)
	}
	delete(s.shoot.Annotations, corev1beta1.AnnotationConfirmOlderSpec)
	delete(s.shoot.Annotations, corev1beta1.AnnotationConfirmNewControlPlane)
	if !s.shoot.SourceIsDead() { // The annotation is about a seed from which this one has taken over.
		delete(s.shoot.Annotations, corev1beta1.AnnotationSourceIsDead)
	}
	if maps.Equal(before.Annotations, s.shoot.Annotations) {
		return nil
	}
	target := s.shoot.DeepCopy()
	lock := client.MergeFromWithOptimisticLock{} // A task that was added meanwhile must not be lost.
	if err := r.Garden.Patch(ctx, target, client.MergeFromWithOptions(before, lock)); err != nil {
		return fmt.Errorf("remove processed annotations: %w", err)
	}
	s.shoot.ResourceVersion = target.ResourceVersion
	return nil
}

// report makes an error from outside the flow visible on the Shoot and returns it. A transient one says nothing about
// the Shoot.
func (r *Reconciler) report(
	ctx context.Context, shoot *corev1beta1.Shoot, operation corev1beta1.LastOperationType, cause error,
) error {
	if transient(cause) {
		return cause
	}
	return errors.Join(cause, r.show(ctx, shoot, operation, cause))
}

// show makes an error from outside the flow visible on the Shoot.
func (r *Reconciler) show(
	ctx context.Context, shoot *corev1beta1.Shoot, operation corev1beta1.LastOperationType, cause error,
) error {
	before := shoot.DeepCopy()
	hinder(&shoot.Status, operation, cause, r.Clock.Now())
	return kube.PatchStatus(ctx, r.Garden, shoot, before)
}

// writeResult writes the result of a pass to the status. The end of an operation changes conditions, which care and
// extensions write, too, and a merge patch replaces their list. So the write is refused if the Shoot has changed since
// it was read, and repeated with the conditions that it has by then.
func (r *Reconciler) writeResult(ctx context.Context, shoot, before *corev1beta1.Shoot) error {
	was, is, same := &before.Status, &shoot.Status, equality.Semantic.DeepEqual
	if same(was.Conditions, is.Conditions) && same(was.Constraints, is.Constraints) {
		return kube.PatchStatus(ctx, r.Garden, shoot, before)
	}
	// The pass has written its changes of metadata by itself. To repeat them would remove tasks that were added since.
	before.ObjectMeta = *shoot.ObjectMeta.DeepCopy()
	var err error
	for range 5 { // Others write seldom. After a conflict each time, the next pass writes it.
		err = kube.PatchSharedStatus(ctx, r.Garden, shoot, before)
		if !apierrors.IsConflict(err) {
			return err
		}
		latest := &corev1beta1.Shoot{}
		if err := r.Garden.Get(ctx, client.ObjectKeyFromObject(shoot), latest); apierrors.IsNotFound(err) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read Shoot %s again: %w", client.ObjectKeyFromObject(shoot), err)
		}
		if latest.UID != shoot.UID {
			return err
		}
		before.ResourceVersion, shoot.ResourceVersion = latest.ResourceVersion, latest.ResourceVersion
		was.Conditions, was.Constraints = latest.Status.Conditions, latest.Status.Constraints
		is.Conditions = awaitCare(was.Conditions, r.Clock.Now())
		is.Constraints = awaitCare(was.Constraints, r.Clock.Now())
	}
	return err
}

// finalize lets a Shoot go whose control plane is gone.
func (r *Reconciler) finalize(ctx context.Context, s *scope) error {
	id := s.shoot.Status.TechnicalID
	if id == "" {
		var err error
		if id, err = r.unrecorded(ctx, s.shoot); err != nil {
			return err
		}
	}
	if id != "" {
		r.seedApplied.Forget(id)
		if _, err := kube.Delete(ctx, r.Seed,
			&extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: id}}); err != nil {
			return err
		}
	}
	r.forget(s.shoot.UID)
	// The status has been written since the Shoot was read, so the finalizer is removed from the newest version.
	if err := r.Garden.Get(ctx, client.ObjectKeyFromObject(s.shoot), s.shoot); err != nil {
		return client.IgnoreNotFound(err)
	}
	return kube.RemoveFinalizer(ctx, r.Garden, s.shoot, corev1beta1.FinalizerName)
}

// healed reports whether no extension object reports one of the self-healing codes any more.
func (r *Reconciler) healed(ctx context.Context, shoot *corev1beta1.Shoot) (bool, error) {
	objects, err := extensionobject.List(ctx, r.Seed, shoot.Status.TechnicalID, extensionobject.Kinds...)
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(objects, func(o extensionsv1alpha1.Object) bool {
		e := o.GetDefaultStatus().LastError
		return e != nil &&
			slices.ContainsFunc(e.Codes, func(c corev1beta1.ErrorCode) bool { return slices.Contains(selfHealing, c) })
	}), nil
}

// upToDate reports whether the last operation has done everything that the Shoot's owner requests.
func upToDate(shoot *corev1beta1.Shoot) bool {
	last := shoot.Status.LastOperation
	return last != nil && last.State == corev1beta1.LastOperationStateSucceeded &&
		shoot.Generation == shoot.Status.ObservedGeneration && len(tasksOf(shoot)) == 0 && shoot.DeletionTimestamp == nil
}

// seedReady returns why a seed cannot run operations yet; a seed in deletion still has to clean up.
func seedReady(seed *corev1beta1.Seed, version string) error {
	if seed.DeletionTimestamp != nil {
		return nil
	}
	if seed.Status.Gardener == nil || seed.Status.Gardener.Version != version {
		return fmt.Errorf("the gardenlet of seed %q has not registered its version yet", seed.Name)
	}
	if seed.Status.ObservedGeneration != seed.Generation {
		return fmt.Errorf("seed %q has not been reconciled since its last change", seed.Name)
	}
	for _, want := range []corev1beta1.ConditionType{
		corev1beta1.SeedGardenletReady, corev1beta1.SeedSystemComponentsHealthy,
	} {
		c := corev1beta1.FindCondition(seed.Status.Conditions, want)
		if c == nil || c.Status != corev1beta1.ConditionTrue {
			return fmt.Errorf("seed %q is not ready: condition %s is not True", seed.Name, want)
		}
	}
	return nil
}

// transient errors lead to another pass: another client was faster, or the server is busy.
func transient(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTimeout(err)
}

// timersOf returns the timers of the Shoot's operation. In a new process they continue its progress.
func (r *Reconciler) timersOf(shoot *corev1beta1.Shoot) *flow.Timers {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timers == nil {
		r.timers = map[types.UID]*flow.Timers{}
	}
	if r.timers[shoot.UID] == nil {
		timers := &flow.Timers{}
		if last := shoot.Status.LastOperation; last != nil && last.State != corev1beta1.LastOperationStateSucceeded {
			timers.Before = min(last.Progress, 99)
		}
		r.timers[shoot.UID] = timers
	}
	return r.timers[shoot.UID]
}

func (r *Reconciler) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.timers, uid)
}
