package flow

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Step is one node of a flow over a scope of type S. Steps name their dependencies as variables, so that a misspelt
// name or a cycle does not compile.
type Step[S any] struct {
	// Name identifies the step in plans, in error lists and to people; kebab case, unique in a graph.
	Name string
	// After lists the steps that must be done or skipped before this one.
	After []*Step[S]
	// SkipIf returns the reason to skip the step, or "" to run it. Nil never skips.
	SkipIf func(S) string
	// SkipAtOnce: when the step is skipped, those after it do not wait for what it comes after. It needs a SkipIf, which
	// must not depend on what other steps do.
	SkipAtOnce bool
	// Ensure brings about what the step stands for. Nil makes the step a barrier.
	Ensure func(context.Context, S) (Outcome, error)
	// Remove undoes Ensure in a deletion. Nil means nothing is left behind that has to be removed by itself.
	Remove func(context.Context, S) (Outcome, error)
	// Limit bounds how long the step may wait before that becomes an error; 0 means DefaultLimit.
	Limit time.Duration
	// Recheck is how soon the step wants another pass while it waits for something that cannot be watched; 0 means that
	// a watch tells.
	Recheck time.Duration
}

// DefaultLimit is the longest time a step may wait without saying otherwise. The slowest ordinary wait is a machine
// that boots, for which the extension contract allows ten minutes.
const DefaultLimit = 10 * time.Minute

// Outcome is what a step that did not fail has reached. The zero value is not valid; use Done or Waiting.
type Outcome struct {
	done   bool
	kind   Kind
	reason string
	codes  []string
	limit  time.Duration // In place of the step's, unless 0.
}

// Done says that the thing is there, complete.
func Done() Outcome { return Outcome{done: true} }

// Kind is a kind of thing that steps wait for. Metrics have it as a label, so there are few.
type Kind string

// Waiting says what the step waits for: for metrics by its kind, and in words for a user. Waiting is not an error.
func Waiting(kind Kind, reason string) Outcome {
	if kind == "" || reason == "" {
		panic("flow: waiting without a kind or a reason")
	}
	return Outcome{kind: kind, reason: reason}
}

// WaitingWithCodes is Waiting with the codes that the error has if the wait lasts too long.
func WaitingWithCodes(kind Kind, reason string, codes ...string) Outcome {
	o := Waiting(kind, reason)
	o.codes = slices.Clone(codes)
	return o
}

// WaitingUpTo is Waiting with a limit in place of the step's, where it depends on what the step waits for. The step's
// own limit counts from the end of such a wait.
func WaitingUpTo(limit time.Duration, kind Kind, reason string) Outcome {
	o := Waiting(kind, reason)
	o.limit = limit
	return o
}

// UpTo returns the outcome with a limit in place of the step's, as in [WaitingUpTo]; 0 leaves it as it is.
func (o Outcome) UpTo(limit time.Duration) Outcome {
	if limit > 0 && !o.done {
		o.limit = limit
	}
	return o
}

// IsDone reports whether the step has reached its goal.
func (o Outcome) IsDone() bool { return o.done }

// Reason is what the step waits for, or "".
func (o Outcome) Reason() string { return o.reason }

// codedError is an error with codes.
type codedError struct {
	error
	codes []string
}

func (e *codedError) Unwrap() error { return e.error }

// WithCodes attaches codes to err; a nil err stays nil and no codes change nothing.
func WithCodes(err error, codes ...string) error {
	if err == nil || len(codes) == 0 {
		return err
	}
	return &codedError{err, slices.Clone(codes)}
}

// Codes returns every code that err and the errors it wraps carry, sorted, each once.
func Codes(err error) []string {
	var all []string
	collectCodes(err, &all)
	slices.Sort(all)
	return slices.Compact(all)
}

func collectCodes(err error, all *[]string) {
	if err == nil {
		return
	}
	if coded, ok := err.(*codedError); ok {
		*all = append(*all, coded.codes...)
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			collectCodes(e, all)
		}
		return
	}
	collectCodes(errors.Unwrap(err), all)
}
