package etcdbackup_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"github.com/robfig/cron/v3"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/chain"
	"hortus.dev/hortus/internal/etcdbackup/etcdtest"
	"hortus.dev/hortus/internal/etcdbackup/restore"
	"hortus.dev/hortus/internal/etcdbackup/snapshot"
	"hortus.dev/hortus/internal/etcdbackup/store"
)

const prefix = "shoot--dev--a--1/etcd-main"

// folder is a store in a local folder, and the credentials for it.
func folder(t testing.TB) (credentials, path string) {
	t.Helper()
	credentials, path = t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(credentials, "path"), []byte(path), 0o600); err != nil {
		t.Fatal(err)
	}
	return credentials, path
}

func open(t testing.TB, credentials string) *store.Store {
	t.Helper()
	s, err := store.Open(credentials, prefix, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func logger(t testing.TB) logr.Logger {
	if os.Getenv("HORTUS_TEST_LOGS") == "" {
		return logr.Discard()
	}
	return testr.New(t.(*testing.T))
}

// never is a schedule for tests that take full snapshots themselves.
type never struct{}

func (never) Next(t time.Time) time.Time { return t.AddDate(100, 0, 0) }

var _ cron.Schedule = never{}

func options() snapshot.Options {
	return snapshot.Options{Epoch: 1, Holder: "a", Identity: prefix, Nonce: "n", Schedule: never{},
		DeltaPeriod: time.Hour, DeltaBytes: 10 << 20}
}

// run takes backups in the background until the test ends or stop is called.
func run(t testing.TB, client *clientv3.Client, s snapshot.Store, o snapshot.Options) (taker *snapshot.Taker,
	stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	taker = &snapshot.Taker{Etcd: client, Store: s, Clock: clock.RealClock{}, Log: logger(t), Options: o,
		Stored: func(*chain.Object, *store.Listing) {}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		taker.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return taker, stop
}

// take takes a backup and waits for it.
func take(t testing.TB, taker *snapshot.Taker, kind chain.Kind) etcdbackup.Snapshot {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	s, err := taker.Snapshot(ctx, kind)
	if err != nil {
		t.Fatalf("take %s: %v", kind, err)
	}
	return s
}

func restoreOptions(t testing.TB, server *etcdtest.Server, s restore.Store) restore.Options {
	return restore.Options{
		DataDir: server.DataDir, Name: server.Name, InitialCluster: server.InitialCluster(),
		InitialClusterToken:      "etcd-cluster",
		InitialAdvertisePeerURLs: []string{server.PeerURL}, Epoch: 1, Holder: "a", Identity: prefix, RevisionBump: 1000,
		Nonce: "r",
		Store: s, Clock: clock.RealClock{}, Progress: restore.Progress{Out: output{t}, Clock: clock.RealClock{}},
	}
}

// output sends progress to the test's log.
type output struct{ t testing.TB }

func (o output) Write(p []byte) (int, error) {
	o.t.Log(string(p[:len(p)-1]))
	return len(p), nil
}

func mustRestore(t testing.TB, o restore.Options, want restore.Action) restore.Result {
	t.Helper()
	result, err := restore.Run(context.Background(), o)
	if err != nil {
		t.Fatalf("restore: %v", err)
	}
	if result.Decision.Action != want {
		t.Fatalf("decided %+v, want %s", result.Decision, want)
	}
	return result
}

func TestEverythingIsRestored(t *testing.T) {
	server := etcdtest.New(t)
	credentials, _ := folder(t)
	client := server.Start()
	history := etcdtest.NewHistory(t, client, 1)
	history.Write(100)
	taker, stop := run(t, client, open(t, credentials), options())
	take(t, taker, chain.Delta) // The first session begins with a full snapshot.
	var middle int64
	for i := range 5 {
		history.Write(40)
		got := take(t, taker, chain.Delta)
		if want := history.Last(); got.Revision != want {
			t.Fatalf("saved revision %d, want %d", got.Revision, want)
		}
		if i == 2 {
			middle = history.Last() - 7
		}
	}
	stop()
	last := history.Last()
	server.Kill()
	server.Wipe()

	mustRestore(t, restoreOptions(t, server, open(t, credentials)), restore.Restore)
	client = server.Start()
	history.Compare(client, last)
	if r := server.Revision(); r < last+1000 {
		t.Errorf("etcd continues at revision %d after %d", r, last)
	}
	server.Kill()
	mustRestore(t, restoreOptions(t, server, open(t, credentials)), restore.Start)

	o := restoreOptions(t, server, open(t, credentials))
	for history.States[middle] == nil {
		middle--
	}
	o.Target.Revision = middle
	mustRestore(t, o, restore.Restore)
	history.Compare(server.Start(), middle)
	server.Kill()
	mustRestore(t, o, restore.Start) // A restart does not restore again.
}
