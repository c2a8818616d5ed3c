package seed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/kube"
)

// remove lets the Seed go once nothing depends on it: first its Shoots, then the backups of those, for which the
// extensions are still needed, then the extensions.
func (r *Reconciler) remove(ctx context.Context, s *scope) (reconcile.Result, error) {
	for _, check := range []func(context.Context, *scope) (string, error){r.shootsLeft, r.bucketLeft,
		r.installationsLeft} {
		reason, err := check(ctx, s)
		if err != nil || reason != "" {
			return reconcile.Result{RequeueAfter: unreadyPeriod}, errors.Join(err, r.reportDeletion(ctx, s.seed, reason, err))
		}
	}
	// The definitions stay, since others may use them. Nothing is left that the policies would have to protect, and they
	// would block the deletion of the definitions, with which a Shoot that was a Seed ends.
	for _, o := range slices.Concat(components(s.seed, r.Image), r.policies()) {
		if _, namespace := o.(*corev1.Namespace); namespace {
			continue
		}
		if _, err := kube.Delete(ctx, r.Seed, o); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, kube.RemoveFinalizer(ctx, r.Garden, s.seed, corev1beta1.FinalizerName)
}

// reportDeletion writes to the status what the deletion waits for.
func (r *Reconciler) reportDeletion(ctx context.Context, seed *corev1beta1.Seed, reason string, cause error) error {
	before := seed.DeepCopy()
	op := corev1beta1.LastOperation{Type: corev1beta1.LastOperationTypeDelete,
		State: corev1beta1.LastOperationStateProcessing, Description: reason}
	if cause != nil {
		op.State, op.Description = corev1beta1.LastOperationStateError, cause.Error()
	}
	setLastOperation(&seed.Status, op, r.Clock.Now())
	return kube.PatchStatus(ctx, r.Garden, seed, before)
}

func (r *Reconciler) shootsLeft(ctx context.Context, s *scope) (string, error) {
	shoots := &corev1beta1.ShootList{}
	if err := r.Garden.List(ctx, shoots,
		client.MatchingLabels{corev1beta1.LabelPrefixSeedName + s.seed.Name: "true"}); err != nil {
		return "", fmt.Errorf("list Shoots of the Seed: %w", err)
	}
	if n := len(shoots.Items); n > 0 {
		return fmt.Sprintf("The Seed is still in use by Shoot %s/%s (%d in all)", shoots.Items[0].Namespace,
			shoots.Items[0].Name, n), nil
	}
	return "", nil
}

func (r *Reconciler) bucketLeft(ctx context.Context, s *scope) (string, error) {
	return r.deleteBackupBucket(ctx, s.seed)
}

func (r *Reconciler) installationsLeft(ctx context.Context, s *scope) (string, error) {
	if err := r.readInstallations(ctx, s); err != nil {
		return "", err
	}
	var names []string
	for i := range s.installations {
		names = append(names, s.installations[i].Spec.RegistrationRef.Name)
	}
	if len(names) == 0 {
		return "", nil
	}
	slices.Sort(names)
	return "Extensions are still installed: " + strings.Join(names, ", "), nil
}
