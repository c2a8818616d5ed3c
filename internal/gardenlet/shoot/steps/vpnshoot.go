package steps

import (
	"context"
	"fmt"

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
	After:  []*flow.Step[*Scope]{ShootNamespaces, VPNSeedServer, OperatingSystemConfig},
	SkipIf: when(workerless, asleep),
	Ensure: use3(ensureVPNShoot),
}

func ensureVPNShoot(ctx context.Context, s *Values, seed *SeedNamespace, secrets Secrets) (flow.Outcome, error) {
	ca, err := secrets.Bundle(nameCAVPN)
	if err != nil {
		return flow.Outcome{}, err
	}
	cert, err := secrets.Get(nameVPNShoot)
	if err != nil {
		return flow.Outcome{}, err
	}
	return flow.Done(), seed.applyShootResource(ctx, vpnshoot.ResourceName, vpnshoot.Render(vpnshoot.Values{
		Image:       s.Images.Hortus,
		Placement:   component.SystemComponents(s.Shoot.Spec.Provider.Workers),
		Gateway:     fmt.Sprintf("%s:%d", s.InternalHost(), gateway.PortConnect),
		Destination: tunnel.Destination(s.Namespace),
		CABundle:    ca.Data[secretsmanager.DataBundle],
		Cert:        cert.Data[secretsmanager.DataCert],
		Key:         cert.Data[secretsmanager.DataKey],
		Checksum:    ca.Name + "." + cert.Name,
	}))
}
