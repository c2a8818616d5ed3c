package clouddaemon

import (
	"slices"
	"strings"

	api "hortus.dev/hortus/local/cloud"
)

func (c *Cloud) createVolume(who caller, in api.CreateVolume) (*api.Volume, error) {
	if !freeName.MatchString(in.Name) {
		return nil, invalid("name: invalid value: %q (%s)", in.Name, freeNameRule)
	}
	if err := validateTags(in.Tags); err != nil {
		return nil, err
	}
	if in.Zone == "" {
		in.Zone = c.cfg.Zones[0]
	}
	if !slices.Contains(c.cfg.Zones, in.Zone) {
		return nil, invalid("zone: unsupported value: %q (%s)", in.Zone, strings.Join(c.cfg.Zones, ", "))
	}
	if in.SizeBytes <= 0 {
		return nil, invalid("sizeBytes: invalid value: %d (at least 1)", in.SizeBytes)
	}
	var out api.Volume
	err := c.store.update(func(tx *tx) error {
		if old, ok := c.store.volumes.byName(nameKey(who.account, in.Name)); ok {
			out = old.Volume
			return repeated("volume", in.Name, hash(in), old.RequestHash, old.State)
		}
		if err := c.requireQuota(who.account, api.Limits{VolumeBytes: in.SizeBytes}); err != nil {
			return err
		}
		id, err := c.newID("vol-", func(id string) bool { _, ok := c.store.volumes.get(id); return ok })
		if err != nil {
			return err
		}
		out = api.Volume{
			ID: id, Name: in.Name, Account: who.account, Zone: in.Zone, Tags: in.Tags, SizeBytes: in.SizeBytes,
			State: api.StateAvailable, CreatedAt: c.clock.Now().UTC(),
		}
		c.store.volumes.put(tx, id, volume{Volume: out, RequestHash: hash(in)})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &out, nil
}

func (c *Cloud) volumeOf(who caller, id string) (volume, error) {
	v, ok := c.store.volumes.get(id)
	if !ok || !who.may(v.Account) {
		return volume{}, api.Errorf(api.CodeNotFound, "volume: not found: %q", id)
	}
	return v, nil
}

func (c *Cloud) getVolume(who caller, id string) (out *api.Volume, err error) {
	c.store.view(func() {
		var v volume
		if v, err = c.volumeOf(who, id); err == nil {
			out = &v.Volume
		}
	})
	return out, err
}

func (c *Cloud) listVolumes(who caller, f api.Filter) (out api.List[api.Volume]) {
	out.Items = []api.Volume{}
	c.store.view(func() {
		out.Revision = c.store.revision
		for _, v := range c.store.volumes.sorted(func(v volume) bool {
			return who.may(v.Account) && (f.Name == "" || f.Name == v.Name) && tagsMatch(v.Tags, f.Tags)
		}) {
			out.Items = append(out.Items, v.Volume)
		}
	})
	return out
}

func (c *Cloud) deleteVolume(who caller, id string) error {
	err := c.store.update(func(tx *tx) error {
		v, err := c.volumeOf(who, id)
		if err != nil {
			return err
		}
		if v.InstanceID != "" {
			return api.Errorf(api.CodeDependency, "volume %q: still attached to instance %q", id, v.InstanceID)
		}
		v.State = api.StateTerminating
		c.store.volumes.put(tx, id, v)
		return nil
	})
	if err == nil {
		c.enqueue(kindVolume, id)
	}
	return err
}

// attachVolume attaches a volume to an instance. A repeated request changes nothing.
func (c *Cloud) attachVolume(who caller, id, instanceID string) (*api.Volume, error) {
	return c.changeAttachment(who, id, instanceID, attached)
}

// detachVolume detaches a volume from an instance. It changes nothing if the volume is not, or no longer, attached to
// this instance.
func (c *Cloud) detachVolume(who caller, id, instanceID string) (*api.Volume, error) {
	return c.changeAttachment(who, id, instanceID,
		func(v volume, _ instance) (volume, error) { return detached(v, instanceID) })
}

// changeAttachment replaces the record of a volume by the result of decide. The instance's record is empty if there is
// none that the caller may see.
func (c *Cloud) changeAttachment(
	who caller, id, instanceID string, decide func(volume, instance) (volume, error),
) (*api.Volume, error) {
	if instanceID == "" {
		return nil, invalid("instanceID: required")
	}
	var out api.Volume
	err := c.store.update(func(tx *tx) error {
		v, err := c.volumeOf(who, id)
		if err != nil {
			return err
		}
		i, _ := c.instanceOf(who, instanceID)
		after, err := decide(v, i)
		if err != nil {
			return err
		}
		out = after.Volume
		if after.State != v.State {
			c.store.volumes.put(tx, id, after)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.enqueue(kindInstance, instanceID)
	return &out, nil
}

// attached is the record of a volume whose attachment to an instance is accepted.
func attached(v volume, i instance) (volume, error) {
	switch {
	case v.State == api.StateTerminating:
		return v, api.Errorf(api.CodeNotFound, "volume %q: being deleted", v.ID)
	case i.ID == "" || i.Account != v.Account:
		return v, api.Errorf(api.CodeNotFound, "instanceID: not found in account %q", v.Account)
	case i.State == api.StateTerminating:
		return v, api.Errorf(api.CodeNotFound, "instance %q: being deleted", i.ID)
	case v.Zone != i.Zone:
		return v, invalid("instanceID: invalid value: %q of zone %q (instances of zone %q)", i.ID, i.Zone, v.Zone)
	case v.InstanceID != "" && v.InstanceID != i.ID:
		return v, api.Errorf(api.CodeDependency, "volume %q: still attached to instance %q", v.ID, v.InstanceID)
	case v.InstanceID == i.ID && v.State == api.StateAvailable:
		return v, invalid("volume %q: attached to instance %q since its creation", v.ID, i.ID)
	case v.State == api.StateAvailable || v.State == api.StateDetaching:
		v.State, v.InstanceID = api.StateAttaching, i.ID
	}
	return v, nil
}

// detached is the record of a volume whose detachment from an instance is accepted.
func detached(v volume, instanceID string) (volume, error) {
	switch {
	case v.InstanceID != instanceID:
		return v, nil
	case v.State == api.StateAvailable:
		return v, invalid("volume %q: attached to instance %q until the instance is deleted", v.ID, v.InstanceID)
	case v.State == api.StateAttaching || v.State == api.StateAttached:
		v.State = api.StateDetaching
	}
	return v, nil
}

// volumePath is the directory behind a volume.
func (c *Cloud) volumePath(id string) string { return c.path("volumes", id) }

// attachedPath returns the directory of the volumes that were attached to an instance after its creation.
func (c *Cloud) attachedPath(instanceID string) string {
	return c.path("instances", instanceID, "volumes")
}
