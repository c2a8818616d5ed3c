package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/restore"
)

const (
	// requestTimeout bounds one request to another member.
	requestTimeout = 3 * time.Second
	// promotePeriod is the interval of attempts to promote a learner.
	promotePeriod = 500 * time.Millisecond
	// turnSeconds is how long the others wait for a member that has vanished during its restart.
	turnSeconds = 60
	// turnKey is the prefix of the keys with which members queue for a restart. API servers keep everything below
	// /registry/.
	turnKey = "/hortus.dev/etcd/restart"
)

// Cluster is the cluster of a member, as the member sees it.
type Cluster struct {
	// Name and PeerURL of this member; First says that it may begin a cluster.
	Name, PeerURL string
	First         bool
	DataDir       string
	// Peers are the other desired members, by name.
	Peers []Address
	// Etcd is connected to the clients' addresses of all members; Own only to that of this one.
	Etcd, Own *clientv3.Client
	// Status returns the status of another member's process.
	Status func(context.Context, Address) (etcdbackup.Status, error)
	Log    logr.Logger
}

// Address of a member.
type Address struct {
	Name string
	// ClientURL of its etcd, ServiceURL of its process.
	ClientURL, ServiceURL string
}

// Ready decides on the member's action and carries it out, up to the start of etcd. The decision is Start, Begin or
// Join; with Wait comes an error.
func (c *Cluster) Ready(ctx context.Context) (Decision, error) {
	state, err := restore.Inspect(c.DataDir)
	if err != nil {
		return Decision{}, err
	}
	f := Facts{
		Name: c.Name, PeerURL: c.PeerURL, First: c.First, HasData: state == restore.DataFine,
		Broken: state == restore.DataBroken,
	}
	f.Peers = c.statuses(ctx)
	if slices.ContainsFunc(f.Peers, func(p Peer) bool { return p.Runs }) {
		f.Members, err = c.members(ctx)
		if err != nil {
			c.Log.V(1).Info("Members of etcd cannot be listed, there may be no quorum", "error", err.Error())
		}
	}
	d := Decide(f)
	c.Log.Info("Decided how this etcd becomes a member of the cluster", "action", d.Action, "reason", d.Reason)
	switch d.Action {
	case Wait:
		return d, errors.New(d.Reason)
	case Join:
		return d, c.join(ctx, d)
	}
	return d, nil
}

// statuses requests the status of the other members from their processes.
func (c *Cluster) statuses(ctx context.Context) []Peer {
	peers := make([]Peer, len(c.Peers))
	var group sync.WaitGroup
	for i, address := range c.Peers {
		group.Go(func() {
			peers[i].Name = address.Name
			ctx, cancel := context.WithTimeout(ctx, requestTimeout)
			defer cancel()
			s, err := c.Status(ctx, address)
			if err != nil || s.Etcd.Data == "" { // It may not have looked yet.
				return
			}
			peers[i].Reached, peers[i].HasData = true, s.Etcd.Data != string(restore.DataMissing)
			peers[i].Runs = s.Etcd.State == etcdbackup.EtcdRunning
		})
	}
	group.Wait()
	return peers
}

// members lists the members of the running cluster, agreed on by a quorum.
func (c *Cluster) members(ctx context.Context) ([]Member, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := c.Etcd.MemberList(ctx)
	if err != nil {
		return nil, fmt.Errorf("list members of etcd: %w", err)
	}
	var members []Member
	for _, m := range list.Members {
		members = append(members, Member{
			ID: m.ID, Name: m.Name, PeerURL: strings.Join(m.PeerURLs, ","), Learner: m.IsLearner,
		})
	}
	return members, nil
}

// join makes this member a learner of the running cluster, with an empty data directory.
func (c *Cluster) join(ctx context.Context, d Decision) error {
	ctx, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()
	if d.Remove != 0 {
		if _, err := c.Etcd.MemberRemove(ctx, d.Remove); err != nil {
			return fmt.Errorf("remove the former member %x: %w", d.Remove, err)
		}
	}
	if _, err := os.Stat(c.DataDir); err == nil {
		previous := c.DataDir + ".previous"
		if err := errors.Join(os.RemoveAll(previous), os.Rename(c.DataDir, previous)); err != nil {
			return fmt.Errorf("move the old data directory aside: %w", err)
		}
	}
	if _, err := c.Etcd.MemberAddAsLearner(ctx, []string{c.PeerURL}); err != nil {
		return fmt.Errorf("join etcd: %w", err)
	}
	return nil
}

// Settle runs while etcd starts: it promotes this member if it is a learner, and corrects its peer URL if an earlier
// release created the cluster. It returns when nothing is left to do.
func (c *Cluster) Settle(ctx context.Context) {
	for ctx.Err() == nil {
		members, err := c.members(ctx)
		i := slices.IndexFunc(members, func(m Member) bool { return m.Name == c.Name })
		switch {
		case err != nil || i < 0:
		case members[i].Learner:
			promote, cancel := context.WithTimeout(ctx, requestTimeout)
			_, err = c.Etcd.MemberPromote(promote, members[i].ID)
			cancel()
		case members[i].PeerURL != c.PeerURL:
			update, cancel := context.WithTimeout(ctx, requestTimeout)
			_, err = c.Etcd.MemberUpdate(update, members[i].ID, []string{c.PeerURL})
			cancel()
		default:
			return
		}
		if err != nil {
			c.Log.V(1).Info("Not a full member yet", "error", err.Error())
		}
		select {
		case <-ctx.Done():
		case <-time.After(promotePeriod):
		}
	}
}

// Turn waits until no other member is being restarted and all of them answer, and transfers leadership. The caller
// restarts etcd and then ends the turn.
func (c *Cluster) Turn(ctx context.Context) (end func(), err error) {
	session, err := concurrency.NewSession(c.Etcd, concurrency.WithTTL(turnSeconds), concurrency.WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("queue up for a restart: %w", err)
	}
	mutex := concurrency.NewMutex(session, turnKey)
	end = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		defer cancel()
		_ = mutex.Unlock(ctx) // Else it ends with the lease.
		_ = session.Close()
	}
	if err := mutex.Lock(ctx); err != nil {
		end()
		return nil, fmt.Errorf("queue up for a restart: %w", err)
	}
	if err := c.handOver(ctx); err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// handOver makes sure that the others have a quorum without this member, and that one of them leads.
func (c *Cluster) handOver(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 4*requestTimeout)
	defer cancel()
	own, err := c.Own.Status(ctx, c.Own.Endpoints()[0])
	if err != nil {
		return fmt.Errorf("read status of etcd: %w", err)
	}
	list, err := c.members(ctx)
	if err != nil {
		return err
	}
	healthy, next := 0, uint64(0)
	for _, address := range c.Peers {
		i := slices.IndexFunc(list, func(m Member) bool { return m.Name == address.Name && !m.Learner })
		if i < 0 {
			continue
		}
		query, cancel := context.WithTimeout(ctx, requestTimeout)
		s, err := c.Etcd.Status(query, address.ClientURL)
		cancel()
		if err == nil && s.Leader != 0 {
			healthy, next = healthy+1, list[i].ID
		}
	}
	voters := 0
	for _, m := range list {
		if !m.Learner {
			voters++
		}
	}
	if voters > 2 && healthy < voters/2+1 {
		return fmt.Errorf("a restart would cost the quorum: %d of %d other members answer", healthy, voters-1)
	}
	if own.Leader == own.Header.MemberId && next != 0 {
		if _, err := c.Own.MoveLeader(ctx, next); err != nil {
			return fmt.Errorf("hand over leadership: %w", err)
		}
	}
	return nil
}
