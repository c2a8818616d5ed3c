package v1beta1

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

type number interface {
	~int32 | ~int64 | ~float64
}

func atLeast[T number](value *T, least T, path *field.Path) field.ErrorList {
	if value == nil || *value >= least {
		return nil
	}
	return field.ErrorList{field.Invalid(path, *value, fmt.Sprintf("must be at least %v", least))}
}

func between[T number](value *T, least, most T, path *field.Path) field.ErrorList {
	if value == nil || *value >= least && *value <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(path, *value, fmt.Sprintf("must be between %v and %v", least, most))}
}

// sortedKeys lets errors about a map come in the same order every time.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}

func containsAll[T comparable](list, parts []T) bool {
	return !slices.ContainsFunc(parts, func(part T) bool { return !slices.Contains(list, part) })
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
