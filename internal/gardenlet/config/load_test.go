package config

import (
	"strings"
	"testing"
	"time"
)

const minimal = `
apiVersion: gardenlet.config.gardener.cloud/v1alpha1
kind: GardenletConfiguration
gardenClientConnection: {kubeconfig: /etc/gardenlet/kubeconfig}
seedConfig:
  metadata: {name: local-1}
  spec: {provider: {type: local, region: local}}
`

func TestParseCompletes(t *testing.T) {
	c, err := Parse([]byte(minimal))
	if err != nil {
		t.Fatal(err)
	}
	s := c.Controllers.Shoot
	if *s.ConcurrentSyncs != 20 || s.SyncPeriod.Duration != time.Hour || s.RetryDuration.Duration != 12*time.Hour || *s.DNSEntryTTLSeconds != 120 {
		t.Errorf("shoot controller = %+v, want the documented defaults", s)
	}
	if c.SeedConfig.Name != "local-1" || c.SeedConfig.Spec.Provider.Type != "local" {
		t.Errorf("seedConfig = %+v", c.SeedConfig)
	}
	if !*c.LeaderElection.LeaderElect || c.Controllers.ShootCare.SyncPeriod.Duration != time.Minute {
		t.Errorf("leader election %t, care period %s", *c.LeaderElection.LeaderElect, c.Controllers.ShootCare.SyncPeriod.Duration)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ replace, by, want string }{
		"another kind":          {"GardenletConfiguration", "Other", "apiVersion and kind"},
		"an unknown field":      {"gardenClientConnection", "gardenConnection", "unknown field"},
		"a seed without a name": {"metadata: {name: local-1}", "metadata: {}", "seedConfig.metadata.name"},
		"no concurrency":        {"seedConfig:", "controllers: {shoot: {concurrentSyncs: 0}}\nseedConfig:", "concurrentSyncs"},
		"a bad quantity":        {"seedConfig:", "resources: {capacity: {shoots: many}}\nseedConfig:", "resources.capacity.shoots"},
		"an unknown log level":  {"seedConfig:", "logLevel: loud\nseedConfig:", "logLevel"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse([]byte(strings.Replace(minimal, tc.replace, tc.by, 1))); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Parse() = %v, want an error about %q", err, tc.want)
			}
		})
	}
}
