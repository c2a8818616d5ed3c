package command

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/chain"
	"hortus.dev/hortus/internal/etcdbackup/etcdtest"
	"hortus.dev/hortus/internal/etcdbackup/store"
	"hortus.dev/hortus/internal/etcdmember/configuration"
	"hortus.dev/hortus/internal/etcdmember/fence"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/internal/tunnel/certs"
)

const (
	timeout = 5 * time.Minute
	prefix  = "shoot--dev--a--1/etcd-main"
)

// seed has the volume and the certificates of an etcd, and a bucket that it shares with other seeds.
type seed struct {
	t                             testing.TB
	volume, certificates, secrets string
	bucket                        string
	// member and addresses stay the same for a member of several.
	member    string
	addresses *addresses
	// listenPeer is the address of addresses.peer; empty if they are the same.
	listenPeer string
	// monotonic is the clock of fences; nil is the real one.
	monotonic *monotonic
}

// monotonic is a clock that stands still until it is moved.
type monotonic struct{ nanoseconds atomic.Int64 }

func (m *monotonic) now() time.Duration       { return time.Duration(m.nanoseconds.Load()) }
func (m *monotonic) advance(by time.Duration) { m.nanoseconds.Add(int64(by)) }

type addresses struct{ clients, forward, metrics, listen, peer string }

func newAddresses(t testing.TB) *addresses {
	free := func() string { return etcdtest.FreeAddress(t) }
	return &addresses{clients: free(), forward: free(), metrics: free(), listen: free(), peer: "http://" + free()}
}

func port(address string) string { return address[strings.LastIndex(address, ":"):] }

