package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden file of the page")

// events are those of go test -json for a package that passes, one that fails, one whose result is known, one that is
// not built, and one without tests.
const events = `{"Action":"start","Package":"hortus.dev/hortus/internal/a"}
{"Action":"run","Package":"hortus.dev/hortus/internal/a","Test":"TestA"}
{"Action":"output","Package":"hortus.dev/hortus/internal/a","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"hortus.dev/hortus/internal/a","Test":"TestA","Output":"    a_test.go:1: noise\n"}
{"Action":"pass","Package":"hortus.dev/hortus/internal/a","Test":"TestA/x","Elapsed":0.5}
{"Action":"pass","Package":"hortus.dev/hortus/internal/a","Test":"TestA","Elapsed":1.04}
{"Action":"output","Package":"hortus.dev/hortus/internal/a","Test":"TestChild","Output":"    a_test.go:9: runs only as a child process\n"}
{"Action":"skip","Package":"hortus.dev/hortus/internal/a","Test":"TestChild","Elapsed":0}
{"Action":"output","Package":"hortus.dev/hortus/internal/a","Output":"PASS\n"}
{"Action":"output","Package":"hortus.dev/hortus/internal/a","Output":"ok  \thortus.dev/hortus/internal/a\t1.234s\n"}
{"Action":"pass","Package":"hortus.dev/hortus/internal/a","Elapsed":1.26}
{"Action":"output","Package":"hortus.dev/hortus/internal/b","Test":"TestGood","Output":"    b_test.go:1: more noise\n"}
{"Action":"pass","Package":"hortus.dev/hortus/internal/b","Test":"TestGood","Elapsed":0}
{"Action":"output","Package":"hortus.dev/hortus/internal/b","Test":"TestBad/x","Output":"    b_test.go:7: 1, want 2\n"}
{"Action":"fail","Package":"hortus.dev/hortus/internal/b","Test":"TestBad/x","Elapsed":0}
{"Action":"output","Package":"hortus.dev/hortus/internal/b","Test":"TestBad","Output":"--- FAIL: TestBad (0.00s)\n"}
{"Action":"fail","Package":"hortus.dev/hortus/internal/b","Test":"TestBad","Elapsed":0}
{"Action":"output","Package":"hortus.dev/hortus/internal/b","Output":"FAIL\n"}
{"Action":"output","Package":"hortus.dev/hortus/internal/b","Output":"FAIL\thortus.dev/hortus/internal/b\t0.1s\n"}
{"Action":"fail","Package":"hortus.dev/hortus/internal/b","Elapsed":0.1}
{"Action":"pass","Package":"hortus.dev/hortus/internal/c","Test":"TestC","Elapsed":9}
{"Action":"output","Package":"hortus.dev/hortus/internal/c","Output":"ok  \thortus.dev/hortus/internal/c\t(cached)\n"}
{"Action":"pass","Package":"hortus.dev/hortus/internal/c","Elapsed":0}
{"ImportPath":"hortus.dev/hortus/internal/d","Action":"build-output","Output":"d.go:1: undefined: x\n"}
{"ImportPath":"hortus.dev/hortus/internal/d","Action":"build-fail"}
{"Action":"output","Package":"hortus.dev/hortus/internal/d","Output":"FAIL\thortus.dev/hortus/internal/d [build failed]\n"}
{"Action":"fail","Package":"hortus.dev/hortus/internal/d","Elapsed":0,"FailedBuild":"hortus.dev/hortus/internal/d"}
{"Action":"output","Package":"hortus.dev/hortus/internal/e","Output":"?   \thortus.dev/hortus/internal/e\t[no test files]\n"}
{"Action":"skip","Package":"hortus.dev/hortus/internal/e","Elapsed":0}
{"Action":"output","Package":"hortus.dev/hortus/internal/f","Output":"ok  \thortus.dev/hortus/internal/f\t0.1s [no tests to run]\n"}
{"Action":"pass","Package":"hortus.dev/hortus/internal/f","Elapsed":0.1}
make: a line of another program
`

var unitResults = []result{
	{Package: "internal/a", State: passed, Seconds: 1.3, Passed: 1, Skipped: 1},
	{Package: "internal/a", Test: "TestChild", State: skipped, Reason: "a_test.go:9: runs only as a child process"},
	{Package: "internal/b", State: failed, Seconds: 0.1, Passed: 1, Failed: 1},
	{Package: "internal/b", Test: "TestBad", State: failed, Reason: "b_test.go:7: 1, want 2"},
	{Package: "internal/c", State: passed, Cached: true, Passed: 1},
	{Package: "internal/d", State: failed, Reason: "no test failed, but the package did"},
}

