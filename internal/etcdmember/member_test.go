package etcdmember

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/etcdtest"
	"hortus.dev/hortus/internal/etcdmember/configuration"
	"hortus.dev/hortus/internal/etcdmember/fence"
	"hortus.dev/hortus/internal/pki"
)

const timeout = 30 * time.Second

func newCA(t testing.TB, name string) *pki.CA {
	t.Helper()
	ca, err := pki.NewCA(name, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func issue(t testing.TB, ca *pki.CA, usage pki.Usage) *pki.KeyPair {
	t.Helper()
	pair, err := ca.Issue(pki.Request{CommonName: "etcd", Usage: usage, DNSNames: []string{"localhost"}})
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// files are the files of a Secret, in a folder.
type files struct {
	t   testing.TB
	dir string
	// generation of the folder that the links of the files point to.
	generation int
}

// write replaces all files at once, as a kubelet does.
func (f *files) write(bundle []byte, server, client *pki.KeyPair) configuration.Configuration {
	f.t.Helper()
	f.generation++
	data := fmt.Sprintf("data-%d", f.generation)
	if err := os.MkdirAll(filepath.Join(f.dir, data), 0o700); err != nil {
		f.t.Fatal(err)
	}
	c := configuration.Configuration{Files: map[string][]byte{
		configuration.CA: bundle, configuration.ServerCert: server.CertPEM, configuration.ServerKey: server.KeyPEM,
		configuration.ClientCert: client.CertPEM, configuration.ClientKey: client.KeyPEM,
	}}
	for name, content := range c.Files {
		if err := os.WriteFile(filepath.Join(f.dir, data, name), content, 0o600); err != nil {
			f.t.Fatal(err)
		}
		_ = os.Symlink(filepath.Join("..data", name), filepath.Join(f.dir, name))
	}
	temporary := filepath.Join(f.dir, "..tmp")
	if err := os.Symlink(data, temporary); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(temporary, filepath.Join(f.dir, "..data")); err != nil {
		f.t.Fatal(err)
	}
	return c
}

// port of an address.
func port(address string) string { return address[strings.LastIndex(address, ":"):] }

func newMember(t testing.TB, dir string, f *files) *Member {
	t.Helper()
	clients, forward, metrics := etcdtest.FreeAddress(t), etcdtest.FreeAddress(t), etcdtest.FreeAddress(t)
	peer := "http://" + etcdtest.FreeAddress(t)
	dataDir := filepath.Join(dir, "etcd")
	log := logr.Discard()
	if tt, ok := t.(*testing.T); ok {
		log = testr.New(tt)
	}
	return &Member{
		Program: etcdtest.Binary(t), DataDir: dataDir, MetricsURL: "http://" + metrics,
		ClientAddress: "0.0.0.0" + port(clients), ForwardAddress: forward,
		Configuration: configuration.Source{Dir: f.dir, FlagsFile: filepath.Join(f.dir, "flags")},
		Clock:         clock.RealClock{}, Log: log,
		Args: []string{
			"--name=main", "--data-dir=" + dataDir,
			"--listen-client-urls=https://0.0.0.0" + port(clients) + ",https://" + forward,
			"--advertise-client-urls=https://localhost" + port(clients),
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=main=" + peer,
			"--cert-file=" + filepath.Join(f.dir, configuration.ServerCert),
			"--key-file=" + filepath.Join(f.dir, configuration.ServerKey),
			"--trusted-ca-file=" + filepath.Join(f.dir, configuration.CA), "--client-cert-auth=true",
			"--listen-metrics-urls=http://" + metrics, "--log-level=error",
			"--heartbeat-interval=50", "--election-timeout=250", // The flags as rendered for one member.
		},
	}
}

func start(t testing.TB, m *Member) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := m.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

func await(t testing.TB, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(timeout); !reached(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting: %s", what)
		}
	}
}

func awaitConfiguration(t testing.TB, m *Member, c configuration.Configuration) {
	t.Helper()
	await(t, "etcd runs with the configuration", func() bool { return m.Status().Configuration == c.Checksum() })
}

func tlsConfig(t testing.TB, bundle []byte, client *pki.KeyPair) *tls.Config {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundle)
	pair, err := tls.X509KeyPair(client.CertPEM, client.KeyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{pair}, ServerName: "localhost",
	}
}

func connect(t testing.TB, m *Member, bundle []byte, client *pki.KeyPair) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"https://localhost" + port(m.ClientAddress)}, DialTimeout: timeout, Logger: zap.NewNop(),
		TLS: tlsConfig(t, bundle, client),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func put(t testing.TB, c *clientv3.Client, key, value string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := c.Put(ctx, key, value)
	return err
}

