package etcdbackup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/archive"
	"hortus.dev/hortus/internal/etcdbackup/chain"
	"hortus.dev/hortus/internal/etcdbackup/etcdtest"
	"hortus.dev/hortus/internal/etcdbackup/restore"
	"hortus.dev/hortus/internal/etcdbackup/store"
	"hortus.dev/hortus/internal/etcdbackup/verify"
)

// series takes a full snapshot and n deltas, and returns the last revision of each.
func series(t testing.TB, server *etcdtest.Server, client *clientv3.Client, s *store.Store, n int) (*etcdtest.History,
	[]int64) {
	t.Helper()
	history := etcdtest.NewHistory(t, client, 3)
	history.Write(20)
	taker, stop := run(t, client, s, options())
	defer stop()
	ends := []int64{take(t, taker, chain.Delta).Revision}
	for range n {
		history.Write(20)
		ends = append(ends, take(t, taker, chain.Delta).Revision)
	}
	return history, ends
}

// file is the path of the object that ends at a revision.
func file(t testing.TB, folder string, s *store.Store, kind chain.Kind, last int64) string {
	t.Helper()
	return filepath.Join(folder, prefix, object(t, s, kind, last).Name())
}

// object returns the object that ends at a revision.
func object(t testing.TB, s *store.Store, kind chain.Kind, last int64) chain.Object {
	t.Helper()
	l, err := s.List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range l.Objects {
		if o.Kind == kind && o.Last == last {
			return o
		}
	}
	t.Fatalf("no %s ends at revision %d", kind, last)
	return chain.Object{}
}

