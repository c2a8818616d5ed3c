package components

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestPrintStatus(t *testing.T) {
	all := []Status{
		{Component: testComponent(), State: Built, BuiltAt: time.Unix(0, 0).UTC(), Seconds: 2.5, Bytes: 27_000_000},
		{Component: Component{Name: "other", Version: "v2", Folder: "other", OnDemand: true}, State: Missing},
	}
	want := []listed{
		{
			Name: "thing", Version: "v1.0.0", Folder: "thing", State: Built, Bytes: 27_000_000, Seconds: 2.5,
			BuiltAt: "1970-01-01T00:00:00Z", Programs: map[string]string{"thing": ".build/bin/thing/v1.0.0/thing"},
		},
		{Name: "other", Version: "v2", Folder: "other", State: Missing, OnDemand: true, Programs: map[string]string{}},
	}
	for format, decode := range map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(raw []byte, into any) error { return yaml.Unmarshal(raw, into) },
	} {
		var out bytes.Buffer
		if err := printStatus(&out, format, ".build", all); err != nil {
			t.Fatal(err)
		}
		var got []listed
		if err := decode(out.Bytes(), &got); err != nil {
			t.Fatalf("decode %s: %v", format, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s mismatch (-want +got):\n%s", format, diff)
		}
	}

	var table bytes.Buffer
	if err := printStatus(&table, "table", ".build", all); err != nil {
		t.Fatal(err)
	}
	wantTable := `NAME   VERSION  STATE    MB    SECONDS  FOLDER
thing  v1.0.0   built    27.0  2.5      thing
other  v2       missing  0.0   0.0      other
`
	if diff := cmp.Diff(wantTable, table.String()); diff != "" {
		t.Errorf("table mismatch (-want +got):\n%s", diff)
	}
}

func TestSelectForBuild(t *testing.T) {
	plain, err := selectForBuild(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	everything, err := selectForBuild(nil, true)
	if err != nil {
		t.Fatal(err)
	}
	onDemand := []string{"kubernetes-1.36.1", "kubernetes-1.35.4", "kubernetes-1.34.4", "e2e-1.36", "e2e-1.35", "e2e-1.34",
		"gvisor", "helm", "sample-apiserver"}
	isOnDemand := func(folder string) bool { return slices.Contains(onDemand, folder) }
	if len(everything) != len(All()) || len(plain) != len(All())-len(onDemand) ||
		slices.ContainsFunc(folders(plain), isOnDemand) {
		t.Errorf("a build without flags selects %v, with --all %v", folders(plain), folders(everything))
	}
}
