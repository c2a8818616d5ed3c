package chain

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// Branch records that etcd was restored to an earlier point on request. Backups from between that point and the restore
// are abandoned: they stay in the store for a while and can be restored on request, but etcd never continues from them.
type Branch struct {
	// ID of the request.
	ID string `json:"id"`
	// Epoch of the owner.
	Epoch int64     `json:"epoch"`
	Time  time.Time `json:"time"`
	// Revision that was restored.
	Revision int64 `json:"revision"`
	// Begins is a revision between all abandoned ones and all that follow.
	Begins int64 `json:"begins"`
}

// branchFolder holds the branches below the prefix.
const branchFolder = "branches/"

// BranchID matches valid IDs of requests: an ID is part of a name.
var BranchID = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$`)

var branchPattern = regexp.MustCompile(`^branches/([0-9]{19})-([a-zA-Z0-9][a-zA-Z0-9._-]{0,62})$`)

// Name below the prefix. Names sort by the revisions with which the branches begin.
func (b Branch) Name() string {
	return fmt.Sprintf("%s%0*d-%s", branchFolder, revisionDigits, b.Begins, b.ID)
}

// IsBranchName reports whether an object below the prefix is a branch.
func IsBranchName(name string) bool {
	m := branchPattern.FindStringSubmatch(name)
	if m == nil {
		return false
	}
	_, err := strconv.ParseInt(m[1], 10, 64)
	return err == nil
}

// NewestBranch is the one that etcd continues.
func NewestBranch(branches []Branch) (Branch, bool) {
	if len(branches) == 0 {
		return Branch{}, false
	}
	return slices.MaxFunc(branches,
		func(a, b Branch) int { return cmp.Or(cmp.Compare(a.Begins, b.Begins), cmp.Compare(a.ID, b.ID)) }), true
}

// Current returns the objects to restore from when no point is requested, and the target. As long as the newest branch
// has no full snapshot of its own, it is restored again from its origin.
func Current(objects []Object, branches []Branch) ([]Object, Target) {
	b, ok := NewestBranch(branches)
	if !ok {
		return objects, Target{}
	}
	var before, after []Object
	full := false
	for _, o := range objects {
		if o.Last < b.Begins {
			before = append(before, o)
			continue
		}
		after, full = append(after, o), full || o.Kind == Full
	}
	if full {
		return after, Target{}
	}
	return before, Target{Revision: b.Revision}
}
