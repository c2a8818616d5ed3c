package maintain

import "testing"

func TestDecide(t *testing.T) {
	const mib = 1 << 20
	base := Facts{FileBytes: 200 * mib, UsedBytes: 50 * mib, QuotaBytes: 8 << 30, Revision: 5000, InWindow: true}
	for name, tc := range map[string]struct {
		change                          func(*Facts)
		compactTo                       int64
		wantDefragmentation, wantDisarm bool
	}{
		"much is unused, in the window":   {func(*Facts) {}, 0, true, false},
		"much is unused, at another time": {func(f *Facts) { f.InWindow = false }, 0, false, false},
		"most is in use":                  {func(f *Facts) { f.UsedBytes = 150 * mib }, 0, false, false},
		"a small file":                    {func(f *Facts) { f.FileBytes, f.UsedBytes = 60*mib, mib }, 0, false, false},
		"near the quota, at another time": {func(f *Facts) { f.QuotaBytes, f.InWindow = 220*mib, false }, 0, true, false},
		"near the quota, nothing to gain": {func(f *Facts) { f.QuotaBytes, f.UsedBytes = 220*mib, 199*mib }, 0, false,
			false},
		"an alarm":                           {func(f *Facts) { f.NoSpace, f.InWindow = true, false }, 4000, true, true},
		"an alarm, at few revisions":         {func(f *Facts) { f.NoSpace, f.Revision = true, 500 }, 0, true, true},
		"an alarm of a file that is not big": {func(f *Facts) { f.NoSpace, f.FileBytes = true, mib }, 4000, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := base
			tc.change(&f)
			d := Decide(f, DefaultLimits())
			if d.CompactTo != tc.compactTo || d.Defragment != tc.wantDefragmentation || d.Disarm != tc.wantDisarm ||
				d.Reason == "" {
				t.Errorf("Decide = %+v", d)
			}
		})
	}
}
