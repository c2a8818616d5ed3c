package clouddaemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	api "hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/driver"
	"hortus.dev/hortus/local/clouddaemon/fabric"
)

// Paths inside an instance, part of the boot contract (package hortus.dev/hortus/cloud).
const (
	bootMount  = "/run/hortus-instance"
	stateMount = "/var/lib"
)

// maxConsoleBytes bounds a console log; a bigger one begins anew at the next resync.
const maxConsoleBytes = 8 << 20

// reconcileInstance brings one instance closer to its record and returns when to look again.
func (c *Cloud) reconcileInstance(ctx context.Context, id string) (time.Time, error) {
	var i instance
	var n network
	var ok bool
	var faults []api.Fault
	c.store.view(func() {
		if i, ok = c.store.instances.get(id); ok {
			n, _ = c.store.networks.get(i.NetworkID)
			for _, f := range c.store.faults.rows {
				faults = append(faults, f.Fault)
			}
		}
	})
	if !ok {
		return time.Time{}, nil
	}
	seen, err := c.driver.Observe(ctx, id)
	if err != nil {
		return time.Time{}, fmt.Errorf("observe instance: %w", err)
	}
	var volumesErr error
	if i.State != api.StateTerminating {
		volumesErr = c.reconcileVolumesOf(ctx, id)
	}
	now := c.clock.Now()
	lost, until := instanceLost(faults, i.ID, i.Name, i.Zone, now)
	d := decide(i, seen, lost, until, now)
	if d.Action != actionNothing && d.Action != actionWait {
		c.log.Info("Acting on instance", "instance", id, "name", i.Name, "action", string(d.Action), "reason", d.Reason)
	}
	switch d.Action {
	case actionRemove:
		return d.At, c.removeInstance(ctx, i)
	case actionTakeAway:
		err = errors.Join(c.driver.Stop(ctx, id), c.fabric.Detach(ctx, id))
		if err == nil {
			err = c.changeInstance(id, func(i instance) instance {
				i.State, i.Message, i.Reboot = api.StateLost, d.Reason, false
				return i
			})
			c.enqueueBalancersOf(id) // Their connections would hang until keep-alive finds out.
		}
	case actionReboot:
		if err = c.driver.Stop(ctx, id); err == nil {
			err = c.changeInstance(id, func(i instance) instance { return afterExit(i, d.Reason, now) })
			d.At = now // Boot in the next round.
		}
	case actionExited:
		err = c.changeInstance(id, func(i instance) instance { return afterExit(i, d.Reason, now) })
		d.At = now
	case actionRunning:
		err = c.changeInstance(id, func(i instance) instance {
			i.State, i.Message, i.Reboot = api.StateRunning, "", false
			return i
		})
		c.enqueueBalancersOf(id) // The instance may have been lost before.
	case actionNothing:
		err = c.trimConsole(id)
	case actionBoot:
		if n.State != api.StateAvailable {
			return time.Time{}, volumesErr // The network's reconciler enqueues its instances.
		}
		if volumesErr == nil {
			err = c.bootInstance(ctx, i, n)
		}
	}
	return d.At, errors.Join(err, volumesErr)
}

// changeInstance changes the record of an instance, unless its deletion has begun.
func (c *Cloud) changeInstance(id string, change func(instance) instance) error {
	return c.store.update(func(tx *tx) error {
		if i, ok := c.store.instances.get(id); ok && i.State != api.StateTerminating {
			c.store.instances.put(tx, id, change(i))
		}
		return nil
	})
}

// bootInstance starts an instance and notes it. If it is cut off in between, the next round finds the instance running.
func (c *Cloud) bootInstance(ctx context.Context, i instance, n network) error {
	err := c.startInstance(ctx, i, n)
	noteErr := c.changeInstance(i.ID, func(i instance) instance {
		i.Message = ""
		if err != nil {
			i.Message = err.Error()
			return i
		}
		i.Boots++
		i.StartedAt = c.clock.Now().UTC()
		i.State = api.StatePending
		return i
	})
	if err == nil {
		c.enqueue(kindInstance, i.ID) // Drivers whose instances run at once may not announce it.
	}
	return errors.Join(err, noteErr)
}

func (c *Cloud) startInstance(ctx context.Context, i instance, n network) error {
	prefix := netip.MustParsePrefix(n.CIDR)
	netns, err := c.fabric.Attach(ctx, fabric.Port{
		InstanceID: i.ID, NetworkID: n.ID, Address: netip.PrefixFrom(netip.MustParseAddr(i.Address), prefix.Bits()),
		Gateway: netip.MustParseAddr(n.Gateway),
	})
	if err != nil {
		return fmt.Errorf("attach instance to network: %w", err)
	}
	mounts, err := c.writeBootFiles(i)
	if err != nil {
		return err
	}
	t := c.machineTypes[i.MachineType]
	err = c.driver.Start(ctx, driver.Machine{
		ID: i.ID, Hostname: i.Name, Image: i.Image, CPU: t.CPU, MemoryBytes: t.MemoryBytes, NetNS: netns,
		ConsolePath: c.consolePath(i.ID), Mounts: mounts,
	})
	if err != nil {
		return fmt.Errorf("start instance: %w", err)
	}
	return nil
}

