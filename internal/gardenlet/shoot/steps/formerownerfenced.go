package steps

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"hortus.dev/hortus/internal/component/etcd"
	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/ownership"
)

// FormerOwnerFenced runs after a control plane was taken over from a lost seed, and waits until any leftovers there
// have stopped by themselves. By then, neither the garden nor the bucket has confirmed the former owner for its fence
// time: the Lease names the new owner from the beginning, and the bucket as soon as etcd has been restored here.
var FormerOwnerFenced = &flow.Step[*Scope]{
	Name:    "former-owner-fenced",
	After:   []*flow.Step[*Scope]{Etcd},
	SkipIf:  when(handedOver),
	Ensure:  use4(ensureFormerOwnerFenced),
	Recheck: time.Second,
	Limit:   24 * time.Hour, // An operator configures the fence time.
}

func handedOver(s *Values) string {
	switch {
	case s.Claim.TakenOver.From == "":
		return "not taken over from a seed that is gone"
	case s.Asleep(): // The wait follows when the Shoot wakes up.
		return "hibernated"
	}
	return ""
}

func ensureFormerOwnerFenced(
	ctx context.Context, s *Values, seed *SeedNamespace, garden *GardenNamespace, etcds Etcds,
) (flow.Outcome, error) {
	taken := s.Claim.TakenOver
	if taken.Unconfirmed.IsZero() {
		restored, outcome, err := restoredEtcd(ctx, s, seed, etcds)
		if err != nil || !outcome.IsDone() {
			return outcome, err
		}
		claim, err := ownership.Change(ctx, garden, s.Shoot, seed.clock.Now(), func(c ownership.Claim) ownership.Claim {
			return c.Restored(s.SeedObject.Name, seed.clock.Now(), restored.Revision, restored.Stored)
		})
		if err != nil {
			return flow.Outcome{}, err
		}
		taken = claim.TakenOver
	}
	if left := taken.FencedAt().Sub(seed.clock.Now()); left > 0 {
		return flow.Waiting(waitSeed, fmt.Sprintf("Waiting until %s (%s from now) for the former owner, Seed %s, to be fenced",
			taken.FencedAt().UTC().Format(time.RFC3339), left.Round(time.Second), taken.From)), nil
	}
	return flow.Done(), nil
}

// restoredEtcd waits until etcd runs for the new owner, which the bucket then knows, and returns what it was restored
// to, as far as its process still knows.
func restoredEtcd(
	ctx context.Context, s *Values, seed *SeedNamespace, etcds Etcds,
) (etcdbackup.Restored, flow.Outcome, error) {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: etcd.Name, Namespace: s.Namespace}}
	if _, err := kube.Exists(ctx, seed, set); err != nil {
		return etcdbackup.Restored{}, flow.Outcome{}, err
	}
	access, ok, err := BackupAccess(ctx, seed, set)
	if err != nil {
		return etcdbackup.Restored{}, flow.Outcome{}, err
	}
	if !ok {
		return etcdbackup.Restored{}, flow.Outcome{},
			fmt.Errorf("etcd of namespace %q has no backups, from which it could be restored", s.Namespace)
	}
	const starting = "etcd is being restored from its backups"
	status, err := etcds.EtcdStatus(ctx, access)
	switch {
	case err != nil: // Etcd has not been started yet.
		return etcdbackup.Restored{}, flow.Waiting(waitEtcd, starting), nil
	case status.Etcd.State != etcdbackup.EtcdRunning || status.Etcd.Epoch != s.Claim.Epoch:
		if status.Etcd.Message != "" {
			return etcdbackup.Restored{}, flow.Waiting(waitEtcd, fmt.Sprintf("%s: %s", starting, status.Etcd.Message)), nil
		}
		return etcdbackup.Restored{}, flow.Waiting(waitEtcd, starting), nil
	}
	return ptr.Deref(status.Etcd.Restored, etcdbackup.Restored{}), flow.Done(), nil
}
