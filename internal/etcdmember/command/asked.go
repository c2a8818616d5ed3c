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
	return k.Snapshot(ctx, kind)
}
