package linear

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// limit of a check in tests, far above the time that each of them needs.
const limit = time.Minute

// op is an operation on register "a" from one second to another.
func op(client int, kind Kind, from, value string, call, end float64) Operation {
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	return Operation{
		Client: client, Key: "a", Kind: kind, From: from, Value: value, Call: seconds(call), Return: seconds(end),
	}
}

func with(o Operation, outcome Outcome) Operation {
	o.Outcome, o.Reason = outcome, "EOF"
	return o
}

func onKey(o Operation, key string) Operation {
	o.Key = key
	return o
}

func TestCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		history []Operation
		want    []string // Parts of the explanation; none if the history is linearizable.
	}{
		"nothing": {},
		"reads overlap a write": {history: []Operation{
			op(0, Read, "", "", 0, 1), op(0, Swap, "", "x", 1, 2), op(0, Write, "", "y", 3, 6),
			op(1, Read, "", "x", 3, 5), op(2, Read, "", "y", 3, 4.5), op(1, Read, "", "y", 5.5, 7),
		}},
		"reads overlap a write, and see its value only temporarily": {history: []Operation{
			op(0, Swap, "", "x", 1, 2), op(0, Write, "", "y", 3, 6), op(1, Read, "", "y", 3, 4), op(1, Read, "", "x", 4.5, 5),
		}, want: []string{`client 1  read "x"`}},
		"an acknowledged write is lost": {history: []Operation{
			op(0, Swap, "", "x", 1, 2), op(1, Write, "", "y", 3, 4), op(0, Read, "", "x", 5, 6),
		}, want: []string{
			`register "a" is not linearizable`, `5.000s -      6.000s  client 0  read "x"`,
			`or the acknowledged write`, `client 1  write "y"`, "is lost",
		}},
		"a lost register": {history: []Operation{
			op(0, Swap, "", "x", 1, 2), op(0, Read, "", "", 3, 4),
		}, want: []string{"The register had a value before; it is lost", `swap "" for "x"`}},
		"a stale read after a newer one": {history: []Operation{
			op(0, Swap, "", "x", 1, 2), op(0, Write, "", "y", 3, 4), op(1, Read, "", "y", 5, 6), op(2, Read, "", "x", 7, 8),
		}, want: []string{`client 2  read "x"`, "either this value is stale"}},
		"a refused write that took effect": {history: []Operation{
			op(0, Swap, "", "x", 1, 2), with(op(1, Write, "", "y", 3, 4), Refused), op(0, Read, "", "y", 5, 6),
		}, want: []string{`The write of "y" was refused and took effect`, `write "y": refused: EOF`}},
		"a refused write without effect": {history: []Operation{
			op(0, Swap, "", "x", 1, 2), with(op(1, Write, "", "y", 3, 4), Refused), op(0, Read, "", "x", 5, 6),
		}},
		"two swaps of the same value": {history: []Operation{
			op(0, Swap, "", "x", 1, 2), op(0, Swap, "x", "y", 3, 4), op(1, Swap, "x", "z", 3, 5),
		}, want: []string{`swap "x" for "z"`}},
		"a value from nowhere": {history: []Operation{
			op(0, Swap, "", "x", 1, 2), op(0, Read, "", "q", 3, 4),
		}, want: []string{`Nobody has written "q"`}},
		"a value from the future": {history: []Operation{
			op(0, Swap, "", "x", 1, 2), op(0, Read, "", "q", 3, 4), op(1, Write, "", "q", 5, 6),
		}, want: []string{`"q" was written only later`}},
		"a value of unknown outcome from the future": {history: []Operation{
			op(0, Swap, "", "x", 1, 2), op(0, Read, "", "q", 3, 4), with(op(1, Write, "", "q", 5, 6), Unknown),
		}, want: []string{`"q" was written only later`}},
		"an unknown outcome: long after its end": {history: []Operation{
			op(0, Swap, "", "x", 1, 2), with(op(1, Write, "", "y", 3, 4), Unknown),
			op(0, Read, "", "x", 5, 6), op(0, Read, "", "x", 50, 51), op(0, Read, "", "y", 52, 53),
		}},
		"an unknown outcome: never": {history: []Operation{
			op(0, Swap, "", "x", 1, 2), with(op(1, Swap, "x", "y", 3, 4), Unknown), op(0, Read, "", "x", 50, 51),
		}},
		"an unknown outcome: seen and gone": {history: []Operation{
			op(0, Swap, "", "x", 1, 2), with(op(1, Write, "", "y", 3, 4), Unknown),
			op(0, Read, "", "y", 5, 6), op(2, Read, "", "x", 7, 8),
		}, want: []string{`client 2  read "x"`}},
		"an unknown swap that only another unknown swap has seen": {history: []Operation{
			op(0, Swap, "", "x", 1, 2), with(op(1, Swap, "x", "y", 3, 4), Unknown), with(op(2, Swap, "y", "z", 3, 4), Unknown),
			op(0, Read, "", "x", 5, 6), op(0, Read, "", "z", 7, 8), op(0, Read, "", "z", 70, 80),
		}},
		"a register that an unknown outcome has created, without reads": {history: []Operation{
			with(op(0, Swap, "", "x", 1, 2), Unknown), op(1, Write, "", "y", 3, 4), op(1, Read, "", "y", 5, 6),
		}},
		"a read without a response": {history: []Operation{
			op(0, Swap, "", "x", 1, 2), with(op(1, Read, "", "", 3, 4), Unknown), op(0, Read, "", "x", 5, 6),
		}},
		"registers are independent, and the first violation is reported": {history: []Operation{
			op(0, Swap, "", "x", 1, 2), onKey(op(0, Swap, "", "y", 3, 4), "b"), onKey(op(1, Read, "", "", 5, 6), "b"),
			op(1, Read, "", "", 7, 8),
		}, want: []string{`register "b"`}},
		"two writes of one value": {history: []Operation{
			op(0, Swap, "", "x", 1, 2), op(0, Write, "", "x", 3, 4),
		}, want: []string{"the values of writes must differ"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := Check(tc.history, limit)
			if err == nil && len(tc.want) > 0 {
				t.Fatal("no violation was found")
			}
			if err != nil && len(tc.want) == 0 {
				t.Fatalf("a violation was found: %v", err)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the explanation lacks %q:\n%v", part, err)
				}
			}
		})
	}
}

