package maintain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	requestTimeout = 15 * time.Second
	// slowTimeout bounds compaction and defragmentation of the largest databases.
	slowTimeout = 10 * time.Minute
)

// Once checks the member and carries out the decision of Decide, which it returns.
func Once(ctx context.Context, etcd *clientv3.Client, l Limits, inWindow bool, log logr.Logger) (Decision, error) {
	f, err := look(ctx, etcd)
	if err != nil {
		return Decision{}, err
	}
	f.InWindow = inWindow
	d := Decide(f, l)
	if d.CompactTo > 0 {
		log.Info("Compacting etcd", "revision", d.CompactTo, "reason", d.Reason)
		ctx, cancel := context.WithTimeout(ctx, slowTimeout)
		defer cancel()
		_, err := etcd.Compact(ctx, d.CompactTo, clientv3.WithCompactPhysical())
		if err != nil && !alreadyCompacted(err) {
			return d, fmt.Errorf("compact to revision %d: %w", d.CompactTo, err)
		}
	}
	if !d.Defragment {
		return d, nil
	}
	log.Info("Defragmenting etcd", "reason", d.Reason)
	slow, cancel := context.WithTimeout(ctx, slowTimeout)
	defer cancel()
	if _, err := etcd.Defragment(slow, etcd.Endpoints()[0]); err != nil {
		return d, fmt.Errorf("defragment: %w", err)
	}
	after, err := look(ctx, etcd)
	if err != nil {
		return d, err
	}
	log.Info("Defragmented etcd", "bytesBefore", f.FileBytes, "bytesAfter", after.FileBytes)
	if d.Disarm {
		return d, disarm(ctx, etcd, after, log)
	}
	return d, nil
}

// disarm lets etcd accept writes again, if there is more space than for the next write.
func disarm(ctx context.Context, etcd *clientv3.Client, f Facts, log logr.Logger) error {
	const room = 0.95
	if f.QuotaBytes > 0 && float64(f.FileBytes) > room*float64(f.QuotaBytes) {
		return fmt.Errorf("etcd refuses writes: %d of %d bytes are in use after compaction and defragmentation. Delete objects or raise --quota-backend-bytes",
			f.FileBytes, f.QuotaBytes)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	alarms, err := etcd.AlarmList(ctx)
	if err != nil {
		return fmt.Errorf("list alarms: %w", err)
	}
	for _, a := range alarms.Alarms {
		if a.Alarm != pb.AlarmType_NOSPACE {
			continue
		}
		if _, err := etcd.AlarmDisarm(ctx, (*clientv3.AlarmMember)(a)); err != nil {
			return fmt.Errorf("disarm alarm: %w", err)
		}
		log.Info("Disarmed alarm of etcd", "alarm", a.Alarm.String(), "member", fmt.Sprintf("%x", a.MemberID))
	}
	return nil
}

func look(ctx context.Context, etcd *clientv3.Client) (Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	s, err := etcd.Status(ctx, etcd.Endpoints()[0])
	if err != nil {
		return Facts{}, fmt.Errorf("read status of etcd: %w", err)
	}
	f := Facts{FileBytes: s.DbSize, UsedBytes: s.DbSizeInUse, QuotaBytes: s.DbSizeQuota, Revision: s.Header.Revision}
	if len(s.Errors) == 0 { // The errors include alarms. Listing alarms is a write to etcd's log.
		return f, nil
	}
	alarms, err := etcd.AlarmList(ctx)
	if err != nil {
		return Facts{}, fmt.Errorf("list alarms: %w", err)
	}
	for _, a := range alarms.Alarms {
		// Every member resolves its own; a member that has no alarm may have to be defragmented as well, later.
		f.NoSpace = f.NoSpace || a.Alarm == pb.AlarmType_NOSPACE && a.MemberID == s.Header.MemberId
	}
	return f, nil
}

func alreadyCompacted(err error) bool {
	return errors.Is(err, rpctypes.ErrCompacted)
}
