package controllerregistration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/kube"
)

const (
	finalizer         = "core.gardener.cloud/controllerregistration"
	conditionRequired = corev1beta1.ConditionType("Required")
)

// Reconciler maintains the ControllerInstallations of each Seed.
type Reconciler struct {
	Garden client.Client // Cached reads, direct writes.
	Live   client.Reader // Checks for installations again before the Seed's finalizer is removed.
}

// SetupWithManager registers the controller, one request per Seed.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("controllerregistration").
		For(&corev1beta1.Seed{}).
		Watches(&corev1beta1.ControllerRegistration{}, handler.EnqueueRequestsFromMapFunc(r.allSeeds)).
		Watches(&corev1beta1.ControllerInstallation{},
			handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
				ref := o.(*corev1beta1.ControllerInstallation).Spec.SeedRef
				if ref == nil {
					return nil
				}
				return request(ref.Name)
			})).
		Watches(&corev1beta1.BackupBucket{}, handler.EnqueueRequestsFromMapFunc(ofBucket),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1beta1.Shoot{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context,
			o client.Object) []reconcile.Request {
			var requests []reconcile.Request
			for _, name := range seedsOf(o.(*corev1beta1.Shoot)) {
				requests = append(requests, request(name)...)
			}
			return requests
		})).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

func ofBucket(_ context.Context, o client.Object) []reconcile.Request {
	if name := o.(*corev1beta1.BackupBucket).Spec.SeedName; name != nil {
		return request(*name)
	}
	return nil
}

func request(seed string) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: seed}}}
}

// seedsOf returns the Seeds that have, or will have, parts of a Shoot's control plane.
func seedsOf(s *corev1beta1.Shoot) []string {
	var seeds []string
	for _, name := range []*string{s.Spec.SeedName, s.Status.SeedName} {
		if name != nil && !slices.Contains(seeds, *name) {
			seeds = append(seeds, *name)
		}
	}
	return seeds
}

func (r *Reconciler) allSeeds(ctx context.Context, _ client.Object) []reconcile.Request {
	var seeds corev1beta1.SeedList
	if err := r.Garden.List(ctx, &seeds, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Failed to list Seeds")
		return nil
	}
	var requests []reconcile.Request
	for i := range seeds.Items {
		requests = append(requests, request(seeds.Items[i].Name)...)
	}
	return requests
}

// Reconcile creates and deletes the installations of one Seed according to its needs.
func (r *Reconciler) Reconcile(ctx context.Context, seed *corev1beta1.Seed) (reconcile.Result, error) {
	var registrations corev1beta1.ControllerRegistrationList
	if err := r.Garden.List(ctx, &registrations, client.UnsafeDisableDeepCopy); err != nil { // Required only reads.
		return reconcile.Result{}, fmt.Errorf("list ControllerRegistrations: %w", err)
	}
	needed, err := r.needed(ctx, seed)
	if err != nil {
		return reconcile.Result{}, err
	}
	buckets, err := r.neededByBuckets(ctx, seed)
	if err != nil {
		return reconcile.Result{}, err
	}
	var required []string
	switch {
	case seed.DeletionTimestamp.IsZero() || needed.Shoots:
		maps.Copy(needed.BySeed, buckets)
		required = Required(registrations.Items, seed, needed)
	case len(buckets) > 0: // The Seed is being deleted, but its backups must be deleted first.
		required = Required(registrations.Items, seed, Needed{BySeed: buckets})
	}
	if len(required) > 0 {
		if err := kube.EnsureFinalizer(ctx, r.Garden, seed, finalizer); err != nil {
			return reconcile.Result{}, err
		}
	}
	left, err := r.sync(ctx, seed, registrations.Items, required)
	if err != nil || left > 0 || !controllerutil.ContainsFinalizer(seed, finalizer) {
		return reconcile.Result{}, err
	}
	// The cache may not contain an installation that was just created.
	var installations corev1beta1.ControllerInstallationList
	if err := r.Live.List(ctx, &installations); err != nil {
		return reconcile.Result{}, fmt.Errorf("list ControllerInstallations: %w", err)
	}
	if slices.ContainsFunc(installations.Items, func(i corev1beta1.ControllerInstallation) bool {
		return i.Spec.SeedRef != nil && i.Spec.SeedRef.Name == seed.Name
	}) {
		return reconcile.Result{}, nil // When the cache contains it, an event triggers the next reconciliation.
	}
	return reconcile.Result{}, kube.RemoveFinalizer(ctx, r.Garden, seed, finalizer)
}

