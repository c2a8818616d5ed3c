package restore

import (
	"testing"

	"hortus.dev/hortus/internal/etcdbackup/chain"
)

func TestDecide(t *testing.T) {
	claim := func(epoch int64, holder string) *chain.Claim { return &chain.Claim{Epoch: epoch, Holder: holder} }
	// base is a member whose data is as new as the backups.
	base := Facts{Data: DataFine, DataRevision: 100, DataEpoch: 2, Store: StoreHasChains, BackupRevision: 100,
		BackupEpoch: 2,
		NewestClaim: claim(2, "a"), Epoch: 2, Holder: "a", Members: 1}
	for name, tc := range map[string]struct {
		change func(*Facts)
		want   Action
	}{
		"data as new as the backups":       {func(*Facts) {}, Start},
		"data newer than the backups":      {func(f *Facts) { f.DataRevision = 101 }, Start},
		"database file behind the backups": {func(f *Facts) { f.DataRevision = 99 }, Measure},
		"data with its log behind the backups": {func(f *Facts) { f.DataRevision, f.DataExact = 99, true },
			Restore},
		"data with its log as new as the backups": {func(f *Facts) { f.DataExact = true }, Start},
		"data missing": {func(f *Facts) { f.Data = DataMissing }, Restore},
		"data broken":  {func(f *Facts) { f.Data = DataBroken }, Restore},
		"store unreachable, data fine": {func(f *Facts) { f.Store, f.NewestClaim = StoreUnreachable, nil },
			Start},
		"store unreachable, data of unknown epoch": {func(f *Facts) {
			f.Store, f.NewestClaim,
				f.DataEpoch = StoreUnreachable, nil, 0
		}, Start},
		"store unreachable, data of another epoch": {func(f *Facts) {
			f.Store, f.NewestClaim,
				f.DataEpoch = StoreUnreachable, nil, 1
		}, Fail},
		"store unreachable, data missing": {func(f *Facts) {
			f.Store, f.NewestClaim,
				f.Data = StoreUnreachable, nil, DataMissing
		}, Fail},
		"store unreachable, data broken": {func(f *Facts) {
			f.Store, f.NewestClaim,
				f.Data = StoreUnreachable, nil, DataBroken
		}, Fail},
		"store empty, data missing": {func(f *Facts) {
			f.Store, f.NewestClaim, f.Data = StoreEmpty, nil,
				DataMissing
		}, StartEmpty},
		"store empty, data fine": {func(f *Facts) { f.Store, f.NewestClaim = StoreEmpty, nil },
			Start},
		"store empty, data broken": {func(f *Facts) {
			f.Store, f.NewestClaim, f.Data = StoreEmpty, nil,
				DataBroken
		}, Fail},
		"superseded": {func(f *Facts) { f.NewestClaim = claim(3, "b") }, Fail},
		"superseded, data missing": {func(f *Facts) {
			f.NewestClaim, f.Data = claim(3, "b"),
				DataMissing
		}, Fail},
		"the epoch belongs to another owner":      {func(f *Facts) { f.NewestClaim = claim(2, "b") }, Fail},
		"a new epoch continues with its own data": {func(f *Facts) { f.Epoch = 3 }, Start},
		"data of an older epoch, backups of a newer": {func(f *Facts) {
			f.Epoch, f.DataEpoch, f.DataRevision = 3, 1,
				1000
		}, Restore},
		"data of unknown epoch, newer than the backups": {func(f *Facts) { f.DataEpoch, f.DataRevision = 0, 1000 }, Start},
		"a point in time": {func(f *Facts) { f.Forced = true }, Restore},
		"a point in time, store unreachable": {func(f *Facts) {
			f.Forced, f.Store, f.NewestClaim = true,
				StoreUnreachable, nil
		}, Fail},
		"a point in time, store empty": {func(f *Facts) {
			f.Forced, f.Store, f.NewestClaim = true,
				StoreEmpty, nil
		}, Fail},
		"a point in time, one of several members": {func(f *Facts) { f.Forced, f.Members = true, 3 }, Fail},
		"one of several members lags behind":      {func(f *Facts) { f.Members, f.DataRevision = 3, 1 }, Start},
		"one of several members has no data":      {func(f *Facts) { f.Members, f.Data = 3, DataMissing }, Fail},
		"no member has data": {func(f *Facts) {
			f.Members, f.Data, f.WholeCluster = 3,
				DataMissing, true
		}, Restore},
		"the first start of several members": {func(f *Facts) {
			f.Members, f.Data, f.Store, f.NewestClaim = 3,
				DataMissing, StoreEmpty, nil
		}, StartEmpty},
	} {
		t.Run(name, func(t *testing.T) {
			f := base
			tc.change(&f)
			d := Decide(f)
			if d.Action != tc.want || d.Reason == "" {
				t.Errorf("Decide = %+v, want %s", d, tc.want)
			}
		})
	}
}

// TestDecideIsSafe checks all combinations for results that must never occur.
func TestDecideIsSafe(t *testing.T) {
	checked := 0
	for _, data := range []DataState{DataMissing, DataBroken, DataFine} {
		for _, store := range []StoreState{StoreUnreachable, StoreEmpty, StoreHasChains} {
			for _, exact := range []bool{false, true} {
				for _, revision := range []int64{1, 100, 200} {
					for dataEpoch := range int64(4) {
						for backupEpoch := int64(1); backupEpoch < 4; backupEpoch++ {
							for _, members := range []int{1, 3} {
								for _, whole := range []bool{false, true} {
									for _, forced := range []bool{false, true} {
										checked++
										f := Facts{Data: data, Store: store, DataExact: exact, DataRevision: revision, DataEpoch: dataEpoch,
											BackupEpoch:    backupEpoch,
											BackupRevision: 100, Epoch: 3, Members: members, WholeCluster: whole, Forced: forced}
										checkSafe(t, f, Decide(f))
									}
								}
							}
						}
					}
				}
			}
		}
	}
	if checked == 0 {
		t.Error("nothing was checked")
	}
}

func checkSafe(t *testing.T, f Facts, d Decision) {
	t.Helper()
	switch {
	case d.Action == StartEmpty && (f.Data != DataMissing || f.Store != StoreEmpty):
		t.Errorf("%+v starts empty", f)
	case d.Action == Start && f.Data != DataFine:
		t.Errorf("%+v starts without good data", f)
	case d.Action == Start && f.Store == StoreHasChains && f.Members == 1 && f.DataRevision < f.BackupRevision:
		t.Errorf("%+v starts with data older than the backups", f)
	case d.Action == Start && f.Store == StoreHasChains && f.Members == 1 && f.DataEpoch > 0 &&
		f.DataEpoch < f.BackupEpoch:
		t.Errorf("%+v starts with data of an older epoch than the backups", f)
	case d.Action == Restore && f.Store != StoreHasChains:
		t.Errorf("%+v restores without backups", f)
	case d.Action == Restore && f.Members > 1 && !f.WholeCluster:
		t.Errorf("%+v restores one of several members", f)
	case d.Action == Measure && (f.DataExact || f.Data != DataFine):
		t.Errorf("%+v measures again", f)
	case d.Reason == "":
		t.Errorf("%+v has no reason", f)
	}
}
