package clouddaemon

import (
	"net/netip"

	api "hortus.dev/hortus/local/cloud"
)

func (c *Cloud) createLoadBalancer(who caller, in api.CreateLoadBalancer) (*api.LoadBalancer, error) {
	if !freeName.MatchString(in.Name) {
		return nil, invalid("name: invalid value: %q (%s)", in.Name, freeNameRule)
	}
	if err := validateTags(in.Tags); err != nil {
		return nil, err
	}
	if err := validateListeners(in.Listeners, in.IdleTimeoutSeconds, who.admin); err != nil {
		return nil, err
	}
	if err := validateAllowed(in.AllowedCIDRs); err != nil {
		return nil, err
	}
	var out api.LoadBalancer
	err := c.store.update(func(tx *tx) error {
		// Listeners are not part of the identity, since they may change.
		identity := hash(struct{ Name, Address string }{in.Name, in.Address})
		if old, ok := c.store.loadBalancers.byName(nameKey(who.account, in.Name)); ok {
			out = old.LoadBalancer
			return repeated("load balancer", in.Name, identity, old.RequestHash, old.State)
		}
		if err := c.requireQuota(who.account, api.Limits{LoadBalancers: 1}); err != nil {
			return err
		}
		address, err := c.balancerAddress(in.Address)
		if err != nil {
			return err
		}
		if err := c.checkTargets(who, in.Listeners); err != nil {
			return err
		}
		id, err := c.newID("lb-", func(id string) bool { _, ok := c.store.loadBalancers.get(id); return ok })
		if err != nil {
			return err
		}
		out = api.LoadBalancer{
			ID: id, Name: in.Name, Account: who.account, Tags: in.Tags, Address: address, Listeners: orEmpty(in.Listeners),
			IdleTimeoutSeconds: in.IdleTimeoutSeconds, AllowedCIDRs: in.AllowedCIDRs, State: api.StatePending,
			CreatedAt: c.clock.Now().UTC(),
		}
		c.store.loadBalancers.put(tx, id, loadBalancer{LoadBalancer: out, RequestHash: identity})
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.enqueue(kindLoadBalancer, out.ID)
	return &out, nil
}

func orEmpty[T any](in []T) []T {
	if in == nil {
		return []T{}
	}
	return in
}

// balancerAddress returns the wanted address if it is free, or else the next free one.
func (c *Cloud) balancerAddress(wanted string) (string, error) {
	used := map[string]bool{}
	for _, l := range c.store.loadBalancers.sorted(nil) {
		used[l.Address] = true
	}
	if wanted == "" {
		address, ok := nextAddress(c.cfg.Public, balancerAuto, balancerLast, "", used)
		if !ok {
			return "", api.Errorf(api.CodeDepleted, "address: none is free (%s to %s)",
				addressAt(c.cfg.Public, balancerAuto), addressAt(c.cfg.Public, balancerLast))
		}
		return address, nil
	}
	a, err := netip.ParseAddr(wanted)
	if err != nil || !c.cfg.Public.Contains(a) || offsetOf(c.cfg.Public, a) < balancerFirst ||
		offsetOf(c.cfg.Public, a) > balancerLast {
		return "", invalid("address: invalid value: %q (%s to %s)", wanted,
			addressAt(c.cfg.Public, balancerFirst), addressAt(c.cfg.Public, balancerLast))
	}
	if used[wanted] {
		return "", invalid("address: already in use: %s by another load balancer", wanted)
	}
	return wanted, nil
}

// checkTargets verifies that target instances exist. Instances may be deleted later; the load balancer then skips them.
func (c *Cloud) checkTargets(who caller, listeners []api.Listener) error {
	for n, l := range listeners {
		for m, t := range l.Targets {
			if t.InstanceID == "" {
				continue
			}
			if i, ok := c.store.instances.get(t.InstanceID); !ok || !who.may(i.Account) {
				return invalid("listeners[%d].targets[%d].instanceID: not found: %q", n, m, t.InstanceID)
			}
		}
	}
	return nil
}

func (c *Cloud) balancerOf(who caller, id string) (loadBalancer, error) {
	l, ok := c.store.loadBalancers.get(id)
	if !ok || !who.may(l.Account) {
		return loadBalancer{}, api.Errorf(api.CodeNotFound, "load balancer: not found: %q", id)
	}
	return l, nil
}

func (c *Cloud) getLoadBalancer(who caller, id string) (out *api.LoadBalancer, err error) {
	c.store.view(func() {
		var l loadBalancer
		if l, err = c.balancerOf(who, id); err == nil {
			out = &l.LoadBalancer
		}
	})
	return out, err
}

func (c *Cloud) listLoadBalancers(who caller, f api.Filter) (out api.List[api.LoadBalancer]) {
	out.Items = []api.LoadBalancer{}
	c.store.view(func() {
		out.Revision = c.store.revision
		for _, l := range c.store.loadBalancers.sorted(func(l loadBalancer) bool {
			return who.may(l.Account) && (f.Name == "" || f.Name == l.Name) && tagsMatch(l.Tags, f.Tags)
		}) {
			out.Items = append(out.Items, l.LoadBalancer)
		}
	})
	return out
}

func (c *Cloud) updateLoadBalancer(who caller, id string, in api.UpdateLoadBalancer) (*api.LoadBalancer, error) {
	if err := validateListeners(in.Listeners, in.IdleTimeoutSeconds, who.admin); err != nil {
		return nil, err
	}
	if err := validateAllowed(in.AllowedCIDRs); err != nil {
		return nil, err
	}
	var out api.LoadBalancer
	err := c.store.update(func(tx *tx) error {
		l, err := c.balancerOf(who, id)
		if err != nil {
			return err
		}
		if l.State == api.StateTerminating {
			return api.Errorf(api.CodeDependency, "load balancer %q: being deleted", id)
		}
		if err := c.checkTargets(who, in.Listeners); err != nil {
			return err
		}
		before := hash(l.LoadBalancer)
		l.Listeners, l.IdleTimeoutSeconds = orEmpty(in.Listeners), in.IdleTimeoutSeconds
		l.AllowedCIDRs = in.AllowedCIDRs
		out = l.LoadBalancer
		if hash(out) != before {
			c.store.loadBalancers.put(tx, id, l)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.enqueue(kindLoadBalancer, id)
	return &out, nil
}

func (c *Cloud) deleteLoadBalancer(who caller, id string) error {
	err := c.store.update(func(tx *tx) error {
		l, err := c.balancerOf(who, id)
		if err != nil {
			return err
		}
		if l.State != api.StateTerminating {
			l.State, l.Message = api.StateTerminating, ""
			c.store.loadBalancers.put(tx, id, l)
		}
		return nil
	})
	if err == nil {
		c.enqueue(kindLoadBalancer, id)
	}
	return err
}