const shownEvents = `ok  	hortus.dev/hortus/internal/a	1.234s
    b_test.go:7: 1, want 2
--- FAIL: TestBad (0.00s)
FAIL
FAIL	hortus.dev/hortus/internal/b	0.1s
ok  	hortus.dev/hortus/internal/c	(cached)
d.go:1: undefined: x
FAIL	hortus.dev/hortus/internal/d [build failed]
ok  	hortus.dev/hortus/internal/f	0.1s [no tests to run]
make: a line of another program
`

// log is the output of go test -v, with stories that run at the same time.
const storiesLog = `go test -tags landscape -v ./test/e2e
-test.shuffle 1
=== RUN   TestFirst
=== PAUSE TestFirst
=== RUN   TestSecond
=== PAUSE TestSecond
=== CONT  TestFirst
=== CONT  TestSecond
    nodes_test.go:5: an observation
=== NAME  TestFirst
    story_test.go:43: the story took 2m3s
--- PASS: TestFirst (400.01s)
=== RUN   TestSecond/part
=== NAME  TestSecond
    nodes_test.go:7: no answer
        second line
    state_test.go:61: the state of the landscape is in .build/stories/TestSecond
    story_test.go:43: the story took 1m1s
--- FAIL: TestSecond (500.00s)
    --- PASS: TestSecond/part (0.00s)
=== RUN   TestThird
FAIL
FAIL	hortus.dev/hortus/test/e2e	501.5s
FAIL
=== RUN   TestHost
    host_test.go:3: needs IPv6
--- SKIP: TestHost (0.00s)
PASS
ok  	hortus.dev/hortus/local/images	3.1s
`

var storyResults = []result{
	{Package: "local/images", Test: "TestHost", State: skipped, Reason: "host_test.go:3: needs IPv6"},
	{Package: "test/e2e", Test: "TestFirst", State: passed, Seconds: 123},
	{Package: "test/e2e", Test: "TestSecond", State: failed, Reason: "nodes_test.go:7: no answer", Seconds: 61},
	{Package: "test/e2e", Test: "TestThird", State: failed, Reason: "no result"},
}

func partNamed(t *testing.T, name string) part {
	t.Helper()
	for _, p := range parts {
		if p.name == name {
			return p
		}
	}
	t.Fatalf("no part %q", name)
	return part{}
}

func TestResults(t *testing.T) {
	for name, tc := range map[string]struct {
		part, input string
		want        []result
		shown       string
		longest     float64
	}{
		"go test -json": {"unit", events, unitResults, shownEvents, 1.26},
		"go test -v":    {"stories", storiesLog, storyResults, storiesLog, 501.5},
		"a program that ended early": {
			"stories", "=== RUN   TestFirst\n", []result{{Test: "TestFirst", State: failed, Reason: "no result"}},
			"=== RUN   TestFirst\n", 0,
		},
		"go test -json that ended early": {
			"unit", `{"Action":"output","Package":"x","Test":"TestX","Output":"panic: y\n"}` + "\n" +
				`{"Action":"output","Package":"x","Output":"z\n"}`,
			[]result{
				{Package: "x", State: failed, Failed: 1}, {Package: "x", Test: "TestX", State: failed, Reason: "no result"},
			},
			"panic: y\nz\n", 0,
		},
		"a package alone": {"unit", "FAIL\tx\t[build failed]\n", []result{
			{Package: "x", State: failed, Reason: "no test failed, but the package did"},
		}, "FAIL\tx\t[build failed]\n", 0},
		"nothing": {"unit", "", nil, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			r := newReader(&out)
			if err := r.all(strings.NewReader(tc.input)); err != nil {
				t.Fatal(err)
			}
			if got := partNamed(t, tc.part).results(r); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("results:\n%+v\nwant:\n%+v", got, tc.want)
			}
			if out.String() != tc.shown {
				t.Errorf("printed:\n%s\nwant:\n%s", out.String(), tc.shown)
			}
			if got := r.longest(); got != tc.longest {
				t.Errorf("the longest took %v s, want %v s", got, tc.longest)
			}
		})
	}
}

