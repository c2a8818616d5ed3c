package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"
)

const (
	// totalTimeout bounds name and connection together. API servers give up after 30 s at the latest, most webhooks
	// after 10 s, and should receive the error of this package rather than their own.
	totalTimeout = 10 * time.Second
	// addressTimeout bounds one address of several, so that a dead one leaves time for the next.
	addressTimeout = 4 * time.Second
	// maxAddresses bounds the addresses of a name that are dialled: an answer of DNS has room for thousands.
	maxAddresses = 8
)

// Dialer connects to what its Rules allow. It may be used concurrently.
type Dialer struct {
	Rules *Rules
	// Exempt reports whether a target, host:port exactly as requested, is dialled whatever the Rules say; nil exempts
	// none.
	Exempt func(target string) bool
	// Resolve returns the addresses of a name, the best first; nil uses the resolver of the process.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	// Dial connects to an IP address and port, or to an exempt target; nil is net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// DialContext connects to target, which is host:port with a name or an IP address and a port number other than 0. A
// name is resolved once; its allowed addresses are tried in turn. Errors are of type *Error.
func (d *Dialer) DialContext(ctx context.Context, target string) (net.Conn, error) {
	if d.Exempt != nil && d.Exempt(target) {
		return d.exempt(ctx, target)
	}
	host, port, err := split(target)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, totalTimeout)
	defer cancel()
	addresses, err := d.addresses(ctx, host)
	if err != nil {
		return nil, err
	}
	return d.first(ctx, addresses, port)
}

// exempt dials a target as any program does: search lists apply to its name.
func (d *Dialer) exempt(ctx context.Context, target string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, totalTimeout)
	defer cancel()
	conn, err := d.dial(ctx, target)
	if err != nil {
		return nil, unreached([]error{err})
	}
	return conn, nil
}

func (d *Dialer) dial(ctx context.Context, address string) (net.Conn, error) {
	if d.Dial != nil {
		return d.Dial(ctx, "tcp", address)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}

// split separates host and port. Ports are numbers: names of services are looked up in files, which is not needed.
func split(target string) (string, uint16, error) {
	host, text, err := net.SplitHostPort(target)
	if err != nil {
		return "", 0, &Error{Result: RefusedName, Reason: "the target must be host:port"}
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return "", 0, &Error{Result: RefusedName, Reason: "the port must be a number from 1 to 65535"}
	}
	return host, uint16(port), nil
}

// addresses returns at most maxAddresses that are allowed, in the order of preference, or an error if none is.
func (d *Dialer) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		if err := d.Rules.Check(addr); err != nil {
			return nil, err
		}
		return []netip.Addr{addr.Unmap()}, nil
	}
	name, err := d.Rules.CheckName(host)
	if err != nil {
		return nil, err
	}
	resolved, err := d.resolve(ctx, name)
	if err != nil {
		return nil, &Error{Result: Unresolved, Reason: "the name was not resolved", Expired: ctx.Err() != nil, Err: err}
	}
	return d.allowed(resolved)
}

// allowed keeps the addresses that pass. Others of the same name do no harm: with NAT64 every name has some.
func (d *Dialer) allowed(resolved []netip.Addr) ([]netip.Addr, error) {
	var out []netip.Addr
	var refusals []error
	for _, addr := range resolved {
		if err := d.Rules.Check(addr); err == nil && len(out) < maxAddresses {
			out = append(out, addr.Unmap())
		} else if err != nil && len(refusals) == 0 { // One is enough for the log.
			refusals = append(refusals, fmt.Errorf("%s: %w", addr, err))
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	if len(refusals) == 0 {
		return nil, &Error{Result: Unresolved, Reason: "the name has no address"}
	}
	return nil, &Error{Result: RefusedAddress, Reason: "the name has no address that is allowed", Err: refusals[0]}
}

func (d *Dialer) resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	if d.Resolve != nil {
		return d.Resolve(ctx, name)
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// first connects to the first address that answers.
func (d *Dialer) first(ctx context.Context, addresses []netip.Addr, port uint16) (net.Conn, error) {
	var errs []error
	for i, addr := range addresses {
		attempt, cancel := ctx, context.CancelFunc(func() {})
		if i < len(addresses)-1 {
			attempt, cancel = context.WithTimeout(ctx, addressTimeout)
		}
		conn, err := d.dial(attempt, netip.AddrPortFrom(addr, port).String())
		cancel()
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, unreached(errs)
}

// unreached sums up the attempts by the last one.
func unreached(errs []error) error {
	last := errs[len(errs)-1]
	e := &Error{Result: Failed, Reason: "the target was not reached", Err: errors.Join(errs...)}
	var timeout net.Error
	switch {
	case errors.Is(last, syscall.ECONNREFUSED):
		e.Reason = "the target refused the connection"
	case errors.Is(last, context.DeadlineExceeded), errors.As(last, &timeout) && timeout.Timeout():
		e.Reason, e.Expired = "the target did not answer in time", true
	}
	return e
}
