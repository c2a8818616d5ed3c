package shootstate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

const (
	// maxBytes bounds a ShootState. The API server takes requests of 30 MiB, and etcd 32 MiB; the rest is for managed
	// fields and the encryption. 20 MiB are more than the state of 100,000 machines, which is compressed.
	maxBytes = 20 << 20
	// annotationComplete on a ShootState names the seed that has saved everything after its extensions had been migrated,
	// the time when the migration began, and whether that includes the last extensions. The next seed removes the
	// annotation.
	annotationComplete = "hortus.dev/complete"
	// attempts of one Save after another client has written the ShootState.
	attempts = 3

	fieldOwner = "gardenlet"
)

// ErrNothingLeft says that a control plane namespace has none of the Secrets that are saved in the garden. The garden's
// copies are the last ones then.
var ErrNothingLeft = errors.New(
	"the control plane namespace has lost all its persistent Secrets; the ShootState in the garden is kept")

// TooLargeError says that a ShootState would exceed its size limit. Nothing is written then.
type TooLargeError struct {
	Bytes, Limit int
	// Entry is the largest entry.
	Entry      string
	EntryBytes int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the state has %d bytes (at most %d); its largest entry is %s with %d bytes",
		e.Bytes, e.Limit, e.Entry, e.EntryBytes)
}

// States saves the state of Shoots in the garden. It is safe for concurrent use: calls for the same Shoot wait for each
// other, and the resource version detects writes by another process.
type States struct {
	Garden   client.Client // Direct reads and writes.
	Seed     client.Reader // Direct reads.
	Clock    clock.PassiveClock
	SeedName string

	mu    sync.Mutex
	known map[types.NamespacedName]*known
	// limit is maxBytes; tests have a smaller one.
	limit int
}

// Outcome of a Save.
type Outcome struct {
	// Bytes is the size of the ShootState, and Written that of the request that changed it: 0 if nothing had to be
	// written.
	Bytes, Written int
	// Missing are referenced objects that do not exist. Copies of them in the garden remain.
	Missing []Reference
	// Complete: the ShootState is complete for a migration, and nothing is written to it any more.
	Complete bool
}

// known is what the garden has of a Shoot, as far as this process knows.
type known struct {
	mu     sync.Mutex
	stored *stored // Nil: not read yet.
}

// stored is a ShootState without its data.
type stored struct {
	resourceVersion string // Empty if there is none.
	annotations     map[string]string
	owner           types.UID
	content         content
}

func (s *States) of(shoot *corev1beta1.Shoot) *known {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := client.ObjectKeyFromObject(shoot)
	if s.known == nil {
		s.known = map[types.NamespacedName]*known{}
	}
	if s.known[key] == nil {
		s.known[key] = &known{}
	}
	return s.known[key]
}

// Forget drops what is cached about a Shoot that has left this seed.
func (s *States) Forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, key)
}

// refresh makes the next Save read the ShootState if another client has written it since.
func (s *States) refresh(ctx context.Context, shoot *corev1beta1.Shoot) error {
	k := s.of(shoot)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stored == nil {
		return nil
	}
	state := metadataOf(shoot)
	err := s.Garden.Get(ctx, client.ObjectKeyFromObject(shoot), state)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read metadata of ShootState %s: %w", client.ObjectKeyFromObject(shoot), err)
	}
	if state.ResourceVersion != k.stored.resourceVersion {
		k.stored = nil
	}
	return nil
}

// Save updates the ShootState in the garden from the seed, with a single write if anything differs. Decide must allow
// it for the Shoot.
func (s *States) Save(ctx context.Context, shoot *corev1beta1.Shoot) (Outcome, error) {
	return s.save(ctx, shoot, open)
}

// Seal saves everything when extensions have been migrated, and reports whether the garden has it; if not, call it
// again. Later calls in the same migration change nothing, whatever is left in the seed.
func (s *States) Seal(ctx context.Context, shoot *corev1beta1.Shoot) (saved bool, err error) {
	return s.seal(ctx, shoot, sealed)
}

// SealLast is Seal for the extensions that are migrated after the others, when no part of the control plane that they
// could need is left.
func (s *States) SealLast(ctx context.Context, shoot *corev1beta1.Shoot) (saved bool, err error) {
	return s.seal(ctx, shoot, sealedLast)
}

