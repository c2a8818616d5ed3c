// Package cluster decides how a member becomes part of its etcd cluster, and does it: it begins a new cluster, or joins
// one as a learner that is promoted once it has caught up.
package cluster

import (
	"fmt"
	"slices"
	"strings"
)

// Peer is another desired member.
type Peer struct {
	Name string
	// Reached says that its etcd or its process has answered.
	Reached bool
	// Runs says that its etcd answers requests that need a quorum: then Members are the members of the cluster.
	Runs bool
	// HasData says that its process found a data directory, whole or broken.
	HasData bool
}

// Member of the cluster.
type Member struct {
	ID      uint64
	Name    string // Empty until it has started for the first time.
	PeerURL string
	Learner bool
}

// Facts are the input of Decide.
type Facts struct {
	// Name and PeerURL of this member; First says that it is the one that may begin a cluster.
	Name, PeerURL string
	First         bool
	// HasData says that the data directory is intact; Broken that it exists but etcd cannot use it.
	HasData, Broken bool
	Peers           []Peer
	// Members of the running cluster, as a peer reports them; nil if no peer runs with a quorum.
	Members []Member
}

// Action is the action of a member before it starts etcd.
type Action string

// The actions.
const (
	// Start etcd with the data directory.
	Start Action = "Start"
	// Begin a cluster of one: restored from the backups, or empty if there are none.
	Begin Action = "Begin"
	// Join the running cluster with an empty data directory.
	Join Action = "Join"
	// Wait for other members.
	Wait Action = "Wait"
)

// Decision is an action and its reason.
type Decision struct {
	Action Action
	Reason string
	// Remove is the ID of this member's old identity, to be removed when it joins: with an empty data directory it must
	// not return under that identity, since it could contradict its earlier votes. 0 if there is none.
	Remove uint64
	// Initial is the flag --initial-cluster.
	Initial string
}

// Decide returns how a member becomes part of its cluster. A cluster is begun only if no member can have data: by the
// first member, when every other desired member reports that it has none. So there are never two clusters, and a backup
// never replaces data that a quorum has agreed on.
func Decide(f Facts) Decision {
	self := f.Name + "=" + f.PeerURL
	// Removed while it was away: its data is of no use.
	removed := f.HasData && f.Members != nil &&
		!slices.ContainsFunc(f.Members, func(m Member) bool { return m.Name == f.Name || m.PeerURL == f.PeerURL })
	switch {
	case f.HasData && !removed:
		return Decision{Action: Start, Reason: "the data directory is fine", Initial: self}
	case f.Members != nil:
		return join(f)
	}
	var silent, others []string
	for _, p := range f.Peers {
		switch {
		case !p.Reached:
			silent = append(silent, p.Name)
		case p.HasData || p.Runs:
			others = append(others, p.Name)
		}
	}
	slices.Sort(silent)
	slices.Sort(others)
	switch {
	case len(others) > 0:
		return Decision{
			Action: Wait, Reason: fmt.Sprintf("there is no data; %s has some, but there is no quorum",
				strings.Join(others, ", ")),
		}
	case !f.First:
		return Decision{Action: Wait, Reason: "there is no data, and the first member has not begun a cluster yet"}
	case len(silent) > 0:
		return Decision{
			Action: Wait, Reason: fmt.Sprintf("there is no data, and %s may have some, but does not answer",
				strings.Join(silent, ", ")),
		}
	}
	return Decision{Action: Begin, Reason: "no member has data", Initial: self}
}

func join(f Facts) Decision {
	d := Decision{Action: Join, Reason: "the others have a quorum"}
	initial := []string{f.Name + "=" + f.PeerURL}
	for _, m := range f.Members {
		switch {
		case m.Name == f.Name, m.PeerURL == f.PeerURL:
			d.Remove = m.ID
		case m.Name == "":
			return Decision{Action: Wait, Reason: fmt.Sprintf("another member is joining at %s", m.PeerURL)}
		case m.Learner:
			return Decision{Action: Wait, Reason: fmt.Sprintf("member %s is catching up", m.Name)}
		default:
			initial = append(initial, m.Name+"="+m.PeerURL)
		}
	}
	slices.Sort(initial)
	d.Initial = strings.Join(initial, ",")
	return d
}