// writeBootFiles writes what the instance reads at boot and makes the directories that it gets mounted.
func (c *Cloud) writeBootFiles(i instance) ([]driver.Mount, error) {
	userData, err := c.store.userData(i.ID)
	if err != nil {
		return nil, fmt.Errorf("read user data: %w", err)
	}
	t := c.machineTypes[i.MachineType]
	metadata, err := json.MarshalIndent(api.Metadata{
		ID: i.ID, Name: i.Name, Address: i.Address, CIDR: i.CIDR, Gateway: i.Gateway, MachineType: i.MachineType, CPU: t.CPU,
		MemoryBytes: t.MemoryBytes, Region: i.Region, Zone: i.Zone, DNS: c.dnsAddress, Registry: c.endpoint,
		RegistryPassword: c.imagePassword(i.ID), ImageVersion: imageVersion(i.Image), ProviderID: i.ProviderID,
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode metadata: %w", err)
	}
	boot, lib := c.path("instances", i.ID, "boot"), c.path("instances", i.ID, "lib")
	mounts := []driver.Mount{{Source: boot, Target: bootMount, ReadOnly: true}, {Source: lib, Target: stateMount}}
	for _, v := range i.Volumes {
		mounts = append(mounts, driver.Mount{Source: c.volumePath(v.VolumeID), Target: v.Path})
	}
	mounts = append(mounts, driver.Mount{
		Source: c.attachedPath(i.ID), Target: api.VolumesDir, ReadOnly: true, Follows: true,
	})
	for _, m := range mounts {
		mode := os.FileMode(0o755)
		if m.Target == bootMount {
			mode = 0o700 // User data may hold secrets.
		}
		if err := os.MkdirAll(m.Source, mode); err != nil {
			return nil, fmt.Errorf("make directory for %s: %w", m.Target, err)
		}
	}
	for name, data := range map[string][]byte{"user-data": []byte(userData), "metadata.json": metadata, "ca.crt": c.ca} {
		if err := os.WriteFile(filepath.Join(boot, name), data, 0o600); err != nil {
			return nil, fmt.Errorf("write boot file: %w", err)
		}
	}
	return mounts, nil
}

// trimConsole empties a console log that has become too long. Its writer appends, so it can continue.
func (c *Cloud) trimConsole(id string) error {
	info, err := os.Stat(c.consolePath(id))
	if err != nil || info.Size() <= maxConsoleBytes {
		return nil // No log yet, or a short one.
	}
	if err := os.Truncate(c.consolePath(id), 0); err != nil {
		return fmt.Errorf("trim console log: %w", err)
	}
	return nil
}

// removeInstance removes an instance from the host and then its record. Load balancers drop it as a target.
func (c *Cloud) removeInstance(ctx context.Context, i instance) error {
	if err := c.removeTraces(ctx, i.ID); err != nil {
		return err
	}
	err := c.store.update(func(tx *tx) error {
		for _, v := range c.store.volumes.sorted(func(v volume) bool { return v.InstanceID == i.ID }) {
			v.InstanceID, v.State = "", api.StateAvailable
			c.store.volumes.put(tx, v.ID, v)
		}
		c.store.instances.remove(tx, i.ID)
		tx.write(userDataBucket, i.ID, nil)
		return nil
	})
	c.enqueueBalancersOf(i.ID)
	return err
}

func (c *Cloud) enqueueBalancersOf(instanceID string) {
	c.store.view(func() {
		for id, l := range c.store.loadBalancers.rows {
			if targets(l, instanceID) {
				c.enqueue(kindLoadBalancer, id)
			}
		}
	})
}

func targets(l loadBalancer, instanceID string) bool {
	return slices.ContainsFunc(l.Listeners, func(l api.Listener) bool {
		return slices.ContainsFunc(l.Targets, func(t api.Target) bool { return t.InstanceID == instanceID })
	})
}

// removeTraces removes everything that belongs to an instance from the host.
func (c *Cloud) removeTraces(ctx context.Context, id string) error {
	if err := c.driver.Remove(ctx, id); err != nil {
		return fmt.Errorf("remove instance: %w", err)
	}
	if err := c.fabric.Detach(ctx, id); err != nil {
		return fmt.Errorf("detach instance from its network: %w", err)
	}
	// Volumes come first: the content of a mounted volume would be removed, too.
	if err := c.driver.RemoveVolumes(ctx, id, c.attachedPath(id)); err != nil {
		return fmt.Errorf("take volumes out of instance: %w", err)
	}
	if err := os.RemoveAll(c.path("instances", id)); err != nil {
		return fmt.Errorf("remove files of instance: %w", err)
	}
	return nil
}