func (s *States) seal(ctx context.Context, shoot *corev1beta1.Shoot, stage sealing) (saved bool, err error) {
	if reason, ok := Decide(shoot, s.SeedName); !ok {
		return false, fmt.Errorf("save the state of Shoot %s: %s", client.ObjectKeyFromObject(shoot), reason)
	}
	if err := s.refresh(ctx, shoot); err != nil {
		return false, err
	}
	outcome, err := s.save(ctx, shoot, stage)
	if apierrors.IsConflict(err) {
		return false, nil
	}
	return outcome.Complete && err == nil, err
}

func (s *States) save(ctx context.Context, shoot *corev1beta1.Shoot, stage sealing) (Outcome, error) {
	k := s.of(shoot)
	k.mu.Lock()
	defer k.mu.Unlock()
	var outcome Outcome
	for attempt := 1; ; attempt++ {
		loaded := k.stored == nil
		if loaded {
			var err error
			if k.stored, err = s.load(ctx, shoot); err != nil {
				return Outcome{}, err
			}
		}
		next, err := s.plan(ctx, shoot, k.stored, stage)
		if err != nil || next.create == nil && next.patch == nil {
			return next.outcome, err
		}
		outcome = next.outcome
		if loaded || stage == open && k.stored.annotations[annotationComplete] != "" {
			// The Shoot was read before the ShootState: the write would succeed although another seed has saved since then,
			// or although the state has been sealed.
			if err := s.confirm(ctx, shoot); err != nil {
				return Outcome{}, err
			}
		}
		err = s.write(ctx, shoot, next)
		if err == nil {
			k.stored = next.after
			return outcome, nil
		}
		k.stored = nil // It may have been written even after an error.
		if !overtaken(err) || attempt == attempts {
			return Outcome{}, fmt.Errorf("write ShootState %s: %w", client.ObjectKeyFromObject(shoot), err)
		}
	}
}

// confirm returns a conflict if what decides on a write of the ShootState has changed since the Shoot was read.
func (s *States) confirm(ctx context.Context, shoot *corev1beta1.Shoot) error {
	now := &corev1beta1.Shoot{}
	if err := s.Garden.Get(ctx, client.ObjectKeyFromObject(shoot), now); err != nil {
		return fmt.Errorf("read Shoot %s: %w", client.ObjectKeyFromObject(shoot), err)
	}
	reason, ok := Decide(now, s.SeedName)
	switch {
	case now.UID != shoot.UID, migrating(now) != migrating(shoot):
		reason = "the Shoot has changed"
	case ok:
		return nil
	}
	return apierrors.NewConflict(corev1beta1.Resource("shootstates"), shoot.Name, errors.New(reason))
}

// overtaken: another client has written the ShootState. A failed test of a JSON patch is answered with 422.
func overtaken(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) ||
		statusCode(err) == http.StatusUnprocessableEntity
}

func statusCode(err error) int32 {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Code
	}
	return 0
}

// load reads the ShootState, of which only checksums are kept.
func (s *States) load(ctx context.Context, shoot *corev1beta1.Shoot) (*stored, error) {
	state := &corev1beta1.ShootState{}
	if err := s.Garden.Get(ctx, client.ObjectKeyFromObject(shoot), state); err != nil {
		if apierrors.IsNotFound(err) {
			return &stored{}, nil
		}
		return nil, fmt.Errorf("read ShootState %s: %w", client.ObjectKeyFromObject(shoot), err)
	}
	c, err := contentOf(&state.Spec)
	if err != nil {
		return nil, err
	}
	out := &stored{resourceVersion: state.ResourceVersion, annotations: state.Annotations, content: c.withoutRaw()}
	if owner := metav1.GetControllerOf(state); owner != nil {
		out.owner = owner.UID
	}
	return out, nil
}

func (s *States) maxBytes() int {
	if s.limit > 0 {
		return s.limit
	}
	return maxBytes
}

// write sends a change. On success its result is what is known.
func (s *States) write(ctx context.Context, shoot *corev1beta1.Shoot, n next) error {
	if n.create != nil {
		if err := s.Garden.Create(ctx, n.create, client.FieldOwner(fieldOwner)); err != nil {
			return err
		}
		n.after.resourceVersion = n.create.ResourceVersion
		return nil
	}
	state := metadataOf(shoot) // Only the metadata is requested in the response.
	patch := client.RawPatch(types.JSONPatchType, n.patch)
	if err := s.Garden.Patch(ctx, state, patch, client.FieldOwner(fieldOwner)); err != nil {
		return err
	}
	n.after.resourceVersion = state.ResourceVersion
	return nil
}

func metadataOf(shoot *corev1beta1.Shoot) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: shoot.Namespace, Name: shoot.Name}}
	m.SetGroupVersionKind(corev1beta1.SchemeGroupVersion.WithKind("ShootState"))
	return m
}
