package test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/chain"
	"hortus.dev/hortus/internal/etcdbackup/service"
)

// taker simulates the process that takes backups.
type taker struct {
	status atomic.Pointer[etcdbackup.Status]
	// taken are the requested snapshots, err is their result.
	taken atomic.Pointer[chain.Kind]
	err   error
}

func (t *taker) Status() etcdbackup.Status { return *t.status.Load() }

func (t *taker) Snapshot(_ context.Context, kind chain.Kind) (etcdbackup.Snapshot, error) {
	t.taken.Store(&kind)
	return etcdbackup.Snapshot{Revision: 7}, t.err
}

// serveBackups runs the service of the backups with the certificates that the pod of etcd mounts.
func (b *backups) serveBackups(namespace string, t *taker) *httptest.Server {
	b.t.Helper()
	certificates := &corev1.Secret{}
	b.must(b.Client.Get(b.ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main-certificates"}, certificates))
	pair, err := tls.X509KeyPair(certificates.Data["server.crt"], certificates.Data["server.key"])
	b.must(err)
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(certificates.Data["ca.crt"]) {
		b.t.Fatal("the bundle has no certificate")
	}
	server := httptest.NewUnstartedServer(service.Handler(t, prometheus.NewRegistry(), nil))
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, Time: b.clock.Now,
	}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	b.t.Cleanup(server.Close)
	// The certificate has the name localhost, not the address.
	b.backupService = strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	return server
}

func TestShootReportsBackupsThatFallBehind(t *testing.T) {
	t.Parallel()
	b := newBackups(t)
	s := b.until(b.newShoot(), succeeded)
	fine := etcdbackup.Status{Phase: etcdbackup.PhaseActive, EtcdRevision: 7, SavedRevision: 7, Chains: 1,
		Location: `S3 bucket "backups"`, LastFull: &chain.Object{}}
	tk := &taker{}
	tk.status.Store(&fine)
	server := b.serveBackups(s.Status.TechnicalID, tk)
	b.clock.Step(time.Hour)
	r := b.carer()
	recorded := r.Events.(*events.FakeRecorder).Events
	told := func(beginning string) {
		t.Helper()
		select {
		case e := <-recorded:
			if !strings.HasPrefix(e, beginning) {
				t.Errorf("event = %q, want %q", e, beginning)
			}
		default:
			t.Errorf("no event %q", beginning)
		}
	}
	want := func(status corev1beta1.ConditionStatus, reason string) {
		t.Helper()
		s = b.care(s, r)
		c := corev1beta1.FindCondition(s.Status.Conditions, corev1beta1.ShootControlPlaneHealthy)
		if c == nil || c.Status != status || c.Reason != reason {
			t.Errorf("condition = %+v, want %s, %s", c, status, reason)
		}
	}
	want(corev1beta1.ConditionTrue, "ControlPlaneRunning")

	behind := fine
	behind.SecondsBehind = 400
	tk.status.Store(&behind)
	want(corev1beta1.ConditionFalse, "BackupsBehind")
	told("Warning BackupsBehind ControlPlaneHealthy: ")
	tk.status.Store(&fine)
	want(corev1beta1.ConditionTrue, "ControlPlaneRunning")
	told("Normal ControlPlaneRunning ControlPlaneHealthy: ")

	// An unreachable process is a problem only after some time.
	server.Close()
	for range 6 {
		want(corev1beta1.ConditionProgressing, "BackupStatusUnavailable")
	}
	want(corev1beta1.ConditionFalse, "BackupStatusUnavailable")

	// Clients without a certificate of this control plane are rejected.
	b.serveBackups(s.Status.TechnicalID, tk)
	if _, err := server.Client().Get(b.backupService + "/v1/status"); err == nil {
		t.Error("a client without a certificate gets an answer")
	}
	want(corev1beta1.ConditionTrue, "ControlPlaneRunning")

	// An etcd that is scaled down is not queried.
	b.backupService = "https://localhost:1"
	set := &appsv1.StatefulSet{}
	b.must(b.Client.Get(b.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: "etcd-main"}, set))
	set.Spec.Replicas = ptr.To(int32(0))
	b.must(b.Client.Update(b.ctx, set))
	want(corev1beta1.ConditionFalse, "EtcdUnhealthy")

	b.delete(s)
	b.until(s, gone)
	for range 3 {
		b.entriesAct()
	}
}

func TestFullSnapshotsFollowTheMaintenanceWindowWithoutARestart(t *testing.T) {
	t.Parallel()
	b := newBackups(t)
	s := b.until(b.newShoot(), succeeded)
	schedule := func() string {
		t.Helper()
		config := &corev1.ConfigMap{}
		b.must(b.Client.Get(b.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: "etcd-main-config"}, config))
		return config.Data["full-schedule"]
	}
	generation := func() int64 {
		t.Helper()
		set := &appsv1.StatefulSet{}
		b.must(b.Client.Get(b.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: "etcd-main"}, set))
		return set.Generation
	}
	before, pods := schedule(), generation()
	s.Spec.Maintenance.TimeWindow = &corev1beta1.MaintenanceTimeWindow{Begin: "030000+0000", End: "033000+0000"}
	b.must(b.Client.Update(b.ctx, s))
	s = b.until(s, succeeded)
	if after := schedule(); after == before || !strings.HasSuffix(after, " 3 * * *") {
		t.Errorf("schedule = %q, then %q with a window from 03:00 to 03:30", before, after)
	}
	if now := generation(); now != pods {
		t.Errorf("the StatefulSet has changed with the window: generation %d, then %d", pods, now)
	}
	b.delete(s)
	b.until(s, gone)
	for range 3 {
		b.entriesAct()
	}
}
