package linear

import (
	"fmt"
	"strings"
)

// shown is the number of operations that are shown before a violation.
const shown = 12

// violation is an operation whose answer cannot be explained by any order of it and those before it.
type violation struct {
	operation Operation
	// history of the register, in the order of answers.
	history []Operation
}

// Error explains the violation.
func (v *violation) Error() string {
	text := &strings.Builder{}
	fmt.Fprintf(text, "register %q is not linearizable: no order of its operations explains the answer to\n",
		v.operation.Key)
	fmt.Fprintf(text, "  %s\n", v.operation)
	fmt.Fprintf(text, "%s\nOperations that ended before it, or while it was under way:\n", v.reason())
	var before []Operation
	for _, o := range v.history {
		if o.Call <= v.operation.Return && o != v.operation && (o.Outcome != Refused || o.Value == v.operation.found()) {
			before = append(before, o)
		}
	}
	for _, o := range before[max(0, len(before)-shown):] {
		fmt.Fprintf(text, "  %s\n", o)
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// reason explains what is wrong with the value that was found.
func (v *violation) reason() string {
	value := v.operation.found()
	var writer *Operation
	for i := range v.history {
		if o := &v.history[i]; o.Kind != Read && o.Value == value {
			writer = o
		}
	}
	switch {
	case value == "":
		for _, o := range v.history {
			if o.Outcome == Done && o.Return < v.operation.Call && (o.Kind != Read || o.Value != "") {
				return fmt.Sprintf("The register had a value before; it is lost:\n  %s", o)
			}
		}
		return "The register should exist."
	case writer == nil:
		return fmt.Sprintf("Nobody has written %q.", value)
	case writer.Outcome == Refused:
		return fmt.Sprintf("The write of %q was refused and took effect:\n  %s", value, writer)
	case writer.Call > v.operation.Return:
		return fmt.Sprintf("%q was written only later:\n  %s", value, writer)
	}
	if later := v.overwritten(writer); later != nil {
		const text = "%q had been overwritten: either this value is stale, or the acknowledged write\n  %s\nis lost. " +
			"It was called after the end of\n  %s"
		return fmt.Sprintf(text, value, later, v.seenFirst(writer))
	}
	return fmt.Sprintf("%q was written by\n  %s", value, writer)
}

// overwritten returns a write that was called when the value of another one already existed, and that was acknowledged
// before the violating operation was called; nil if there is none.
func (v *violation) overwritten(writer *Operation) *Operation {
	there := v.seenFirst(writer)
	for i := range v.history {
		o := &v.history[i]
		if o.Kind != Read && o.Outcome == Done && o.Call > there.Return && o.Return < v.operation.Call {
			return o
		}
	}
	return nil
}

// seenFirst returns the operation whose end first proved that a write had taken effect.
func (v *violation) seenFirst(writer *Operation) *Operation {
	for i := range v.history {
		o := &v.history[i]
		if o == writer && o.Outcome == Done ||
			o.Outcome == Done && (o.Kind == Read && o.Value == writer.Value || o.Kind == Swap && o.From == writer.Value) {
			return o
		}
	}
	return writer
}
