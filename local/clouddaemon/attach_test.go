package clouddaemon_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/cloudtest"
)

// volumeOf returns a volume from the cloud.
func volumeOf(t *testing.T, c *cloud.Client, id string) cloud.Volume {
	t.Helper()
	v, err := c.GetVolume(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return *v
}

// awaitVolume waits until a volume has a state at an instance, and the driver has attached these volumes to the
// instance.
func awaitVolume(t *testing.T, c *cloudtest.Cloud, id string, state cloud.State, instanceID string) {
	t.Helper()
	c.Eventually(t, id+" is "+string(state), func() bool {
		v := volumeOf(t, c.Client, id)
		return v.State == state && v.InstanceID == instanceID
	})
}

func expectVolumes(t *testing.T, c *cloudtest.Cloud, instanceID string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, c.Driver.Volumes(instanceID)); diff != "" {
		t.Errorf("volumes that %s sees (-want +got):\n%s", instanceID, diff)
	}
}

func TestVolumesMoveBetweenRunningInstances(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	ctx, api := t.Context(), c.Client
	network := c.Network(t, "n", "")
	a := createInstance(t, api, cloud.CreateInstance{Name: "a", NetworkID: network})
	b := createInstance(t, api, cloud.CreateInstance{Name: "b", NetworkID: network})
	v, err := api.CreateVolume(ctx, cloud.CreateVolume{Name: "v", SizeBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // The second call changes nothing.
		if _, err := api.AttachVolume(ctx, v.ID, a.ID); err != nil {
			t.Fatal(err)
		}
		awaitVolume(t, c, v.ID, cloud.StateAttached, a.ID)
	}
	expectVolumes(t, c, a.ID, v.ID)
	_, err = api.AttachVolume(ctx, v.ID, b.ID)
	expectCode(t, err, cloud.CodeDependency)
	expectCode(t, api.DeleteVolume(ctx, v.ID), cloud.CodeDependency)
	if _, err := api.DetachVolume(ctx, v.ID, b.ID); err != nil { // The volume does not exist.
		t.Fatal(err)
	}
	if got := volumeOf(t, api, v.ID); got.InstanceID != a.ID || got.State != cloud.StateAttached {
		t.Errorf("after a detachment from another instance the volume is %s at %q", got.State, got.InstanceID)
	}

	if err := api.RebootInstance(ctx, a.ID); err != nil {
		t.Fatal(err)
	}
	c.Eventually(t, "the instance has been started again", func() bool {
		i, err := api.GetInstance(ctx, a.ID)
		return err == nil && i.Boots == 2 && i.State == cloud.StateRunning
	})
	expectVolumes(t, c, a.ID, v.ID)
	c.Restart(t)
	api = c.Client
	c.Eventually(t, "the volume is there after a restart of the cloud",
		func() bool { return len(c.Driver.Volumes(a.ID)) == 1 })

	if _, err := api.DetachVolume(ctx, v.ID, a.ID); err != nil {
		t.Fatal(err)
	}
	awaitVolume(t, c, v.ID, cloud.StateAvailable, "")
	expectVolumes(t, c, a.ID)
	if _, err := api.AttachVolume(ctx, v.ID, b.ID); err != nil {
		t.Fatal(err)
	}
	awaitVolume(t, c, v.ID, cloud.StateAttached, b.ID)
	if err := api.DeleteInstance(ctx, b.ID); err != nil {
		t.Fatal(err)
	}
	awaitVolume(t, c, v.ID, cloud.StateAvailable, "")
	expectVolumes(t, c, b.ID)
	if err := api.DeleteVolume(ctx, v.ID); err != nil {
		t.Fatal(err)
	}
	c.Eventually(t, "the volume is gone", func() bool {
		_, err := api.GetVolume(ctx, v.ID)
		return cloud.IsNotFound(err)
	})
}

func TestVolumesOfOthersCannotBeAttached(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	ctx, alice, bob := t.Context(), c.As(t, "alice"), c.As(t, "bob")
	instanceOf := func(api *cloud.Client) string {
		network, err := api.CreateNetwork(ctx, cloud.CreateNetwork{Name: "n"})
		if err != nil {
			t.Fatal(err)
		}
		return createInstance(t, api, cloud.CreateInstance{Name: "a", NetworkID: network.ID}).ID
	}
	hers, his := instanceOf(alice), instanceOf(bob)
	v, err := alice.CreateVolume(ctx, cloud.CreateVolume{Name: "v", SizeBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		as       *cloud.Client
		instance string
	}{
		"her volume to his instance, by him":              {bob, his},
		"her volume to his instance, by her":              {alice, his},
		"her volume to his instance, by an administrator": {c.Client, his},
		"her volume to her instance, by him":              {bob, hers},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tc.as.AttachVolume(ctx, v.ID, tc.instance)
			expectCode(t, err, cloud.CodeNotFound)
		})
	}
	if _, err := alice.AttachVolume(ctx, v.ID, hers); err != nil {
		t.Fatal(err)
	}
	awaitVolume(t, c, v.ID, cloud.StateAttached, hers)
	_, err = bob.DetachVolume(ctx, v.ID, hers)
	expectCode(t, err, cloud.CodeNotFound)
	_, err = alice.AttachVolume(ctx, v.ID, "")
	expectCode(t, err, cloud.CodeInvalid)
}
