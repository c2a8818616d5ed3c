package seedauthorizer

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// patience is how long a denial is delayed for the graph to catch up: a gardenlet may have seen its new Shoot a moment
// earlier. Watch events arrive within milliseconds, and within this time on busy machines.
const patience = 300 * time.Millisecond

// maxWaiting is the maximum number of delayed denials per Seed, so that a misbehaving gardenlet does not exhaust the
// server's concurrent requests. Working gardenlets are rarely denied anything.
const maxWaiting = 10

// extensionUser matches the ServiceAccounts of extensions, which are in the namespaces of Seeds.
var extensionUser = regexp.MustCompile(`^system:serviceaccount:` + corev1beta1.SeedNamespacePrefix + `([^:]+):` +
	corev1beta1.ExtensionNamespacePrefix + `[^:]+$`)

// Identify returns the Seed that a user is confined to, and whether the user is an extension in that Seed.
func Identify(u user.Info) (seed string, extension, confined bool) {
	if u == nil {
		return "", false, false
	}
	if slices.Contains(u.GetGroups(), corev1beta1.SeedsGroup) {
		// A member of the group with another name is confined to the Seed with the empty name: to nothing.
		seed, _ := cutPrefix(u.GetName(), corev1beta1.SeedUserPrefix)
		return seed, false, true
	}
	if match := extensionUser.FindStringSubmatch(u.GetName()); match != nil {
		return match[1], true, true
	}
	return "", false, false
}

func cutPrefix(s, prefix string) (string, bool) {
	if len(s) <= len(prefix) || s[:len(prefix)] != prefix {
		return "", false
	}
	return s[len(prefix):], true
}

// Authorizer authorizes requests of gardenlets and of extensions in Seeds, and has no opinion on others.
type Authorizer struct {
	Graph *Graph
	Clock clock.Clock

	synced atomic.Bool

	mu      sync.Mutex
	waiting map[string]int // Delayed denials by Seed.
}

// New returns an authorizer that returns errors until Sync is called.
func New(clock clock.Clock) *Authorizer { return &Authorizer{Graph: NewGraph(), Clock: clock} }

// Sync records that the graph is filled.
func (a *Authorizer) Sync() { a.synced.Store(true) }

// Synced reports whether the graph is filled.
func (a *Authorizer) Synced() bool { return a.synced.Load() }

// Authorize implements authorizer.Authorizer.
func (a *Authorizer) Authorize(
	ctx context.Context, attributes authorizer.Attributes,
) (authorizer.Decision, string, error) {
	seed, extension, confined := Identify(attributes.GetUser())
	if !confined || !attributes.IsResourceRequest() {
		return authorizer.DecisionNoOpinion, "", nil
	}
	request := requestOf(attributes)
	request.Seed, request.Extension = seed, extension
	if ruleFor(request.Group, request.Resource) == nil {
		return authorizer.DecisionNoOpinion, "", nil
	}
	if !a.Synced() {
		return authorizer.DecisionDeny, "", fmt.Errorf("the objects of Seed %q are not known yet", seed)
	}
	decision, reason := a.decide(ctx, request)
	switch decision {
	case Allow:
		return authorizer.DecisionAllow, "", nil
	case Deny:
		klog.FromContext(ctx).Info("Refused a request of a gardenlet", "seed", seed, "verb", request.Verb, "group",
			request.Group,
			"resource", request.Resource, "subresource", request.Subresource, "namespace", request.Namespace, "name",
			request.Name, "reason", reason)
		return authorizer.DecisionDeny, reason, nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// decide allows a request at once. It denies a request at once if no state of the graph would allow it or too many
// denials of the Seed are delayed, and otherwise when the graph has had time to catch up.
func (a *Authorizer) decide(ctx context.Context, request Request) (Decision, string) {
	var late <-chan time.Time
	for {
		changed := a.Graph.Changed() // Before the decision, so that no change is missed.
		decision, reason := Decide(request, a.Graph)
		if decision == Allow {
			return decision, reason
		}
		if late == nil {
			if rule := ruleFor(request.Group, request.Resource); rule == nil || request.Seed == "" || !rule.covers(request) {
				return decision, reason
			}
			if !a.mayWait(request.Seed) {
				return decision, reason
			}
			defer a.waited(request.Seed)
			timer := a.Clock.NewTimer(patience)
			defer timer.Stop()
			late = timer.C()
		}
		select {
		case <-changed:
		case <-late:
			return decision, reason
		case <-ctx.Done():
			return decision, reason
		}
	}
}

func (a *Authorizer) mayWait(seed string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting[seed] >= maxWaiting {
		return false
	}
	if a.waiting == nil {
		a.waiting = map[string]int{}
	}
	a.waiting[seed]++
	return true
}

func (a *Authorizer) waited(seed string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting[seed]--; a.waiting[seed] == 0 {
		delete(a.waiting, seed)
	}
}

// MayRead reports whether the gardenlet of a Seed may read an object.
func (a *Authorizer) MayRead(ctx context.Context, seed string, ref Ref) bool {
	for i := range table {
		if table[i].kind != ref.Kind {
			continue
		}
		decision, _ := a.decide(ctx, Request{
			Seed: seed, Verb: "get", Group: table[i].group, Resource: table[i].resource, Namespace: ref.Namespace,
			Name: ref.Name,
		})
		return decision == Allow
	}
	return false
}

func requestOf(a authorizer.Attributes) Request {
	r := Request{
		Verb: a.GetVerb(), Group: a.GetAPIGroup(), Resource: a.GetResource(), Subresource: a.GetSubresource(),
		Namespace: a.GetNamespace(), Name: a.GetName(), Fields: map[string]string{}, Labels: map[string]string{},
	}
	// A selector that cannot be parsed adds no requirement, which allows less.
	if requirements, err := a.GetFieldSelector(); err == nil {
		for _, requirement := range requirements {
			if requirement.Operator == selection.Equals || requirement.Operator == selection.DoubleEquals ||
				requirement.Operator == selection.In {
				r.Fields[requirement.Field] = requirement.Value
			}
		}
	}
	if requirements, err := a.GetLabelSelector(); err == nil {
		for _, requirement := range requirements {
			switch requirement.Operator() {
			case selection.Equals, selection.DoubleEquals, selection.In:
				if values := requirement.ValuesUnsorted(); len(values) == 1 {
					r.Labels[requirement.Key()] = values[0]
				}
			}
		}
	}
	return r
}
