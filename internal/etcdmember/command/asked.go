package command

import (
	"context"
	"errors"

	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/chain"
)

// asked answers the requests of the service.
type asked struct{ *parts }

func (p *parts) asked() asked { return asked{p} }

// Status of the backups and of etcd.
func (a asked) Status() etcdbackup.Status {
	var s etcdbackup.Status
	if k := a.keeper.Load(); k != nil {
		s = k.Status()
	} else {
		owner := a.guard.Owner()
		s.Phase, s.Epoch, s.Holder, s.Prefix = etcdbackup.PhaseStarting, owner.Epoch, owner.Holder, a.flags.store.Prefix
		if a.store != nil {
			s.Location = a.store.Location()
		}
	}
	s.Etcd = a.member.Status()
	if s.Etcd.State == etcdbackup.EtcdSuperseded {
		s.Phase = etcdbackup.PhaseSuperseded
	}
	return s
}

// Snapshot waits until everything that etcd holds is in the store.
func (a asked) Snapshot(ctx context.Context, kind chain.Kind) (etcdbackup.Snapshot, error) {
	k := a.keeper.Load()
	switch {
	case a.store == nil:
		return etcdbackup.Snapshot{}, errors.New("this etcd has no backups")
	case a.member.Status().State == etcdbackup.EtcdSuperseded:
		return etcdbackup.Snapshot{}, errors.New(a.member.Status().Message)
	case k == nil:
		return etcdbackup.Snapshot{}, errors.New("etcd is not running yet")
	}
	if k.Status().Phase == etcdbackup.PhaseStandby {
		return a.snapshotOfLeader(ctx, kind)
	}
	return k.Snapshot(ctx, kind)
}

// snapshotOfLeader requests the snapshot from the other members, since the leader takes the backups.
func (a asked) snapshotOfLeader(ctx context.Context, kind chain.Kind) (etcdbackup.Snapshot, error) {
	list, err := readMembers(a.flags.membersFile)
	if err != nil {
		return etcdbackup.Snapshot{}, err
	}
	m := &members{list: list, files: a.client}
	for _, l := range list {
		if l.Name == a.args.name {
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
