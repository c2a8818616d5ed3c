package policy

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
)

const (
	tableName = "hortus-policy"
	// elementsPerMessage keeps the elements of a message, at most 76 bytes each, below the 64 KiB of a netlink attribute.
	elementsPerMessage = 512
	// bufferBytes is for a transaction and for its acknowledgements, which the kernel sends all at once. It is a limit,
	// not an allocation. A transaction with 1,000 pods and 200 policies has less than 1 MiB.
	bufferBytes = 64 << 20
	// kernelTimeout ends the wait for an acknowledgement that the kernel has dropped for lack of memory.
	kernelTimeout = 30 * time.Second
	// commentBytes is the longest comment of a set that nft prints.
	commentBytes = 120
)

// Table writes rulesets into the kernel, as a table in the network namespace of the calling thread. It touches no other
// table.
type Table struct{}

// Replace replaces the content of the table by the ruleset in one transaction: packets see either all of the old rules
// or all of the new ones. The counters continue.
func (t Table) Replace(r Ruleset) error {
	refused, err := t.Refused()
	if err != nil {
		return err
	}
	return transact(func(w *writer) error {
		w.conn.AddTable(w.table) // So that deleting the table never fails.
		w.conn.DelTable(w.table)
		w.conn.AddTable(w.table)
		for name, packets := range map[string]uint64{counterEgress: refused.Egress, counterIngress: refused.Ingress} {
			w.conn.AddObj(&nftables.NamedObj{
				Table: w.table, Name: name, Type: nftables.ObjTypeCounter, Obj: &expr.Counter{Packets: packets},
			})
		}
		for _, m := range r.Maps {
			if err := w.conn.AddSet(w.verdictMap(m.Name), nil); err != nil {
				return err
			}
		}
		change := Change{NewSets: r.Sets, NewChains: r.Chains}
		for _, m := range r.Maps {
			change.Jumps = append(change.Jumps, JumpChange{Map: m.Name, Added: m.Elements})
		}
		w.dropLinkLocal()
		return w.apply(change)
	})
}

// Apply changes the table in one transaction. It fails, and changes nothing, if the kernel notices that the table is
// not the one that the change starts from.
func (Table) Apply(c Change) error {
	return transact(func(w *writer) error { return w.apply(c) })
}

// Refused is a number of packets by direction, seen from the pods of the node.
type Refused struct{ Egress, Ingress uint64 }

// Refused returns how many packets the rules have refused since the table was first made. Without table it is zero.
func (Table) Refused() (Refused, error) {
	var out Refused
	conn, err := connect()
	if err != nil {
		return out, err
	}
	objects, err := conn.GetNamedObjects(&nftables.Table{Name: tableName, Family: nftables.TableFamilyIPv4})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return out, fmt.Errorf("read nftables counters: %w", err)
	}
	for _, o := range objects {
		object, ok := o.(*nftables.NamedObj)
		if !ok || object.Table.Name != tableName || object.Table.Family != nftables.TableFamilyIPv4 {
			continue
		}
		if counter, ok := object.Obj.(*expr.Counter); ok {
			switch object.Name {
			case counterEgress:
				out.Egress = counter.Packets
			case counterIngress:
				out.Ingress = counter.Packets
			}
		}
	}
	return out, nil
}

func connect() (*nftables.Conn, error) {
	conn, err := nftables.New(nftables.WithSockOptions(prepareSocket))
	if err != nil {
		return nil, fmt.Errorf("connect to nftables: %w", err)
	}
	return conn, nil
}

// prepareSocket sets the limits of a netlink socket, whose type belongs to a library that only nftables needs.
func prepareSocket[C interface {
	SetReadBuffer(bytes int) error
	SetWriteBuffer(bytes int) error
	SetDeadline(t time.Time) error
}](c C) error {
	return errors.Join(c.SetReadBuffer(bufferBytes), c.SetWriteBuffer(bufferBytes),
		c.SetDeadline(time.Now().Add(kernelTimeout)))
}

func transact(write func(*writer) error) error {
	conn, err := connect()
	if err != nil {
		return err
	}
	w := &writer{conn: conn, table: &nftables.Table{Name: tableName, Family: nftables.TableFamilyIPv4}}
	if err := write(w); err != nil {
		return fmt.Errorf("encode nftables rules: %w", err)
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("write nftables rules: %w", err)
	}
	return nil
}

// writer collects the messages of one transaction.
type writer struct {
	conn  *nftables.Conn
	table *nftables.Table
	sets  uint32 // Numbers given to sets, which refer to each other within a transaction.
}

