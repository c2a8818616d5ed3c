package v1beta1

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// taints and tolerations are written like "a=1 b".
func taints(text string) (list []SeedTaint) {
	for _, t := range tolerations(text) {
		list = append(list, SeedTaint(t))
	}
	return list
}

func tolerations(text string) (list []Toleration) {
	for _, word := range strings.Fields(text) {
		key, value, valued := strings.Cut(word, "=")
		t := Toleration{Key: key}
		if valued {
			t.Value = &value
		}
		list = append(list, t)
	}
	return list
}

func text(list []SeedTaint) string {
	var words []string
	for _, t := range list {
		words = append(words, t.String())
	}
	return strings.Join(words, " ")
}

func TestUntoleratedTaints(t *testing.T) {
	for _, tc := range []struct{ taints, tolerations, want string }{
		{"", "", ""},
		{"", "a", ""},
		{"protected", "", "protected"},
		{"protected", "protected", ""},
		{"a=1 b", "a=1", "b"},
		{"a=1 b", "a=1 b", ""},
		{"a=1 b", "a=2 b", "a=1"},
		{"a=1 b", "a b", "a=1"},
		{"a", "a=7", ""},
		{"a", "a", ""},
		{"a=1", "a=2 a=1", ""},
		{"a a=1", "a=1", "a"},  // One toleration for two taints: each needs its own.
		{"a a=1", "a=1 b", ""}, // As many tolerations as taints suffice.
		{"a a=1 b", "a=1", "a b"},
		{"a a=1 b b=1", "a=1 b=1 c", "a"}, // One more toleration suffices.
		{"a a=1", "b", "a=1"},             // It suffices for the bare key.
		{"a= b", "a=1 b", ""},             // An empty value counts as none.
	} {
		got := text(UntoleratedTaints(taints(tc.taints), tolerations(tc.tolerations)))
		if got != tc.want {
			t.Errorf("taints %q with tolerations %q: untolerated %q, want %q", tc.taints, tc.tolerations, got, tc.want)
		}
	}
}

// TestUntoleratedTaintsAreWhatIsMissing compares the result with the documented rule, and adds the missing tolerations.
func TestUntoleratedTaintsAreWhatIsMissing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	words := []string{"a", "a=1", "a=2", "b", "b=1", "c"}
	pick := func() string {
		var chosen []string
		for _, i := range random.Perm(len(words))[:random.IntN(5)] {
			chosen = append(chosen, words[i])
		}
		return strings.Join(chosen, " ")
	}
	documented := func(taints []SeedTaint, tolerations []Toleration) bool {
		if len(tolerations) < len(taints) {
			return false
		}
		for _, taint := range taints {
			tolerated := false
			for _, t := range tolerations {
				tolerated = tolerated || t.Key == taint.Key && (taint.Value == nil || t.Value != nil && *t.Value == *taint.Value)
			}
			if !tolerated {
				return false
			}
		}
		return true
	}
	for range 5000 {
		seed, shoot := taints(pick()), tolerations(pick())
		missing := UntoleratedTaints(seed, shoot)
		if want := documented(seed, shoot); want != (len(missing) == 0) {
			t.Fatalf("taints %v, tolerations %v: untolerated %v, documented: tolerated is %v", seed, shoot, missing, want)
		}
		if rest := UntoleratedTaints(seed, append(shoot, tolerations(text(missing))...)); len(rest) != 0 {
			t.Fatalf("taints %v, tolerations %v: %v added, %v left", seed, shoot, missing, rest)
		}
		for i := range missing {
			fewer := slices.Delete(slices.Clone(missing), i, i+1)
			if documented(seed, append(slices.Clone(shoot), tolerations(text(fewer))...)) {
				t.Fatalf("taints %v, tolerations %v: untolerated %v, but %v added suffice", seed, shoot, missing, fewer)
			}
		}
	}
}

func TestTolerationsWithDefaults(t *testing.T) {
	own := make([]Toleration, 1, 8) // Spare capacity, which must not be written.
	copy(own, tolerations("a=1"))
	got := TolerationsWithDefaults(own, tolerations("a b"), tolerations("b=2 c"))
	if diff := cmp.Diff(tolerations("a=1 b c"), got); diff != "" {
		t.Errorf("TolerationsWithDefaults() mismatch (-want +got):\n%s", diff)
	}
	if extra := own[:2][1]; extra.Key != "" {
		t.Errorf("TolerationsWithDefaults() wrote %s into its argument", fmt.Sprint(extra))
	}
}
