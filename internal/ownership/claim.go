package ownership

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/kube"
)

// NamePrefix of the Leases; the UID of the Shoot follows. They are in the namespace of the Shoot.
const NamePrefix = "control-plane-"

// Annotations of the Lease while a control plane moves: the seed that the source calls to prepare, the seed that has
// prepared, and the reason why it still waits until then.
const (
	annotationCalled   = "hortus.dev/called"
	annotationPrepared = "hortus.dev/prepared"
	annotationProgress = "hortus.dev/preparing"
)

// Annotations of the Lease for seeds that can no longer hand over: how long the holder's etcd runs without a
// confirmation, and the state of the seed from which the holder has taken the control plane.
const (
	annotationFenceTime = "hortus.dev/fence-time"
	annotationTakenOver = "hortus.dev/taken-over"
)

// DefaultFenceTime is how long an etcd runs without a confirmation unless a gardenlet sets another time.
const DefaultFenceTime = 5 * time.Minute

const fieldOwner = "gardenlet"

// Claim is the content of a Lease.
type Claim struct {
	// Holder is the seed that runs the control plane; "" if no seed has taken it yet.
	Holder string
	// Epoch grows with every change of the holder, from 1.
	Epoch int64
	// Settled means that the holder has all it needs, so that other seeds can delete their remains of the control
	// plane.
	Settled bool
	// Called is the seed that has to prepare, Prepared the seed that has prepared; "" if there is none.
	Called, Prepared string
	// Progress is the reason why the called seed waits, for users.
	Progress string
	// FenceTime is the longest time that an etcd of the holder runs without a confirmation; 0 if that is not known.
	FenceTime time.Duration
	// TakenOver is set from the time at which the holder has taken the control plane from a seed that could not hand it
	// over, until this was reported to users.
	TakenOver TakenOver
	// ChangedAt is the time of the last write of the Lease.
	ChangedAt time.Time
}

// TakenOver describes a takeover from a seed that could not hand over the control plane. Times are in whole seconds.
type TakenOver struct {
	// From is the seed; "" if the control plane was handed over.
	From string `json:"from,omitempty"`
	// Wait is how long its etcd may run without a confirmation.
	Wait metav1.Duration `json:"wait,omitzero"`
	// Unconfirmed is the time since which neither the garden nor the bucket confirms it; zero until the bucket knows
	// the new owner.
	Unconfirmed time.Time `json:"unconfirmed,omitzero"`
	// Revision of etcd that was restored, and when that was stored in the backups; zero if that is not known.
	Revision int64     `json:"revision,omitempty"`
	Stored   time.Time `json:"stored,omitzero"`
}

// FencedAt returns the latest time at which the etcd of the old seed has stopped; zero if that is not known yet.
func (t TakenOver) FencedAt() time.Time {
	if t.Unconfirmed.IsZero() {
		return time.Time{}
	}
	return t.Unconfirmed.Add(t.Wait.Duration)
}

// Take makes seed the holder, whose etcd runs for at most fence without a confirmation. One that holds the Lease
// already keeps its epoch; until its etcd is known to have the new fence time, the longer one counts.
func (c Claim) Take(seed string, fence time.Duration) Claim {
	if c.Holder == seed {
		c.FenceTime = max(c.FenceTime, fence)
		return c
	}
	return Claim{Holder: seed, Epoch: c.Epoch + 1, FenceTime: fence}
}

// AtLeast raises the epoch to one that an etcd of the holder already runs for: the garden may have lost the Lease, or
// may have been restored from a backup that is older than it.
func (c Claim) AtLeast(epoch int64) Claim {
	c.Epoch = max(c.Epoch, epoch)
	return c
}

// TakeFrom makes seed the holder although the holder before, from, cannot hand over.
func (c Claim) TakeFrom(from, seed string, fence time.Duration) Claim {
	if c.Holder == seed {
		return c
	}
	wait := c.FenceTime
	if wait == 0 {
		wait = DefaultFenceTime
	}
	taken := c.Take(seed, fence)
	taken.TakenOver = TakenOver{From: from, Wait: metav1.Duration{Duration: wait}}
	return taken
}

// Restored records that the bucket knows the new owner since now, and the revision that was restored from it.
func (c Claim) Restored(seed string, now time.Time, revision int64, stored time.Time) Claim {
	if c.Holder == seed && c.TakenOver.From != "" && c.TakenOver.Unconfirmed.IsZero() {
		c.TakenOver.Unconfirmed, c.TakenOver.Revision, c.TakenOver.Stored = wholeSeconds(now), revision, wholeSeconds(stored)
	}
	return c
}

// wholeSeconds rounds a time as it is stored. Unconfirmed is rounded up, so that no wait is too short.
func wholeSeconds(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(time.Second - time.Nanosecond).UTC().Truncate(time.Second)
}

