package linear

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// Check returns an error that explains the first violation of linearizability, nil if there is none. Registers are
// independent, so each is checked alone.
func Check(operations []Operation, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	registers := map[string][]Operation{}
	for _, o := range operations {
		registers[o.Key] = append(registers[o.Key], o)
	}
	var first *violation
	for _, key := range slices.Sorted(maps.Keys(registers)) {
		found, err := checkRegister(registers[key], deadline)
		if err != nil {
			return fmt.Errorf("check register %q: %w", key, err)
		}
		if found != nil && (first == nil || found.operation.Return < first.operation.Return) {
			first = found
		}
	}
	if first == nil {
		return nil
	}
	return first
}

// checkRegister returns the first violation of one register's history. Each history that begins with one that is not
// linearizable is not linearizable either, so the answer that causes the violation is found by bisection.
func checkRegister(operations []Operation, deadline time.Time) (*violation, error) {
	if err := differ(operations); err != nil {
		return nil, err
	}
	slices.SortStableFunc(operations, func(a, b Operation) int { return cmp.Compare(a.Return, b.Return) })
	good, bad := 0, len(operations)
	if ok, err := linearizable(operations, deadline); ok || err != nil {
		return nil, err
	}
	for good+1 < bad {
		middle := good + (bad-good)/2
		ok, err := linearizable(until(operations, middle), deadline)
		if err != nil {
			return nil, err
		}
		if ok {
			good = middle
		} else {
			bad = middle
		}
	}
	return &violation{operation: operations[bad-1], history: operations}, nil
}

// differ fails if two writes have the same value, since a read could have seen either of them.
func differ(operations []Operation) error {
	writers := map[string]bool{"": true}
	for _, o := range operations {
		if o.Kind == Read {
			continue
		}
		if writers[o.Value] {
			return fmt.Errorf("the values of writes must differ and must not be empty: %s", o)
		}
		writers[o.Value] = true
	}
	return nil
}

// until returns the history up to the first n answers. Operations in progress at that time have no outcome yet.
func until(operations []Operation, n int) []Operation {
	known := slices.Clone(operations[:n])
	if n == 0 {
		return known
	}
	now := operations[n-1].Return
	for _, o := range operations[n:] {
		if o.Call <= now && o.Outcome != Refused {
			o.Outcome = Unknown
			known = append(known, o)
		}
	}
	return known
}

// linearizable reports whether the history of one register is linearizable.
func linearizable(operations []Operation, deadline time.Time) (bool, error) {
	left := time.Until(deadline)
	if left <= 0 { // For Porcupine 0 means no limit.
		return false, fmt.Errorf("the time limit ended before the check")
	}
	switch porcupine.CheckOperationsTimeout(register, decided(operations), left) {
	case porcupine.Ok:
		return true, nil
	case porcupine.Illegal:
		return false, nil
	default:
		return false, fmt.Errorf("no result for %d operations within the time limit", len(operations))
	}
}

// decided leaves out operations without effect, or without one that was observed, and bounds the time of the other
// operations of unknown outcome. A write of unknown outcome could be anywhere after its call, and with many of those a
// search through all orders would not end. As the values of all writes differ, nothing is lost by that:
//
//   - A write whose value was never observed can as well come after everything else.
//   - A write whose value was observed came before the end of the first operation that has observed it.
//   - Between it and the first operation that has seen it there is nothing else, so it can as well come directly before
//     that, and not before the earliest call of those that have.
func decided(operations []Operation) []porcupine.Operation {
	v := newViews(operations)
	var out []porcupine.Operation
	for _, o := range operations {
		begin, end := o.Call, o.Return
		switch {
		case o.Outcome == Unknown && o.Kind != Read:
			last, seen := v.before[o.Value]
			if !seen {
				continue
			}
			begin = v.begin(o)
			end = max(last, begin) // The value was seen before the call: that is the violation to be found.
		case o.Outcome != Done:
			continue
		}
		out = append(out, porcupine.Operation{ClientId: o.Client, Input: o, Call: int64(begin), Return: int64(end)})
	}
	return out
}

// views records the operations that have observed the values of writes.
type views struct {
	writers map[string]Operation
	// observers are the operations that have read or replaced a value, those of unknown outcome only if theirs was seen.
	observers map[string][]Operation
	// before is the latest time by which a value existed, for observed values only.
	before map[string]time.Duration
	// visiting ends searches in histories where values follow each other in a circle.
	visiting map[string]bool
}

func newViews(operations []Operation) *views {
	v := &views{
		writers: map[string]Operation{}, observers: map[string][]Operation{}, before: map[string]time.Duration{},
		visiting: map[string]bool{},
	}
	for _, o := range operations {
		if o.Kind != Read {
			v.writers[o.Value] = o
		}
	}
	for _, o := range operations {
		if o.Outcome == Done && o.Kind != Write {
			v.note(o.found(), o, o.Return)
		}
	}
	return v
}

// note records that an operation has seen a value, and, if that is how one of unknown outcome is known to have
// taken effect, what that one has seen.
func (v *views) note(value string, by Operation, at time.Duration) {
	for value != "" {
		v.observers[value] = append(v.observers[value], by)
		before, known := v.before[value]
		if known && before <= at {
			return
		}
		v.before[value] = at
		writer, found := v.writers[value]
		if !found || writer.Kind != Swap || writer.Outcome != Unknown {
			return
		}
		value, by = writer.From, writer
	}
}

// begin returns the earliest time from which an operation matters: its call, or, for one of unknown outcome, the call
// of the first operation that has observed it.
func (v *views) begin(o Operation) time.Duration {
	if o.Outcome == Done || v.visiting[o.Value] {
		return o.Call
	}
	v.visiting[o.Value] = true
	defer delete(v.visiting, o.Value)
	first := v.before[o.Value]
	for _, by := range v.observers[o.Value] {
		first = min(first, v.begin(by))
	}
	return max(o.Call, first)
}

// register is a register with a value, "" as long as it does not exist.
var register = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, _ any) (bool, any) {
		value, o := state.(string), input.(Operation)
		switch o.Kind {
		case Read:
			return value == o.Value, value
		case Write:
			return true, o.Value
		default:
			return value == o.From, o.Value
		}
	},
}
