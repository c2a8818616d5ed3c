package restore

import (
	"fmt"

	"hortus.dev/hortus/internal/etcdbackup/chain"
)

// DataState is the state of the data directory.
type DataState string

// The states of a data directory.
const (
	DataMissing DataState = "missing"
	DataBroken  DataState = "broken"
	DataFine    DataState = "fine"
)

// StoreState is the state of the object store.
type StoreState string

// The states of the store.
const (
	StoreUnreachable StoreState = "unreachable"
	StoreEmpty       StoreState = "empty"
	StoreHasChains   StoreState = "has backups"
)

// Facts are the input of Decide.
type Facts struct {
	Data DataState
	// DataProblem describes the damage.
	DataProblem string
	// DataRevision is at most the true revision: etcd's database file lags behind its log.
	DataRevision int64
	// DataExact says that DataRevision includes the log.
	DataExact bool
	// DataEpoch is the epoch that the directory was last used with; 0 when that is not known.
	DataEpoch int64

	Store StoreState
	// StoreProblem says why the store is unreachable.
	StoreProblem string
	// BackupRevision and BackupEpoch are what the best chain restores.
	BackupRevision, BackupEpoch int64
	// NewestClaim is the claim with the highest epoch, or nil.
	NewestClaim *chain.Claim

	// Epoch and Holder of this owner.
	Epoch  int64
	Holder string

	// Members is the number of members of the etcd cluster.
	Members int
	// WholeCluster says that no other member has data, so that every member may be restored from the same backup.
	WholeCluster bool
	// Abandoned says that etcd was restored to a point before the revision of the data directory.
	Abandoned bool
	// Forced requests a restore although the data may be intact, as for a point in time.
	Forced bool
}

// Action is the action before the start of etcd.
type Action string

// The actions.
const (
	// Start leaves the data directory as it is.
	Start Action = "Start"
	// StartEmpty lets etcd begin a new data directory: there is nothing to restore.
	StartEmpty Action = "StartEmpty"
	// Restore from the best chain; the existing directory is moved aside.
	Restore Action = "Restore"
	// Measure finds out the revision with the log included, then decides again.
	Measure Action = "Measure"
	// Fail means that an operator has to act or another attempt is needed.
	Fail Action = "Fail"
)

// Decision is an action and its reason.
type Decision struct {
	Action Action
	Reason string
}

// Decide returns the action before the start of etcd. It never lets etcd start with less data than is known to exist,
// nor empty if backups exist or could exist.
func Decide(f Facts) Decision {
	for _, check := range []func(Facts) Decision{
		notOwner, forced, unreachable, empty, oneOfSeveral, absent, abandoned, otherEpoch,
	} {
		if d := check(f); d.Action != "" {
			return d
		}
	}
	return byRevision(f)
}

func notOwner(f Facts) Decision {
	c := f.NewestClaim
	switch {
	case c != nil && c.Epoch > f.Epoch:
		return Decision{Fail, fmt.Sprintf("epoch %d is superseded: %q claimed epoch %d at %s", f.Epoch, c.Holder, c.Epoch,
			c.Time.Format("2006-01-02 15:04:05 MST"))}
	case c != nil && c.Epoch == f.Epoch && c.Holder != f.Holder:
		return Decision{Fail, fmt.Sprintf("epoch %d belongs to %q, not to %q", f.Epoch, c.Holder, f.Holder)}
	}
	return Decision{}
}

func forced(f Facts) Decision {
	switch {
	case !f.Forced:
		return Decision{}
	case f.Store != StoreHasChains:
		return Decision{Fail, fmt.Sprintf("a restore to a point in time was requested, but the store is %s%s", f.Store,
			because(f.StoreProblem))}
	case f.Members > 1 && !f.WholeCluster:
		return severalMembers(f)
	}
	return Decision{Restore, "a restore to a point in time was requested"}
}

func unreachable(f Facts) Decision {
	if f.Store != StoreUnreachable {
		return Decision{}
	}
	switch {
	case f.Data != DataFine:
		return Decision{Fail,
			fmt.Sprintf("the data directory is %s%s, and the store is unreachable, so backups cannot be ruled out: %s",
				f.Data, because(f.DataProblem), f.StoreProblem)}
	case f.DataEpoch != 0 && f.DataEpoch != f.Epoch:
		return Decision{Fail, fmt.Sprintf("the data directory is of epoch %d, not %d, and the store is unreachable: %s",
			f.DataEpoch, f.Epoch, f.StoreProblem)}
	}
	return Decision{Start, "the data directory is fine; the store is unreachable: " + f.StoreProblem}
}

func empty(f Facts) Decision {
	if f.Store != StoreEmpty {
		return Decision{}
	}
	switch f.Data {
	case DataMissing:
		return Decision{StartEmpty, "there is neither data nor a backup"}
	case DataBroken:
		return Decision{Fail, fmt.Sprintf("the data directory is broken%s, and there is no backup. "+
			"Repair it, or remove it to start empty", because(f.DataProblem))}
	}
	return Decision{Start, "the data directory is fine; there is no backup yet"}
}

// oneOfSeveral leaves members of a cluster to the cluster: one that lags is brought up to date by its leader, and one
// without data must be replaced as a member, since with old data and its old identity it could undo what the others
// have agreed on.
func oneOfSeveral(f Facts) Decision {
	switch {
	case f.Members <= 1 || f.WholeCluster:
		return Decision{}
	case f.Data == DataFine && !f.Abandoned && (f.DataEpoch == 0 || f.DataEpoch == f.Epoch):
		return Decision{Start, "the data directory is fine; other members bring it up to date"}
	}
	return severalMembers(f)
}

func severalMembers(f Facts) Decision {
	return Decision{Fail,
		fmt.Sprintf("the data directory is %s%s, and the cluster has %d members. Remove this member from the cluster and add it anew, "+
			"or use --whole-cluster when no member has data", f.Data, because(f.DataProblem), f.Members)}
}

func absent(f Facts) Decision {
	switch f.Data {
	case DataMissing:
		return Decision{Restore, "the data directory is missing"}
	case DataBroken:
		return Decision{Restore, "the data directory is broken" + because(f.DataProblem)}
	}
	return Decision{}
}

// abandoned catches data from before etcd was restored to an earlier point, such as a volume that was restored from a
// snapshot.
func abandoned(f Facts) Decision {
	if f.Abandoned {
		return Decision{Restore, "etcd was taken back to an earlier point, which the data directory does not know of"}
	}
	return Decision{}
}

// otherEpoch catches data that was left behind when the control plane moved away.
func otherEpoch(f Facts) Decision {
	if f.DataEpoch != 0 && f.DataEpoch < f.Epoch && f.BackupEpoch > f.DataEpoch {
		return Decision{Restore, fmt.Sprintf("the data directory is of epoch %d, the backups of epoch %d", f.DataEpoch,
			f.BackupEpoch)}
	}
	return Decision{}
}

func byRevision(f Facts) Decision {
	switch {
	case f.DataRevision >= f.BackupRevision:
		return Decision{Start, fmt.Sprintf("the data directory is at revision %d, the backups at %d", f.DataRevision,
			f.BackupRevision)}
	case !f.DataExact:
		return Decision{Measure, fmt.Sprintf("the database file is at revision %d, the backups at %d", f.DataRevision,
			f.BackupRevision)}
	}
	return Decision{Restore, fmt.Sprintf("the data directory is older than the backups: revision %d, not %d",
		f.DataRevision, f.BackupRevision)}
}

func because(problem string) string {
	if problem == "" {
		return ""
	}
	return " (" + problem + ")"
}