// played is a history of clients of a simulated register: each operation takes effect at a random time while it is in
// progress, and one in ten has an unknown outcome, of which half take effect, up to a minute late.
func played(seed uint64, clients, operations int) []Operation {
	random := rand.New(rand.NewPCG(seed, 0))
	type effect struct {
		at time.Duration
		o  *Operation
	}
	history := make([]Operation, operations)
	free := make([]time.Duration, clients)
	var pending []effect
	value := ""
	seen := make([]string, clients)
	// carry out all operations that take effect up to a time, in order.
	carryOut := func(until time.Duration) {
		for {
			first := -1
			for i, e := range pending {
				if e.at <= until && (first < 0 || e.at < pending[first].at) {
					first = i
				}
			}
			if first < 0 {
				return
			}
			o := pending[first].o
			pending = append(pending[:first], pending[first+1:]...)
			switch {
			case o.Kind == Read:
				o.Value = value
			case o.Kind == Swap && o.From != value:
				if o.Outcome == Done {
					o.Outcome, o.Reason = Refused, "conflict"
				}
			default:
				value = o.Value
			}
			if o.Outcome == Done {
				seen[o.Client] = o.Value
			}
		}
	}
	for i := range history {
		client := 0 // The client that is free first.
		for c := range free {
			if free[c] < free[client] {
				client = c
			}
		}
		call := free[client]
		carryOut(call)
		o := &history[i]
		*o = Operation{Client: client, Key: "a", Kind: Kind(random.IntN(3)), Call: call}
		o.Return = call + time.Duration(1+random.IntN(50))*time.Millisecond
		if o.Kind != Read {
			o.Value = string(rune('A'+client)) + time.Duration(i).String()
		}
		if o.Kind == Swap {
			o.From = seen[client]
		}
		at := call + time.Duration(random.Int64N(int64(o.Return-call)))
		if random.IntN(10) == 0 {
			o.Outcome, o.Reason = Unknown, "EOF"
			if at = call + time.Duration(random.Int64N(int64(time.Minute))); random.IntN(2) == 0 {
				at = -1
			}
		}
		if at >= 0 {
			pending = append(pending, effect{at, o})
		}
		free[client] = o.Return + time.Millisecond
	}
	carryOut(1 << 62)
	return history
}

