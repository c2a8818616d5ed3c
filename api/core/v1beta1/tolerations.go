package v1beta1

import "slices"

// UntoleratedTaints returns the taints of a Seed that keep a Shoot with these tolerations away, in their order. A taint
// without value is tolerated by every toleration of its key, one with a value by that value. There must be as many
// tolerations as taints: where they are fewer, taints are returned that have no toleration of the same key and value. A
// Shoot that gets tolerations like the returned taints tolerates the Seed, and none of them can be left out.
func UntoleratedTaints(taints []SeedTaint, tolerations []Toleration) []SeedTaint {
	var distinct []SeedTaint
	for _, taint := range taints {
		if !slices.ContainsFunc(distinct, func(t SeedTaint) bool { return t.String() == taint.String() }) {
			distinct = append(distinct, taint)
		}
	}
	matched := func(taint SeedTaint) bool {
		value := deref(taint.Value)
		return slices.ContainsFunc(tolerations, func(t Toleration) bool {
			return t.Key == taint.Key && (value == "" || deref(t.Value) == value)
		})
	}
	hasOwn := func(taint SeedTaint) bool {
		return slices.ContainsFunc(tolerations, func(t Toleration) bool {
			return t.Key == taint.Key && deref(t.Value) == deref(taint.Value)
		})
	}
	needed := func(taint SeedTaint) bool { // A toleration of a value that is needed will do for the bare key.
		return !matched(taint) && (deref(taint.Value) != "" ||
			!slices.ContainsFunc(distinct, func(t SeedTaint) bool { return t.Key == taint.Key && deref(t.Value) != "" }))
	}
	more := len(distinct) - len(tolerations) // How many are required for their number alone.
	for _, taint := range distinct {
		if needed(taint) {
			more--
		}
	}
	var untolerated []SeedTaint
	for _, taint := range distinct {
		switch {
		case needed(taint):
			untolerated = append(untolerated, taint)
		case more > 0 && !hasOwn(taint):
			untolerated = append(untolerated, taint)
			more--
		}
	}
	return untolerated
}

// TolerationsWithDefaults returns the tolerations with those defaults whose keys they lack, the first of each key. None
// of the arguments is changed.
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
