package maintain

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr"

	"hortus.dev/hortus/internal/etcdbackup/etcdtest"
)

// TestNoSpaceIsResolved fills a small quota with old revisions until etcd refuses writes.
func TestNoSpaceIsResolved(t *testing.T) {
	server := etcdtest.New(t, fmt.Sprintf("--quota-backend-bytes=%d", 4<<20))
	client := server.Start()
	ctx := context.Background()
	value := strings.Repeat("x", 100<<10)
	var err error
	for range 1000 {
		if _, err = client.Put(ctx, "key", value); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "database space exceeded") {
		t.Fatalf("etcd does not run out of space: %v", err)
	}
	limits := DefaultLimits()
	limits.KeepRevisions = 2
	d, err := Once(ctx, client, limits, false, logr.Discard())
	if err != nil || !d.Disarm {
		t.Fatalf("Once = %+v, %v", d, err)
	}
	if _, err := client.Put(ctx, "key", value); err != nil {
		t.Errorf("etcd still refuses writes: %v", err)
	}
	if d, err := Once(ctx, client, limits, true, logr.Discard()); err != nil || d.Defragment {
		t.Errorf("a second pass = %+v, %v", d, err)
	}
}

// TestFullDatabaseIsReported fills the quota with data in use: nothing can be gained. How many pages of the file are
// free when etcd refuses a write depends on when it committed, so a pass may gain room once or twice; data then takes
// it, too.
func TestFullDatabaseIsReported(t *testing.T) {
	server := etcdtest.New(t, fmt.Sprintf("--quota-backend-bytes=%d", 4<<20))
	client := server.Start()
	ctx := context.Background()
	value := strings.Repeat("x", 20<<10)
	key := 0
	for pass := range 20 {
		var err error
		for ; err == nil && key < 1000; key++ {
			_, err = client.Put(ctx, fmt.Sprint(key), value)
		}
		if err == nil || !strings.Contains(err.Error(), "database space exceeded") {
			t.Fatalf("etcd does not run out of space: %v", err)
		}
		d, err := Once(ctx, client, DefaultLimits(), false, logr.Discard())
		t.Logf("pass %d, %d values: Once = %+v, %v", pass, key, d, err)
		if err != nil {
			if !strings.Contains(err.Error(), "in use after compaction") {
				t.Errorf("Once: %v", err)
			}
			return
		}
		if !d.Disarm {
			t.Fatalf("etcd refuses writes, and a pass left it so: %+v", d)
		}
	}
	t.Error("every pass gains room, although all data is in use")
}