// TestPlayedHistories checks histories that a register has produced, and the same histories with one falsified
// response.
func TestPlayedHistories(t *testing.T) {
	for seed := range uint64(50) {
		history := played(seed, 5, 300)
		if err := Check(history, limit); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		last := -1
		for i, o := range history { // A read of an old value.
			if o.Kind == Read && o.Outcome == Done && i > 200 {
				last = i
			}
		}
		history[last].Value = ""
		if Check(history, limit) == nil {
			t.Fatalf("seed %d: the falsified response was not found: %s", seed, history[last])
		}
	}
}

// TestShortCutsChangeNothing compares the results with a search in which unknown outcomes may take effect at any time,
// for short histories that were falsified in all ways.
func TestShortCutsChangeNothing(t *testing.T) {
	good, bad := 0, 0
	for seed := range uint64(3000) {
		history := played(seed, 4, 12)
		random := rand.New(rand.NewPCG(seed, 1))
		for range random.IntN(4) {
			a, b := &history[random.IntN(len(history))], history[random.IntN(len(history))]
			switch random.IntN(4) {
			case 0:
				a.Outcome = Outcome(random.IntN(3))
			case 1:
				a.From = b.Value
			case 2:
				a.Call, a.Return = b.Call, b.Return
			default:
				if a.Kind == Read {
					a.Value = b.Value
				}
			}
		}
		var all []porcupine.Operation
		for _, o := range history {
			end := o.Return
			if o.Outcome == Unknown {
				end = 1 << 62
			}
			if o.Outcome == Done || o.Outcome == Unknown && o.Kind != Read {
				all = append(all, porcupine.Operation{Input: o, Call: int64(o.Call), Return: int64(end)})
			}
		}
		want := porcupine.CheckOperations(anyTime, all)
		err := Check(history, limit)
		if want != (err == nil) {
			for _, o := range history {
				t.Log(o)
			}
			t.Fatalf("seed %d: linearizable = %t, Check says %v", seed, want, err)
		}
		if want {
			good++
		} else {
			bad++
		}
	}
	t.Logf("%d linearizable histories, %d others", good, bad)
}

// anyTime is a register in which operations with an unknown outcome may also have no effect.
var anyTime = func() porcupine.Model {
	m := register
	m.Step = func(state, input, output any) (bool, any) {
		ok, next := register.Step(state, input, output)
		if !ok && input.(Operation).Outcome == Unknown {
			return true, state
		}
		return ok, next
	}
	return m
}()

// TestLongHistory bounds the time of a check: histories of a whole story have to be checked in seconds.
func TestLongHistory(t *testing.T) {
	history := played(1, 3, 5000)
	start := time.Now()
	if err := Check(history, limit); err != nil {
		t.Fatal(err)
	}
	good := time.Since(start)
	history[4900].Kind, history[4900].Outcome, history[4900].Value = Read, Done, "nowhere"
	start = time.Now()
	if err := Check(history, limit); err == nil {
		t.Fatal("no violation was found")
	} else {
		t.Logf("%d operations: checked in %s; violation explained in %s:\n%v", len(history), good, time.Since(start), err)
	}
}
