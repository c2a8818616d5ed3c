package policy

import "strings"

// Change leads from one Ruleset to another. Its fields are in the order in which the kernel accepts them.
type Change struct {
	NewSets       []Set           // With their elements.
	Elements      []ElementChange // In sets that stay.
	NewChains     []Chain         // All of them exist before the first of their rules does.
	ChangedChains []Chain         // Chains that stay, with other rules.
	Jumps         []JumpChange    // In maps.
	RemovedChains []string        // No longer the target of a map.
	RemovedSets   []Set           // No longer in a rule. Without elements.
}

// ElementChange removes elements from a set, then adds others.
type ElementChange struct {
	Set            string
	Kind           SetKind
	Removed, Added []Element
}

// JumpChange removes elements from a map, then adds others. An address that gets another chain is in both.
type JumpChange struct {
	Map            string
	Removed, Added []Jump
}

// Empty reports whether nothing changes.
func (c Change) Empty() bool {
	return len(c.NewSets)+len(c.Elements)+len(c.NewChains)+len(c.ChangedChains)+len(c.Jumps)+
		len(c.RemovedChains)+len(c.RemovedSets) == 0
}

// Diff returns the change from previous to next. Both come from Decide: a set of the same name has the same kind, a
// chain of the same name the same hook, and the maps are the same.
func Diff(previous, next Ruleset) Change {
	var c Change
	merge(previous.Sets, next.Sets, func(a, b Set) int { return strings.Compare(a.Name, b.Name) },
		func(before, after *Set) {
			switch {
			case before == nil:
				c.NewSets = append(c.NewSets, *after)
			case after == nil:
				c.RemovedSets = append(c.RemovedSets, Set{Name: before.Name, Kind: before.Kind})
			default:
				change := ElementChange{Set: after.Name, Kind: after.Kind}
				change.Removed, change.Added = differences(before.Elements, after.Elements, Element.compare)
				if len(change.Removed)+len(change.Added) > 0 {
					c.Elements = append(c.Elements, change)
				}
			}
		})
	merge(previous.Chains, next.Chains, compareChains, func(before, after *Chain) {
		switch {
		case before == nil:
			c.NewChains = append(c.NewChains, *after)
		case after == nil:
			c.RemovedChains = append(c.RemovedChains, before.Name)
		case !before.equal(*after):
			c.ChangedChains = append(c.ChangedChains, *after)
		}
	})
	merge(previous.Maps, next.Maps, func(a, b Map) int { return strings.Compare(a.Name, b.Name) },
		func(before, after *Map) {
			if before == nil || after == nil {
				panic("rulesets with different maps: " + previous.String() + next.String())
			}
			change := JumpChange{Map: after.Name}
			change.Removed, change.Added = differences(before.Elements, after.Elements, Jump.compare)
			if len(change.Removed)+len(change.Added) > 0 {
				c.Jumps = append(c.Jumps, change)
			}
		})
	return c
}

// differences returns the items that only one of two sorted lists has.
func differences[T any](before, after []T, compare func(a, b T) int) (removed, added []T) {
	merge(before, after, compare, func(old, current *T) {
		switch {
		case old == nil:
			added = append(added, *current)
		case current == nil:
			removed = append(removed, *old)
		}
	})
	return removed, added
}

// merge calls visit for every item of two sorted lists, once for items that compare equal. The pointer of a list that
// lacks the item is nil.
func merge[T any](before, after []T, compare func(a, b T) int, visit func(before, after *T)) {
	for len(before) > 0 || len(after) > 0 {
		order := 0
		switch {
		case len(before) == 0:
			order = 1
		case len(after) == 0:
			order = -1
		default:
			order = compare(before[0], after[0])
		}
		var a, b *T
		if order <= 0 {
			a, before = &before[0], before[1:]
		}
		if order >= 0 {
			b, after = &after[0], after[1:]
		}
		visit(a, b)
	}
}
