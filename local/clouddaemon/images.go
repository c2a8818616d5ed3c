package clouddaemon

import (
	"errors"
	"fmt"

	api "hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/registry"
)

// operationPrepareImage is the operation that faults of type building strike.
const operationPrepareImage = "PrepareImage"

// prepareImage begins the build of an image that is built on first use, and reports whether it can be pulled.
func (c *Cloud) prepareImage(name string, fault api.Fault) (*api.Image, error) {
	if fault.Type == api.FaultBuilding {
		return &api.Image{Name: name, Message: fmt.Sprintf("%s is being built: fault %q", name, fault.Name)}, nil
	}
	if c.images == nil {
		return nil, api.Errorf(api.CodeNotFound, "image %q does not exist: the cloud has no registry", name)
	}
	notYet, err := c.images.Prepare(name)
	switch {
	case errors.Is(err, registry.ErrUnknown):
		return nil, api.Errorf(api.CodeNotFound, "image %q does not exist", name)
	case err != nil:
		return nil, err
	case notYet != nil:
		return &api.Image{Name: name, Message: notYet.Error()}, nil
	}
	return &api.Image{Name: name, Ready: true}, nil
}