// checkout makes a repository with stories and results of conformance tests.
func checkout(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for path, content := range map[string]string{
		"test/e2e/story_test.go": "package e2e\nfunc TestMain() {}\nfunc TestFirst() {}\nfunc TestSecond() {}\n" +
			"func TestNew() {}\nfunc TestConformance() {}\nfunc helper() {}\nfunc (x) TestMethod() {}\n",
		"docs/conformance/1.36.json": `{"kubernetes": "1.36.3", "specs": [
			{"name":"a","state":"passed","day":"2026-01-01"}, {"name":"b","state":"failed","day":"2026-01-03"},
			{"name":"c","state":"not run"}]}`,
		"docs/conformance/1.35.json": `{"kubernetes": "1.35.4", "specs": []}`,
	} {
		file := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestPage records two parts at different times and compares the page with testdata/page.md.
func TestPage(t *testing.T) {
	root := checkout(t)
	for _, run := range []struct {
		o     options
		input string
	}{
		{options{part: "stories", day: "2026-01-01", duration: time.Hour}, "--- PASS: TestOld (1.00s)\n"},
		{options{part: "unit", day: "2026-01-02", duration: 59 * time.Second}, events},
		{options{part: "stories", day: "2026-01-03"}, storiesLog},
	} {
		run.o.into, run.o.machine, run.o.version = "docs", "2 cores, 24 GB, linux/amd64", "dev of 2026-01-02"
		if err := run.o.run(root, strings.NewReader(run.input), &bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(filepath.Join(root, "docs", pageName))
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "page.md")
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the page differs from %s; -update writes it:\n%s", golden, got)
	}

	check := options{into: "docs", check: true}
	if err := check.run(root, nil, nil); err != nil {
		t.Errorf("the page that was just written: %v", err)
	}
	story := filepath.Join(root, "test", "e2e", "new_test.go")
	if err := os.WriteFile(story, []byte("package e2e\nfunc TestNewer() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := check.run(root, nil, nil); err == nil {
		t.Error("a page without a new story passes the check")
	}
}

// TestPieces records a part in pieces: each replaces the results that it has itself.
func TestPieces(t *testing.T) {
	root := checkout(t)
	for _, run := range []struct{ day, version, input string }{
		{"2026-01-01", "v1", "--- PASS: TestFirst (1.00s)\n--- FAIL: TestSecond (2.00s)\n"},
		{"2026-01-02", "v2", "--- PASS: TestSecond (3.00s)\n"},
		{"2026-01-03", "v3", "--- PASS: TestNew (4.00s)\n"},
	} {
		o := options{
			part: "long", add: true, day: run.day, version: run.version, into: "docs", machine: "m", duration: time.Hour,
		}
		if err := o.run(root, strings.NewReader(run.input), &bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", pageName))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"| `make test-long` | 2026-01-01 to 2026-01-03 | v3 | m | in pieces | 3 | 0 | 0 |",
		"| TestNew | passed | 4 | 2026-01-03 | v3 |", "| TestSecond | passed | 3 | 2026-01-02 | v2 |",
		"| TestFirst | passed | 1 | 2026-01-01 | v1 |",
	} {
		if !strings.Contains(string(page), line+"\n") {
			t.Errorf("the page has no line that ends with %s:\n%s", line, page)
		}
	}
}

func TestRunsThatAreRefused(t *testing.T) {
	root := checkout(t)
	for name, tc := range map[string]struct {
		o     options
		input string
		want  string
	}{
		"an unknown part":       {options{part: "all"}, events, `-part: invalid value: "all" (unit, `},
		"a day in another form": {options{part: "unit", day: "1.2.2026"}, events, `-day: invalid value: "1.2.2026" (`},
		"a log without results": {options{part: "unit", day: "2026-01-02"}, "nothing\n", "-part unit: no results"},
		"a part to be checked":  {options{part: "unit", day: "2026-01-02", check: true}, events, "-check: not allowed"},
		"pieces of packages": {
			options{part: "unit", day: "2026-01-02", add: true}, events, "-add: not allowed with -part unit",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.o.into, tc.o.version = t.TempDir(), "x"
			err := tc.o.run(root, strings.NewReader(tc.input), &bytes.Buffer{})
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("error %v, want %s", err, tc.want)
			}
			if files, _ := filepath.Glob(filepath.Join(tc.o.into, "*")); len(files) > 0 {
				t.Errorf("%s are written", files)
			}
		})
	}
}
