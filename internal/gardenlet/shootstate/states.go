package shootstate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

const (
	// maxBytes bounds a ShootState. The API server takes requests of 30 MiB, and etcd 32 MiB; the rest is for managed
	// fields and growth. 20 MiB are the machine state of some 30,000 machines.
	maxBytes = 20 << 20
	// annotationComplete on a ShootState names the seed that has saved everything before it removed the objects, and the
	// time when the migration began. The seed writes no more, and the next one removes the annotation.
	annotationComplete = "hortus.dev/complete"
	// attempts of one Save after somebody else has written the ShootState.
	attempts = 3

	fieldOwner = "gardenlet"
)

// ErrNothingLeft says that a control plane namespace has none of the Secrets that the garden knows. Then the garden's
// are the last ones there are.
var ErrNothingLeft = errors.New("the control plane namespace has lost all its persistent Secrets; the ShootState in the garden is kept")

// TooLargeError says that a ShootState would be beyond its bound. Nothing is written then.
type TooLargeError struct {
	Bytes, Limit int
	// Entry is the largest one.
	Entry      string
	EntryBytes int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the state has %d bytes (at most %d); its largest entry is %s with %d bytes", e.Bytes, e.Limit, e.Entry, e.EntryBytes)
}

// States saves the state of Shoots in the garden. It is safe for concurrent use, and calls for the same Shoot wait for
// each other; those of two processes are told apart by the resource version.
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
	// Bytes of the ShootState, and of the request that changed it: 0 if nothing had to be written.
	Bytes, Written int
	// Missing are referenced objects that do not exist. What the garden has of them stays.
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

// Forget drops what is remembered of a Shoot that this seed has no more.
func (s *States) Forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, key)
}

// refresh makes the next Save read the ShootState if somebody else has written it since.
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

// Save makes the ShootState in the garden what the seed has, with one write if anything differs. The Shoot must be one
// that Decide allows to be written.
func (s *States) Save(ctx context.Context, shoot *corev1beta1.Shoot) (Outcome, error) {
	return s.save(ctx, shoot, false)
}

// Seal saves everything before a migration removes the first object, and reports whether the garden has it: if not, call
// it again. Later calls in the same migration change nothing, whatever is left in the seed.
func (s *States) Seal(ctx context.Context, shoot *corev1beta1.Shoot) (saved bool, err error) {
	if reason, ok := Decide(shoot, s.SeedName); !ok {
		return false, fmt.Errorf("save the state of Shoot %s: %s", client.ObjectKeyFromObject(shoot), reason)
	}
	if err := s.refresh(ctx, shoot); err != nil {
		return false, err
	}
	outcome, err := s.save(ctx, shoot, true)
	if apierrors.IsConflict(err) {
		return false, nil
	}
	return outcome.Complete && err == nil, err
}

func (s *States) save(ctx context.Context, shoot *corev1beta1.Shoot, seal bool) (Outcome, error) {
	k := s.of(shoot)
	k.mu.Lock()
	defer k.mu.Unlock()
	var outcome Outcome
	for attempt := 1; ; attempt++ {
		if k.stored == nil {
			var err error
			if k.stored, err = s.load(ctx, shoot); err != nil {
				return Outcome{}, err
			}
		}
		next, err := s.plan(ctx, shoot, k.stored, seal)
		if err != nil || next.create == nil && next.patch == nil {
			return next.outcome, err
		}
		outcome = next.outcome
		err = s.write(ctx, shoot, next)
		if err == nil {
			k.stored = next.after
			return outcome, nil
		}
		k.stored = nil // Even after an error it may have been written.
		if !overtaken(err) || attempt == attempts {
			return Outcome{}, fmt.Errorf("write ShootState %s: %w", client.ObjectKeyFromObject(shoot), err)
		}
	}
}

