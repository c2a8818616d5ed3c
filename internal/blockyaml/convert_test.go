package blockyaml

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// same fails unless ToJSON declines the document or gives it the meaning that the complete parser gives it.
func same(t *testing.T, document string) (converted bool) {
	t.Helper()
	got, ok := ToJSON([]byte(document), nil)
	if !ok {
		return false
	}
	want, err := yaml.YAMLToJSON([]byte(document))
	if err != nil {
		t.Fatalf("converted what the complete parser refuses with %q:\n%s\nto %s", err, document, got)
	}
	var a, b any
	if err := json.Unmarshal(got, &a); err != nil {
		t.Fatalf("%v in %s, converted from:\n%s", err, got, document)
	}
	if err := json.Unmarshal(want, &b); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Fatalf("converted:\n%s\nto   %s\nwant %s", document, got, want)
	}
	return true
}

func TestMachineWrittenManifestsAreConverted(t *testing.T) {
	for name, document := range map[string]string{
		"nested mappings":             "a:\n  b:\n    c: d\n  e: f\n",
		"sequence at the key's depth": "a:\n- b: 1\n  c:\n  - x\n  - \"y\"\n- b: 2\n",
		"sequence deeper":             "a:\n    - b: 1\n      c: d\n    - e\nf: g",
		"empty things":                "a: {}\nb: []\nc:\nd: null\ne: \"\"\nf: ''\n",
		"words":                       "a: true\nb: false\nc: containerd\nd: it's \"quoted\" \\ inside\ne: /dev/null\nf: yesterday\n",
		"numbers and what looks so":   "a: 0\nb: -12\nc: 1.29.0\nd: 220000+0100\ne: 672h0m0s\nf: 1Gi\ng: 0 19 * * 1,2\nh: 10.0.0.0/16\ni: 2026-01-10T12:00:00Z\nj: 123456789012345\nk: 2026-01-10\nl: 7a0a1b2e-0000-1111-2222-333344445555\n",
		"quotes":                      "a: \"2026-01-10\"\nb: '* * * * *'\nc: 'it''s'\nd: \"a\\n\\\"b\\\"\\\\\"\n",
		"comments between lines":      "# first\na: b\n  # deeper\n\nc: d\n",
		"literal blocks":              "a:\n  b: |\n    {\"x\": 1}\n      deeper\n\n    # no comment\n  c: |-\n    text\nd: e\n",
		"keys of annotations":         "m:\n  kubectl.kubernetes.io/last-applied: x\n  f:metadata: z\n",
	} {
		t.Run(name, func(t *testing.T) {
			if !same(t, document) {
				t.Errorf("declined:\n%s", document)
			}
		})
	}
}

func TestEverythingElseIsDeclined(t *testing.T) {
	for _, document := range []string{
		"", "# only a comment\n", "text\n", "- a\n", "a: b: c\n", "a: b:\n", "a: &x b\n", "a: *x\n", "a: !!str 1\n", "a: {b: c}\n", "a: [b]\n",
		"a: b # c\n", "a: b\n  c\n", "a: \"b\n  c\"\n", "a: >\n  b\n", "a: |+\n  b\n", "a: |2\n    b\n", "a: |\n  b", "a: |\n\n  b\n",
		"a: 1\na: 2\n", "a: 1.5\n", "a: 0x10\n", "a: 017\n", "a: 1e3\n", "a: 1_000\n", "a: .5\n", "a: yes\n", "a: Off\n", "a: NULL\n", "a: ~\n",
		"yes: a\n", "1: a\n", "\"a\": b\n", "a: é\n", "a:\tb\n", "a: b\r\n", "\ta: b\n", "a:\n    b: c\n  d: e\n", "  a: b\nc: d\n",
		"a:\n- - b\n", "a:\n-\n  b: c\n", "a: -0\n", "a: '", "a: \"b\\x41\"\n", "a: 'b' c\n", "? a\n: b\n", "<<: a\n", "%YAML 1.1\n", "...\n",
		"a: @b\n", "a: `b`\n", "a: 12345678901234567890\n", strings.Repeat("a", 300) + ": b\n",
	} {
		if got, ok := ToJSON([]byte(document), nil); ok {
			t.Errorf("converted %q to %s", document, got)
		}
	}
}

