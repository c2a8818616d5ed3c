package steps

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/component/gateway"
	"hortus.dev/hortus/internal/component/vpnshoot"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/secretsmanager"
	"hortus.dev/hortus/internal/tunnel"
)

// VPNShoot is the Shoot's end of the tunnel.
var VPNShoot = &flow.Step[*Scope]{
	Name:   "vpn-shoot",
	After:  []*flow.Step[*Scope]{ShootNamespaces, VPNSeedServer},
	SkipIf: workerlessOrAsleep,
	Ensure: shootResource(vpnshoot.ResourceName, renderVPNShoot),
}

func renderVPNShoot(_ context.Context, s *Scope) ([]client.Object, error) {
	ca, err := s.Secrets.Bundle(nameCAVPN)
	if err != nil {
		return nil, err
	}
	cert, err := s.Secrets.Get(nameVPNShoot)
	if err != nil {
		return nil, err
	}
	return vpnshoot.Render(vpnshoot.Values{
		Image:       s.Images.Hortus,
		Placement:   component.SystemComponents(s.Shoot.Spec.Provider.Workers),
		Gateway:     fmt.Sprintf("%s:%d", s.InternalHost(), gateway.PortConnect),
		Destination: tunnel.Destination(s.Namespace),
		CABundle:    ca.Data[secretsmanager.DataBundle],
		Cert:        cert.Data[secretsmanager.DataCert],
		Key:         cert.Data[secretsmanager.DataKey],
		Checksum:    ca.Name + "." + cert.Name,
	}), nil
}
