package seedauthorizer

import (
	"fmt"
	"slices"
	"strings"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Request is what a gardenlet or an extension asks for.
type Request struct {
	// Seed of the caller.
	Seed string
	// Extension: the caller is an extension in the seed, not the gardenlet.
	Extension bool

	Verb, Group, Resource, Subresource, Namespace, Name string
	// Fields and Labels are what the selectors of a list or watch demand to be equal to a value.
	Fields, Labels map[string]string
}

// Decision about a request.
type Decision string

// Decisions. NoOpinion leaves it to other authorizers.
const (
	Allow     Decision = "allow"
	Deny      Decision = "deny"
	NoOpinion Decision = "no opinion"
)

// Decide says whether a request stays within the caller's Seed. The reason of a refusal is for whoever has to find out
// why.
func Decide(r Request, g *Graph) (Decision, string) {
	rule := ruleFor(r.Group, r.Resource)
	if rule == nil {
		return NoOpinion, ""
	}
	if r.Seed == "" { // Else what belongs to no Seed would be the caller's own.
		return Deny, "the caller is not the gardenlet of any Seed"
	}
	for _, grant := range rule.grants {
		if grant.covers(r) && grant.where.holds(r, rule.kind, g) {
			return Allow, ""
		}
	}
	if r.Extension {
		return NoOpinion, "" // Operators may give extensions more by roles.
	}
	return Deny, fmt.Sprintf("the gardenlet of Seed %q may not %s this: %s", r.Seed, r.Verb, rule.describe(r))
}

// rule is about one resource.
type rule struct {
	group, resource string
	kind            Kind
	grants          []grant
}

// grant allows verbs where a relation holds.
type grant struct {
	verbs []string
	where relation
	// subresources: which of them; none means the resource itself.
	subresources []string
	// extensions: also those in the seed, not only the gardenlet.
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
	// A list of one object, by its name, shows what reading it does. A watch would go on showing it after it has left.
	return slices.Contains(g.verbs, r.Verb) || r.Verb == "list" && r.Name != "" && slices.Contains(g.verbs, "get")
}

// covers says whether the verb is allowed anywhere.
func (r *rule) covers(request Request) bool {
	return slices.ContainsFunc(r.grants, func(g grant) bool { return g.covers(request) })
}

// describe says where the verb is allowed.
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

// ownNamespace is the Seed's namespace in the garden.
func (r Request) ownNamespace() string { return corev1beta1.SeedNamespacePrefix + r.Seed }
