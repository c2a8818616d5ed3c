package steps

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/component/etcd"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/kube"
)

// restorationName is the ConfigMap in the control plane's namespace that records the last restore of a backup. It
// stays: the process of etcd knows by the ID that it has been done, and its pod keeps its flags.
const restorationName = "etcd-main-restoration"

// Restoration is the restore of a backup as requested by an owner.
type Restoration struct {
	// ID identifies the restore.
	ID string
	// Revision or Time to restore; the other one is zero.
	Revision int64
	Time     time.Time
	// Phase is the progress of the restore.
	Phase RestorationPhase
}

// RestorationPhase is the progress of a restore.
type RestorationPhase string

// The phases, in order.
const (
	// RestorationRequested: the API servers must be stopped.
	RestorationRequested RestorationPhase = "Requested"
	// RestorationStopped: nothing writes to etcd, which must be started with the flags for the restore.
	RestorationStopped RestorationPhase = "Stopped"
	// RestorationDone: etcd runs with the restored data.
	RestorationDone RestorationPhase = "Done"
	// RestorationReported: the restore has been reported to the owner.
	RestorationReported RestorationPhase = "Reported"
)

// Pending reports whether the API servers must not run.
func (r *Restoration) Pending() bool {
	return r != nil && (r.Phase == RestorationRequested || r.Phase == RestorationStopped)
}

// Point describes the point that is restored.
func (r *Restoration) Point() string {
	if r.Revision > 0 {
		return fmt.Sprintf("revision %d", r.Revision)
	}
	return "the backup of " + r.Time.UTC().Format(time.RFC3339)
}

// ReadRestoration returns the last restore, or nil if there was none.
func ReadRestoration(ctx context.Context, seed client.Reader, namespace string) (*Restoration, error) {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: restorationName}}
	if found, err := kube.Exists(ctx, seed, m); err != nil || !found {
		return nil, err
	}
	r := &Restoration{ID: m.Data["id"], Phase: RestorationPhase(m.Data["phase"])}
	var err error
	if value := m.Data["revision"]; value != "" {
		r.Revision, err = strconv.ParseInt(value, 10, 64)
	} else {
		r.Time, err = time.Parse(time.RFC3339, m.Data["time"])
	}
	if err != nil || r.ID == "" {
		return nil, fmt.Errorf("ConfigMap %s/%s: invalid record of a restore: %w", namespace, restorationName, err)
	}
	return r, nil
}

// WriteRestoration records a restore.
func WriteRestoration(ctx context.Context, seed client.Client, namespace string, r *Restoration) error {
	data := map[string]string{"id": r.ID, "phase": string(r.Phase)}
	if r.Revision > 0 {
		data["revision"] = strconv.FormatInt(r.Revision, 10)
	} else {
		data["time"] = r.Time.UTC().Format(time.RFC3339)
	}
	return kube.Apply(ctx, seed, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: restorationName}, Data: data,
	}, FieldOwner)
}

// restore is the part of it for etcd: nothing before the API servers are stopped.
func (r *Restoration) restore() *etcd.Restore {
	if r == nil || r.Phase == RestorationRequested {
		return nil
	}
	return &etcd.Restore{ID: r.ID, Revision: r.Revision, Time: r.Time}
}

// RestoreBackup restores etcd to an earlier point on request: it stops the API servers, so that nothing writes to etcd
// or caches data that the restore undoes; it restarts etcd, which restores; and the step after this one starts the API
// servers again.
var RestoreBackup = &flow.Step[*Scope]{
	Name:    "restore-backup",
	After:   []*flow.Step[*Scope]{Etcd},
	SkipIf:  when(asleep, withoutRestoration),
	Ensure:  use4(ensureRestored),
	Recheck: recheck,
}

func withoutRestoration(s *Values) string {
	return reasonIf(!s.Facts.Restoration.Pending(), "not requested")
}

func ensureRestored(
	ctx context.Context, s *Values, seed *SeedNamespace, secrets Secrets, etcds Etcds,
) (flow.Outcome, error) {
	r := *s.Facts.Restoration
	if r.Phase == RestorationRequested {
		if ended, err := stopKubeAPIServer(ctx, seed); err != nil || !ended {
			return waitingOr(waitAPIServer, "The API server is being stopped to restore "+r.Point(), err)
		}
		r.Phase = RestorationStopped
		return waitingOr(waitEtcd, "etcd is about to restore "+r.Point(), WriteRestoration(ctx, seed, s.Namespace, &r))
	}
	outcome, err := ensureEtcdReady(ctx, s, seed, secrets, etcds)
	if err != nil || !outcome.IsDone() {
		return outcome, err
	}
	r.Phase = RestorationDone
	return flow.Done(), WriteRestoration(ctx, seed, s.Namespace, &r)
}