// CalledOff returns the claim without the call, so that the control plane stays where it is.
func (c Claim) CalledOff() Claim {
	c.Called, c.Prepared, c.Progress = "", "", ""
	return c
}

// Call calls a seed to prepare, unless it was already called.
func (c Claim) Call(seed string) Claim {
	if c.Called != seed {
		c.Called, c.Prepared, c.Progress = seed, "", ""
	}
	return c
}

// Answer records that seed has prepared. An answer to a revoked call changes nothing.
func (c Claim) Answer(seed string) Claim {
	if c.Called == seed {
		c.Prepared, c.Progress = seed, ""
	}
	return c
}

// Report records the reason why the called seed waits.
func (c Claim) Report(seed, progress string) Claim {
	if c.Called == seed && c.Prepared != seed {
		c.Progress = progress
	}
	return c
}

// Settle records that the holder has all it needs, and that its etcd runs with this fence time.
func (c Claim) Settle(seed string, fence time.Duration) Claim {
	if c.Holder == seed {
		c.Settled, c.FenceTime = true, fence
	}
	return c
}

// Forget removes the record of the takeover, unless the bucket does not know the new owner yet: then the Shoot's next
// wake-up has to wait.
func (c Claim) Forget() Claim {
	if !c.TakenOver.Unconfirmed.IsZero() {
		c.TakenOver = TakenOver{}
	}
	return c
}

// Superseded reports whether another seed runs the control plane, and seed, which may have run it for an epoch (0 if
// not), is not called to take it over. An epoch above that of the claim is newer than the garden's record.
func (c Claim) Superseded(seed string, epoch int64) bool {
	return c.Epoch > epoch && c.Holder != seed && c.Called != seed
}

// OlderThan reports whether seed, which no claim says to be the owner, runs the control plane for an epoch that is
// newer than the garden's record, as after a restore of the garden.
func (c Claim) OlderThan(seed string, epoch int64) bool {
	return c.Epoch > 0 && c.Epoch <= epoch && c.Holder != seed && c.Called != seed
}

// lease of a Shoot's control plane.
func lease(namespace string, shoot types.UID) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: NamePrefix + string(shoot)}}
}

// Leave writes a notice of a takeover for a seed that was unreachable, to be read when it is back. The notice is in
// that seed's namespace of the garden, so that it outlives the Shoot and is deleted with the seed.
func Leave(ctx context.Context, garden client.Client, from string, shoot types.UID, c Claim, now time.Time) error {
	l := lease(corev1beta1.SeedNamespacePrefix+from, shoot)
	left := Claim{Holder: c.Holder, Epoch: c.Epoch, Settled: c.Settled}
	if err := left.writeTo(l, now); err != nil {
		return err
	}
	// If the seed's namespace is missing, the garden no longer knows the seed.
	err := kube.Apply(ctx, garden, l, fieldOwner)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("report to Seed %q that it has lost the control plane, Lease %s/%s: %w", from, l.Namespace,
			l.Name, err)
	case err == nil:
		log.FromContext(ctx).Info("Left a notice for a Seed that it has lost the control plane", "Seed", from,
			"Lease", klog.KObj(l), "holder", left.Holder, "epoch", left.Epoch, "settled", left.Settled)
	}
	return nil
}

// Left returns the notice that another seed has written for this one with Leave; it has epoch 0 if there is none.
func Left(ctx context.Context, garden client.Reader, seed string, shoot types.UID) (Claim, error) {
	return Read(ctx, garden, corev1beta1.SeedNamespacePrefix+seed, shoot)
}

// ForgetLeft deletes the notice, once this seed has no remains of the control plane.
func ForgetLeft(ctx context.Context, garden client.Client, seed string, shoot types.UID) error {
	l := lease(corev1beta1.SeedNamespacePrefix+seed, shoot)
	gone, err := kube.Delete(ctx, garden, l)
	if err == nil && !gone { // It has no finalizers.
		log.FromContext(ctx).Info("Deleted the notice that this Seed has lost a control plane: nothing of it is left here",
			"Lease", klog.KObj(l))
	}
	return err
}

// Read returns the claim; it has epoch 0 if no seed has taken the control plane.
func Read(ctx context.Context, garden client.Reader, namespace string, shoot types.UID) (Claim, error) {
	l := lease(namespace, shoot)
	found, err := kube.Exists(ctx, garden, l)
	if err != nil || !found {
		return Claim{}, err
	}
	return claimOf(l)
}