// overtaken: somebody else has written the ShootState. A failed test of a JSON patch is answered with 422.
func overtaken(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsInvalid(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) ||
		apierrors.ReasonForError(err) == metav1.StatusReasonUnknown && statusCode(err) == 422
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

// next is one write to a ShootState; nothing if create and patch are nil.
type next struct {
	create  *corev1beta1.ShootState
	patch   []byte
	after   *stored
	outcome Outcome
}

// plan compares the seed with what is stored.
func (s *States) plan(ctx context.Context, shoot *corev1beta1.Shoot, have *stored, seal bool) (next, error) {
	mark := completeMark(s.SeedName, shoot)
	if migrating(shoot) && have.annotations[annotationComplete] == mark {
		bytes, _ := have.content.size()
		return next{outcome: Outcome{Bytes: bytes, Complete: true}}, nil
	}
	observed, err := observe(ctx, s.Seed, shoot)
	if err != nil {
		return next{}, err
	}
	spec, missing, err := Desired(observed)
	if err != nil {
		return next{}, err
	}
	want, err := contentOf(&spec)
	if err != nil {
		return next{}, err
	}
	if want.secrets() == 0 && have.content.secrets() > 0 {
		return next{}, ErrNothingLeft
	}
	keep := map[string]bool{}
	for _, ref := range missing {
		keep[ref.key()] = true
	}
	operations, after := diff(have.content, want, keep)
	bytes, largest := after.size()
	if limit := s.maxBytes(); bytes > limit {
		return next{}, &TooLargeError{bytes, limit, largest.key, largest.bytes}
	}
	n := next{outcome: Outcome{Bytes: bytes, Missing: missing, Complete: seal}}
	annotations := map[string]string{corev1beta1.AnnotationTimestamp: s.Clock.Now().UTC().Format(time.RFC3339)}
	if seal {
		annotations[annotationComplete] = mark
	}
	if have.resourceVersion == "" {
		if bytes == 0 && !seal {
			return n, nil // Nothing has been made yet.
		}
		n.create = &corev1beta1.ShootState{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: shoot.Namespace, Name: shoot.Name, Annotations: annotations, OwnerReferences: []metav1.OwnerReference{owner(shoot)},
			},
			Spec: spec,
		}
		n.outcome.Written = bytes
		n.after = &stored{annotations: annotations, owner: shoot.UID, content: after.withoutRaw()}
		return n, nil
	}
	if have.owner != shoot.UID {
		operations = append(operations, operation{"add", "/metadata/ownerReferences", mustJSON([]metav1.OwnerReference{owner(shoot)})})
	}
	if len(operations) == 0 && have.annotations[annotationComplete] == annotations[annotationComplete] {
		return n, nil
	}
	for key, value := range have.annotations {
		if _, ok := annotations[key]; !ok && key != annotationComplete {
			annotations[key] = value
		}
	}
	operations = append([]operation{
		{"test", "/metadata/resourceVersion", mustJSON(have.resourceVersion)},
		{"add", "/metadata/annotations", mustJSON(annotations)},
	}, operations...)
	if n.patch, err = json.Marshal(operations); err != nil {
		return next{}, fmt.Errorf("encode patch: %w", err)
	}
	n.outcome.Written = len(n.patch)
	n.after = &stored{annotations: annotations, owner: shoot.UID, content: after.withoutRaw()}
	return n, nil
}

func (s *States) maxBytes() int {
	if s.limit > 0 {
		return s.limit
	}
	return maxBytes
}

// completeMark tells migrations apart.
func completeMark(seedName string, shoot *corev1beta1.Shoot) string {
	if t := shoot.Status.MigrationStartTime; t != nil {
		return seedName + " " + t.UTC().Format(time.RFC3339)
	}
	return seedName
}

func owner(shoot *corev1beta1.Shoot) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: corev1beta1.SchemeGroupVersion.String(), Kind: "Shoot", Name: shoot.Name, UID: shoot.UID,
		// Nobody waits for the garbage collector: blocking would need a right to the Shoot's finalizers.
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(false),
	}
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
	state := metadataOf(shoot) // The answer has as much as is requested: the metadata.
	if err := s.Garden.Patch(ctx, state, client.RawPatch(types.JSONPatchType, n.patch), client.FieldOwner(fieldOwner)); err != nil {
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

func mustJSON(value any) json.RawMessage {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("shootstate: encode %T: %v", value, err)) // Plain data.
	}
	return raw
}
