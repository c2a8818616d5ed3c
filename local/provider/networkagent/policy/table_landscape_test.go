//go:build landscape

package policy

import (
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables"
	corev1 "k8s.io/api/core/v1"
)

// TestTable replaces and changes the table with random rulesets, and checks the kernel's rules.
func TestTable(t *testing.T) {
	node := newHost(t, "node")
	must(t, node.do(func() error {
		if refused, err := (Table{}).Refused(); err != nil || refused != (Refused{}) {
			return fmt.Errorf("without table %+v packets are refused, %w", refused, err)
		}
		conn, err := nftables.New()
		if err != nil {
			return err
		}
		foreign := conn.AddTable(&nftables.Table{Name: "foreign", Family: nftables.TableFamilyIPv4})
		conn.AddChain(&nftables.Chain{Name: "chain", Table: foreign})
		if err := conn.Flush(); err != nil {
			return err
		}
		for seed := range int64(20) {
			r := rand.New(rand.NewSource(seed))
			o := randomCluster(r)
			previous := Decide(o)
			if err := (Table{}).Replace(previous); err != nil {
				return fmt.Errorf("seed %d: %w\n%s", seed, err, previous)
			}
			for range 10 {
				mutate(r, &o)
				next := Decide(o)
				if err := (Table{}).Apply(Diff(previous, next)); err != nil {
					return fmt.Errorf("seed %d: %w\n%s\n%s", seed, err, previous, next)
				}
				if err := kernelHas(conn, next); err != nil {
					return fmt.Errorf("seed %d: %w\n%s\n%s", seed, err, previous, next)
				}
				previous = next
			}
		}

		// A change that does not match the table is rejected as a whole.
		if err := (Table{}).Replace(Decide(Observed{Node: self})); err != nil {
			return err
		}
		unfit := Change{NewSets: []Set{{Name: "new"}}, RemovedSets: []Set{{Name: "missing"}}}
		if err := (Table{}).Apply(unfit); err == nil {
			return errors.New("a change that does not match the table is applied")
		}
		if err := kernelHas(conn, Decide(Observed{Node: self})); err != nil {
			return err
		}
		if _, err := conn.ListChain(foreign, "chain"); err != nil {
			return fmt.Errorf("a foreign chain: %w", err)
		}
		return nil
	}))
}

// kernelHas compares names of chains and sets, their numbers of rules, and the elements of sets and maps.
func kernelHas(conn *nftables.Conn, r Ruleset) error {
	table := &nftables.Table{Name: tableName, Family: nftables.TableFamilyIPv4}
	want, got := map[string]string{}, map[string]string{}
	for _, c := range r.Chains {
		want["chain "+c.Name] = fmt.Sprintf("%d rules", len(c.Rules))
	}
	for _, s := range r.Sets {
		want["set "+s.Name] = keys(setElements(s.Kind, s.Elements))
	}
	for _, m := range r.Maps {
		want["set "+m.Name] = keys(addressKeys(m.Elements))
	}
	chains, err := conn.ListChainsOfTableFamily(nftables.TableFamilyIPv4)
	if err != nil {
		return err
	}
	for _, c := range chains {
		if c.Table.Name != tableName {
			continue
		}
		rules, err := conn.GetRules(table, c)
		if err != nil {
			return err
		}
		got["chain "+c.Name] = fmt.Sprintf("%d rules", len(rules))
	}
	sets, err := conn.GetSets(table)
	if err != nil {
		return err
	}
	for _, s := range sets {
		s.Table = table
		elements, err := conn.GetSetElements(s)
		if err != nil {
			return err
		}
		got["set "+s.Name] = keys(elements)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("the kernel has other rules (-want +got):\n%s", diff)
	}
	return nil
}

func keys(elements []nftables.SetElement) string {
	var out []string
	for _, e := range elements {
		out = append(out, fmt.Sprintf("%x/%t", e.Key, e.IntervalEnd))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// TestRefusedPackets counts, also across a replacement of the table.
func TestRefusedPackets(t *testing.T) {
	l := newLab(t)
	l.set(t, newPolicy("x/b", "app=b", bothTypes))
	l.check(t, l.a, "!tcp:"+addressB+":80")
	l.check(t, l.b, "!tcp:"+addressA+":80", "!udp:"+addressA+":53", "!tcp:"+addressBridge+":80")
	for range 2 {
		must(t, l.node.do(func() error {
			refused, err := Table{}.Refused()
			if err != nil {
				return err
			}
			if want := (Refused{Egress: 3, Ingress: 1}); refused != want {
				t.Errorf("refused packets: %+v, want %+v", refused, want)
			}
			return Table{}.Replace(*l.applied)
		}))
	}
}

func BenchmarkTable(b *testing.B) {
	for _, local := range []int{110, 1000} {
		for name, change := range map[string]func(*corev1.Pod, int){
			"new-address": func(p *corev1.Pod, i int) {
				p.Status.PodIP, p.Status.PodIPs = fmt.Sprintf("10.2.%d.%d", i/200%200, i%200+2), nil
			},
			"other-labels": func(p *corev1.Pod, i int) { p.Labels = labelsOf(fmt.Sprintf("app=a%d", i%manyApps)) },
		} {
			b.Run(fmt.Sprintf("local-%d/%s", local, name), func(b *testing.B) {
				node := newHost(b, "node")
				must(b, node.do(func() error {
					o := manyPods(1000, local, 200)
					rules := Decide(o)
					if err := (Table{}).Replace(rules); err != nil {
						return err
					}
					i := 0
					for b.Loop() {
						i++
						change(&o.Pods[local/2], i)
						next := Decide(o)
						if err := (Table{}).Apply(Diff(rules, next)); err != nil {
							return err
						}
						rules = next
					}
					return nil
				}))
			})
		}
		b.Run(fmt.Sprintf("local-%d/first", local), func(b *testing.B) {
			node := newHost(b, "node")
			must(b, node.do(func() error {
				for b.Loop() {
					if err := (Table{}).Replace(Decide(manyPods(1000, local, 200))); err != nil {
						return err
					}
				}
				return nil
			}))
		})
	}
}