// TestConversionAgreesWithTheCompleteParser puts documents together at random from pieces that matter.
func TestConversionAgreesWithTheCompleteParser(t *testing.T) {
	keys := []string{"a", "b", "c", "spec", "f:x", "a.b/c", "y", "1", "true", "x-y", "-", "a b", "\"q\""}
	values := []string{
		"", "b", "true", "Yes", "null", "~", "1", "-1", "0", "00", "1.2", "1.2.3", "1.2.3-a", "1e5", "0x1f", "0b1", "0o7", "1_0", "12:30", "12:30:45", "5m", "1Gi", "2026-01-10",
		"2026-01-10T00:00:00Z", "220000+0100", "220000-0100", "'x'", "'it''s'", "\"x\"", "\"a\\\"b\"", "\"a\\\\\"", "{}", "[]", "{a: b}", "[a, b]", "|", "|-", "|+", ">",
		"a: b", "a #b", "a#b", "#c", "a:b", "a:", "*x", "&x y", "!t z", "- x", "-x", ".5", ".inf", ".NaN", "+1", "a  b", "a\\b", "\"", "'", "@", "%", "?", "? x", "nan", "inf", "a,b", "0.", "1.",
		"1.e", "1..2", "1.2.", "9.9.9.", "1d", "0d", "1f", "0xg", "1i", "1n", "=", "<<", "a'b", "a\"b", "1 2", "1:", "12:3 4", "0o", "1-2", "1-2-3", "0b-1", "0x-1", "1e-5", "1e+5", "0x1p-2", "1+2", "1_-2", "0-1", "1a-2", "é", "a\tb",
	}
	rng := rand.New(rand.NewPCG(3, 0))
	pick := func(list []string) string { return list[rng.IntN(len(list))] }
	converted := 0
	const documents = 300000
	for range documents {
		var b strings.Builder
		indent := 0
		for range 1 + rng.IntN(6) {
			line := ""
			switch rng.IntN(12) {
			case 0:
				line = "- " + pick(values)
			case 1:
				line = "- " + pick(keys[:6]) + ": " + pick(values)
			case 2:
				line = pick(values)
			case 3:
				line = []string{"", "# c", "   ", "-", "---x", "  # d"}[rng.IntN(6)]
			default:
				line = pick(keys[:4+rng.IntN(len(keys)-3)]) + ":"
				if rng.IntN(3) > 0 {
					line += " " + pick(values)
				}
			}
			b.WriteString(strings.Repeat(" ", max(0, indent)) + line + []string{"", "", "", " "}[rng.IntN(4)])
			if rng.IntN(30) > 0 {
				b.WriteString("\n")
			}
			indent = max(0, indent+[]int{0, 0, 0, 2, 2, -2, -2, 1, -1, -4}[rng.IntN(10)])
		}
		if same(t, b.String()) {
			converted++
		}
	}
	if converted < documents/50 {
		t.Errorf("only %d of %d were converted", converted, documents)
	}
}

// TestManifestsOfTheRepositoryKeepTheirMeaning tries real files, and what a program makes of them.
func TestManifestsOfTheRepositoryKeepTheirMeaning(t *testing.T) {
	seen := 0
	for _, pattern := range []string{"../../examples/*.yaml", "../plan/testdata/*.yaml", "../component/*/testdata/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, document := range strings.Split("\n"+string(data), "\n---") {
				same(t, document)
				var value map[string]any
				if yaml.Unmarshal([]byte(document), &value) != nil || len(value) == 0 {
					continue
				}
				written, err := yaml.Marshal(value)
				if err != nil {
					t.Fatal(err)
				}
				if same(t, string(written)) {
					seen++
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d manifests were converted", seen)
	}
}

func FuzzToJSON(f *testing.F) {
	f.Add("a:\n- b: 1.2.3\n  c: 'it''s'\nd: |\n  x\n   y\n")
	f.Fuzz(func(t *testing.T, document string) { same(t, document) })
}
