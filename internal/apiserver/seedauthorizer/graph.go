package seedauthorizer

import (
	"slices"
	"sync"
)

// Kind of an object in the graph.
type Kind string

// Kinds in the graph. Of kinds without relations only the names are stored.
const (
	BackupBucket              Kind = "BackupBucket"
	BackupEntry               Kind = "BackupEntry"
	Bastion                   Kind = "Bastion"
	CertificateSigningRequest Kind = "CertificateSigningRequest"
	ConfigMap                 Kind = "ConfigMap"
	ControllerDeployment      Kind = "ControllerDeployment"
	ControllerInstallation    Kind = "ControllerInstallation"
	CredentialsBinding        Kind = "CredentialsBinding"
	Gardenlet                 Kind = "Gardenlet"
	InternalSecret            Kind = "InternalSecret"
	ManagedSeed               Kind = "ManagedSeed"
	Namespace                 Kind = "Namespace"
	NamespacedCloudProfile    Kind = "NamespacedCloudProfile"
	Project                   Kind = "Project"
	Secret                    Kind = "Secret"
	SecretBinding             Kind = "SecretBinding"
	Seed                      Kind = "Seed"
	Shoot                     Kind = "Shoot"
	WorkloadIdentity          Kind = "WorkloadIdentity"
)

// passing lists the kinds whose needs are visible to everybody who may see the object. The needs of other kinds are
// visible to the object's own Seeds; they are counted per Seed, so that a lookup of a Secret of ten thousand Shoots
// visits none of them.
var passing = []Kind{BackupBucket, ControllerDeployment, CredentialsBinding, ManagedSeed, SecretBinding}

// Ref names an object.
type Ref struct {
	Kind            Kind
	Namespace, Name string
}

// Node holds the relations of an object.
type Node struct {
	// Seeds that the object belongs to: one, or two during a control plane migration.
	Seeds []string
	// UID of Shoots and Seeds, for ByUID.
	UID string
	// Needs are the objects that must be readable together with the object.
	Needs []Ref
	// With are objects that make this one visible: Seeds that may read one of them may read this object, too.
	With []Ref
}

// Graph of relations. It is safe for concurrent use. Its paths are short: only bindings, buckets, ControllerDeployments
// and ManagedSeeds are between an object and the Seeds that need it, and no path leads through a Seed or a Shoot. So
// there are no cycles.
type Graph struct {
	mu       sync.RWMutex
	vertices map[Ref]*vertex
	byUID    map[string]*vertex
	changed  chan struct{} // Closed and replaced at each change.
}

type vertex struct {
	ref Ref
	// present is true if the object itself is known, false if it is known only because others need it.
	present bool
	node    Node

	needs, with []*vertex
	shares      []share   // Of objects that need this one and are not passing.
	by          []*vertex // Passing objects that need this one.
	users       int       // Number of referring vertices; at 0 the vertex is removed unless present.
}

// share is the number of a Seed's objects that need a vertex.
type share struct {
	seed string
	n    int
}

// NewGraph returns an empty graph.
func NewGraph() *Graph {
	return &Graph{vertices: map[Ref]*vertex{}, byUID: map[string]*vertex{}, changed: make(chan struct{})}
}

// Set adds or replaces the relations of an object.
func (g *Graph) Set(ref Ref, node Node) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.set(ref, node) {
		g.announce()
	}
}

// Remove removes an object. The relations of objects that need it remain.
func (g *Graph) Remove(ref Ref) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.remove(ref) {
		g.announce()
	}
}

// Replace sets all objects of a kind and removes the others.
func (g *Graph) Replace(kind Kind, nodes map[Ref]Node) {
	g.mu.Lock()
	defer g.mu.Unlock()
	changed := false
	for ref, v := range g.vertices {
		if _, kept := nodes[ref]; ref.Kind == kind && v.present && !kept {
			changed = g.remove(ref) || changed
		}
	}
	for ref, node := range nodes {
		changed = g.set(ref, node) || changed
	}
	if changed {
		g.announce()
	}
}

