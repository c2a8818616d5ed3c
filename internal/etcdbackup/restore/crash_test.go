package restore_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/etcdbackup/chain"
	"hortus.dev/hortus/internal/etcdbackup/etcdtest"
	"hortus.dev/hortus/internal/etcdbackup/restore"
	"hortus.dev/hortus/internal/etcdbackup/snapshot"
	"hortus.dev/hortus/internal/etcdbackup/store"
)

const prefix = "a/etcd-main"

type never struct{}

func (never) Next(t time.Time) time.Time { return t.AddDate(100, 0, 0) }

// backedUp starts etcd with some history, a full snapshot and a delta of it in a store.
func backedUp(t *testing.T) (*etcdtest.Server, *clientv3.Client, *etcdtest.History, restore.Options) {
	t.Helper()
	credentials := t.TempDir()
	if err := os.WriteFile(filepath.Join(credentials, "path"), []byte(t.TempDir()), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(credentials, prefix, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	server := etcdtest.New(t)
	client := server.Start()
	history := etcdtest.NewHistory(t, client, 21)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	taker := &snapshot.Taker{Etcd: client, Store: s, Clock: clock.RealClock{}, Log: logr.Discard(),
		Stored: func(*chain.Object, *store.Listing) {},
		Options: snapshot.Options{Epoch: 1, Holder: "a", Identity: prefix, Nonce: "n", Schedule: never{},
			DeltaPeriod: time.Hour, DeltaBytes: 1 << 20}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		taker.Run(ctx)
	}()
	for range 2 {
		history.Write(20)
		if _, err := taker.Snapshot(ctx, chain.Delta); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	<-done
	var out bytes.Buffer
	t.Cleanup(func() { t.Log(out.String()) })
	return server, client, history, restore.Options{
		DataDir: server.DataDir, Name: server.Name, InitialCluster: server.InitialCluster(),
		InitialClusterToken:      "etcd-cluster",
		InitialAdvertisePeerURLs: []string{server.PeerURL}, Epoch: 1, Holder: "a", Identity: prefix, RevisionBump: 1000,
		Nonce: "r",
		Store: s, Clock: clock.RealClock{}, Progress: restore.Progress{Out: &out, Clock: clock.RealClock{}},
	}
}

// TestCrashAtEveryStep breaks the data directory, crashes the restore before each of its steps, and expects the next
// one to finish. At no point may there be a data directory that is neither the old nor a complete one.
func TestCrashAtEveryStep(t *testing.T) {
	server, _, history, o := backedUp(t)
	server.Kill()
	crash := errors.New("crash")
	for step := 0; ; step++ {
		broken := filepath.Join(o.DataDir, "member", "snap", "db")
		if err := os.Truncate(broken, 5000); err != nil {
			t.Fatal(err)
		}
		crashing, count, name := o, 0, ""
		crashing.StopAt(func(s string) error {
			if count++; count > step {
				name = s
				return crash
			}
			return nil
		})
		_, err := restore.Run(context.Background(), crashing)
		if err == nil {
			if step < 6 {
				t.Errorf("there were only %d steps", step)
			}
			return
		}
		if !errors.Is(err, crash) {
			t.Fatal(err)
		}
		if info, err := os.Stat(broken); err == nil && info.Size() != 5000 {
			t.Fatalf("after a crash before %q the data directory is different", name)
		}
		if r, err := restore.Run(context.Background(), o); err != nil || r.Decision.Action != restore.Restore {
			t.Fatalf("after a crash before %q: %+v, %v", name, r, err)
		}
		if left, _ := filepath.Glob(o.DataDir + ".restoring*"); len(left) > 0 {
			t.Errorf("after a crash before %q %v is left", name, left)
		}
		history.Compare(server.Start(), history.Last())
		server.Kill()
	}
}

// TestLogCounts kills etcd right after writes, so that its database file lags behind its log, and behind a backup.
func TestLogCounts(t *testing.T) {
	server, client, history, o := backedUp(t)
	if _, err := client.Put(context.Background(), "more", ""); err != nil {
		t.Fatal(err)
	}
	measured := 0
	o.Measure = func(ctx context.Context, o restore.Options) (int64, error) {
		measured++
		return restore.MeasureHere(ctx, o)
	}
	want := server.Revision()
	server.Kill()
	r, err := restore.Run(context.Background(), o)
	if err != nil || r.Decision.Action != restore.Start {
		t.Fatalf("%+v, %v", r, err)
	}
	if got, err := restore.MeasureHere(context.Background(), o); err != nil || got != want {
		t.Errorf("measured revision %d, %v, want %d", got, err, want)
	}
	t.Logf("measured %d times", measured)
	client = server.Start()
	if revision, _ := etcdtest.Read(t, client); revision != history.Last()+1 {
		t.Errorf("etcd is at revision %d", revision)
	}
}

// TestOlderDataIsReplaced restores an older copy of the data directory, as from a snapshot of the volume.
func TestOlderDataIsReplaced(t *testing.T) {
	server := etcdtest.New(t)
	server.Start()
	server.Kill()
	old := server.DataDir
	_, client, history, o := backedUp(t)
	_ = client
	other := o
	other.DataDir, other.Name, other.InitialCluster, other.InitialAdvertisePeerURLs = old, server.Name,
		server.InitialCluster(), []string{server.PeerURL}
	r, err := restore.Run(context.Background(), other)
	if err != nil || r.Decision.Action != restore.Restore {
		t.Fatalf("%+v, %v", r, err)
	}
	history.Compare(server.Start(), history.Last())
	if _, err := os.Stat(old + ".previous/member"); err != nil {
		t.Errorf("the old data directory is gone: %v", err)
	}
}

// TestDamagedLogIsFound damages the log; the third start without a healthy etcd reads everything.
func TestDamagedLogIsFound(t *testing.T) {
	server, _, history, o := backedUp(t)
	server.Kill()
	logs, err := filepath.Glob(filepath.Join(o.DataDir, "member", "wal", "*.wal"))
	if err != nil || len(logs) == 0 {
		t.Fatal("no log")
	}
	f, err := os.OpenFile(logs[0], os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(bytes.Repeat([]byte{0xff}, 100), 300); err != nil {
		t.Fatal(err)
	}
	f.Close()
	for i := range 3 {
		o.Measure = func(context.Context, restore.Options) (int64, error) { return history.Last(), nil }
		r, err := restore.Run(context.Background(), o)
		if want := map[bool]restore.Action{true: restore.Start, false: restore.Restore}[i < 2]; err != nil ||
			r.Decision.Action != want {
			t.Fatalf("start %d: %+v, %v, want %s", i, r, err, want)
		}
	}
	history.Compare(server.Start(), history.Last())
	if err := restore.MarkHealthy(o.DataDir); err != nil {
		t.Error(err)
	}
}

// TestKilledEtcdIsNotBroken kills etcd after writes, repeatedly, and reads everything: acknowledged writes must not be
// replaced by a backup.
func TestKilledEtcdIsNotBroken(t *testing.T) {
	server := etcdtest.New(t)
	for i := range 8 {
		client := server.Start()
		for range 5 * i {
			if _, err := client.Put(context.Background(), "a", "b"); err != nil {
				t.Fatal(err)
			}
		}
		// Etcd writes its database file every 100 ms.
		time.Sleep(time.Duration(i) * 30 * time.Millisecond) // Real time: kills between and during writes.
		server.Kill()
		if err := os.WriteFile(server.DataDir+".epoch", []byte(`{"epoch":1,"starts":9}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if state, err := restore.Inspect(server.DataDir); err != nil || state != restore.DataFine {
			t.Fatalf("after kill %d: %s, %v", i, state, err)
		}
	}
}

func TestFreshStart(t *testing.T) {
	_, _, _, o := backedUp(t)
	empty := t.TempDir()
	credentials := t.TempDir()
	if err := os.WriteFile(filepath.Join(credentials, "path"), []byte(empty), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(credentials, prefix, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	o.DataDir, o.Store = filepath.Join(t.TempDir(), "etcd"), s
	if r, err := restore.Run(context.Background(), o); err != nil || r.Decision.Action != restore.StartEmpty {
		t.Errorf("%+v, %v", r, err)
	}
	if err := os.RemoveAll(empty); err != nil {
		t.Fatal(err)
	}
	if r, err := restore.Run(context.Background(), o); err == nil {
		t.Errorf("the store is missing: %+v", r)
	}
}