func (w *writer) apply(c Change) error {
	for _, s := range c.NewSets {
		set := w.set(s)
		if err := w.conn.AddSet(set, nil); err != nil {
			return err
		}
		if err := w.addElements(set, setElements(s.Kind, s.Elements)); err != nil {
			return err
		}
	}
	for _, e := range c.Elements {
		set := w.set(Set{Name: e.Set, Kind: e.Kind})
		if err := w.removeElements(set, setElements(e.Kind, e.Removed)); err != nil {
			return err
		}
		if err := w.addElements(set, setElements(e.Kind, e.Added)); err != nil {
			return err
		}
	}
	for _, chain := range c.NewChains {
		w.conn.AddChain(w.chain(chain))
	}
	for _, chain := range c.ChangedChains {
		w.conn.FlushChain(w.chain(chain))
	}
	for _, chain := range slices.Concat(c.NewChains, c.ChangedChains) {
		for _, rule := range chain.Rules {
			w.conn.AddRule(&nftables.Rule{Table: w.table, Chain: w.chain(chain), Exprs: expressions(rule)})
		}
	}
	for _, j := range c.Jumps {
		set := w.verdictMap(j.Map)
		if err := w.removeElements(set, addressKeys(j.Removed)); err != nil {
			return err
		}
		if err := w.addElements(set, jumpElements(j.Added)); err != nil {
			return err
		}
	}
	for _, name := range c.RemovedChains {
		w.conn.DelChain(&nftables.Chain{Table: w.table, Name: name})
	}
	for _, s := range c.RemovedSets {
		w.conn.DelSet(w.set(s))
	}
	return nil
}

func (w *writer) set(s Set) *nftables.Set {
	w.sets++
	out := &nftables.Set{
		ID: w.sets, Table: w.table, Name: s.Name, KeyType: nftables.TypeIPAddr, KeyByteOrder: binaryutil.BigEndian,
		Comment: s.Comment[:min(len(s.Comment), commentBytes)],
	}
	switch s.Kind {
	case Ranges:
		out.Interval = true
	case Pairs:
		out.Concatenation = true
		out.KeyType = nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeIPAddr)
	case Services:
		out.Concatenation = true
		out.KeyType = nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetProto, nftables.TypeInetService)
	}
	return out
}

func (w *writer) verdictMap(name string) *nftables.Set {
	w.sets++
	return &nftables.Set{
		ID: w.sets, Table: w.table, Name: name, IsMap: true, KeyType: nftables.TypeIPAddr, DataType: nftables.TypeVerdict,
		KeyByteOrder: binaryutil.BigEndian,
	}
}

func (w *writer) addElements(set *nftables.Set, elements []nftables.SetElement) error {
	for part := range slices.Chunk(elements, elementsPerMessage) {
		if err := w.conn.SetAddElements(set, part); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) removeElements(set *nftables.Set, elements []nftables.SetElement) error {
	for part := range slices.Chunk(elements, elementsPerMessage) {
		if err := w.conn.SetDeleteElements(set, part); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) chain(c Chain) *nftables.Chain {
	out := &nftables.Chain{Table: w.table, Name: c.Name}
	if c.Hook == NoHook {
		return out
	}
	_, priority := c.Hook.place()
	out.Type = nftables.ChainTypeFilter
	out.Priority = nftables.ChainPriorityRef(nftables.ChainPriority(priority))
	out.Hooknum = nftables.ChainHookForward
	if c.Hook == Input {
		out.Hooknum = nftables.ChainHookInput
	}
	return out
}

func setElements(kind SetKind, elements []Element) []nftables.SetElement {
	var out []nftables.SetElement
	for _, e := range elements {
		key := e.Address.AsSlice()
		switch kind {
		case Addresses:
			out = append(out, nftables.SetElement{Key: key})
		case Ranges: // The end of a range is the first address after it. The last address of all has none after it.
			out = append(out, nftables.SetElement{Key: key})
			if end := e.Last.Next(); end.IsValid() {
				out = append(out, nftables.SetElement{Key: end.AsSlice(), IntervalEnd: true})
			}
		case Pairs:
			out = append(out, nftables.SetElement{Key: append(key, e.Last.AsSlice()...)})
		case Services: // Every part of a key is padded to four bytes.
			key = append(key, byte(e.Protocol), 0, 0, 0, byte(e.Port>>8), byte(e.Port), 0, 0)
			out = append(out, nftables.SetElement{Key: key})
		}
	}
	return out
}

func addressKeys(jumps []Jump) []nftables.SetElement {
	out := make([]nftables.SetElement, len(jumps))
	for i, j := range jumps {
		out[i] = nftables.SetElement{Key: j.Address.AsSlice()}
	}
	return out
}

func jumpElements(jumps []Jump) []nftables.SetElement {
	out := addressKeys(jumps)
	for i, j := range jumps {
		out[i].VerdictData = &expr.Verdict{Kind: expr.VerdictGoto, Chain: j.Chain}
	}
	return out
}
