package command

import (
	"context"
	"errors"

	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/chain"
)

// handler serves the requests of the service.
type handler struct{ *parts }

func (p *parts) handler() handler { return handler{p} }

// Status of the backups and of etcd.
func (h handler) Status() etcdbackup.Status {
	var s etcdbackup.Status
	if k := h.keeper.Load(); k != nil {
		s = k.Status()
	} else {
		owner := h.guard.Owner()
		s.Phase, s.Epoch, s.Holder, s.Prefix = etcdbackup.PhaseStarting, owner.Epoch, owner.Holder, h.flags.store.Prefix
		if h.store != nil {
			s.Location = h.store.Location()
		}
	}
	s.Etcd = h.member.Status()
	if s.Etcd.State == etcdbackup.EtcdSuperseded {
		s.Phase = etcdbackup.PhaseSuperseded
	}
	return s
}

// Snapshot waits until everything that etcd holds is in the store.
func (h handler) Snapshot(ctx context.Context, kind chain.Kind) (etcdbackup.Snapshot, error) {
	k := h.keeper.Load()
	switch {
	case h.store == nil:
		return etcdbackup.Snapshot{}, errors.New("this etcd has no backups")
	case h.member.Status().State == etcdbackup.EtcdSuperseded:
		return etcdbackup.Snapshot{}, errors.New(h.member.Status().Message)
	case k == nil:
		return etcdbackup.Snapshot{}, errors.New("etcd is not running yet")
	}
	if k.Status().Phase == etcdbackup.PhaseStandby {
		return h.snapshotOfLeader(ctx, kind)
	}
	return k.Snapshot(ctx, kind)
}

// snapshotOfLeader requests the snapshot from the other members, since the leader takes the backups.
func (h handler) snapshotOfLeader(ctx context.Context, kind chain.Kind) (etcdbackup.Snapshot, error) {
	list, err := readMembers(h.flags.membersFile)
	if err != nil {
		return etcdbackup.Snapshot{}, err
	}
	m := &members{list: list, files: h.client}
	for _, l := range list {
		if l.Name == h.args.name {
			continue
		}
		if s, err := m.status(ctx, l.Address); err != nil || s.Phase != etcdbackup.PhaseActive {
			continue
		}
		c, err := m.connect(l.Address)
		if err != nil {
			return etcdbackup.Snapshot{}, err
		}
		defer c.Close()
		return c.Snapshot(ctx, kind)
	}
	return etcdbackup.Snapshot{}, errors.New("no member of etcd takes backups now")
}