func claimOf(l *coordinationv1.Lease) (Claim, error) {
	c := Claim{
		Holder: ptr.Deref(l.Spec.HolderIdentity, ""), Epoch: int64(ptr.Deref(l.Spec.LeaseTransitions, 0)),
		Settled: l.Spec.AcquireTime != nil,
		Called:  l.Annotations[annotationCalled], Prepared: l.Annotations[annotationPrepared],
		Progress: l.Annotations[annotationProgress],
	}
	if l.Spec.RenewTime != nil {
		c.ChangedAt = l.Spec.RenewTime.Time
	}
	if text := l.Annotations[annotationFenceTime]; text != "" {
		fence, err := time.ParseDuration(text)
		if err != nil {
			return Claim{}, fmt.Errorf("read annotation %s of Lease %s/%s: %w", annotationFenceTime, l.Namespace, l.Name, err)
		}
		c.FenceTime = fence
	}
	if text := l.Annotations[annotationTakenOver]; text != "" {
		if err := json.Unmarshal([]byte(text), &c.TakenOver); err != nil {
			return Claim{}, fmt.Errorf("read annotation %s of Lease %s/%s: %w", annotationTakenOver, l.Namespace, l.Name, err)
		}
	}
	return c, nil
}

// since describes the decisions by which a claim differs from an earlier one; "" if there is none. Progress, a text for
// users, and the time of the write are none.
func (c Claim) since(before Claim) string {
	var changes []string
	for _, field := range []struct {
		name        string
		before, now any
	}{
		{"holder", before.Holder, c.Holder}, {"epoch", before.Epoch, c.Epoch}, {"settled", before.Settled, c.Settled},
		{"called", before.Called, c.Called}, {"prepared", before.Prepared, c.Prepared},
		{"fence time", before.FenceTime, c.FenceTime}, {"taken over from", before.TakenOver.From, c.TakenOver.From},
		{"restored revision", before.TakenOver.Revision, c.TakenOver.Revision},
	} {
		if field.before != field.now {
			changes = append(changes, fmt.Sprintf("%s from %#v to %#v", field.name, field.before, field.now))
		}
	}
	return strings.Join(changes, ", ")
}

// Change applies change to the claim of a Shoot and returns the result. It fails with a conflict if the Lease was
// changed in the meantime.
func Change(
	ctx context.Context, garden client.Client, shoot *corev1beta1.Shoot, now time.Time, change func(Claim) Claim,
) (Claim, error) {
	l := lease(shoot.Namespace, shoot.UID)
	found, err := kube.Exists(ctx, garden, l)
	if err != nil {
		return Claim{}, err
	}
	before, err := claimOf(l)
	if err != nil {
		return Claim{}, err
	}
	after := change(before)
	if found && after == before {
		return after, nil
	}
	if err := after.writeTo(l, now); err != nil {
		return Claim{}, err
	}
	l.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: corev1beta1.SchemeGroupVersion.String(), Kind: "Shoot", Name: shoot.Name, UID: shoot.UID,
	}}
	if found {
		err = garden.Update(ctx, l, client.FieldOwner(fieldOwner))
	} else { // Gardenlets may create only objects that the request names, as only apply does.
		err = kube.Apply(ctx, garden, l, fieldOwner)
	}
	if err != nil {
		return Claim{}, fmt.Errorf("write the ownership of the control plane, Lease %s/%s: %w", l.Namespace, l.Name, err)
	}
	if changes := after.since(before); changes != "" {
		log.FromContext(ctx).Info("Changed the ownership of the control plane", "Lease", klog.KObj(l), "changes", changes)
	}
	after.ChangedAt = now
	return after, nil
}

func (c Claim) writeTo(l *coordinationv1.Lease, now time.Time) error {
	at := &metav1.MicroTime{Time: now}
	l.Spec.HolderIdentity, l.Spec.LeaseTransitions = ptr.To(c.Holder), ptr.To(int32(c.Epoch))
	l.Spec.RenewTime = at
	switch {
	case !c.Settled:
		l.Spec.AcquireTime = nil
	case l.Spec.AcquireTime == nil:
		l.Spec.AcquireTime = at
	}
	annotations := maps.Clone(l.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	fence, taken := "", ""
	if c.FenceTime > 0 {
		fence = c.FenceTime.String()
	}
	if c.TakenOver != (TakenOver{}) {
		text, err := json.Marshal(c.TakenOver)
		if err != nil {
			return fmt.Errorf("encode what was taken over: %w", err)
		}
		taken = string(text)
	}
	for key, value := range map[string]string{
		annotationCalled: c.Called, annotationPrepared: c.Prepared, annotationProgress: c.Progress,
		annotationFenceTime: fence, annotationTakenOver: taken,
	} {
		if value == "" {
			delete(annotations, key)
		} else {
			annotations[key] = value
		}
	}
	l.Annotations = annotations
	return nil
}
