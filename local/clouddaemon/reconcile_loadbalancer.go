package clouddaemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	api "hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/proxy"
)

func (c *Cloud) reconcileLoadBalancer(ctx context.Context, id string) error {
	var l loadBalancer
	var ok bool
	var want proxy.Config
	c.store.view(func() {
		if l, ok = c.store.loadBalancers.get(id); ok {
			want = c.proxyConfig(l)
		}
	})
	if !ok {
		return nil
	}
	address := netip.MustParseAddr(l.Address)
	if l.State == api.StateTerminating {
		c.proxy.Remove(id)
		if err := c.fabric.RemoveAddress(ctx, address); err != nil {
			return fmt.Errorf("remove address of load balancer: %w", err)
		}
		return c.store.update(func(tx *tx) error { c.store.loadBalancers.remove(tx, id); return nil })
	}
	err := c.fabric.EnsureAddress(ctx, address)
	if err == nil && c.serves(address) {
		err = c.proxy.Apply(id, want)
	}
	state, message := api.StateAvailable, ""
	if err != nil {
		state, message = api.StatePending, err.Error()
	}
	updateErr := c.store.update(func(tx *tx) error {
		now, ok := c.store.loadBalancers.get(id)
		if ok && now.State != api.StateTerminating && (now.State != state || now.Message != message) {
			now.State, now.Message = state, message
			c.store.loadBalancers.put(tx, id, now)
		}
		return nil
	})
	return errors.Join(err, updateErr)
}

// serves reports whether connections to a load balancer address can reach this host: always, except when networks are
// records only. Loopback addresses can be used even then.
func (c *Cloud) serves(address netip.Addr) bool {
	return c.cfg.RealNetworks || address.IsLoopback()
}

// proxyConfig resolves the targets of a load balancer. Instances that are gone or lost are left out. The caller holds
// the store's lock.
func (c *Cloud) proxyConfig(l loadBalancer) proxy.Config {
	out := proxy.Config{
		Address:     netip.MustParseAddr(l.Address),
		Listeners:   map[int][]proxy.Target{},
		IdleTimeout: time.Duration(l.IdleTimeoutSeconds) * time.Second,
	}
	for _, cidr := range l.AllowedCIDRs {
		out.Allowed = append(out.Allowed, netip.MustParsePrefix(cidr))
	}
	for _, listener := range l.Listeners {
		targets := []proxy.Target{}
		for _, t := range listener.Targets {
			if t.Host != "" {
				targets = append(targets, proxy.Target{Address: net.JoinHostPort(t.Host, strconv.Itoa(t.Port))})
				continue
			}
			if i, ok := c.store.instances.get(t.InstanceID); ok && i.State != api.StateTerminating && i.State != api.StateLost {
				targets = append(targets, proxy.Target{
					Network: i.NetworkID, Instance: i.ID, Address: net.JoinHostPort(i.Address, strconv.Itoa(t.Port)),
				})
			}
		}
		out.Listeners[listener.Port] = targets
	}
	return out
}

// dialTarget connects to a target of a load balancer.
func (c *Cloud) dialTarget(ctx context.Context, t proxy.Target) (net.Conn, error) {
	if t.Network == "" {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", t.Address)
	}
	address, err := netip.ParseAddrPort(t.Address)
	if err != nil {
		return nil, fmt.Errorf("parse target address: %w", err)
	}
	return c.fabric.Dial(ctx, t.Network, address)
}
