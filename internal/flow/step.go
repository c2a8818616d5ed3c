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
	// Name identifies the step in plans, error lists and messages; kebab case, unique in a graph.
	Name string
	// After lists the steps that must be done or skipped before this one.
	After []*Step[S]
	// SkipIf returns the reason to skip the step, or "" to run it. Nil never skips.
	SkipIf func(S) string
	// SkipAtOnce: if the step is skipped, its dependents do not wait for its dependencies. It requires SkipIf, which must
	// not depend on what other steps do.
	SkipAtOnce bool
	// Aside: no step of a graph that [Graph.Then] appends waits for this one, so that its failures hold nothing back.
	Aside bool
	// Ensure creates or updates what the step is responsible for. Nil makes the step a barrier.
	Ensure func(context.Context, S) (Outcome, error)
	// Remove undoes Ensure in a deletion. Nil means that nothing has to be removed explicitly.
	Remove func(context.Context, S) (Outcome, error)
	// Limit is how long the step may wait before that becomes an error; 0 means DefaultLimit.
	Limit time.Duration
	// Recheck is how soon the step needs another pass while it waits for something that cannot be watched; 0 means that a
	// watch reports it.
	Recheck time.Duration
}

// DefaultLimit is how long a step without a limit of its own may wait. The slowest ordinary wait is for a machine to
// boot, for which the extension contract allows ten minutes.
const DefaultLimit = 10 * time.Minute

// Outcome is the result of a step that did not fail. The zero value is not valid; use Done or Waiting.
type Outcome struct {
	done   bool
	kind   Kind
	reason string
	object string
	codes  []string
	limit  time.Duration // In place of the step's, unless 0.
}

// Done means that the step has reached its goal.
func Done() Outcome { return Outcome{done: true} }

// Kind is the kind of thing a step waits for. It is a label of metrics, so there are few values.
type Kind string

// Waiting means that the step waits for something: kind is for metrics, reason for users. Waiting is not an error.
func Waiting(kind Kind, reason string) Outcome {
	if kind == "" || reason == "" {
		panic("flow: waiting without a kind or a reason")
	}
	return Outcome{kind: kind, reason: reason}
}

// WaitingWithCodes is Waiting with the codes of the error that follows if the wait exceeds its limit.
func WaitingWithCodes(kind Kind, reason string, codes ...string) Outcome {
	o := Waiting(kind, reason)
	o.codes = slices.Clone(codes)
	return o
}

// WaitingUpTo is Waiting with a limit that replaces the step's, for limits that depend on what the step waits for. The
// step's own limit counts from the end of such a wait.
func WaitingUpTo(limit time.Duration, kind Kind, reason string) Outcome {
	o := Waiting(kind, reason)
	o.limit = limit
	return o
}

// UpTo returns the outcome with a limit that replaces the step's, as in [WaitingUpTo]; 0 changes nothing.
func (o Outcome) UpTo(limit time.Duration) Outcome {
	if limit > 0 && !o.done {
		o.limit = limit
	}
	return o
}

// About returns the outcome with the name of the object that the step waits for, whose events say what happened last.
func (o Outcome) About(object string) Outcome {
	o.object = object
	return o
}

// IsDone reports whether the step has reached its goal.
func (o Outcome) IsDone() bool { return o.done }

// Reason is what the step waits for, or "" if it is done.
func (o Outcome) Reason() string { return o.reason }

// codedError is an error with codes.
type codedError struct {
	error
	codes []string
}

func (e *codedError) Unwrap() error { return e.error }

// WithCodes attaches codes to err. It returns err unchanged if err is nil or there are no codes.
func WithCodes(err error, codes ...string) error {
	if err == nil || len(codes) == 0 {
		return err
	}
	return &codedError{err, slices.Clone(codes)}
}

// Codes returns the codes of err and of the errors that it wraps, sorted, without duplicates.
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