func change(t testing.TB, path string, edit func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, edit(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedAndForeignDeltasEndTheChain(t *testing.T) {
	server := etcdtest.New(t)
	credentials, dir := folder(t)
	client := server.Start()
	s := open(t, credentials)
	history, ends := series(t, server, client, s, 4)
	server.Kill()
	third, want := file(t, dir, s, chain.Delta, ends[3]), object(t, s, chain.Delta, ends[3]).First-1
	good, err := os.ReadFile(third)
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func([]byte) []byte{
		"corrupt":   func(b []byte) []byte { b = bytes.Clone(b); b[len(b)/2] ^= 1; return b },
		"truncated": func(b []byte) []byte { return b[:len(b)-10] },
		"empty":     func([]byte) []byte { return nil },
		"of another identity": func(b []byte) []byte {
			return rewrite(t, b,
				func(h *archive.Header) { h.Identity = "other" })
		},
		"of another cluster": func(b []byte) []byte {
			return rewrite(t, b,
				func(h *archive.Header) { h.ClusterID = "other" })
		},
		"of another name": func(b []byte) []byte { return rewrite(t, b, func(h *archive.Header) { h.Last++ }) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(third, edit(good), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := verify.Chain(context.Background(), newest(t, s), verify.Options{Store: s, Identity: prefix,
				Clock: clock.RealClock{}}); err == nil {
				t.Error("the verification does not find the damage")
			}
			server.Wipe()
			result := mustRestore(t, restoreOptions(t, server, s), restore.Restore)
			if r := result.Built; r.Revision != want || len(r.Skipped) != 1 {
				t.Fatalf("restored revision %d without %v, want %d", r.Revision, r.Skipped, want)
			}
			history.Compare(server.Start(), want)
			server.Kill()
		})
	}
}

// rewrite changes the header of an object, with correct hashes.
func rewrite(t testing.TB, object []byte, edit func(*archive.Header)) []byte {
	t.Helper()
	r, err := archive.NewReader(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	h := r.Header
	edit(&h)
	var out bytes.Buffer
	w, err := archive.NewWriter(&out, h)
	if err != nil {
		t.Fatal(err)
	}
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if record.Lease != 0 {
			err = w.Records(archive.AppendLease(nil, record.Lease, record.TTL), 0)
		} else {
			err = w.Records(archive.AppendEntry(nil, record.Revision, record.Value), 1)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(archive.Trailer{}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func newest(t testing.TB, s *store.Store) chain.Chain {
	t.Helper()
	l, err := s.List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	owned, _ := chain.Owned(l.Objects, l.Claims)
	c, ok := chain.Select(chain.Build(owned), chain.Target{})
	if !ok {
		t.Fatal("there is no chain")
	}
	return c
}

func TestDamagedFullSnapshotFallsBackToTheOneBefore(t *testing.T) {
	server := etcdtest.New(t)
	credentials, dir := folder(t)
	client := server.Start()
	s := open(t, credentials)
	history := etcdtest.NewHistory(t, client, 5)
	history.Write(30)
	taker, stop := run(t, client, s, options())
	take(t, taker, chain.Delta)
	history.Write(30)
	full := take(t, taker, chain.Full)
	history.Write(30)
	last := take(t, taker, chain.Delta).Revision
	expected, err := client.HashKV(context.Background(), server.ClientURL, last)
	if err != nil {
		t.Fatal(err)
	}
	stop()
	server.Kill()

	v, err := verify.Chain(context.Background(), newest(t, s), verify.Options{Store: s, Identity: prefix,
		Clock:    clock.RealClock{},
		Expected: &archive.Hash{Revision: last, CompactRevision: expected.CompactRevision, Hash: expected.Hash}})
	if err != nil || !v.HashCompared || v.Revision != last || v.Keys != int64(len(history.States[last])) {
		t.Fatalf("verification: %+v, %v", v, err)
	}
	change(t, file(t, dir, s, chain.Full, full.Revision), func(b []byte) []byte { return b[:len(b)/2] })
	server.Wipe()
	result := mustRestore(t, restoreOptions(t, server, s), restore.Restore)
	if len(result.Built.Skipped) != 1 || result.Built.Revision != last {
		t.Fatalf("restored %+v", result.Built)
	}
	history.Compare(server.Start(), last)
}

// faulty fails or delays writes to a store.
type faulty struct {
	*store.Store
	mu  sync.Mutex
	err error
}

func (f *faulty) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *faulty) fault() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *faulty) Upload(ctx context.Context, name string, data []byte) error {
	if err := f.fault(); err != nil {
		return err
	}
	return f.Store.Upload(ctx, name, data)
}

func (f *faulty) List(ctx context.Context) (store.Listing, error) {
	if err := f.fault(); err != nil {
		return store.Listing{}, err
	}
	return f.Store.List(ctx)
}

// eventually waits for a state of the backups.
func eventually(t testing.TB, what string, reached func() bool) {
	t.Helper()
	deadline := time.After(60 * time.Second)
	for !reached() {
		select {
		case <-deadline:
			t.Fatalf("timed out waiting: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestStoreThatFailsIsCaughtUpWith(t *testing.T) {
	for name, compact := range map[string]bool{"events are still in etcd": false, "etcd has compacted the events": true} {
		t.Run(name, func(t *testing.T) {
			server := etcdtest.New(t)
			credentials, _ := folder(t)
			client := server.Start()
			f := &faulty{Store: open(t, credentials)}
			o := options()
			o.DeltaBytes = 20_000
			history := etcdtest.NewHistory(t, client, 9)
			history.Write(10)
			taker, stop := run(t, client, f, o)
			saved := take(t, taker, chain.Delta).Revision

			f.set(errors.New("the store is on fire"))
			big := strings.Repeat("x", 5000)
			for range 40 { // The size of ten deltas, more than is held in memory.
				if _, err := client.Put(context.Background(), "big", big); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, "the session gives up", func() bool { return taker.Status().Phase == etcdbackup.PhaseFailing })
			if s := taker.Status(); s.SavedRevision != saved || s.LastError == nil || s.SecondsBehind <= 0 {
				t.Errorf("status %+v", s)
			}
			history.Write(20)
			if compact {
				if _, err := client.Compact(context.Background(), server.Revision()-3,
					clientv3.WithCompactPhysical()); err != nil {
					t.Fatal(err)
				}
			}
			f.set(nil)
			last := history.Last()
			eventually(t, "the store has everything", func() bool {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				s, err := taker.Snapshot(ctx, chain.Delta)
				return err == nil && s.Revision == last
			})
			if s := taker.Status(); s.SecondsBehind != 0 || s.Phase != etcdbackup.PhaseActive {
				t.Errorf("status %+v", s)
			}
			stop()
			l, err := f.Store.List(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			fulls := slices.DeleteFunc(l.Objects, func(o chain.Object) bool { return o.Kind != chain.Full })
			if want := map[bool]int{false: 1, true: 2}[compact]; len(fulls) != want {
				t.Errorf("%d full snapshots, want %d", len(fulls), want)
			}
			server.Kill()
			server.Wipe()
			mustRestore(t, restoreOptions(t, server, f.Store), restore.Restore)
			history.Compare(server.Start(), last)
		})
	}
}

func TestNothingIsWrittenWhenNothingChanged(t *testing.T) {
	server := etcdtest.New(t)
	credentials, _ := folder(t)
	client := server.Start()
	s := open(t, credentials)
	history, _ := series(t, server, client, s, 1)
	before, err := s.List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	taker, _ := run(t, client, s, options()) // As after a restart of the process.
	if got := take(t, taker, chain.Delta); got.Revision != history.Last() {
		t.Errorf("snapshot %+v, want revision %d", got, history.Last())
	}
	after, err := s.List(context.Background())
	if err != nil || len(after.Objects) != len(before.Objects) {
		t.Errorf("%d objects became %d, %v", len(before.Objects), len(after.Objects), err)
	}
	history.Write(5)
	take(t, taker, chain.Delta)
	if c := newest(t, s); c.Last() != history.Last() || len(c.Deltas) != 2 {
		t.Errorf("the deltas do not continue: %+v", c)
	}
}

func TestOldOwnerStopsAndItsLateWritesAreIgnored(t *testing.T) {
	server := etcdtest.New(t)
	credentials, dir := folder(t)
	client := server.Start()
	s := open(t, credentials)
	history := etcdtest.NewHistory(t, client, 11)
	history.Write(20)
	taker, stop := run(t, client, s, options())
	saved := take(t, taker, chain.Delta).Revision

	// The new owner restores the backups on another volume.
	other := etcdtest.New(t)
	o := restoreOptions(t, other, s)
	o.Epoch, o.Holder, o.Nonce = 2, "b", "x"
	mustRestore(t, o, restore.Restore)

	history.Write(20)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if _, err := taker.Snapshot(ctx, chain.Delta); err == nil || !strings.Contains(err.Error(), "newer epoch") {
		t.Errorf("the old owner's delta: %v", err)
	}
	eventually(t, "the old owner stops", func() bool { return taker.Status().Phase == etcdbackup.PhaseSuperseded })
	stop()
	if c := newest(t, s); c.Last() != saved {
		t.Errorf("the store reaches revision %d, not %d", c.Last(), saved)
	}
	// A pending upload of the old owner.
	late := chain.Object{Epoch: 1, Kind: chain.Delta, First: saved + 1, Last: saved + 20, Created: time.Now()}
	if err := os.WriteFile(filepath.Join(dir, prefix, late.Name()), []byte("late"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c := newest(t, s); c.Last() != saved {
		t.Errorf("with a late object the store reaches revision %d, not %d", c.Last(), saved)
	}
	// A restart of the old owner is rejected, even with its data directory.
	server.Kill()
	if _, err := restore.Run(ctx, restoreOptions(t, server, s)); err == nil || !strings.Contains(err.Error(),
		"superseded") {
		t.Errorf("the old owner's restart: %v", err)
	}
	// The new owner restores the backups that it took over, takes its own, and survives the loss of its volume.
	client2 := other.Start()
	history.Compare(client2, saved)
	history2 := etcdtest.NewHistory(t, client2, 12)
	history2.Write(10)
	o2 := options()
	o2.Epoch, o2.Holder, o2.Nonce = 2, "b", "y"
	taker2, stop2 := run(t, client2, s, o2)
	last := take(t, taker2, chain.Delta).Revision
	stop2()
	other.Kill()
	other.Wipe()
	mustRestore(t, o, restore.Restore)
	history2.Compare(other.Start(), last)
}

func TestTwoHoldersOfAnEpoch(t *testing.T) {
	credentials, _ := folder(t)
	var wg sync.WaitGroup
	results := make([]chain.Claim, 8)
	for i := range results {
		wg.Go(func() {
			s, err := store.Open(credentials, prefix, clock.RealClock{})
			if err == nil {
				results[i], err = s.Claim(context.Background(), chain.Claim{Epoch: 3, Holder: string(rune('a' + i)),
					Nonce: string(rune('a' + i))})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, r := range results {
		if r != results[0] {
			a, _ := json.Marshal(results)
			t.Fatalf("the owners differ: %s", a)
		}
	}
}
