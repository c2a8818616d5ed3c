package upgrade

import (
	"errors"
	"regexp"
)

// Release is a row of the table in docs/releases/README.md.
type Release struct {
	Version string // With the leading v.
	Commit  string // From which it was built.
}

var releaseRow = regexp.MustCompile("(?m)^\\| (v[0-9.]+) \\|.*\\| `([0-9a-f]{40})` \\|$")

// Last returns the release in the last row of the table. An upgrade begins with it.
func Last(table string) (Release, error) {
	rows := releaseRow.FindAllStringSubmatch(table, -1)
	if len(rows) == 0 {
		return Release{}, errors.New("the table has no release with its commit")
	}
	last := rows[len(rows)-1]
	return Release{Version: last[1], Commit: last[2]}, nil
}
