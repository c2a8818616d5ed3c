package etcdbackup_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"hortus.dev/hortus/internal/etcdbackup/chain"
	"hortus.dev/hortus/internal/etcdbackup/command"
	"hortus.dev/hortus/internal/etcdbackup/etcdtest"
	"hortus.dev/hortus/internal/etcdbackup/store"
)

// TestCommandsListAndVerifyBackups takes backups of an etcd, and runs 'hortus etcd-backup list' and 'verify' on them.
func TestCommandsListAndVerifyBackups(t *testing.T) {
	credentials, _ := folder(t)
	try := func(args ...string) (string, error) {
		t.Helper()
		cmd, out := command.NewCommand(), &bytes.Buffer{}
		cmd.SilenceUsage = true
		cmd.SetArgs(append(args, "--store-credentials", credentials, "--prefix", prefix))
		cmd.SetOut(out)
		cmd.SetErr(output{t})
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	etcdBackup := func(args ...string) string {
		t.Helper()
		out, err := try(args...)
		if err != nil {
			t.Fatalf("hortus etcd-backup %s: %v", strings.Join(args, " "), err)
		}
		return out
	}
	if out, err := try("verify"); err == nil || !strings.Contains(err.Error(), "no backup") {
		t.Errorf("verify without a backup: %v\n%s", err, out)
	}

	server := etcdtest.New(t)
	client := server.Start()
	history := etcdtest.NewHistory(t, client, 1)
	history.Write(100)
	taker, stop := run(t, client, open(t, credentials), options())
	take(t, taker, chain.Delta) // The first session begins with a full snapshot.
	history.Write(40)
	take(t, taker, chain.Delta)
	stop()

	if out := etcdBackup("list"); !strings.HasPrefix(out, "EPOCH") || strings.Count(out, "\n") != 2 {
		t.Errorf("list shows, want a header and one chain:\n%s", out)
	}
	var list struct {
		Chains []struct {
			LastRevision int64
			Deltas       []json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(etcdBackup("list", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Chains) != 1 || len(list.Chains[0].Deltas) == 0 || list.Chains[0].LastRevision != history.Last() {
		t.Errorf("list -o json shows %+v, want one chain with deltas up to revision %d", list, history.Last())
	}
	var verified store.Verification
	if err := json.Unmarshal([]byte(etcdBackup("verify", "-o", "json")), &verified); err != nil {
		t.Fatal(err)
	}
	if want := int64(len(history.States[history.Last()])); verified.Revision != history.Last() || verified.Keys != want {
		t.Errorf("verify has restored %d keys of revision %d, want %d of %d", verified.Keys, verified.Revision, want,
			history.Last())
	}
}
