package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/etcdbackup/store"
	"hortus.dev/hortus/internal/etcdmember/fence"
)

// bucketPeriod is the interval at which the bucket is read for a newer epoch. Several reads may fail within the fence
// time.
const bucketPeriod = 15 * time.Second

// Paths of files next to the data directory.
func (p *parts) supersededPath() string { return p.args.dataDir + ".superseded" }
func (p *parts) ownerPath() string      { return p.args.dataDir + ".owner" }

// own determines the owner that etcd runs for: the one of the flags, or a later one of an activation, which a restart
// of the pod must not undo.
func (p *parts) own() error {
	owner, standby := fence.Owner{Epoch: p.flags.store.Epoch, Holder: p.flags.store.Holder}, p.flags.standby
	var activated fence.Owner
	data, err := os.ReadFile(p.ownerPath())
	if err == nil {
		err = json.Unmarshal(data, &activated)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("read the owner of an activation: %w", err)
	case activated.Epoch >= owner.Epoch:
		owner, standby = activated, false
	}
	if !standby {
		close(p.active)
	}
	p.guard, err = fence.New(owner, p.flags.fenceTime, p.flags.store.Dir == "", p.supersededPath(), p.flags.monotonic,
		clock.RealClock{})
	return err
}

// isActive reports whether the process does not stand by.
func (p *parts) isActive() bool {
	select {
	case <-p.active:
		return true
	default:
		return false
	}
}

// standBy waits for an activation and reports whether it has come. Meanwhile it checks that the store can be read,
// since the activation will only have to restore from it.
func (p *parts) standBy(ctx context.Context) bool {
	for {
		if p.isActive() {
			return true
		}
		problem := ""
		if p.store != nil {
			if _, err := p.store.List(ctx); err != nil {
				problem = err.Error()
			}
		}
		if err := p.member.StandBy(problem); err != nil {
			p.log.Info("Clients are refused until etcd is started", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return false
		case <-p.active:
			return true
		case <-time.After(p.bucketPeriod):
		}
	}
}

// Activate ends a standby.
func (h handler) Activate(epoch int64, holder string) error {
	h.activation.Lock()
	defer h.activation.Unlock()
	owner := fence.Owner{Epoch: epoch, Holder: holder}
	switch {
	case epoch < 1 || holder == "":
		return fmt.Errorf("epoch and holder: required values: %d, %q", epoch, holder)
	case h.isActive() && h.guard.Owner() == owner:
		return nil
	case h.isActive():
		return fmt.Errorf("this etcd runs already, for epoch %d of %q", h.guard.Owner().Epoch, h.guard.Owner().Holder)
	case epoch < h.guard.Owner().Epoch:
		return fmt.Errorf("epoch: invalid value: %d (at least %d)", epoch, h.guard.Owner().Epoch)
	}
	data, err := json.Marshal(owner)
	if err == nil {
		err = fence.WriteSynced(h.ownerPath(), data)
	}
	if err != nil {
		return fmt.Errorf("note the owner: %w", err)
	}
	h.guard.Become(owner)
	close(h.active)
	return nil
}

// Confirm records the epoch in the garden.
func (h handler) Confirm(epoch int64) error {
	if epoch < 1 {
		return fmt.Errorf("epoch: must be at least 1: %d", epoch)
	}
	if !h.isActive() {
		return errors.New("this etcd stands by")
	}
	return h.guard.Confirm(fence.Garden, fence.Owner{Epoch: epoch}, h.guard.Now())
}

// watchBucket reads the epoch in the bucket every bucketPeriod until ctx ends.
func (p *parts) watchBucket(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-p.active:
	}
	for ctx.Err() == nil {
		p.readBucket(ctx)
		select {
		case <-ctx.Done():
		case <-p.superseded:
			return
		case <-time.After(p.bucketPeriod):
		}
	}
}

// readBucket confirms the epoch by the bucket, or finds a newer one. A failed read changes nothing.
func (p *parts) readBucket(ctx context.Context) {
	at, owner := p.guard.Now(), p.guard.Owner()
	// Epochs are claimed without a gap, so the next one is enough.
	next, err := p.store.ReadClaim(ctx, owner.Epoch+1)
	if store.ReasonOf(err) == store.ObjectMissing {
		next, err = p.store.ReadClaim(ctx, owner.Epoch) // By another holder this is as good as a newer one.
	}
	if err != nil {
		p.log.V(1).Info("The bucket does not confirm the epoch", "epoch", owner.Epoch, "error", err.Error())
		return
	}
	if err := p.guard.Confirm(fence.Bucket, fence.Owner{Epoch: next.Epoch, Holder: next.Holder}, at); err != nil {
		p.log.Info("Cannot note what the bucket says", "error", err.Error())
	}
}

// end stops everything that writes, since another owner has taken over.
func (p *parts) end(reason string) {
	if p.store != nil {
		p.store.Seal(errors.New(reason))
	}
	close(p.superseded)
	if p.flags.terminationLog == "" {
		return
	}
	// A folder of the container runtime: the file exists in a pod.
	f, err := os.OpenFile(p.flags.terminationLog, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return
	}
	_, err = f.WriteString(reason)
	if err = errors.Join(err, f.Close()); err != nil {
		p.log.Info("Cannot write the termination message", "error", err.Error())
	}
}
