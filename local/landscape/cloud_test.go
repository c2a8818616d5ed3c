package landscape

import (
	"testing"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/cloudtest"
)

func TestInstancesRestartWithNewUserDataOnly(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	spec := clusterSpec{name: "garden", cidr: "10.1.0.0/24", address: "10.1.0.10"}
	var id string
	for _, up := range []struct {
		what, userData string
		boots          int
	}{
		{"the first up", "a", 1}, {"a second up", "a", 1}, {"an up with another kubelet", "b", 2},
		{"an up after that", "b", 2},
	} {
		made, err := ensureInstance(t.Context(), c.Client, spec, up.userData)
		if err != nil {
			t.Fatalf("%s: %v", up.what, err)
		}
		if err := waitInstance(t.Context(), c.Client, made.ID); err != nil {
			t.Fatal(err)
		}
		now, err := c.Client.GetInstance(t.Context(), made.ID)
		if err != nil {
			t.Fatal(err)
		}
		if id == "" {
			id = now.ID
		}
		if now.ID != id || now.Boots != up.boots || now.State != cloud.StateRunning {
			t.Errorf("after %s instance %s is %s with %d boots, want %s with %d", up.what, now.ID, now.State, now.Boots, id,
				up.boots)
		}
	}
}

func TestOtherInstancesAreNotReplaced(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	spec := clusterSpec{name: "garden", cidr: "10.1.0.0/24", address: "10.1.0.10"}
	if _, err := ensureInstance(t.Context(), c.Client, spec, "a"); err != nil {
		t.Fatal(err)
	}
	spec.address = "10.1.0.11"
	if _, err := ensureInstance(t.Context(), c.Client, spec, "a"); cloud.CodeOf(err) != cloud.CodeInvalid {
		t.Errorf("an instance with another address gives %v", err)
	}
}
