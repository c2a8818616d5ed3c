package clouddaemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"

	api "hortus.dev/hortus/local/cloud"
)

// caller is the sender of a request.
type caller struct {
	account string
	admin   bool
	// bucket is the only bucket the credentials are for, empty if they are not limited.
	bucket string
}

func (who caller) may(account string) bool { return who.admin || who.account == account }

// repeated decides what a create call does when an object of that name exists: return it, or refuse.
func repeated(kind, name, hash, existingHash string, state api.State) error {
	if state == api.StateTerminating {
		return api.Errorf(api.CodeDependency, "%s %q: still being deleted", kind, name)
	}
	if hash != existingHash {
		return api.Errorf(api.CodeAlreadyExists, "%s %q: already exists with other parameters", kind, name)
	}
	return nil
}

func (c *Cloud) createInstance(ctx context.Context, who caller, in api.CreateInstance) (*api.Instance, error) {
	if err := validateInstance(in); err != nil {
		return nil, err
	}
	if in.Zone == "" {
		in.Zone = c.cfg.Zones[0]
	}
	if !slices.Contains(c.cfg.Zones, in.Zone) {
		return nil, invalid("zone: unsupported value: %q (%s)", in.Zone, strings.Join(c.cfg.Zones, ", "))
	}
	machineType, ok := c.machineTypes[in.MachineType]
	if !ok {
		return nil, invalid("machineType: unsupported value: %q (%s)", in.MachineType,
			strings.Join(slices.Sorted(maps.Keys(c.machineTypes)), ", "))
	}
	images, err := c.driver.Images(ctx)
	if err != nil {
		return nil, fmt.Errorf("list machine images: %w", err)
	}
	if !slices.ContainsFunc(images, func(i api.MachineImage) bool { return i.Name == in.Image }) {
		var names []string
		for _, i := range images {
			names = append(names, i.Name)
		}
		return nil, invalid("image: unsupported value: %q (%s)", in.Image, strings.Join(names, ", "))
	}

	var out api.Instance
	err = c.store.update(func(tx *tx) error {
		if old, ok := c.store.instances.byName(nameKey(who.account, in.Name)); ok {
			out = old.Instance
			return repeated("instance", in.Name, hash(in), old.RequestHash, old.State)
		}
		if err := c.requireQuota(who.account,
			api.Limits{Instances: 1, CPU: machineType.CPU, MemoryBytes: machineType.MemoryBytes}); err != nil {
			return err
		}
		n, ok := c.store.networks.get(in.NetworkID)
		if !ok || !who.may(n.Account) || n.State == api.StateTerminating {
			return invalid("networkID: not found: %q", in.NetworkID)
		}
		address, err := c.instanceAddress(n, in.Address)
		if err != nil {
			return err
		}
		id, err := c.newID("i-", func(id string) bool { _, ok := c.store.instances.get(id); return ok })
		if err != nil {
			return err
		}
		if err := c.attachVolumes(tx, who, id, in); err != nil {
			return err
		}
		if in.Address == "" {
			n.LastAddress = address
			c.store.networks.putQuietly(tx, n.ID, n) // Nothing that clients see has changed.
		}
		out = api.Instance{
			ID: id, Name: in.Name, Account: who.account, MachineType: in.MachineType, Image: in.Image, NetworkID: n.ID,
			Region: c.cfg.Region, Zone: in.Zone, Tags: in.Tags, Volumes: in.Volumes, Address: address, CIDR: n.CIDR,
			Gateway: n.Gateway, ProviderID: "local:///" + c.cfg.Region + "/" + id, State: api.StatePending,
			CreatedAt: c.clock.Now().UTC(),
		}
		if in.UserData != "" {
			tx.write(userDataBucket, id, in.UserData)
		}
		c.store.instances.put(tx, id, instance{Instance: out, RequestHash: hash(in)})
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.enqueue(kindInstance, out.ID)
	return &out, nil
}

// instanceAddress returns the wanted address if it is free, or else the next free one.
func (c *Cloud) instanceAddress(n network, wanted string) (string, error) {
	used := map[string]bool{n.Gateway: true}
	for _, i := range c.store.instances.rows {
		if i.NetworkID == n.ID {
			used[i.Address] = true
		}
	}
	prefix := netip.MustParsePrefix(n.CIDR)
	first, last := instanceRange(prefix)
	if wanted == "" {
		address, ok := nextAddress(prefix, first, last, n.LastAddress, used)
		if !ok {
			return "", api.Errorf(api.CodeQuotaExceeded, "Quota exceeded: network %q: no free address: %s", n.ID,
				n.CIDR)
		}
		return address, nil
	}
	a, err := netip.ParseAddr(wanted)
	if err != nil || !prefix.Contains(a) || offsetOf(prefix, a) < gatewayOffset || offsetOf(prefix, a) > last {
		return "", invalid("address: invalid value: %q (%s to %s)", wanted, addressAt(prefix, gatewayOffset),
			addressAt(prefix, last))
	}
	if used[wanted] {
		return "", invalid("address: already in use: %s in network %q", wanted, n.ID)
	}
	return wanted, nil
}

// attachVolumes marks the volumes of a new instance as used by it.
func (c *Cloud) attachVolumes(tx *tx, who caller, id string, in api.CreateInstance) error {
	for n, a := range in.Volumes {
		v, ok := c.store.volumes.get(a.VolumeID)
		switch {
		case !ok || !who.may(v.Account) || v.State == api.StateTerminating:
			return invalid("volumes[%d].volumeID: not found: %q", n, a.VolumeID)
		case v.InstanceID != "":
			return api.Errorf(api.CodeDependency, "volume %q: still attached to instance %q", v.ID, v.InstanceID)
		case v.Zone != in.Zone:
			return invalid("volumes[%d].volumeID: invalid value: %q of zone %q (volumes of zone %q)", n, v.ID, v.Zone, in.Zone)
		}
		v.InstanceID = id
		c.store.volumes.put(tx, v.ID, v)
	}
	return nil
}

// instanceOf returns an instance the caller may see.
func (c *Cloud) instanceOf(who caller, id string) (instance, error) {
	i, ok := c.store.instances.get(id)
	if !ok || !who.may(i.Account) {
		return instance{}, api.Errorf(api.CodeNotFound, "instance: not found: %q", id)
	}
	return i, nil
}

func (c *Cloud) getInstance(who caller, id string) (out *api.Instance, err error) {
	c.store.view(func() {
		var i instance
		if i, err = c.instanceOf(who, id); err == nil {
			out = &i.Instance
		}
	})
	return out, err
}

func (c *Cloud) listInstances(who caller, f api.Filter) (out api.List[api.Instance]) {
	out.Items = []api.Instance{}
	c.store.view(func() {
		out.Revision = c.store.revision
		for _, i := range c.store.instances.sorted(func(i instance) bool {
			return who.may(i.Account) && (f.Name == "" || f.Name == i.Name) &&
				(f.NetworkID == "" || f.NetworkID == i.NetworkID) && tagsMatch(i.Tags, f.Tags)
		}) {
			out.Items = append(out.Items, i.Instance)
		}
	})
	return out
}

// updateInstance replaces the user data of an instance and reboots it. A repeated request changes nothing.
func (c *Cloud) updateInstance(who caller, id string, in api.CreateInstance) (*api.Instance, error) {
	if err := validateInstance(in); err != nil {
		return nil, err
	}
	if in.Zone == "" {
		in.Zone = c.cfg.Zones[0]
	}
	var out api.Instance
	err := c.store.update(func(tx *tx) error {
		i, err := c.instanceOf(who, id)
		if err != nil {
			return err
		}
		out = i.Instance
		if i.RequestHash == hash(in) {
			return nil
		}
		if !sameButUserData(i.Instance, in) {
			return invalid("instance %q: parameters are immutable (except userData)", i.Name)
		}
		// An instance that is booting may already have read the old user data.
		if i.State != api.StateRunning {
			return api.Errorf(api.CodeDependency, "instance %q: unsuitable state: %s (%s)", id, i.State, api.StateRunning)
		}
		i.RequestHash, i.Reboot = hash(in), true
		tx.write(userDataBucket, id, in.UserData)
		c.store.instances.put(tx, id, i)
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.enqueue(kindInstance, id)
	return &out, nil
}

// sameButUserData reports whether an instance matches a request, apart from its user data.
func sameButUserData(i api.Instance, in api.CreateInstance) bool {
	return i.Name == in.Name && i.MachineType == in.MachineType && i.Image == in.Image && i.NetworkID == in.NetworkID &&
		i.Zone == in.Zone &&
		(in.Address == "" || i.Address == in.Address) && maps.Equal(i.Tags, in.Tags) && slices.Equal(i.Volumes, in.Volumes)
}

func (c *Cloud) deleteInstance(who caller, id string) error {
	err := c.store.update(func(tx *tx) error {
		i, err := c.instanceOf(who, id)
		if err != nil {
			return err
		}
		if i.State != api.StateTerminating {
			i.State, i.Message = api.StateTerminating, ""
			c.store.instances.put(tx, id, i)
		}
		return nil
	})
	if err == nil {
		c.enqueue(kindInstance, id)
	}
	return err
}

func (c *Cloud) rebootInstance(who caller, id string) error {
	err := c.store.update(func(tx *tx) error {
		i, err := c.instanceOf(who, id)
		if err != nil {
			return err
		}
		if i.State != api.StateRunning {
			return api.Errorf(api.CodeDependency, "instance %q: unsuitable state: %s (%s)", id, i.State, api.StateRunning)
		}
		i.Reboot = true
		c.store.instances.put(tx, id, i)
		return nil
	})
	if err == nil {
		c.enqueue(kindInstance, id)
	}
	return err
}

// consoleLog opens the console log of an instance; tail limits it to the last bytes, 0 to all.
func (c *Cloud) consoleLog(who caller, id string, tail int64) (io.ReadCloser, error) {
	if _, err := c.getInstance(who, id); err != nil {
		return nil, err
	}
	f, err := os.Open(c.consolePath(id))
	if errors.Is(err, os.ErrNotExist) {
		return io.NopCloser(strings.NewReader("")), nil
	}
	if err != nil {
		return nil, fmt.Errorf("open console log: %w", err)
	}
	if info, err := f.Stat(); err == nil && tail > 0 && info.Size() > tail {
		if _, err := f.Seek(-tail, io.SeekEnd); err != nil {
			return nil, errors.Join(fmt.Errorf("seek in console log: %w", err), f.Close())
		}
	}
	return f, nil
}

func (c *Cloud) consolePath(id string) string { return c.path("instances", id, "console.log") }
