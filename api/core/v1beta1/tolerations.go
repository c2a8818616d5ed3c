package v1beta1

import "slices"

// UntoleratedTaints returns the taints of a Seed that keep a Shoot with these tolerations away, in their order. A taint
// without value is tolerated by every toleration of its key, one with a value by that value. Each taint wants a toleration
// of its own: where all taints match but the tolerations are fewer, those taints are returned that have none of the same
// key and value. A Shoot that gets tolerations like the returned taints tolerates the Seed.
func UntoleratedTaints(taints []SeedTaint, tolerations []Toleration) []SeedTaint {
	var unmatched, withoutOwn []SeedTaint
	distinct := map[string]bool{}
	for _, taint := range taints {
		value := deref(taint.Value)
		if distinct[taint.String()] {
			continue
		}
		distinct[taint.String()] = true
		if !slices.ContainsFunc(tolerations, func(t Toleration) bool { return t.Key == taint.Key && (value == "" || deref(t.Value) == value) }) {
			unmatched = append(unmatched, taint)
		}
		if !slices.ContainsFunc(tolerations, func(t Toleration) bool { return t.Key == taint.Key && deref(t.Value) == value }) {
			withoutOwn = append(withoutOwn, taint)
		}
	}
	if len(tolerations)+len(unmatched) < len(distinct) {
		return withoutOwn
	}
	return unmatched
}

// TolerationsWithDefaults returns the tolerations with those defaults whose keys they lack, the first of each key. None of
// the arguments is changed.
func TolerationsWithDefaults(tolerations []Toleration, defaults ...[]Toleration) []Toleration {
	completed := slices.Clip(tolerations)
	for _, toleration := range slices.Concat(defaults...) {
		if !slices.ContainsFunc(completed, func(t Toleration) bool { return t.Key == toleration.Key }) {
			completed = append(completed, toleration)
		}
	}
	return completed
}

// String is the key of a taint, and its value if it has one.
func (t SeedTaint) String() string {
	if deref(t.Value) == "" {
		return t.Key
	}
	return t.Key + "=" + *t.Value
}
