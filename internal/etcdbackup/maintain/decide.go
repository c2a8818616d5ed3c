package maintain

import "fmt"

// Facts are the input of Decide.
type Facts struct {
	// FileBytes is the size of the database file, UsedBytes the part in use, QuotaBytes the limit (0 if unknown).
	FileBytes, UsedBytes, QuotaBytes int64
	// NoSpace says that etcd refuses writes because of its quota.
	NoSpace bool
	// Revision is the current one.
	Revision int64
	// InWindow says that this is a time in which a short pause of etcd matters least.
	InWindow bool
}

// Limits of Decide.
type Limits struct {
	// MinBytes is the size from which a file is worth defragmenting. Default 64 MiB.
	MinBytes int64
	// UnusedRatio of the file that is worth it within the window. Default 0.5.
	UnusedRatio float64
	// UrgentRatio of the quota from which it is worth it at any time, if a tenth is gained. Default 0.8.
	UrgentRatio float64
	// KeepRevisions are not compacted when space has run out, for watches that lag. Default 1000.
	KeepRevisions int64
}

// DefaultLimits are those of the flags.
func DefaultLimits() Limits {
	return Limits{MinBytes: 64 << 20, UnusedRatio: 0.5, UrgentRatio: 0.8, KeepRevisions: 1000}
}

// Decision is the maintenance to do, and the reason.
type Decision struct {
	// CompactTo is the revision to compact to; 0 for none.
	CompactTo int64
	// Defragment the member, which stops for as long as it takes to copy the used part of the file.
	Defragment bool
	// Disarm the NOSPACE alarm, if the file is below the quota then.
	Disarm bool
	Reason string
}

// Decide returns the maintenance that a member needs, and none without need.
func Decide(f Facts, l Limits) Decision {
	unused := f.FileBytes - f.UsedBytes
	switch {
	case f.NoSpace:
		return Decision{CompactTo: max(f.Revision-l.KeepRevisions, 0), Defragment: true, Disarm: true,
			Reason: fmt.Sprintf("etcd refuses writes: the database file has %d of %d bytes", f.FileBytes, f.QuotaBytes)}
	case f.FileBytes < l.MinBytes:
		return Decision{Reason: "the database file is small"}
	case f.QuotaBytes > 0 && float64(f.FileBytes) >= l.UrgentRatio*float64(f.QuotaBytes) && unused*10 >= f.FileBytes:
		return Decision{Defragment: true, Reason: fmt.Sprintf("the database file has %d of %d bytes, %d of them unused",
			f.FileBytes, f.QuotaBytes, unused)}
	case float64(unused) < l.UnusedRatio*float64(f.FileBytes):
		return Decision{Reason: "most of the database file is in use"}
	case !f.InWindow:
		return Decision{Reason: "much of the database file is unused, but this is not the time"}
	}
	return Decision{Defragment: true, Reason: fmt.Sprintf("%d of %d bytes of the database file are unused", unused,
		f.FileBytes)}
}
