package tunnel

import (
	"sync"

	"github.com/hashicorp/yamux"
)

// pool holds the sessions of the connected clients.
type pool struct {
	mu       sync.Mutex
	sessions []*yamux.Session
	next     int
}

func (p *pool) add(s *yamux.Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions = append(p.sessions, s)
}

func (p *pool) remove(s *yamux.Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.sessions {
		if p.sessions[i] == s {
			p.sessions = append(p.sessions[:i:i], p.sessions[i+1:]...)
			return
		}
	}
}

func (p *pool) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.sessions)
}

// order returns the sessions in the order in which a request should try them. Each call begins with the next one.
func (p *pool) order() []*yamux.Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.sessions)
	out := make([]*yamux.Session, 0, n)
	for i := range n {
		if s := p.sessions[(p.next+i)%n]; !s.IsClosed() {
			out = append(out, s)
		}
	}
	p.next++
	return out
}

// closeAll ends every session and with them all their streams.
func (p *pool) closeAll() {
	p.mu.Lock()
	sessions := append([]*yamux.Session{}, p.sessions...)
	p.mu.Unlock()
	for _, s := range sessions {
		_ = s.Close()
	}
}