func newSeed(t testing.TB, bucket string) *seed {
	t.Helper()
	s := &seed{t: t, member: "main", volume: t.TempDir(), certificates: t.TempDir(), secrets: t.TempDir(), bucket: bucket}
	ca, err := pki.NewCA("etcd", clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	pair := func(usage pki.Usage) *pki.KeyPair {
		p, err := ca.Issue(pki.Request{CommonName: "etcd", Usage: usage, DNSNames: []string{"localhost"}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	server, client := pair(pki.Server|pki.Client), pair(pki.Client)
	for name, content := range map[string][]byte{
		configuration.CA: ca.CertPEM, configuration.ServerCert: server.CertPEM, configuration.ServerKey: server.KeyPEM,
		configuration.ClientCert: client.CertPEM, configuration.ClientKey: client.KeyPEM,
	} {
		s.write(filepath.Join(s.certificates, name), content)
	}
	s.write(filepath.Join(s.secrets, "path"), []byte(bucket))
	return s
}

func (s *seed) write(path string, content []byte) {
	s.t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *seed) store() *store.Store {
	s.t.Helper()
	st, err := store.Open(s.secrets, prefix, clock.RealClock{})
	if err != nil {
		s.t.Fatal(err)
	}
	return st
}

// running is a process with its addresses.
type running struct {
	*seed
	etcd *clientv3.Client
	// service is a client of the process.
	service *etcdbackup.Client
	stop    func()
	guard   *fence.Guard // Nil if the process is not a part of this one.
}

// commandLine returns the flags of the process, with additional ones, and those of its etcd.
func (s *seed) commandLine(at *addresses, more ...string) (flags, args []string) {
	clients, forward, metrics, listen, peer := at.clients, at.forward, at.metrics, at.listen, at.peer
	in := func(name string) string { return filepath.Join(s.certificates, name) }
	flags = append([]string{
		"--program=" + etcdtest.Binary(s.t), "--certificates=" + s.certificates, "--metrics-url=http://" + metrics,
		"--etcd-endpoint=https://localhost" + port(clients), "--client-address=0.0.0.0" + port(clients),
		"--forward-address=" + forward,
		"--listen-address=" + listen, "--health-address=127.0.0.1:0", "--store-credentials=" + s.secrets, "--prefix=" +
			prefix,
		"--temp-dir=" + s.volume, "--delta-period=200ms", "--termination-log=" + filepath.Join(s.volume, "termination"),
	}, more...)
	args = []string{
		"--name=" + s.member, "--data-dir=" + filepath.Join(s.volume, "etcd"),
		"--listen-client-urls=https://0.0.0.0" + port(clients) + ",https://" + forward,
		"--advertise-client-urls=https://localhost" + port(clients), "--listen-peer-urls=" + cmp.Or(s.listenPeer, peer),
		"--initial-advertise-peer-urls=" + peer, "--cert-file=" + in(configuration.ServerCert),
		"--key-file=" + in(configuration.ServerKey), "--trusted-ca-file=" + in(configuration.CA), "--client-cert-auth=true",
		"--listen-metrics-urls=http://" + metrics, "--log-level=panic",
	}
	if s.addresses != nil {
		args = append(args, "--peer-cert-file="+in(configuration.ServerCert), "--peer-key-file="+in(configuration.ServerKey),
			"--peer-trusted-ca-file="+in(configuration.CA), "--peer-client-cert-auth=true")
	} else {
		args = append(args, "--heartbeat-interval=50", "--election-timeout=250")
	}
	return flags, args
}

// run starts the process as the command does.
func (s *seed) run(more ...string) *running {
	s.t.Helper()
	at := s.addresses
	if at == nil {
		at = newAddresses(s.t)
	}
	flags, args := s.commandLine(at, more...)
	cmd, f := newRunCommand()
	if err := cmd.ParseFlags(flags); err != nil {
		s.t.Fatal(err)
	}
	if s.monotonic != nil {
		f.monotonic = s.monotonic.now
	}
	p, err := f.assemble(args)
	if err != nil {
		s.t.Fatal(err)
	}
	p.bucketPeriod = 200 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := p.run(ctx); err != nil {
			s.t.Error(err)
		}
	}()
	stop := func() { cancel(); <-ended }
	s.t.Cleanup(stop)
	r := s.reach(at, stop)
	r.guard = p.guard
	return r
}

// reach creates clients of a process.
func (s *seed) reach(at *addresses, stop func()) *running {
	s.t.Helper()
	r := &running{seed: s, stop: stop}
	in := func(name string) string { return filepath.Join(s.certificates, name) }
	files := &certs.Files{CA: in(configuration.CA), Cert: in(configuration.ClientCert), Key: in(configuration.ClientKey)}
	config := func() *tls.Config {
		c, err := files.Client("localhost")
		if err != nil {
			s.t.Fatal(err)
		}
		return c
	}
	r.service = etcdbackup.NewClient("https://"+at.listen, config())
	var err error
	if r.etcd, err = clientv3.New(clientv3.Config{Endpoints: []string{"https://localhost" + port(at.clients)},
		TLS:         config(),
		DialTimeout: timeout, Logger: zap.NewNop()}); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { r.etcd.Close() })
	return r
}

// await waits until the status has a state.
func (r *running) await(what string, reached func(etcdbackup.Status) bool) etcdbackup.Status {
	r.t.Helper()
	for deadline := time.Now().Add(timeout); ; time.Sleep(10 * time.Millisecond) {
		s, err := r.service.Status(context.Background())
		if err == nil && reached(s) {
			return s
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("timed out waiting: %s: %+v, %v", what, s, err)
		}
	}
}

func (r *running) awaitState(state etcdbackup.EtcdState) etcdbackup.Status {
	r.t.Helper()
	return r.await(string(state), func(s etcdbackup.Status) bool { return s.Etcd.State == state })
}

// put has a short timeout: etcd may be stopped.
func (r *running) put(key, value string) error { return r.putWithin(3*time.Second, key, value) }

func (r *running) putWithin(limit time.Duration, key, value string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_, err := r.etcd.Put(ctx, key, value)
	return err
}

func (r *running) mustPut(key, value string) {
	r.t.Helper()
	if err := r.putWithin(timeout, key, value); err != nil {
		r.t.Fatalf("write: %v", err)
	}
}

func (r *running) mustSave() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	r.await("backups are taken", func(s etcdbackup.Status) bool { return s.Phase == etcdbackup.PhaseActive })
	if _, err := r.service.Snapshot(ctx, chain.Delta); err != nil {
		r.t.Fatal(err)
	}
}

func (s *seed) objects() string {
	s.t.Helper()
	l, err := s.store().List(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprint(l.Objects)
}

// TestWithoutBackups: etcd also runs as a child without backups, so that its probes work in the same way.
func TestWithoutBackups(t *testing.T) {
	s := newSeed(t, t.TempDir())
	for i := range 2 { // The second process finds the data of the first one.
		r := s.run("--store-credentials=")
		r.awaitState(etcdbackup.EtcdRunning)
		r.mustPut("key", strconv.Itoa(i))
		r.stop()
	}
}

// TestNewerOwnerStopsEtcdForGood has each witness show a newer epoch.
func TestNewerOwnerStopsEtcdForGood(t *testing.T) {
	for name, takeOver := range map[string]func(*running) error{
		"bucket": func(r *running) error {
			_, err := r.store().Claim(context.Background(), chain.Claim{Epoch: 2, Holder: "b", Nonce: "b", Time: time.Now()})
			return err
		},
		"garden": func(r *running) error { return r.service.Confirm(context.Background(), 2) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSeed(t, t.TempDir())
			r := s.run("--epoch=1", "--holder=a")
			r.awaitState(etcdbackup.EtcdRunning)
			r.mustPut("a", "1")
			r.mustSave()
			before := s.objects()
			_ = r.put("a", "2") // Pending changes must not be stored any more.
			began := time.Now()
			if err := takeOver(r); err != nil {
				t.Fatal(err)
			}
			status := r.awaitState(etcdbackup.EtcdSuperseded)
			t.Logf("stopped after %s: %s", time.Since(began), status.Etcd.Message)
			if status.Phase != etcdbackup.PhaseSuperseded || !strings.Contains(status.Etcd.Message, "the "+name+" shows") {
				t.Errorf("status %+v", status)
			}
			if err := r.put("a", "3"); err == nil {
				t.Error("a write was acknowledged")
			}
			if err := r.service.Confirm(context.Background(), 1); err != nil {
				t.Error(err)
			}
			r.stop()
			if after := s.objects(); name == "garden" && after != before &&
				strings.Count(after, "delta") > strings.Count(before, "delta")+1 {
				t.Errorf("the store has %s, before %s", after, before)
			}
			stopped := s.objects()
			r = s.run("--epoch=1", "--holder=a")
			r.awaitState(etcdbackup.EtcdSuperseded)
			r.stop()
			if after := s.objects(); after != stopped {
				t.Errorf("the store has %s, before %s", after, stopped)
			}
		})
	}
}

// mustConfirm confirms the epoch by the garden, and returns when the process has decided with that. A confirmation
// wakes it, and it takes the second one after the decision on the first one.
func (r *running) mustConfirm() {
	r.t.Helper()
	for range 2 {
		if err := r.service.Confirm(context.Background(), 1); err != nil {
			r.t.Fatal(err)
		}
		r.await("the process wakes", func(etcdbackup.Status) bool { return len(r.guard.Changed()) == 0 })
	}
}

// TestEtcdIsFenced makes the bucket unreachable.
func TestEtcdIsFenced(t *testing.T) {
	s := newSeed(t, t.TempDir())
	s.monotonic = &monotonic{}
	const fenceTime = time.Hour
	r := s.run("--epoch=1", "--holder=a", "--fence-time="+fenceTime.String())
	r.awaitState(etcdbackup.EtcdRunning)
	r.mustPut("a", "1")
	r.mustSave()
	if err := os.Rename(s.bucket, s.bucket+".gone"); err != nil {
		t.Fatal(err)
	}
	// The garden suffices: etcd still runs when the last confirmation of the bucket has expired.
	s.monotonic.advance(fenceTime * 2 / 3)
	r.mustConfirm()
	s.monotonic.advance(fenceTime * 2 / 3)
	r.mustConfirm()
	if status := r.awaitState(etcdbackup.EtcdRunning); status.Etcd.Starts != 1 {
		t.Errorf("the garden confirms, but etcd was started %d times", status.Etcd.Starts)
	}
	began := time.Now()
	s.monotonic.advance(fenceTime)
	status := r.awaitState(etcdbackup.EtcdFenced)
	t.Logf("stopped after %s: %s", time.Since(began), status.Etcd.Message)
	if err := r.put("a", "2"); err == nil {
		t.Error("a write was acknowledged")
	}
	r.mustConfirm()
	r.awaitState(etcdbackup.EtcdRunning)
	s.monotonic.advance(fenceTime)
	r.awaitState(etcdbackup.EtcdFenced)
	r.stop()

	// A start requires a witness, although the data is fine.
	r = s.run("--epoch=1", "--holder=a", "--fence-time="+fenceTime.String())
	r.awaitState(etcdbackup.EtcdWaiting)
	if err := os.Rename(s.bucket+".gone", s.bucket); err != nil {
		t.Fatal(err)
	}
	r.awaitState(etcdbackup.EtcdRunning)
	r.mustPut("a", "3")
}

// TestStandby moves an etcd to another seed.
func TestStandby(t *testing.T) {
	bucket := t.TempDir()
	source, destination := newSeed(t, bucket), newSeed(t, bucket)
	from := source.run("--epoch=1", "--holder=a")
	from.awaitState(etcdbackup.EtcdRunning)
	for i := range 100 {
		from.mustPut(fmt.Sprintf("/key/%d", i), strings.Repeat("x", 1000))
	}
	from.mustSave()
	to := destination.run("--standby", "--epoch=2", "--holder=b")
	to.awaitState(etcdbackup.EtcdStandby)
	from.mustPut("last", "1")
	from.mustSave()
	from.stop()
	if err := to.service.Activate(context.Background(), 1, "a"); err == nil {
		t.Error("an old epoch was activated")
	}
	began := time.Now()
	for range 2 {
		if err := to.service.Activate(context.Background(), 2, "b"); err != nil {
			t.Fatal(err)
		}
	}
	to.mustPut("first", "2")
	t.Logf("%s from the activation to an acknowledged write", time.Since(began))
	got, err := to.etcd.Get(context.Background(), "last")
	if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "1" {
		t.Errorf("the destination has %v, %v", got, err)
	}
	to.stop()
	to = destination.run("--standby", "--epoch=2", "--holder=b") // A restart does not undo the activation.
	to.awaitState(etcdbackup.EtcdRunning)
	to.mustPut("first", "3")
	from = source.run("--epoch=1", "--holder=a")
	from.awaitState(etcdbackup.EtcdSuperseded)
}

// TestTakenBack restores etcd to an earlier revision, writes, and loses the volume at every stage: abandoned writes
// never come back.
func TestTakenBack(t *testing.T) {
	s := newSeed(t, t.TempDir())
	r := s.run("--epoch=1", "--holder=a")
	r.awaitState(etcdbackup.EtcdRunning)
	r.mustPut("a", "good")
	r.mustSave()
	got, err := r.etcd.Get(context.Background(), "a")
	if err != nil {
		t.Fatal(err)
	}
	good := got.Kvs[0].ModRevision
	for range 20 {
		r.mustPut("a", "bad")
	}
	r.mustPut("b", "bad")
	r.mustSave()
	got, err = r.etcd.Get(context.Background(), "b")
	if err != nil {
		t.Fatal(err)
	}
	bad := got.Kvs[0].ModRevision
	r.stop()
	want := func(r *running, a string) int64 {
		t.Helper()
		r.awaitState(etcdbackup.EtcdRunning)
		got, err := r.etcd.Get(context.Background(), "", clientv3.WithPrefix())
		if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != a {
			t.Fatalf("etcd has %+v, %v, want %s", got, err, a)
		}
		return got.Header.Revision
	}
	lose := func() {
		t.Helper()
		left, err := filepath.Glob(filepath.Join(s.volume, "etcd*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range left {
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	request := []string{
		"--epoch=1", "--holder=a", "--restore-id=first", fmt.Sprintf("--until-revision=%d", good),
		"--full-schedule=0 0 1 1 *",
	}
	before := s.objects()
	if err := os.Chmod(s.bucket, 0o700); err != nil {
		t.Fatal(err)
	}
	r = s.run(request...)
	first := want(r, "good")
	if first <= bad {
		t.Errorf("etcd is at revision %d, but clients have seen %d", first, bad)
	}
	r.mustPut("a", "better")
	r.mustSave()
	r.stop()
	if after := s.objects(); !strings.HasPrefix(strings.TrimSuffix(after, "]"), "[full") ||
		strings.Count(after, "full") != strings.Count(before, "full")+1 {
		t.Errorf("the store has %s", after)
	}
	r = s.run(request...) // The request is not carried out again.
	want(r, "better")
	r.stop()
	lose()
	r = s.run(request...) // It is not carried out on another volume either.
	second := want(r, "better")
	if second <= first {
		t.Errorf("etcd is at revision %d after %d", second, first)
	}
	r.stop()
	lose()
	r = s.run("--epoch=1", "--holder=a")
	want(r, "better")
	r.stop()
}
