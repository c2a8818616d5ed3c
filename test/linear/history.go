package linear

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Kind is the kind of an operation.
type Kind int

const (
	// Read returns the value of a register.
	Read Kind = iota
	// Write sets the value whatever it was.
	Write
	// Swap sets the value if it still is the one in From, by resourceVersion, or creates the register if From is empty.
	Swap
)

// Outcome is a client's knowledge of the effect of an operation.
type Outcome int

const (
	// Done was acknowledged.
	Done Outcome = iota
	// Refused had no effect: the request was never sent, or the answer says so.
	Refused
	// Unknown may take effect at any time after the call, or never.
	Unknown
)

// Operation is one request of a client.
type Operation struct {
	Client int
	// Key names the register.
	Key  string
	Kind Kind
	// From is the value that a Swap replaces; empty if it creates the register.
	From string
	// Value that was read or is to be written. A read of a register that does not exist has the empty one. All writes
	// to a register have different values.
	Value   string
	Outcome Outcome
	// Call and Return are the times of request and answer, since the start of the history.
	Call, Return time.Duration
	// Reason is the reason why the outcome is not Done.
	Reason string
}

// found returns the value that the register had according to a Read or Swap.
func (o Operation) found() string {
	if o.Kind == Swap {
		return o.From
	}
	return o.Value
}

// String describes the operation in one line.
func (o Operation) String() string {
	text := fmt.Sprintf("%10.3fs - %10.3fs  client %d  ", o.Call.Seconds(), o.Return.Seconds(), o.Client)
	switch o.Kind {
	case Read:
		text += fmt.Sprintf("read %q", o.Value)
	case Write:
		text += fmt.Sprintf("write %q", o.Value)
	default:
		text += fmt.Sprintf("swap %q for %q", o.From, o.Value)
	}
	if o.Outcome == Done {
		return text
	}
	return fmt.Sprintf("%s: %s: %s", text, map[Outcome]string{
		Refused: "refused", Unknown: "outcome unknown",
	}[o.Outcome], o.Reason)
}

// History holds the operations of all clients. It is safe for concurrent use.
type History struct {
	start time.Time

	mu         sync.Mutex
	operations []Operation
}

// NewHistory begins a history.
func NewHistory() *History { return &History{start: time.Now()} }

// Now is the time since the start of the history. It has no gaps and no jumps.
func (h *History) Now() time.Duration { return time.Since(h.start) }

// Add records an operation that has ended.
func (h *History) Add(o Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, o)
}

// Operations returns the operations that have ended so far.
func (h *History) Operations() []Operation {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.operations)
}

// Count returns the number of operations with an outcome so far.
func (h *History) Count(outcome Outcome) int {
	n := 0
	for _, o := range h.Operations() {
		if o.Outcome == outcome {
			n++
		}
	}
	return n
}

// Check returns an error that explains the first violation, nil if the history is linearizable. It must not take longer
// than limit, which only ends searches that explode.
func (h *History) Check(limit time.Duration) error { return Check(h.Operations(), limit) }
