package seed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/gardenlet/selfupdate"
	"hortus.dev/hortus/internal/kube"
)

// left is what depends on a Seed, and so blocks its deletion.
type left struct {
	reason string // "": nothing.
	// soon: it is about to end, without an event.
	soon bool
}

func (l left) nothing() bool { return l.reason == "" }

// findLeft returns what the deletion of the Seed waits for: first its Shoots, then the backups of those, for which the
// extensions are still needed, then the extensions, then the gardenlet itself, which
// only the seed's resource-manager can release.
func (r *Reconciler) findLeft(ctx context.Context, s *scope) (left, error) {
	if reason, err := r.shootsLeft(ctx, s); err != nil || reason != "" {
		return left{reason: reason}, err
	}
	if reason, err := r.deleteBackupBucket(ctx, s.seed); err != nil || reason != "" {
		return left{reason, true}, err
	}
	if reason, err := r.installationsLeft(ctx, s); err != nil || reason != "" {
		return left{reason, true}, err
	}
	released, err := selfupdate.Released(ctx, r.Seed)
	if err != nil || !released {
		return left{"The gardenlet is still managed as its Gardenlet says", true}, err
	}
	return left{}, nil
}

// remove deletes what the gardenlet has created in the seed, and releases the Seed.
func (r *Reconciler) remove(ctx context.Context, s *scope) error {
	// The definitions stay, since others may use them. Nothing is left that the policies would have to protect, and they
	// would block the deletion of the definitions, with which a Shoot that was a Seed ends.
	for _, o := range slices.Concat(components(s.seed, r.Image), r.policies()) {
		if _, namespace := o.(*corev1.Namespace); namespace {
			continue
		}
		if _, err := r.applied.Delete(ctx, r.Seed, o); err != nil {
			before := s.seed.DeepCopy()
			setLastOperation(&s.seed.Status, deletion("", err), r.Clock.Now())
			return errors.Join(err, kube.PatchStatus(ctx, r.Garden, s.seed, before))
		}
	}
	return kube.RemoveFinalizer(ctx, r.Garden, s.seed, corev1beta1.FinalizerName)
}

// deletion is the operation of a Seed in deletion, which waits for the reason or fails with the error.
func deletion(reason string, err error) corev1beta1.LastOperation {
	op := corev1beta1.LastOperation{Type: corev1beta1.LastOperationTypeDelete,
		State: corev1beta1.LastOperationStateProcessing, Description: reason}
	if err != nil {
		op.State, op.Description = corev1beta1.LastOperationStateError, err.Error()
	}
	return op
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
