package flow

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// node is a step together with what to do with it in one graph. The same step may be in a graph twice, once to ensure
// and once to remove.
type node[S any] struct {
	name    string
	after   []*node[S]
	skip    func(S) string
	atOnce  bool // Skipped without waiting for what it comes after.
	aside   bool // Nothing that Then appends waits for it.
	run     func(context.Context, S) (Outcome, error)
	limit   time.Duration
	recheck time.Duration
}

// Graph is an ordered plan: every node comes after all of its dependencies.
type Graph[S any] struct {
	nodes []*node[S]
}

// New returns the graph that ensures the given steps. A dependency that is not listed is replaced by its own
// dependencies, so that part of a flow can be run alone in the same order. The order of the list is kept where edges
// allow it. It panics if two steps share a name, since the outcome of one would hide the other's, and if a step has
// SkipAtOnce without SkipIf.
func New[S any](steps ...*Step[S]) *Graph[S] {
	return build(steps, func(s *Step[S]) *node[S] {
		if s.SkipAtOnce && s.SkipIf == nil {
			panic(fmt.Sprintf("flow: step %q has SkipAtOnce, but no SkipIf", s.Name))
		}
		return &node[S]{
			name: s.Name, skip: s.SkipIf, atOnce: s.SkipAtOnce, aside: s.Aside, run: s.Ensure, limit: s.Limit,
			recheck: s.Recheck,
		}
	}, predecessors(steps))
}

// Reverse returns the graph that removes the given steps, each after all steps that depend on it, directly or through
// steps that are not listed. Steps without Remove become barriers, which keeps the order between their neighbours.
// SkipIf is not used: what was created before a rule applied must be removed, too. Only skip decides; nil skips
// nothing.
func Reverse[S any](skip func(S) string, steps ...*Step[S]) *Graph[S] {
	before := predecessors(steps)
	backwards := slices.Clone(steps)
	slices.Reverse(backwards)
	dependents := map[*Step[S]][]*Step[S]{}
	for _, s := range backwards {
		for _, d := range before[s] {
			dependents[d] = append(dependents[d], s)
		}
	}
	return build(backwards, func(s *Step[S]) *node[S] {
		return &node[S]{name: "remove-" + s.Name, skip: skip, run: s.Remove, limit: s.Limit, recheck: s.Recheck}
	}, dependents)
}

// predecessors maps each listed step to the listed steps it comes after, each once, looking through those not listed.
func predecessors[S any](steps []*Step[S]) map[*Step[S]][]*Step[S] {
	listed := map[*Step[S]]bool{}
	for _, s := range steps {
		listed[s] = true
	}
	out := map[*Step[S]][]*Step[S]{}
	for _, s := range steps {
		seen := map[*Step[S]]bool{}
		var visit func(*Step[S])
		visit = func(from *Step[S]) {
			for _, d := range from.After {
				if seen[d] {
					continue
				}
				seen[d] = true
				if listed[d] {
					out[s] = append(out[s], d)
				} else {
					visit(d)
				}
			}
		}
		visit(s)
	}
	return out
}

func build[S any](steps []*Step[S], nodeOf func(*Step[S]) *node[S], after map[*Step[S]][]*Step[S]) *Graph[S] {
	nodes := map[*Step[S]]*node[S]{}
	names := map[string]bool{}
	for _, s := range steps {
		if nodes[s] != nil {
			continue
		}
		n := nodeOf(s)
		if names[n.name] {
			panic(fmt.Sprintf("flow: two steps are named %q", n.name))
		}
		names[n.name], nodes[s] = true, n
	}
	g := &Graph[S]{}
	seen := map[*Step[S]]bool{}
	var visit func(*Step[S])
	visit = func(s *Step[S]) {
		if seen[s] {
			return
		}
		seen[s] = true
		n := nodes[s]
		for _, d := range after[s] {
			visit(d)
			n.after = append(n.after, nodes[d])
		}
		g.nodes = append(g.nodes, n)
	}
	for _, s := range steps {
		visit(s)
	}
	return g
}

// Then appends next to g: every node of next without dependencies there waits for all last nodes of g, not counting
// those that stand aside. It returns a new graph; g and next must not be used any more. It panics if both have a node
// of the same name.
func (g *Graph[S]) Then(next *Graph[S]) *Graph[S] {
	has := map[string]bool{}
	isDependency := map[*node[S]]bool{}
	for _, n := range g.nodes {
		has[n.name] = true
		if n.aside {
			continue
		}
		for _, d := range n.after {
			isDependency[d] = true
		}
	}
	var last []*node[S]
	for _, n := range g.nodes {
		if !isDependency[n] && !n.aside {
			last = append(last, n)
		}
	}
	for _, n := range next.nodes {
		if has[n.name] {
			panic(fmt.Sprintf("flow: two nodes are named %q", n.name))
		}
		if len(n.after) == 0 {
			n.after = slices.Clone(last)
		}
	}
	return &Graph[S]{nodes: append(slices.Clone(g.nodes), next.nodes...)}
}

// Union joins two graphs without an edge between them. It panics if both have a node of the same name.
func (g *Graph[S]) Union(other *Graph[S]) *Graph[S] {
	for _, n := range other.nodes {
		for _, o := range g.nodes {
			if n.name == o.name {
				panic(fmt.Sprintf("flow: two nodes are named %q", n.name))
			}
		}
	}
	return &Graph[S]{nodes: append(slices.Clone(g.nodes), other.nodes...)}
}

// SkipAll adds a rule to every node: the node is also skipped when the rule returns a reason. It returns g.
func (g *Graph[S]) SkipAll(rule func(S) string) *Graph[S] {
	for _, n := range g.nodes {
		own := n.skip
		n.skip = func(s S) string {
			if reason := rule(s); reason != "" || own == nil {
				return reason
			}
			return own(s)
		}
	}
	return g
}

// Simulate returns the graph with one function in place of those of all steps, which gets their names; barriers remain.
// It is for tests of what follows from the order of the steps alone.
func (g *Graph[S]) Simulate(run func(step string) (Outcome, error)) *Graph[S] {
	for _, n := range g.nodes {
		if n.run != nil {
			n.run = func(context.Context, S) (Outcome, error) { return run(n.name) }
		}
	}
	return g
}

// Plan prints the graph for a scope, one node per line: its name, its dependencies, and the reason if it is skipped.
func (g *Graph[S]) Plan(scope S) string {
	var b strings.Builder
	for _, n := range g.nodes {
		b.WriteString(n.name)
		if len(n.after) > 0 {
			names := make([]string, 0, len(n.after))
			for _, d := range n.after {
				names = append(names, d.name)
			}
			b.WriteString(" <- " + strings.Join(names, ", "))
		}
		if n.skip != nil {
			if reason := n.skip(scope); reason != "" {
				how := "skipped"
				if n.atOnce {
					how = "skipped at once"
				}
				b.WriteString(" (" + how + ": " + reason + ")")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
