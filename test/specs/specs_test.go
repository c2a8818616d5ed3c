package specs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const report = `[{"SpecReports": [
	{"LeafNodeType": "SynchronizedBeforeSuite", "State": "passed"},
	{"LeafNodeType": "SynchronizedAfterSuite", "State": "failed", "Failure": {"Message": "no answer of 10.1.2.3\nsecond line"}},
	{"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "run [Conformance]",
		"State": "passed", "RunTime": 12345678901},
	{"ContainerHierarchyTexts": ["[sig-network] DNS", "by pods"], "LeafNodeType": "It", "LeafNodeText": "resolves [Conformance]",
		"State": "failed", "RunTime": 1000000000, "Failure": {"Message": "\nfile /tmp/x of machine-1\nand more"}},
	{"ContainerHierarchyTexts": ["[sig-network] DNS"], "LeafNodeType": "It", "LeafNodeText": "hangs [Conformance]",
		"State": "timedout", "Failure": {"Message": ""}},
	{"ContainerHierarchyTexts": ["[sig-apps] Job"], "LeafNodeType": "It", "LeafNodeText": "needs IPv6 [Conformance]",
		"State": "skipped", "Failure": {"Message": "no IPv6"}},
	{"ContainerHierarchyTexts": ["[sig-apps] Job"], "LeafNodeType": "It", "LeafNodeText": "is left out [Conformance]",
		"State": "skipped", "Failure": {}},
	{"ContainerHierarchyTexts": ["[sig-apps] Job"], "LeafNodeType": "It", "LeafNodeText": "is stopped",
		"State": "interrupted", "RunTime": 1000000000, "Failure": {"Message": "Interrupted by User"}},
	{"ContainerHierarchyTexts": ["[sig-apps] Job"], "LeafNodeType": "It", "LeafNodeText": "is no such test", "State": "pending"}
]}]`

