package corpus

import (
	"encoding/json"
	"flag"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"hortus.dev/hortus/api/validation"
)

var mutations = flag.Int("mutations", 4, "mutations of each case")

// nasty values are the limits of parsers and arithmetic.
var nasty = []any{
	nil, "", " ", "0", "-1", "1.2.3", "v1", "1", "99999999999999999999.1.1", "1.35", "*", ".", "-", "--", "/", "a/b/c",
	";", ",", "%", "-5%", "1e9%",
	"TZ=", "CRON_TZ=UTC", "@every", "@every 1ns", "0 0 31 2 *", "240000+9999", "::/0", "0.0.0.0/0", "10.0.0.0/33",
	"https://", "https://[::1", "-----BEGIN CERTIFICATE-----",
	"1Gi", "-1Gi", "1E", "9223372036854775807", "\x00", "é", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "292y",
	"-2562047h47m16s", "IPv4", "true",
	0.0, -1.0, 1.0, 32.0, 33.0, 2147483647.0, -2147483648.0, 1e300, true, false,
	[]any{}, []any{nil}, []any{""}, []any{map[string]any{}}, map[string]any{}, map[string]any{"": ""},
	map[string]any{"a": "b"},
}

// TestMutatedCases replaces parts of all cases by nasty values and checks the invariants of all objects.
func TestMutatedCases(t *testing.T) {
	cases, err := Load(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range cases {
		apiVersion, _ := c.Object["apiVersion"].(string)
		name, _ := c.Object["kind"].(string)
		kind, ok := validation.Find(schema.FromAPIVersionAndKind(apiVersion, name))
		if !ok {
			t.Fatalf("no kind %s %s", apiVersion, name)
		}
		original := c.Object
		if c.Old != nil {
			original = c.Old
		}
		for range *mutations {
			object, before := kind.New(), kind.New()
			if mutated(t, random, c.Object, object) && mutated(t, random, original, before) {
				checkInvariants(t, kind, object, before)
			}
			if t.Failed() {
				t.Fatalf("case %s", c.File)
			}
		}
	}
}

// mutated fills an object from a changed manifest and reports whether the manifest can still be decoded.
func mutated(t *testing.T, random *rand.Rand, manifest map[string]any, into validation.Object) bool {
	t.Helper()
	changed, ok := clone(manifest).(map[string]any)
	if !ok {
		return false
	}
	for range 1 + random.IntN(3) {
		mutate(random, changed)
	}
	raw, err := json.Marshal(changed)
	if err != nil {
		t.Fatal(err)
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(raw, into) == nil
}

// mutate replaces a random nested value.
func mutate(random *rand.Rand, in any) {
	const stop = 4 // One in stop nested values is replaced as a whole.
	replace := func(value any) any {
		switch value.(type) {
		case map[string]any, []any:
			if random.IntN(stop) > 0 {
				mutate(random, value)
				return value
			}
		}
		return clone(nasty[random.IntN(len(nasty))])
	}
	switch in := in.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(in))
		if len(keys) > 0 {
			key := keys[random.IntN(len(keys))]
			in[key] = replace(in[key])
		}
	case []any:
		if len(in) > 0 {
			i := random.IntN(len(in))
			in[i] = replace(in[i])
		}
	}
}
