package ownership

import (
	"context"
	"fmt"
	"maps"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/kube"
)

// NamePrefix of the Leases; the UID of the Shoot follows. They are in the namespace of the Shoot.
const NamePrefix = "control-plane-"

// Annotations of the Lease while a control plane moves: the seed that the source calls to prepare, the seed that has
// prepared, and what it waits for until then.
const (
	annotationCalled   = "hortus.dev/called"
	annotationPrepared = "hortus.dev/prepared"
	annotationProgress = "hortus.dev/preparing"
)

const fieldOwner = "gardenlet"

// Claim is what a Lease says.
type Claim struct {
	// Holder is the seed that runs the control plane; "" if nobody has taken it yet.
	Holder string
	// Epoch grows with every change of the holder, from 1.
	Epoch int64
	// Settled: the holder has all it needs, so that others can give up what they have left of the control plane.
	Settled bool
	// Called is the seed that is to prepare, Prepared the one that has done so; "" if there is none.
	Called, Prepared string
	// Progress is what the called seed waits for, in words for a user.
	Progress string
	// ChangedAt is when the Lease was written last.
	ChangedAt time.Time
}

// Take makes seed the holder. One that holds the Lease already keeps its epoch.
func (c Claim) Take(seed string) Claim {
	if c.Holder == seed {
		return c
	}
	return Claim{Holder: seed, Epoch: c.Epoch + 1}
}

// CalledOff is the claim without a word of the other seed: the control plane stays where it is.
func (c Claim) CalledOff() Claim {
	c.Called, c.Prepared, c.Progress = "", "", ""
	return c
}

// Call asks a seed to prepare, unless it was asked already.
func (c Claim) Call(seed string) Claim {
	if c.Called != seed {
		c.Called, c.Prepared, c.Progress = seed, "", ""
	}
	return c
}

// Answer records that seed has prepared. An answer to a call that was taken back changes nothing.
func (c Claim) Answer(seed string) Claim {
	if c.Called == seed {
		c.Prepared, c.Progress = seed, ""
	}
	return c
}

// Report records what the called seed waits for.
func (c Claim) Report(seed, progress string) Claim {
	if c.Called == seed && c.Prepared != seed {
		c.Progress = progress
	}
	return c
}

// Settle records that the holder has all it needs.
func (c Claim) Settle(seed string) Claim {
	if c.Holder == seed {
		c.Settled = true
	}
	return c
}

// Superseded reports whether another seed runs the control plane, and seed is not asked to take it over.
func (c Claim) Superseded(seed string) bool {
	return c.Epoch > 0 && c.Holder != seed && c.Called != seed
}

// lease of a Shoot's control plane.
func lease(namespace string, shoot types.UID) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: NamePrefix + string(shoot)}}
}

// Read returns the claim; one that nobody has taken has epoch 0.
func Read(ctx context.Context, garden client.Reader, namespace string, shoot types.UID) (Claim, error) {
	l := lease(namespace, shoot)
	found, err := kube.Exists(ctx, garden, l)
	if err != nil || !found {
		return Claim{}, err
	}
	return claimOf(l), nil
}

func claimOf(l *coordinationv1.Lease) Claim {
	c := Claim{
		Holder: ptr.Deref(l.Spec.HolderIdentity, ""), Epoch: int64(ptr.Deref(l.Spec.LeaseTransitions, 0)),
		Settled: l.Spec.AcquireTime != nil,
		Called:  l.Annotations[annotationCalled], Prepared: l.Annotations[annotationPrepared],
		Progress: l.Annotations[annotationProgress],
	}
	if l.Spec.RenewTime != nil {
		c.ChangedAt = l.Spec.RenewTime.Time
	}
	return c
}

// Change applies change to the claim of a Shoot and returns the result. It fails with a conflict if somebody else has
// changed the Lease meanwhile.
func Change(ctx context.Context, garden client.Client, shoot *corev1beta1.Shoot, now time.Time, change func(Claim) Claim) (Claim, error) {
	l := lease(shoot.Namespace, shoot.UID)
	found, err := kube.Exists(ctx, garden, l)
	if err != nil {
		return Claim{}, err
	}
	before := claimOf(l)
	after := change(before)
	if found && after == before {
		return after, nil
	}
	after.writeTo(l, now)
	l.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: corev1beta1.SchemeGroupVersion.String(), Kind: "Shoot", Name: shoot.Name, UID: shoot.UID,
	}}
	if found {
		err = garden.Update(ctx, l, client.FieldOwner(fieldOwner))
	} else { // A gardenlet may make only what it can name in the request.
		err = kube.Apply(ctx, garden, l, fieldOwner)
	}
	if err != nil {
		return Claim{}, fmt.Errorf("write the ownership of the control plane, Lease %s/%s: %w", l.Namespace, l.Name, err)
	}
	after.ChangedAt = now
	return after, nil
}

func (c Claim) writeTo(l *coordinationv1.Lease, now time.Time) {
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
	for key, value := range map[string]string{annotationCalled: c.Called, annotationPrepared: c.Prepared, annotationProgress: c.Progress} {
		if value == "" {
			delete(annotations, key)
		} else {
			annotations[key] = value
		}
	}
	l.Annotations = annotations
}
