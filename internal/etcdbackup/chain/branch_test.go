package chain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCurrent(t *testing.T) {
	full := func(last int64) Object { return Object{Epoch: 1, Kind: Full, First: 1, Last: last} }
	delta := func(first, last int64) Object { return Object{Epoch: 1, Kind: Delta, First: first, Last: last} }
	old := []Object{full(100), delta(101, 200), delta(201, 300)}
	branch := Branch{ID: "a", Epoch: 1, Revision: 150, Begins: 1300}
	later := Branch{ID: "b", Epoch: 1, Revision: 1400, Begins: 3000}
	with := func(more ...Object) []Object { return append(append([]Object{}, old...), more...) }
	for name, tc := range map[string]struct {
		objects  []Object
		branches []Branch
		want     []Object
		target   Target
	}{
		"without branches": {objects: old, want: old},
		"a branch without a backup": {
			objects: old, branches: []Branch{branch}, want: old, target: Target{Revision: 150},
		},
		"a branch with a full snapshot": {
			objects: with(full(1300), delta(1301, 1500)), branches: []Branch{branch},
			want: []Object{full(1300), delta(1301, 1500)},
		},
		"a delta alone is not a backup": {
			objects: with(delta(1301, 1500)), branches: []Branch{branch}, want: old, target: Target{Revision: 150},
		},
		"taken back twice": {
			objects: with(full(1300), delta(1301, 1500)), branches: []Branch{later, branch},
			want: with(full(1300), delta(1301, 1500)), target: Target{Revision: 1400},
		},
		"restored twice, with a backup": {
			objects: with(full(1300), full(3001)), branches: []Branch{branch, later}, want: []Object{full(3001)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, target := Current(tc.objects, tc.branches)
			if diff := cmp.Diff(tc.want, got); diff != "" || target != tc.target {
				t.Errorf("target %+v, want %+v; objects mismatch (-want +got):\n%s", target, tc.target, diff)
			}
		})
	}
}

func TestBranchNames(t *testing.T) {
	b := Branch{ID: "2026-11-22.a", Begins: 1300, Time: time.Unix(1, 0)}
	if !IsBranchName(b.Name()) {
		t.Errorf("%s is no name of a branch", b.Name())
	}
	for _, name := range []string{
		ClaimName(1), (Object{Epoch: 1, Kind: Full, First: 1, Last: 2}).Name(), "branches/x", "branches/0000000000000001300-",
	} {
		if IsBranchName(name) {
			t.Errorf("%s is a name of a branch", name)
		}
	}
}
