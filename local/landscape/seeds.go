package landscape

import (
	"context"
	"fmt"
	"path/filepath"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/local/landscape/cluster"
)

const (
	internalDomain = "internal.local.hortus.dev"
	defaultDomain  = "local.hortus.dev"
)

// installSeeds installs a gardenlet into each cluster, which registers it, and waits until both seeds are ready.
func (l *installation) installSeeds(ctx context.Context) error {
	err := l.inSeeds(ctx, func(ctx context.Context, k *kubernetesCluster) error {
		kubeconfig, err := l.gardenletKubeconfig(k.spec.seed)
		if err != nil {
			return err
		}
		return k.install(ctx, "gardenlet", gardenNamespace, map[string]any{
			"image":            l.image,
			"replicas":         1,
			"gardenKubeconfig": string(kubeconfig),
			"config": map[string]any{
				"seedConfig": l.seedTemplate(k),
				// On one machine it makes no sense to wait five minutes for a seed that may be alive.
				"controllers": map[string]any{"shoot": map[string]any{"fenceTime": "2m"}},
			},
		})
	})
	if err != nil {
		return err
	}
	return l.inSeeds(ctx, func(ctx context.Context, k *kubernetesCluster) error {
		if err := k.waitRolledOut(ctx, gardenNamespace, "gardenlet"); err != nil {
			return err
		}
		return retry(ctx, clusterStart, func(ctx context.Context) error { return l.seedReady(ctx, k.spec.seed) })
	})
}

// gardenletKubeconfig returns a kubeconfig whose identity confines a gardenlet to its own seed.
func (l *installation) gardenletKubeconfig(seed string) ([]byte, error) {
	ca, err := pki.LoadCA(l.garden.pki.CA.CertPEM, l.garden.pki.CA.KeyPEM, clock.RealClock{})
	if err != nil {
		return nil, fmt.Errorf("load the garden's certificate authority: %w", err)
	}
	path := filepath.Join(l.options.StateDir, "landscape", "gardenlet-"+seed+".json")
	pair, err := loadAndRenew(path, empty[pki.KeyPair], func(pair *pki.KeyPair) (bool, error) {
		return renewGardenlet(pair, seed, ca, clock.RealClock{})
	})
	if err != nil {
		return nil, err
	}
	return pki.Kubeconfig{
		Name: "garden", Server: "https://" + l.garden.spec.apiAddress, CAPEM: ca.CertPEM, Client: pair,
	}.Render()
}

// renewGardenlet replaces the first certificate of a gardenlet if it is due, and reports whether it was.
func renewGardenlet(pair *pki.KeyPair, seed string, ca *pki.CA, c clock.PassiveClock) (bool, error) {
	return cluster.Renew([]cluster.Leaf{{Into: pair, By: ca, Request: pki.Request{
		CommonName: "gardener.cloud:system:seed:" + seed, Organizations: []string{"gardener.cloud:system:seeds"},
		Usage: pki.Client, Validity: halfLife(ca),
	}}}, c)
}

// seedTemplate is the Seed that the gardenlet registers.
func (l *installation) seedTemplate(k *kubernetesCluster) map[string]any {
	credentials := map[string]any{
		"apiVersion": "v1", "kind": "Secret", "namespace": gardenNamespace, "name": "local-cloud",
	}
	values := clusterValues(k.spec, l.about)
	zones := make([]any, 0, len(l.about.Zones))
	for _, zone := range l.about.Zones {
		zones = append(zones, zone)
	}
	// Blocked for tenants: the cloud's API, and the API servers of the landscape's own clusters.
	blocked := []any{publicAddress + "/32"}
	for _, c := range clusters {
		blocked = append(blocked, c.apiAddress+"/32")
	}
	return map[string]any{
		"metadata": map[string]any{"name": k.spec.seed},
		"spec": map[string]any{
			"provider": map[string]any{"type": "local", "region": l.about.Region, "zones": zones},
			"networks": map[string]any{
				"nodes": k.spec.cidr, "pods": values.PodCIDR, "services": values.ServiceCIDR,
				"shootDefaults": map[string]any{"pods": "100.96.0.0/16", "services": "100.64.0.0/16"},
				"blockCIDRs":    blocked,
			},
			"dns": map[string]any{
				"provider": map[string]any{"type": "local", "credentialsRef": credentials},
				"internal": map[string]any{"type": "local", "domain": internalDomain, "credentialsRef": credentials},
				"defaults": []any{map[string]any{"type": "local", "domain": defaultDomain, "credentialsRef": credentials}},
			},
			"backup": map[string]any{"provider": "local", "credentialsRef": credentials},
			"ingress": map[string]any{
				"domain": "ingress." + k.spec.seed + "." + defaultDomain, "controller": map[string]any{"kind": "nginx"},
			},
		},
	}
}

func (l *installation) seedReady(ctx context.Context, name string) error {
	var seed corev1beta1.Seed
	if err := l.garden.client.Get(ctx, client.ObjectKey{Name: name}, &seed); err != nil {
		return fmt.Errorf("read Seed %s: %w", name, err)
	}
	if seed.Status.ObservedGeneration != seed.Generation {
		return fmt.Errorf("Seed %s: the gardenlet has not reconciled it yet", name)
	}
	for _, wanted := range []corev1beta1.ConditionType{
		"GardenletReady", "SeedSystemComponentsHealthy", "ExtensionsReady", "BackupBucketsReady",
	} {
		found := false
		for _, c := range seed.Status.Conditions {
			if c.Type != wanted {
				continue
			}
			found = true
			if c.Status != corev1beta1.ConditionTrue {
				return fmt.Errorf("Seed %s is not ready: %s is %s: %s", name, c.Type, c.Status, c.Message)
			}
		}
		if !found {
			return fmt.Errorf("Seed %s has no condition %s yet", name, wanted)
		}
	}
	return nil
}
