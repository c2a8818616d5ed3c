package shootstate

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// next is one write to a ShootState; nothing if create and patch are nil.
type next struct {
	create  *corev1beta1.ShootState
	patch   []byte
	after   *stored
	outcome Outcome
}

// sealing is how far a migration has come.
type sealing int

const (
	open sealing = iota
	sealed
	sealedLast
)

// plan compares the seed with the stored state.
func (s *States) plan(ctx context.Context, shoot *corev1beta1.Shoot, have *stored, stage sealing) (next, error) {
	if migrating(shoot) && sealingOf(have.annotations[annotationComplete], s.SeedName, shoot) >= max(stage, sealed) {
		bytes, _ := have.content.size()
		return next{outcome: Outcome{Bytes: bytes, Complete: true}}, nil
	}
	observed, err := observe(ctx, s.Seed, shoot)
	if err != nil {
		return next{}, err
	}
	annotations := map[string]string{corev1beta1.AnnotationTimestamp: s.Clock.Now().UTC().Format(time.RFC3339)}
	if stage != open {
		annotations[annotationComplete] = completeMark(s.SeedName, shoot, stage)
	}
	return planWrite(have, observed, shoot, annotations, s.maxBytes())
}

// planWrite leads from what is stored to what was observed. The annotations are those of a ShootState that is written
// now.
func planWrite(
	have *stored, observed *Observed, shoot *corev1beta1.Shoot, annotations map[string]string, limit int,
) (next, error) {
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
	if bytes > limit {
		return next{}, &TooLargeError{bytes, limit, largest.key, largest.bytes}
	}
	_, complete := annotations[annotationComplete]
	n := next{outcome: Outcome{Bytes: bytes, Missing: missing, Complete: complete}}
	if have.resourceVersion == "" {
		if bytes == 0 && !complete {
			return n, nil // There is no state to save yet.
		}
		n.create = &corev1beta1.ShootState{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: shoot.Namespace, Name: shoot.Name, Annotations: annotations,
				OwnerReferences: []metav1.OwnerReference{owner(shoot)},
			},
			Spec: spec,
		}
		n.outcome.Written = bytes
		n.after = &stored{annotations: annotations, owner: shoot.UID, content: after.withoutRaw()}
		return n, nil
	}
	if have.owner != shoot.UID {
		owners := mustJSON([]metav1.OwnerReference{owner(shoot)})
		operations = append(operations, operation{"add", "/metadata/ownerReferences", owners})
	}
	if len(operations) == 0 && have.annotations[annotationComplete] == annotations[annotationComplete] {
		return n, nil
	}
	all := maps.Clone(have.annotations)
	delete(all, annotationComplete)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, annotations)
	operations = append([]operation{
		{"test", "/metadata/resourceVersion", mustJSON(have.resourceVersion)},
		{"add", "/metadata/annotations", mustJSON(all)},
	}, operations...)
	if n.patch, err = json.Marshal(operations); err != nil {
		return next{}, fmt.Errorf("encode patch: %w", err)
	}
	n.outcome.Written = len(n.patch)
	n.after = &stored{annotations: all, owner: shoot.UID, content: after.withoutRaw()}
	return n, nil
}

// completeMark distinguishes migrations and their stages.
func completeMark(seedName string, shoot *corev1beta1.Shoot, stage sealing) string {
	mark := seedName
	if t := shoot.Status.MigrationStartTime; t != nil {
		mark += " " + t.UTC().Format(time.RFC3339)
	}
	if stage == sealedLast {
		mark += " last"
	}
	return mark
}

// sealingOf reads the mark of this migration; that of another one means nothing.
func sealingOf(mark, seedName string, shoot *corev1beta1.Shoot) sealing {
	for _, stage := range []sealing{sealed, sealedLast} {
		if mark == completeMark(seedName, shoot, stage) {
			return stage
		}
	}
	return open
}

func owner(shoot *corev1beta1.Shoot) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: corev1beta1.SchemeGroupVersion.String(), Kind: "Shoot", Name: shoot.Name, UID: shoot.UID,
		// Not blocking: that would require the permission to update the Shoot's finalizers.
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(false),
	}
}

func mustJSON(value any) json.RawMessage {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("shootstate: encode %T: %v", value, err)) // Plain data.
	}
	return raw
}
