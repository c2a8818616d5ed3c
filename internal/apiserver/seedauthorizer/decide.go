package seedauthorizer

import (
	"fmt"
	"slices"
	"strings"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Request is a request of a gardenlet or an extension.
type Request struct {
	// Seed of the caller.
	Seed string
	// Extension is true if the caller is an extension in the Seed, false for the gardenlet.
	Extension bool

	Verb, Group, Resource, Subresource, Namespace, Name string
	// Fields and Labels are the equality requirements of the selectors of a list or watch.
	Fields, Labels map[string]string
}

// Decision on a request.
type Decision string

// Decisions. NoOpinion leaves the request to other authorizers.
const (
	Allow     Decision = "allow"
	Deny      Decision = "deny"
	NoOpinion Decision = "no opinion"
)

// Decide decides whether a request is confined to the caller's Seed. The reason of a denial explains it to operators.
func Decide(r Request, g *Graph) (Decision, string) {
	rule := ruleFor(r.Group, r.Resource)
	if rule == nil {
		return NoOpinion, ""
	}
	if r.Seed == "" { // Objects that belong to no Seed would belong to it.
		return Deny, "the caller is not the gardenlet of any Seed"
	}
	for _, grant := range rule.grants {
		if grant.covers(r) && grant.where.holds(r, rule.kind, g) {
			return Allow, ""
		}
	}
	if r.Extension {
		return NoOpinion, "" // Roles may grant extensions more.
	}
	return Deny, fmt.Sprintf("the gardenlet of Seed %q may not %s this: %s", r.Seed, r.Verb, rule.describe(r))
}

// rule is the rule for one resource.
type rule struct {
	group, resource string
	kind            Kind
	grants          []grant
}

// grant allows verbs if a relation holds.
type grant struct {
	verbs []string
	where relation
	// subresources lists the subresources; nil means the resource itself.
	subresources []string
	// extensions is true if extensions in the Seed have the grant, too.
	extensions bool
}

func ruleFor(group, resource string) *rule {
	i := slices.IndexFunc(table, func(r rule) bool { return r.group == group && r.resource == resource })
	if i < 0 {
		return nil
	}
	return &table[i]
}

func (g grant) covers(r Request) bool {
	if r.Extension && !g.extensions {
		return false
	}
	if r.Subresource != "" && !slices.Contains(g.subresources, r.Subresource) || r.Subresource == "" &&
		g.subresources != nil && !slices.Contains(g.subresources, "") {
		return false
	}
	// A list of one object by its name exposes as much as get. A watch would continue after the object has left the Seed.
	return slices.Contains(g.verbs, r.Verb) || r.Verb == "list" && r.Name != "" && slices.Contains(g.verbs, "get")
}

// covers reports whether any grant has the verb.
func (r *rule) covers(request Request) bool {
	return slices.ContainsFunc(r.grants, func(g grant) bool { return g.covers(request) })
}

// describe returns the relations for which the verb is allowed.
func (r *rule) describe(request Request) string {
	var where []string
	for _, grant := range r.grants {
		if grant.covers(request) {
			where = append(where, grant.where.text)
		}
	}
	if where == nil {
		return "it is never allowed"
	}
	slices.Sort(where)
	return fmt.Sprintf("it is allowed only where the object is %s", strings.Join(slices.Compact(where), " or "))
}

// ownNamespace returns the Seed's namespace in the garden.
func (r Request) ownNamespace() string { return corev1beta1.SeedNamespacePrefix + r.Seed }
