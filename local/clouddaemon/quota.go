package clouddaemon

import (
	api "hortus.dev/hortus/local/cloud"
)

// usage returns the resource usage of an account. Terminating instances do not count: their quota is released as soon
// as the deletion is accepted, as in public clouds.
func usage(s *store, account string, types map[string]api.MachineType) api.Limits {
	var used api.Limits
	for _, i := range s.instances.rows {
		if i.Account == account && i.State != api.StateTerminating {
			used.Instances++
			used.CPU += types[i.MachineType].CPU
			used.MemoryBytes += types[i.MachineType].MemoryBytes
		}
	}
	for _, l := range s.loadBalancers.rows {
		if l.Account == account && l.State != api.StateTerminating {
			used.LoadBalancers++
		}
	}
	for _, n := range s.networks.rows {
		if n.Account == account && n.State != api.StateTerminating {
			used.Networks++
		}
	}
	for _, v := range s.volumes.rows {
		if v.Account == account && v.State != api.StateTerminating {
			used.VolumeBytes += v.SizeBytes
		}
	}
	return used
}

// checkQuota returns QuotaExceeded if the sum of used and more exceeds a limit. A limit of 0 means no limit.
func checkQuota(account string, limits, used, more api.Limits) error {
	for _, c := range []struct {
		what              string
		limit, used, more int64
	}{
		{"instances", int64(limits.Instances), int64(used.Instances), int64(more.Instances)},
		{"cpu", int64(limits.CPU), int64(used.CPU), int64(more.CPU)},
		{"memory bytes", limits.MemoryBytes, used.MemoryBytes, more.MemoryBytes},
		{"load balancers", int64(limits.LoadBalancers), int64(used.LoadBalancers), int64(more.LoadBalancers)},
		{"networks", int64(limits.Networks), int64(used.Networks), int64(more.Networks)},
		{"volume bytes", limits.VolumeBytes, used.VolumeBytes, more.VolumeBytes},
	} {
		if c.limit > 0 && c.more > 0 && c.used+c.more > c.limit {
			return api.Errorf(api.CodeQuotaExceeded,
				"Quota exceeded for %s of account %q: %d in use, %d more requested, limit %d",
				c.what, account, c.used, c.more, c.limit)
		}
	}
	return nil
}

func (c *Cloud) requireQuota(account string, more api.Limits) error {
	limits, ok := c.store.limits.get(account)
	if !ok {
		return nil
	}
	return checkQuota(account, limits.Limits, usage(c.store, account, c.machineTypes), more)
}