func read(t *testing.T) []Result {
	t.Helper()
	results, err := Read([]byte(report), "2026-01-02",
		strings.NewReplacer("/tmp/x", "x", "machine-1", "a node", "10.1.2.3", "it"))
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func TestRead(t *testing.T) {
	want := []Result{
		{Name: "SynchronizedAfterSuite", State: Failed, Reason: "no answer of it second line", Day: "2026-01-02"},
		{Name: "[sig-apps] Job is left out [Conformance]", State: NotRun},
		{Name: "[sig-apps] Job is no such test", State: Skipped, Reason: "marked as pending", Day: "2026-01-02"},
		{Name: "[sig-apps] Job is stopped", State: NotRun},
		{Name: "[sig-apps] Job needs IPv6 [Conformance]", State: Skipped, Reason: "no IPv6", Day: "2026-01-02"},
		{
			Name: "[sig-network] DNS by pods resolves [Conformance]", State: Failed, Reason: "file x of a node and more",
			Seconds: 1,
			Day:     "2026-01-02",
		},
		{Name: "[sig-network] DNS hangs [Conformance]", State: Failed, Reason: "timedout", Day: "2026-01-02"},
		{Name: "[sig-node] Pods run [Conformance]", State: Passed, Seconds: 12, Day: "2026-01-02"},
	}
	if diff := cmp.Diff(want, read(t)); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if _, err := Read([]byte("[{"), "", strings.NewReplacer()); err == nil {
		t.Error("a report that ends early is read without an error")
	}
}

func TestShorten(t *testing.T) {
	for reason, want := range map[string]string{
		"short":                  "short",
		strings.Repeat("ä", 300): strings.Repeat("ä", 300),
		strings.Repeat("ä", 301): strings.Repeat("ä", 300) + "…",
	} {
		if got := shorten(reason); got != want {
			t.Errorf("shorten(%q) = %q, want %q", reason, got, want)
		}
	}
}

func TestSummary(t *testing.T) {
	const want = `1 passed, 3 failed, 2 skipped
failed after 0 s: SynchronizedAfterSuite: no answer of it second line
failed after 1 s: [sig-network] DNS by pods resolves [Conformance]: file x of a node and more
failed after 0 s: [sig-network] DNS hangs [Conformance]: timedout
skipped after 0 s: [sig-apps] Job is no such test: marked as pending
skipped after 0 s: [sig-apps] Job needs IPv6 [Conformance]: no IPv6`
	if diff := cmp.Diff(want, Summary(read(t))); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

func TestMerge(t *testing.T) {
	const a, b, c = "[sig-a] a [Conformance]", "[sig-a] b [Conformance]", "[sig-a] c [Conformance]"
	before := Suite{Kubernetes: "1.36.3", Specs: []Result{
		{Name: a, State: Passed, Day: "2026-01-01"}, {Name: b, State: Failed, Day: "2026-01-01"}, {Name: c, State: NotRun},
	}}
	for name, tc := range map[string]struct {
		version string
		results []Result
		want    []Result
	}{
		"the last run of a spec counts": {
			"1.36.3", []Result{{Name: b, State: Passed, Day: "2026-01-02"}, {Name: c, State: Failed, Day: "2026-01-02"}},
			[]Result{
				{Name: a, State: Passed, Day: "2026-01-01"}, {Name: b, State: Passed, Day: "2026-01-02"},
				{Name: c, State: Failed, Day: "2026-01-02"},
			},
		},
		"skipped specs keep their results": {
			"1.36.3", []Result{{Name: a, State: NotRun}, {Name: c, State: NotRun}}, before.Specs,
		},
		"a new version discards the results": {
			"1.36.4", []Result{{Name: a, State: NotRun}, {Name: b, State: Passed}},
			[]Result{{Name: a, State: NotRun}, {Name: b, State: Passed}},
		},
		"other specs are not recorded": {"1.36.4", []Result{{Name: "[sig-a] other", State: Passed}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(Suite{Kubernetes: tc.version, Specs: tc.want},
				before.merge(tc.version, tc.results)); diff != "" {
				t.Errorf("merged (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRecord(t *testing.T) {
	docs := t.TempDir()
	for _, version := range []string{"1.35.4", "1.36.3"} {
		if err := Record(docs, version, read(t)); err != nil {
			t.Fatal(err)
		}
	}
	suites, err := Load(docs)
	if err != nil || len(suites) != 2 || suites[0].Kubernetes != "1.36.3" || len(suites[1].Specs) != 5 {
		t.Errorf("recorded %v: %v", suites, err)
	}
	got, err := os.ReadFile(filepath.Join(docs, page))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Page(suites), string(got)); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
	if err := Record(docs, "1.36", nil); err == nil {
		t.Error("a version without a patch is recorded")
	}
}

func TestSection(t *testing.T) {
	const want = `## Kubernetes 1.36.3

Of 5 specs, 4 were run: 1 passed, 2 failed, 1 were skipped. Each is listed in [conformance/1.36.json](conformance/1.36.json).

| SIG | specs | passed | failed | skipped | not run | seconds, one after the other | day |
|---|---|---|---|---|---|---|---|
| apps | 2 | 0 | 0 | 1 | 1 | 0 | 2026-01-02 |
| network | 2 | 0 | 2 | 0 | 0 | 1 | 2026-01-02 |
| node | 1 | 1 | 0 | 0 | 0 | 12 | 2026-01-01 |
| all | 5 | 1 | 2 | 1 | 1 | 13 | 2026-01-01 to 2026-01-02 |

### Failed in 1.36.3

| spec | seconds | reason |
|---|---|---|
| \[sig-network\] DNS by pods resolves \[Conformance\] | 1 | file x of a node and more |
| \[sig-network\] DNS hangs \[Conformance\] | 0 | timedout |

### Skipped in 1.36.3

| spec | seconds | reason |
|---|---|---|
| \[sig-apps\] Job needs IPv6 \[Conformance\] | 0 | no IPv6 |

### Not run in 1.36.3

| spec |
|---|
| \[sig-apps\] Job is left out \[Conformance\] |
`
	suite := Suite{}.merge("1.36.3", read(t))
	suite.Specs[4].Day = "2026-01-01"
	if diff := cmp.Diff(want, suite.section()); diff != "" {
		t.Errorf("section (-want +got):\n%s", diff)
	}
}

func TestCell(t *testing.T) {
	for plain, want := range map[string]string{
		"a|b":            `a\|b`,
		"[a](b)":         `\[a\]\(b)`,
		"`make nothing`": "\\`make nothing\\`",
	} {
		if got := cell(plain); got != want {
			t.Errorf("cell(%q) = %q, want %q", plain, got, want)
		}
	}
}
