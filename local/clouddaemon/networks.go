package clouddaemon

import (
	"net/netip"

	api "hortus.dev/hortus/local/cloud"
)

func (c *Cloud) createNetwork(who caller, in api.CreateNetwork) (*api.Network, error) {
	if !freeName.MatchString(in.Name) {
		return nil, invalid("name: invalid value: %q (%s)", in.Name, freeNameRule)
	}
	if err := validateTags(in.Tags); err != nil {
		return nil, err
	}
	var out api.Network
	err := c.store.update(func(tx *tx) error {
		if old, ok := c.store.networks.byName(nameKey(who.account, in.Name)); ok {
			out = old.Network
			return repeated("network", in.Name, hash(in), old.RequestHash, old.State)
		}
		if err := c.requireQuota(who.account, api.Limits{Networks: 1}); err != nil {
			return err
		}
		prefix, err := c.networkCIDR(in.CIDR)
		if err != nil {
			return err
		}
		used := map[string]bool{}
		for _, n := range c.store.networks.rows {
			used[n.UplinkAddress] = true
		}
		uplink, ok := nextAddress(c.cfg.Public, uplinkFirst, uplinkLast, "", used)
		if !ok {
			return api.Errorf(api.CodeDepleted, "uplinkAddress: none is free (%s to %s)",
				addressAt(c.cfg.Public, uplinkFirst), addressAt(c.cfg.Public, uplinkLast))
		}
		id, err := c.newID("net-", func(id string) bool { _, ok := c.store.networks.get(id); return ok })
		if err != nil {
			return err
		}
		out = api.Network{
			ID: id, Name: in.Name, Account: who.account, CIDR: prefix.String(),
			Gateway: addressAt(prefix, gatewayOffset).String(),
			Tags:    in.Tags, UplinkAddress: uplink, State: api.StatePending, CreatedAt: c.clock.Now().UTC(),
		}
		c.store.networks.put(tx, id, network{Network: out, RequestHash: hash(in)})
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.enqueue(kindNetwork, out.ID)
	return &out, nil
}

// networkCIDR checks the requested CIDR, or picks one.
func (c *Cloud) networkCIDR(wanted string) (netip.Prefix, error) {
	if wanted != "" {
		return parseNetworkCIDR(wanted)
	}
	var taken []netip.Prefix
	for _, n := range c.store.networks.rows {
		taken = append(taken, netip.MustParsePrefix(n.CIDR))
	}
	return pickNetworkCIDR(taken)
}

func (c *Cloud) networkOf(who caller, id string) (network, error) {
	n, ok := c.store.networks.get(id)
	if !ok || !who.may(n.Account) {
		return network{}, api.Errorf(api.CodeNotFound, "network: not found: %q", id)
	}
	return n, nil
}

func (c *Cloud) getNetwork(who caller, id string) (out *api.Network, err error) {
	c.store.view(func() {
		var n network
		if n, err = c.networkOf(who, id); err == nil {
			out = &n.Network
		}
	})
	return out, err
}

func (c *Cloud) listNetworks(who caller, f api.Filter) (out api.List[api.Network]) {
	out.Items = []api.Network{}
	c.store.view(func() {
		out.Revision = c.store.revision
		for _, n := range c.store.networks.sorted(func(n network) bool {
			return who.may(n.Account) && (f.Name == "" || f.Name == n.Name) && tagsMatch(n.Tags, f.Tags)
		}) {
			out.Items = append(out.Items, n.Network)
		}
	})
	return out
}

func (c *Cloud) deleteNetwork(who caller, id string) error {
	err := c.store.update(func(tx *tx) error {
		n, err := c.networkOf(who, id)
		if err != nil {
			return err
		}
		for _, i := range c.store.instances.sorted(func(i instance) bool { return i.NetworkID == id }) {
			return api.Errorf(api.CodeDependency, "network %q: still in use by: instance %q (%s)", id, i.ID, i.Name)
		}
		if n.State != api.StateTerminating {
			n.State, n.Message = api.StateTerminating, ""
			c.store.networks.put(tx, id, n)
		}
		return nil
	})
	if err == nil {
		c.enqueue(kindNetwork, id)
	}
	return err
}
