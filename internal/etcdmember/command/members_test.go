package command

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/chain"
	"hortus.dev/hortus/internal/etcdmember/configuration"
	"hortus.dev/hortus/internal/tunnel/certs"
)

// group is an etcd with up to three members.
type group struct {
	t       *testing.T
	seeds   []*seed
	members []*running
	file    string
}

// newGroup prepares three members with the same certificates.
func newGroup(t *testing.T) *group {
	t.Helper()
	g := &group{t: t, file: filepath.Join(t.TempDir(), "members")}
	bucket := t.TempDir()
	for i := range 3 {
		s := newSeed(t, bucket)
		if i > 0 {
			s.certificates = g.seeds[0].certificates
		}
		s.member, s.addresses = fmt.Sprintf("etcd-main-%d", i), newAddresses(t)
		s.addresses.peer = "https://localhost" + port(s.addresses.peer)
		g.seeds = append(g.seeds, s)
	}
	g.members = make([]*running, 3)
	return g
}

// want lists the first n members.
func (g *group) want(n int) {
	g.t.Helper()
	var lines bytes.Buffer
	for _, s := range g.seeds[:n] {
		fmt.Fprintf(&lines, "%s %s https://localhost%s https://localhost%s\n", s.member, s.addresses.peer,
			port(s.addresses.clients), port(s.addresses.listen))
	}
	if err := os.WriteFile(g.file+".tmp", lines.Bytes(), 0o600); err != nil {
		g.t.Fatal(err)
	}
	if err := os.Rename(g.file+".tmp", g.file); err != nil {
		g.t.Fatal(err)
	}
}

func (g *group) start(i int) {
	// Listen on an IP address, because etcd accepts no names here.
	_, p, err := net.SplitHostPort(strings.TrimPrefix(g.seeds[i].addresses.peer, "https://"))
	if err != nil {
		g.t.Fatal(err)
	}
	g.seeds[i].listenPeer = "https://127.0.0.1:" + p
	g.members[i] = g.seeds[i].run("--epoch=1", "--holder=a", "--members-file="+g.file)
}

// client is connected to all members.
func (g *group) client() *clientv3.Client {
	g.t.Helper()
	in := func(name string) string { return filepath.Join(g.seeds[0].certificates, name) }
	files := &certs.Files{CA: in(configuration.CA), Cert: in(configuration.ClientCert), Key: in(configuration.ClientKey)}
	config, err := files.Client("localhost")
	if err != nil {
		g.t.Fatal(err)
	}
	var endpoints []string
	for _, s := range g.seeds {
		endpoints = append(endpoints, "https://localhost"+port(s.addresses.clients))
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: config, DialTimeout: timeout, Logger: zap.NewNop()})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { c.Close() })
	return c
}

// voters waits until the cluster has exactly n voting members, and no others.
func (g *group) voters(c *clientv3.Client, n int) {
	g.t.Helper()
	var last string
	for deadline := time.Now().Add(timeout); ; time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		list, err := c.MemberList(ctx)
		cancel()
		if err == nil && len(list.Members) == n {
			voting := 0
			for _, m := range list.Members {
				if !m.IsLearner && m.Name != "" {
					voting++
				}
			}
			if voting == n {
				return
			}
		}
		if last = fmt.Sprint(list, err); time.Now().After(deadline) {
			g.t.Fatalf("timed out waiting for %d members: %s", n, last)
		}
	}
}

// TestThreeMembers scales an etcd from one to three members while a client writes, loses the volume of one, restarts
// all of them for another CA bundle, and loses all volumes.
func TestThreeMembers(t *testing.T) {
	g := newGroup(t)
	g.want(1)
	g.start(0)
	g.members[0].awaitState(etcdbackup.EtcdRunning)
	c := g.client()
	stop, written := make(chan struct{}), make(chan struct{})
	var acked, gap, failed atomic.Int64
	go func() {
		defer close(written)
		last := time.Now()
		for n := int64(1); ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			_, err := c.Put(ctx, "n", strconv.FormatInt(n, 10))
			cancel()
			if err != nil {
				failed.Add(1)
				continue
			}
			acked.Store(n)
			gap.Store(max(gap.Load(), int64(time.Since(last))))
			last = time.Now()
		}
	}()
	phase := func(name string) {
		t.Logf("%s: longest time without an acknowledged write %s, %d requests failed", name, time.Duration(gap.Swap(0)),
			failed.Swap(0))
	}

	g.want(3)
	g.start(2)
	g.start(1)
	g.voters(c, 3)
	phase("one to three members")
	g.members[0].mustSaveSomewhere(g)

	g.members[1].stop()
	if err := os.RemoveAll(g.seeds[1].volume); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(g.seeds[1].volume, 0o700); err != nil {
		t.Fatal(err)
	}
	g.start(1)
	g.members[1].awaitState(etcdbackup.EtcdRunning)
	g.voters(c, 3)
	phase("a member has lost its volume")

	before := make([]int, 3)
	for i, m := range g.members {
		before[i] = m.awaitState(etcdbackup.EtcdRunning).Etcd.Starts
	}
	bundle := filepath.Join(g.seeds[0].certificates, configuration.CA)
	content, err := os.ReadFile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(filepath.Join(newSeed(t, t.TempDir()).certificates, configuration.CA))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bundle+".tmp", append(content, other...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(bundle+".tmp", bundle); err != nil {
		t.Fatal(err)
	}
	for i, m := range g.members {
		m.await("restarted with the bundle", func(s etcdbackup.Status) bool {
			return s.Etcd.Starts >= before[i]+1 && s.Etcd.State == etcdbackup.EtcdRunning
		})
	}
	phase("another CA bundle, member by member")
	close(stop)
	<-written
	got, err := c.Get(context.Background(), "n")
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := strconv.ParseInt(string(got.Kvs[0].Value), 10, 64); n < acked.Load() {
		t.Errorf("etcd has %d, but %d was acknowledged", n, acked.Load())
	}

	g.members[0].mustSaveSomewhere(g)
	for i, m := range g.members {
		m.stop()
		if err := os.RemoveAll(g.seeds[i].volume); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(g.seeds[i].volume, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	g.start(0)
	g.members[0].await("it does not begin a cluster alone",
		func(s etcdbackup.Status) bool { return strings.Contains(s.Etcd.Message, "does not answer") })
	g.start(1)
	g.start(2)
	g.voters(c, 3)
	again, err := c.Get(context.Background(), "n")
	if err != nil || string(again.Kvs[0].Value) != string(got.Kvs[0].Value) {
		t.Errorf("restored %v, %v, want %s", again, err, got.Kvs[0].Value)
	}
}

// mustSaveSomewhere saves everything with the leading member.
func (r *running) mustSaveSomewhere(g *group) {
	r.t.Helper()
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		for _, m := range g.members {
			if s, err := m.service.Status(context.Background()); err == nil && s.Phase == etcdbackup.PhaseActive {
				if _, err := m.service.Snapshot(context.Background(), chain.Delta); err == nil { // Else another one leads now.
					return
				}
			}
		}
	}
	r.t.Fatal("no member takes backups")
}