// Changed returns a channel that is closed at the next change.
func (g *Graph) Changed() <-chan struct{} {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.changed
}

func (g *Graph) announce() {
	close(g.changed)
	g.changed = make(chan struct{})
}

func (g *Graph) set(ref Ref, node Node) bool {
	v := g.vertex(ref)
	if v.present && node.equal(v.node) {
		return false
	}
	g.unlink(v)
	v.present, v.node = true, node
	if node.UID != "" {
		g.byUID[node.UID] = v
	}
	passes := slices.Contains(passing, ref.Kind)
	for _, need := range node.Needs {
		n := g.vertex(need)
		n.users++
		v.needs = append(v.needs, n)
		if passes {
			n.by = append(n.by, v)
			continue
		}
		for _, seed := range node.Seeds {
			n.share(seed, 1)
		}
	}
	for _, with := range node.With {
		w := g.vertex(with)
		w.users++
		v.with = append(v.with, w)
	}
	return true
}

func (g *Graph) remove(ref Ref) bool {
	v, ok := g.vertices[ref]
	if !ok || !v.present {
		return false
	}
	g.unlink(v)
	v.present, v.node = false, Node{}
	g.collect(v)
	return true
}

// unlink removes the relations of a vertex to others.
func (g *Graph) unlink(v *vertex) {
	if v.node.UID != "" {
		delete(g.byUID, v.node.UID)
	}
	passes := slices.Contains(passing, v.ref.Kind)
	for _, n := range v.needs {
		n.users--
		if passes {
			if i := slices.Index(n.by, v); i >= 0 {
				n.by = slices.Delete(n.by, i, i+1)
			}
		} else {
			for _, seed := range v.node.Seeds {
				n.share(seed, -1)
			}
		}
		g.collect(n)
	}
	for _, w := range v.with {
		w.users--
		g.collect(w)
	}
	v.needs, v.with = nil, nil
}

func (g *Graph) collect(v *vertex) {
	if !v.present && v.users == 0 {
		delete(g.vertices, v.ref)
	}
}

func (g *Graph) vertex(ref Ref) *vertex {
	v, ok := g.vertices[ref]
	if !ok {
		v = &vertex{ref: ref}
		g.vertices[ref] = v
	}
	return v
}

func (v *vertex) share(seed string, n int) {
	i := slices.IndexFunc(v.shares, func(s share) bool { return s.seed == seed })
	switch {
	case i < 0:
		v.shares = append(v.shares, share{seed, n})
	case v.shares[i].n+n == 0:
		v.shares = slices.Delete(v.shares, i, i+1)
	default:
		v.shares[i].n += n
	}
}

func (n Node) equal(other Node) bool {
	return n.UID == other.UID && slices.Equal(n.Seeds, other.Seeds) && slices.Equal(n.Needs, other.Needs) &&
		slices.Equal(n.With, other.With)
}

// Belongs reports whether an object itself belongs to a Seed.
func (g *Graph) Belongs(ref Ref, seed string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	v, ok := g.vertices[ref]
	return ok && slices.Contains(v.node.Seeds, seed)
}

// Needed reports whether an object belongs to a Seed or is needed by an object of the Seed.
func (g *Graph) Needed(ref Ref, seed string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	v, ok := g.vertices[ref]
	return ok && v.neededOn(seed)
}

func (v *vertex) neededOn(seed string) bool {
	if slices.Contains(v.node.Seeds, seed) || slices.ContainsFunc(v.shares, func(s share) bool { return s.seed == seed }) {
		return true
	}
	onSeed := func(v *vertex) bool { return v.neededOn(seed) }
	return slices.ContainsFunc(v.with, onSeed) || slices.ContainsFunc(v.by, onSeed)
}

// ByUID returns the Shoot or Seed with a UID.
func (g *Graph) ByUID(uid string) (Ref, bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	v, ok := g.byUID[uid]
	if !ok {
		return Ref{}, false
	}
	return v.ref, true
}

// Len returns the number of vertices.
func (g *Graph) Len() int {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return len(g.vertices)
}