// writer writes every 20 ms and records the longest time between two acknowledged writes.
type writer struct {
	gap      time.Duration
	acked    int
	failures int
	stop     chan struct{}
	done     chan struct{}
}

func startWriter(t testing.TB, c *clientv3.Client) *writer {
	t.Helper()
	w := &writer{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		last := time.Now()
		for n := 0; ; n++ {
			select {
			case <-w.stop:
				return
			case <-tick.C:
			}
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			_, err := c.Put(ctx, "writer", strconv.Itoa(n))
			cancel()
			if err != nil {
				w.failures++
				continue
			}
			w.gap, last = max(w.gap, time.Since(last)), time.Now()
			w.acked = n
		}
	}()
	return w
}

func (w *writer) end() {
	close(w.stop)
	<-w.done
}

// TestRotationOfTheCA goes through a rotation as the gardenlet makes it, while a client writes.
func TestRotationOfTheCA(t *testing.T) {
	first, second := newCA(t, "first"), newCA(t, "second")
	both := append(bytes.Clone(first.CertPEM), second.CertPEM...)
	server, client, newClient := issue(t, first, pki.Server|pki.Client), issue(t, first, pki.Client),
		issue(t, second, pki.Client)
	f := &files{t: t, dir: t.TempDir()}
	m := newMember(t, t.TempDir(), f)
	c := f.write(first.CertPEM, server, client)
	start(t, m)
	awaitConfiguration(t, m, c)
	old := connect(t, m, first.CertPEM, client)
	if err := put(t, old, "a", "1"); err != nil {
		t.Fatal(err)
	}

	w := startWriter(t, old)
	c = f.write(both, server, newClient)
	awaitConfiguration(t, m, c)
	if err := put(t, connect(t, m, both, newClient), "a", "2"); err != nil {
		t.Fatalf("a client with a certificate of the new CA: %v", err)
	}
	w.end()
	t.Logf("new CA: longest time without an acknowledged write %s, %d requests failed", w.gap, w.failures)
	if w.gap > 10*time.Second { // The time of a new pod. An idle machine needs less than a second.
		t.Errorf("no write was acknowledged for %s", w.gap)
	}

	starts := m.Status().Starts
	renewed := issue(t, second, pki.Server|pki.Client)
	c = f.write(both, renewed, newClient)
	awaitConfiguration(t, m, c)
	if got := m.Status().Starts; got != starts {
		t.Errorf("etcd was started %d times for a new server certificate", got-starts)
	}
	now := connect(t, m, second.CertPEM, newClient) // Verifies only servers of the new CA.
	if err := put(t, now, "a", "3"); err != nil {
		t.Fatalf("etcd does not use its new certificate: %v", err)
	}

	w = startWriter(t, now)
	c = f.write(second.CertPEM, renewed, newClient)
	awaitConfiguration(t, m, c)
	w.end()
	t.Logf("old CA removed: longest time without an acknowledged write %s, %d requests failed", w.gap, w.failures)
	conn, err := tls.Dial("tcp", "127.0.0.1"+port(m.ClientAddress), tlsConfig(t, second.CertPEM, client))
	if err == nil {
		_ = conn.SetDeadline(time.Now().Add(timeout))
		_, err = conn.Read(make([]byte, 1)) // With TLS 1.3 the rejection follows the handshake.
		conn.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "tls:") {
		t.Errorf("a client with a certificate of the old CA: %v", err)
	}
	got, err := now.Get(context.Background(), "writer")
	if err != nil || string(got.Kvs[0].Value) < strconv.Itoa(w.acked) &&
		len(got.Kvs[0].Value) <= len(strconv.Itoa(w.acked)) {
		t.Errorf("etcd has %v, %v, but %d was acknowledged", got, err, w.acked)
	}
}

// TestFlagsAreChangedInPlace changes flags that etcd was started with.
func TestFlagsAreChangedInPlace(t *testing.T) {
	ca := newCA(t, "ca")
	client := issue(t, ca, pki.Client)
	f := &files{t: t, dir: t.TempDir()}
	c := f.write(ca.CertPEM, issue(t, ca, pki.Server|pki.Client), client)
	m := newMember(t, t.TempDir(), f)
	registry := prometheus.NewRegistry()
	m.Metrics = NewMetrics(registry)
	start(t, m)
	awaitConfiguration(t, m, c)
	c.Flags = "--quota-backend-bytes=123456789\n"
	temporary := filepath.Join(f.dir, "flags.tmp")
	if err := os.WriteFile(temporary, []byte(c.Flags), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temporary, filepath.Join(f.dir, "flags")); err != nil {
		t.Fatal(err)
	}
	awaitConfiguration(t, m, c)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	status, err := connect(t, m, ca.CertPEM, client).Status(ctx, "https://localhost"+port(m.ClientAddress))
	if err != nil || status.DbSizeQuota != 123456789 {
		t.Errorf("etcd runs with %+v, %v", status, err)
	}
	counted(t, registry, 2, causeConfiguration)
}

