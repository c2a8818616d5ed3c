package tunnel

import (
	"sync"

	"github.com/hashicorp/yamux"
)

// member is the session of a connected client.
type member struct {
	session *yamux.Session
	guard   *guard
}

// pool holds the sessions of the connected clients, the oldest first.
type pool struct {
	mu      sync.Mutex
	members []*member
	next    int
}

// add adds a session. Beyond maxSessions it removes and returns the oldest one: all clients have the certificate of the
// one Shoot, and a pod that replaces others must always be admitted.
func (p *pool) add(m *member) (evicted *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.members) >= maxSessions {
		evicted = p.members[0]
		p.members = p.members[1:]
	}
	p.members = append(p.members[:len(p.members):len(p.members)], m)
	return evicted
}

func (p *pool) remove(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.members {
		if p.members[i] == m {
			p.members = append(p.members[:i:i], p.members[i+1:]...)
			return
		}
	}
}

func (p *pool) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.members)
}

// streams returns the number of streams of all sessions, including half-closed ones.
func (p *pool) streams() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, m := range p.members {
		n += m.session.NumStreams()
	}
	return n
}

// order returns the sessions in the order in which a request should try them. Each call begins with the next one.
func (p *pool) order() []*member {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.members)
	out := make([]*member, 0, n)
	for i := range n {
		if m := p.members[(p.next+i)%n]; !m.session.IsClosed() {
			out = append(out, m)
		}
	}
	p.next++
	return out
}
