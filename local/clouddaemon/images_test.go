package clouddaemon_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/cloudtest"
	"hortus.dev/hortus/local/clouddaemon/registry"
)

// TestImagesAreBuiltBeforeTheyAreNeeded: PrepareImage begins the build of an image and does not wait for it.
func TestImagesAreBuiltBeforeTheyAreNeeded(t *testing.T) {
	const name = "hortus.dev/kubelet:v1.35.4"
	var asked, built atomic.Bool
	c := cloudtest.Start(t, cloudtest.Options{
		Layout: t.TempDir(),
		MakeImage: func(ctx context.Context, image string) error {
			switch {
			case image != name:
				return fmt.Errorf("%w %q", registry.ErrUnknown, image)
			case built.Load():
				return nil
			}
			asked.Store(true)
			<-ctx.Done() // A build would take minutes.
			return errors.New("the kubelet is being built")
		},
	})
	prepare := func(api *cloud.Client, cluster string, want cloud.Image) {
		t.Helper()
		want.Name = name
		got, err := api.PrepareImage(t.Context(), cloud.PrepareImage{Name: name, Cluster: cluster})
		if err != nil || *got != want {
			t.Errorf("PrepareImage() = %+v, %v, want %+v", got, err, want)
		}
	}
	user := c.As(t, "dev")
	prepare(user, "a", cloud.Image{Message: "the kubelet is being built"})
	if !asked.Load() {
		t.Error("the build did not begin")
	}
	built.Store(true)
	prepare(user, "a", cloud.Image{Ready: true})
	_, err := user.PrepareImage(t.Context(), cloud.PrepareImage{Name: "example.com/other:1"})
	expectCode(t, err, cloud.CodeNotFound)

	// A fault reports images as being built, here to one cluster.
	if _, err := c.Client.SetFault(t.Context(), cloud.Fault{
		Name: "f", Type: cloud.FaultBuilding, Operation: "PrepareImage", Target: "a",
	}); err != nil {
		t.Fatal(err)
	}
	prepare(user, "a", cloud.Image{Message: name + ` is being built: fault "f"`})
	prepare(user, "b", cloud.Image{Ready: true})
	if err := c.Client.DeleteFault(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	prepare(user, "a", cloud.Image{Ready: true})
	_, err = c.Client.SetFault(t.Context(), cloud.Fault{Type: cloud.FaultBuilding, Operation: "CreateInstance"})
	expectCode(t, err, cloud.CodeInvalid)
}

func TestCloudWithoutRegistryHasNoImages(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	_, err := c.Client.PrepareImage(t.Context(), cloud.PrepareImage{Name: "hortus.dev/kubelet:v1.35.4"})
	expectCode(t, err, cloud.CodeNotFound)
}