// TestEtcdIsStartedAgain kills etcd.
func TestEtcdIsStartedAgain(t *testing.T) {
	ca := newCA(t, "ca")
	client := issue(t, ca, pki.Client)
	f := &files{t: t, dir: t.TempDir()}
	c := f.write(ca.CertPEM, issue(t, ca, pki.Server|pki.Client), client)
	m := newMember(t, t.TempDir(), f)
	registry := prometheus.NewRegistry()
	m.Metrics = NewMetrics(registry)
	prepared := 0
	m.Prepare = func(context.Context) ([]string, error) { prepared++; return nil, nil }
	if m.Ready(t.Context()) == nil {
		t.Error("an etcd that was not started counts as ready")
	}
	stop := start(t, m)
	awaitConfiguration(t, m, c)
	if err := m.Ready(t.Context()); err != nil {
		t.Errorf("etcd runs, but is not ready: %v", err)
	}
	etcd := connect(t, m, ca.CertPEM, client)
	if err := put(t, etcd, "a", "1"); err != nil {
		t.Fatal(err)
	}
	for _, pid := range etcdOf(t, m.DataDir) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "etcd was started again", func() bool { return m.Status().Starts == 2 })
	awaitConfiguration(t, m, c)
	if err := put(t, etcd, "a", "2"); err != nil {
		t.Fatal(err)
	}
	stop()
	if m.Ready(t.Context()) == nil {
		t.Error("an etcd that was stopped counts as ready")
	}
	counted(t, registry, 2, causeFailure)
	if prepared != 2 {
		t.Errorf("the data directory was checked %d times, want 2", prepared)
	}
	if left := etcdOf(t, m.DataDir); len(left) > 0 {
		t.Errorf("etcd runs on as %v", left)
	}
}