// needed returns the needs of the Seed and its Shoots. It reads from the cache, without copies.
func (r *Reconciler) needed(ctx context.Context, seed *corev1beta1.Seed) (Needed, error) {
	needed := Needed{BySeed: NeededBySeed(seed), ByShoots: Set{}}
	for _, index := range []string{IndexSpecSeed, IndexStatusSeed} {
		var shoots corev1beta1.ShootList
		if err := r.Garden.List(ctx, &shoots, client.MatchingFields{index: seed.Name},
			client.UnsafeDisableDeepCopy); err != nil {
			return Needed{}, fmt.Errorf("list Shoots of Seed %q: %w", seed.Name, err)
		}
		for i := range shoots.Items {
			needed.Shoots = true
			maps.Copy(needed.ByShoots, NeededByShoot(&shoots.Items[i]))
		}
	}
	return needed, nil
}

// neededByBuckets returns the kinds and types of the Seed's BackupBuckets and of the BackupEntries in them.
func (r *Reconciler) neededByBuckets(ctx context.Context, s *corev1beta1.Seed) (Set, error) {
	var buckets corev1beta1.BackupBucketList
	err := r.Garden.List(ctx, &buckets, client.MatchingFields{IndexSpecSeed: s.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list BackupBuckets of Seed %q: %w", s.Name, err)
	}
	needed := Set{}
	for i := range buckets.Items {
		needed.add(extensionsv1alpha1.BackupBucketKind, buckets.Items[i].Spec.Provider.Type)
		needed.add(extensionsv1alpha1.BackupEntryKind, buckets.Items[i].Spec.Provider.Type)
	}
	return needed, nil
}

// sync creates missing installations, deletes unneeded ones, points the others to the ControllerDeployments of their
// registrations, and returns the number of those that exist.
func (r *Reconciler) sync(
	ctx context.Context, seed *corev1beta1.Seed, registrations []corev1beta1.ControllerRegistration, required []string,
) (int, error) {
	var installations corev1beta1.ControllerInstallationList
	if err := r.Garden.List(ctx, &installations, client.MatchingFields{IndexInstallationSeed: seed.Name}); err != nil {
		return 0, fmt.Errorf("list ControllerInstallations of Seed %q: %w", seed.Name, err)
	}
	left := 0
	have := map[string]bool{}
	for i := range installations.Items {
		installation := &installations.Items[i]
		name := installation.Spec.RegistrationRef.Name
		wanted := slices.Contains(required, name) && !have[name]
		have[name] = have[name] || wanted
		left++
		if !installation.DeletionTimestamp.IsZero() {
			continue
		}
		if wanted || inUse(installation) {
			if err := r.redeploy(ctx, installation, registrations); err != nil {
				return 0, err
			}
			continue
		}
		log.FromContext(ctx).Info("Deleting ControllerInstallation that nothing needs",
			"ControllerInstallation", installation.Name)
		if err := client.IgnoreNotFound(r.Garden.Delete(ctx, installation)); err != nil {
			return 0, fmt.Errorf("delete ControllerInstallation %q: %w", installation.Name, err)
		}
	}
	for _, name := range required {
		if have[name] {
			continue
		}
		log.FromContext(ctx).Info("Creating ControllerInstallation", "ControllerRegistration", name)
		i := slices.IndexFunc(registrations, func(r corev1beta1.ControllerRegistration) bool { return r.Name == name })
		if err := r.Garden.Create(ctx, newInstallation(&registrations[i], seed)); client.IgnoreAlreadyExists(err) != nil {
			return 0, fmt.Errorf("create ControllerInstallation of %q on Seed %q: %w", name, seed.Name, err)
		}
		left++
	}
	return left, nil
}

// redeploy lets an installation refer to the ControllerDeployment that its registration names now.
func (r *Reconciler) redeploy(
	ctx context.Context, installation *corev1beta1.ControllerInstallation,
	registrations []corev1beta1.ControllerRegistration,
) error {
	deployment := replacement(installation, registrations)
	if deployment == "" {
		return nil
	}
	log.FromContext(ctx).Info("Changing the ControllerDeployment of a ControllerInstallation",
		"ControllerInstallation", installation.Name, "ControllerDeployment", deployment)
	before := installation.DeepCopy()
	installation.Spec.DeploymentRef = &corev1.ObjectReference{Name: deployment}
	if err := client.IgnoreNotFound(r.Garden.Patch(ctx, installation, client.MergeFrom(before))); err != nil {
		return fmt.Errorf("patch ControllerInstallation %q: %w", installation.Name, err)
	}
	return nil
}

// replacement returns the name of the ControllerDeployment that an installation has to refer to instead of its present
// one, or "" if that stays. It stays, too, if the registration does not exist or no longer names one: what is installed
// is needed until the objects of its kinds are gone.
func replacement(
	installation *corev1beta1.ControllerInstallation, registrations []corev1beta1.ControllerRegistration,
) string {
	i := slices.IndexFunc(registrations, func(r corev1beta1.ControllerRegistration) bool {
		return r.Name == installation.Spec.RegistrationRef.Name
	})
	if i < 0 {
		return ""
	}
	wanted, present := registrations[i].Spec.Deployment, installation.Spec.DeploymentRef
	if wanted == nil || len(wanted.DeploymentRefs) == 0 || present != nil &&
		present.Name == wanted.DeploymentRefs[0].Name {
		return ""
	}
	return wanted.DeploymentRefs[0].Name
}

// inUse reports whether the gardenlet still finds objects of the installation's kinds in the Seed.
func inUse(installation *corev1beta1.ControllerInstallation) bool {
	return slices.ContainsFunc(installation.Status.Conditions, func(c corev1beta1.Condition) bool {
		return c.Type == conditionRequired && c.Status == corev1beta1.ConditionTrue
	})
}

// maxInstallationName leaves room for the prefix of the extension's namespace.
const maxInstallationName = validation.DNS1123LabelMaxLength - len(corev1beta1.ExtensionNamespacePrefix)

// installationName derives the name of a ControllerInstallation from its registration and Seed, so that a retry does
// not create a second object. The end of a name that is too long for a namespace is replaced with a hash of the whole.
func installationName(registration, seed string) string {
	name := registration + "-" + seed
	if len(name) <= maxInstallationName {
		return name
	}
	hash := sha256.Sum256([]byte(name))
	suffix := "-" + hex.EncodeToString(hash[:4])
	return strings.TrimRight(name[:maxInstallationName-len(suffix)], "-.") + suffix
}

func newInstallation(
	registration *corev1beta1.ControllerRegistration, seed *corev1beta1.Seed,
) *corev1beta1.ControllerInstallation {
	deployment := registration.Spec.Deployment.DeploymentRefs[0].Name
	return &corev1beta1.ControllerInstallation{
		ObjectMeta: metav1.ObjectMeta{Name: installationName(registration.Name, seed.Name)},
		Spec: corev1beta1.ControllerInstallationSpec{
			RegistrationRef: corev1.ObjectReference{Name: registration.Name},
			SeedRef:         &corev1.ObjectReference{Name: seed.Name},
			DeploymentRef:   &corev1.ObjectReference{Name: deployment},
		},
	}
}

// Names of the cache's indexes.
const (
	IndexSpecSeed         = "spec.seedName"
	IndexStatusSeed       = "status.seedName"
	IndexInstallationSeed = "spec.seedRef.name"
)

// AddIndexes adds the indexes for the Shoots and installations of a Seed.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	name := func(s *string) []string {
		if s == nil {
			return nil
		}
		return []string{*s}
	}
	if err := indexer.IndexField(ctx, &corev1beta1.Shoot{}, IndexSpecSeed, func(o client.Object) []string {
		return name(o.(*corev1beta1.Shoot).Spec.SeedName)
	}); err != nil {
		return err
	}
	if err := indexer.IndexField(ctx, &corev1beta1.Shoot{}, IndexStatusSeed, func(o client.Object) []string {
		return name(o.(*corev1beta1.Shoot).Status.SeedName)
	}); err != nil {
		return err
	}
	if err := indexer.IndexField(ctx, &corev1beta1.BackupBucket{}, IndexSpecSeed, func(o client.Object) []string {
		return name(o.(*corev1beta1.BackupBucket).Spec.SeedName)
	}); err != nil {
		return err
	}
	return indexer.IndexField(ctx, &corev1beta1.ControllerInstallation{}, IndexInstallationSeed,
		func(o client.Object) []string {
			if ref := o.(*corev1beta1.ControllerInstallation).Spec.SeedRef; ref != nil {
				return []string{ref.Name}
			}
			return nil
		})
}
