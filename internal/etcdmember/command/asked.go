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
	if a.keeper != nil {
		s = a.keeper.Status()
	}
	s.Etcd = a.member.Status()
	return s
}

// Snapshot waits until everything that etcd holds is in the store.
func (a asked) Snapshot(ctx context.Context, kind chain.Kind) (etcdbackup.Snapshot, error) {
	if a.keeper == nil {
		return etcdbackup.Snapshot{}, errors.New("this etcd has no backups")
	}
	select {
	case <-a.ready:
	default:
		return etcdbackup.Snapshot{}, errors.New("etcd is not running yet")
	}
	return a.keeper.Snapshot(ctx, kind)
}
