package clouddaemon

import (
	"context"
	"fmt"
	"os"

	api "hortus.dev/hortus/local/cloud"
)

// reconcileVolume removes a volume whose deletion was accepted.
func (c *Cloud) reconcileVolume(id string) error {
	var v volume
	var ok bool
	c.store.view(func() { v, ok = c.store.volumes.get(id) })
	if !ok || v.State != api.StateTerminating {
		return nil
	}
	if err := os.RemoveAll(c.volumePath(id)); err != nil {
		return fmt.Errorf("remove content of volume: %w", err)
	}
	return c.store.update(func(tx *tx) error { c.store.volumes.remove(tx, id); return nil })
}

// reconcileVolumesOf makes those volumes appear in an instance that are attached to it by their records, makes all
// others disappear, and records the result.
func (c *Cloud) reconcileVolumesOf(ctx context.Context, instanceID string) error {
	var all []volume
	c.store.view(func() {
		for _, v := range c.store.volumes.rows {
			if v.InstanceID == instanceID {
				all = append(all, v)
			}
		}
	})
	want := map[string]string{}
	for _, v := range all {
		if v.State == api.StateAttaching || v.State == api.StateAttached {
			want[v.ID] = c.volumePath(v.ID)
			if err := ensureVolumeDirectory(want[v.ID]); err != nil {
				return err
			}
		}
	}
	if err := c.driver.SetVolumes(ctx, instanceID, c.attachedPath(instanceID), want); err != nil {
		return fmt.Errorf("set volumes of instance: %w", err)
	}
	return c.store.update(func(tx *tx) error {
		for _, seen := range all {
			now, ok := c.store.volumes.get(seen.ID)
			if !ok || now.InstanceID != instanceID || now.State != seen.State {
				continue // The volume has changed meanwhile, which triggers the next round.
			}
			if after := afterSetVolumes(now); after.State != now.State {
				c.store.volumes.put(tx, now.ID, after)
			}
		}
		return nil
	})
}

// afterSetVolumes is the record of a volume after the driver has carried it out.
func afterSetVolumes(v volume) volume {
	switch v.State {
	case api.StateAttaching:
		v.State = api.StateAttached
	case api.StateDetaching:
		v.State, v.InstanceID = api.StateAvailable, ""
	}
	return v
}

// ensureVolumeDirectory makes the directory behind a volume. Any user may write to a new one, as to the one disk of a
// pod.
func ensureVolumeDirectory(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(path, 0o777); err != nil {
		return fmt.Errorf("make directory of volume: %w", err)
	}
	if err := os.Chmod(path, 0o777); err != nil { //nolint:gosec // The umask must not keep the users of instances out.
		return fmt.Errorf("open directory of volume: %w", err)
	}
	return nil
}