// etcdOf returns the processes of etcd with a data directory.
func etcdOf(t testing.TB, dataDir string) (pids []int) {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		line, _ := os.ReadFile(path)
		if args := strings.Split(string(line), "\x00"); len(args) > 2 && filepath.Base(args[0]) == "etcd" &&
			strings.Contains(string(line), "--data-dir="+dataDir) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

const childVariable = "HORTUS_TEST_ETCD_MEMBER"

// TestNeverTwoEtcds starts a second process on the same data directory, kills the first one with SIGKILL, and checks
// that there is at most one etcd at every moment, and finally that of the second process.
func TestNeverTwoEtcds(t *testing.T) {
	ca := newCA(t, "ca")
	client := issue(t, ca, pki.Client)
	f := &files{t: t, dir: t.TempDir()}
	c := f.write(ca.CertPEM, issue(t, ca, pki.Server|pki.Client), client)
	dir := t.TempDir()
	m := newMember(t, dir, f)
	child := exec.Command(os.Args[0], "-test.run=^TestChild$")
	child.Env = append(os.Environ(), childVariable+"="+
		strings.Join(append([]string{m.DataDir, m.MetricsURL, f.dir, m.ClientAddress, m.ForwardAddress}, m.Args...), "\n"))
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
	var first []int
	await(t, "the first process runs etcd", func() bool {
		first = etcdOf(t, m.DataDir)
		return len(first) == 1 && m.probe(context.Background(), "/readyz") == nil
	})
	start(t, m)
	await(t, "the second process waits", func() bool { return m.Status().Message != "" })
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	await(t, "the second process runs etcd", func() bool {
		now := etcdOf(t, m.DataDir)
		if len(now) > 1 {
			t.Fatalf("two etcds run: %v", now)
		}
		return m.Status().State == etcdbackup.EtcdRunning
	})
	awaitConfiguration(t, m, c)
	if err := put(t, connect(t, m, ca.CertPEM, client), "a", "1"); err != nil {
		t.Error(err)
	}
}

// TestPausedForLongerThanTheFenceTime pauses all processes of a member, like a machine that hangs, and resumes them
// when another owner may have taken over. Etcd resumes first, which is the worst case.
func TestPausedForLongerThanTheFenceTime(t *testing.T) {
	ca := newCA(t, "ca")
	client := issue(t, ca, pki.Client)
	f := &files{t: t, dir: t.TempDir()}
	f.write(ca.CertPEM, issue(t, ca, pki.Server|pki.Client), client)
	m := newMember(t, t.TempDir(), f)
	const fenceTime = 5 * time.Second
	child := exec.Command(os.Args[0], "-test.run=^TestChild$")
	child.Env = append(os.Environ(), fenceVariable+"="+fenceTime.String(),
		childVariable+"="+strings.Join(append([]string{
			m.DataDir, m.MetricsURL, f.dir, m.ClientAddress, m.ForwardAddress,
		}, m.Args...), "\n"))
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
	m.init()
	await(t, "etcd runs", func() bool { return m.probe(context.Background(), "/readyz") == nil })
	signal := func(s syscall.Signal, pids ...int) {
		t.Helper()
		for _, pid := range pids {
			if err := syscall.Kill(pid, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	pids := etcdOf(t, m.DataDir)
	signal(syscall.SIGSTOP, child.Process.Pid)
	signal(syscall.SIGSTOP, pids...)
	etcd := connect(t, m, ca.CertPEM, client)
	var over atomic.Bool // Etcd has ended.
	acked, late := 0, make(chan error, 1)
	go func() {
		for n := 0; ; n++ {
			// The last write begins after the end of etcd, and would wait for another etcd.
			last, limit := over.Load(), 10*time.Second
			if last {
				limit = time.Second
			}
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			_, err := etcd.Put(ctx, "a", strconv.Itoa(n))
			cancel()
			if last {
				late <- err
				return
			}
			if err == nil {
				acked++
			}
		}
	}()
	time.Sleep(fenceTime) // Real time: the pause of the processes.
	resumed := time.Now()
	signal(syscall.SIGCONT, pids...)
	signal(syscall.SIGCONT, child.Process.Pid)
	await(t, "etcd has ended", func() bool { return len(etcdOf(t, m.DataDir)) == 0 })
	ended := time.Since(resumed)
	over.Store(true)
	err := <-late
	t.Logf("etcd ended %s after it was resumed; %d writes were acknowledged", ended, acked)
	if err == nil {
		t.Error("a write was acknowledged that began after etcd had ended")
	}
}

const fenceVariable = "HORTUS_TEST_ETCD_FENCE_TIME"

// TestChild is the first process of TestNeverTwoEtcds, and the one that is paused.
func TestChild(t *testing.T) {
	line := os.Getenv(childVariable)
	if line == "" {
		t.Skip("runs only as a child process")
	}
	args := strings.Split(line, "\n")
	m := &Member{Program: etcdtest.Binary(t), DataDir: args[0], MetricsURL: args[1], ClientAddress: args[3],
		ForwardAddress: args[4], Args: args[5:],
		Configuration: configuration.Source{Dir: args[2]}, Clock: clock.RealClock{}, Log: logr.Discard()}
	if fenceTime, err := time.ParseDuration(os.Getenv(fenceVariable)); err == nil {
		owner := fence.Owner{Epoch: 1, Holder: "a"}
		if m.Guard, err = fence.New(owner, fenceTime, false, m.DataDir+".superseded", fence.Monotonic,
			clock.RealClock{}); err != nil {
			t.Fatal(err)
		}
		go func() {
			for { // Requests from before the pause, which is not shorter than the fence time, are not confirmed.
				asked := m.Guard.Now()
				time.Sleep(fenceTime / 10)
				if m.Guard.Now()-asked < fenceTime {
					_ = m.Guard.Confirm(fence.Garden, owner, asked)
				} else {
					return
				}
			}
		}()
	}
	if err := m.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// TestATurnEndsInEtcd ends the turn of a restart by writing to etcd, as members do, over connections that would be held
// as long as clients wait.
func TestATurnEndsInEtcd(t *testing.T) {
	ca := newCA(t, "first")
	server, client := issue(t, ca, pki.Server|pki.Client), issue(t, ca, pki.Client)
	f := &files{t: t, dir: t.TempDir()}
	m := newMember(t, t.TempDir(), f)
	ended := make(chan error, 1)
	m.Turn = func(context.Context) (func(), error) {
		return func() {
			const connections = 20 // The process that holds connections would get about half of each.
			for range connections {
				c, err := clientv3.New(clientv3.Config{
					Endpoints: []string{"https://localhost" + port(m.ClientAddress)}, TLS: tlsConfig(t, ca.CertPEM, client),
					Logger: zap.NewNop(),
				})
				if err == nil {
					err = put(t, c, "turn", "ended")
					_ = c.Close()
				}
				if err != nil {
					ended <- err
					return
				}
			}
			ended <- nil
		}, nil
	}
	c := f.write(ca.CertPEM, server, client)
	start(t, m)
	awaitConfiguration(t, m, c)
	other := newCA(t, "second")
	c = f.write(append(bytes.Clone(ca.CertPEM), other.CertPEM...), server, client)
	awaitConfiguration(t, m, c)
	if err := <-ended; err != nil {
		t.Errorf("the end of a turn cannot be written: %v", err)
	}
}
