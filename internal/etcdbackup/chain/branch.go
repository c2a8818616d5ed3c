package chain

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// Branch records that etcd was taken back to an earlier point on request. What was written after that point, up to the
// restore, is abandoned: it stays in the store for a while and can be asked for, but is never what etcd continues from.
type Branch struct {
	// ID of the request.
	ID string `json:"id"`
	// Epoch of the owner.
	Epoch int64     `json:"epoch"`
	Time  time.Time `json:"time"`
	// Revision that was restored.
	Revision int64 `json:"revision"`
	// Begins is a revision between everything that is abandoned and everything that follows.
	Begins int64 `json:"begins"`
}

// branchFolder holds the branches below the prefix.
const branchFolder = "branches/"

// BranchID is what the ID of a request may look like: it is part of a name.
var BranchID = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$`)

var branchPattern = regexp.MustCompile(`^branches/([0-9]{19})-([a-zA-Z0-9][a-zA-Z0-9._-]{0,62})$`)

// Name below the prefix. Names sort by what the branches begin with.
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

// Current returns the objects to restore from when nothing special is asked for, and the target. As long as the newest
// branch has no full snapshot of its own, it is restored once more from what it came from.
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
