package cloud

import (
	"slices"

	api "hortus.dev/hortus/cloud"
)

func (c *Cloud) createVolume(who caller, in api.CreateVolume) (*api.Volume, error) {
	if !freeName.MatchString(in.Name) {
		return nil, invalid("name %q must begin with a letter or digit and go on with letters, digits, -, _ and .", in.Name)
	}
	if err := validateTags(in.Tags); err != nil {
		return nil, err
	}
	if in.Zone == "" {
		in.Zone = c.cfg.Zones[0]
	}
	if !slices.Contains(c.cfg.Zones, in.Zone) {
		return nil, invalid("zone %q does not exist in region %q", in.Zone, c.cfg.Region)
	}
	if in.SizeBytes <= 0 {
		return nil, invalid("sizeBytes %d must be positive", in.SizeBytes)
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
		return volume{}, api.Errorf(api.CodeNotFound, "volume %q does not exist", id)
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
			return api.Errorf(api.CodeDependency, "volume %q is attached to instance %q", id, v.InstanceID)
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

// volumePath is the directory behind a volume.
func (c *Cloud) volumePath(id string) string { return c.path("volumes", id) }
