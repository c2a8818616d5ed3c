package etcdtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Entry is the value and metadata of a key in etcd.
type Entry struct {
	Value                string
	Create, Mod, Version int64
	Lease                int64
}

// State is the contents of etcd at a revision.
type State map[string]Entry

// History writes random changes and remembers the state at every revision that was acknowledged.
type History struct {
	// States by revision.
	States map[int64]State

	t      testing.TB
	client *clientv3.Client
	random *rand.Rand
	leases []clientv3.LeaseID
}

// NewHistory returns a writer of random changes.
func NewHistory(t testing.TB, client *clientv3.Client, seed uint64) *History {
	return &History{t: t, client: client, random: rand.New(rand.NewPCG(seed, seed)), States: map[int64]State{}}
}

// Write makes n changes: puts, deletes, deletes of ranges, transactions of several keys, keys with leases.
func (h *History) Write(n int) {
	h.t.Helper()
	ctx := context.Background()
	for range n {
		var err error
		key := func() string { return fmt.Sprintf("/key/%02d", h.random.IntN(40)) }
		value := func() string { return fmt.Sprintf("%x", h.random.Uint64()) }
		switch h.random.IntN(10) {
		case 0:
			_, err = h.client.Delete(ctx, key())
		case 1:
			_, err = h.client.Delete(ctx, "/key/0", clientv3.WithPrefix())
		case 2, 3:
			_, err = h.client.Txn(ctx).Then(clientv3.OpPut("/txn/a", value()), clientv3.OpPut("/txn/b", value()),
				clientv3.OpDelete(key()), clientv3.OpDelete("/txn/c", clientv3.WithPrefix()), clientv3.OpPut("/txn/d",
					value())).Commit()
		case 4:
			if len(h.leases) < 3 {
				lease, grantErr := h.client.Grant(ctx, 3600+int64(len(h.leases)))
				if grantErr != nil {
					h.t.Fatal(grantErr)
				}
				h.leases = append(h.leases, lease.ID)
			}
			_, err = h.client.Put(ctx, key(), value(), clientv3.WithLease(h.leases[h.random.IntN(len(h.leases))]))
		case 5: // Changes nothing and creates no revision.
			_, err = h.client.Txn(ctx).If(clientv3.Compare(clientv3.Version("never"), ">", 0)).Then(clientv3.OpPut("never",
				"")).Commit()
		default:
			_, err = h.client.Put(ctx, key(), value())
		}
		if err != nil {
			h.t.Fatalf("write: %v", err)
		}
		revision, state := Read(h.t, h.client)
		h.States[revision] = state
	}
}

// Read returns everything that etcd holds.
func Read(t testing.TB, client *clientv3.Client) (int64, State) {
	t.Helper()
	got, err := client.Get(context.Background(), "", clientv3.WithPrefix())
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	state := State{}
	for _, kv := range got.Kvs {
		state[string(kv.Key)] = Entry{Value: string(kv.Value), Create: kv.CreateRevision, Mod: kv.ModRevision,
			Version: kv.Version, Lease: kv.Lease}
	}
	return got.Header.Revision, state
}

// Compare fails the test unless etcd holds exactly the state of a revision, with the leases alive.
func (h *History) Compare(client *clientv3.Client, revision int64) {
	h.t.Helper()
	want, known := h.States[revision]
	if !known {
		h.t.Fatalf("no state is known at revision %d", revision)
	}
	_, got := Read(h.t, client)
	if diff := cmp.Diff(want, got); diff != "" {
		h.t.Fatalf("restored state of revision %d mismatch (-want +got):\n%s", revision, diff)
	}
	for key, e := range got {
		if e.Lease == 0 {
			continue
		}
		lease, err := client.TimeToLive(context.Background(), clientv3.LeaseID(e.Lease), clientv3.WithAttachedKeys())
		if err != nil || lease.TTL <= 0 || lease.GrantedTTL < 3600 || lease.GrantedTTL > 3602 {
			h.t.Fatalf("lease of %s: %+v, %v", key, lease, err)
		}
	}
}

// Last is the newest revision with a known state.
func (h *History) Last() int64 {
	last := int64(0)
	for r := range h.States {
		last = max(last, r)
	}
	return last
}
