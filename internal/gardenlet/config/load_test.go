package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	if *s.ConcurrentSyncs != 20 || s.SyncPeriod.Duration != time.Hour || s.RetryDuration.Duration != 12*time.Hour ||
		*s.DNSEntryTTLSeconds != 120 {
		t.Errorf("shoot controller = %+v, want the documented defaults", s)
	}
	v := c.GardenClientConnection.KubeconfigValidity
	if v.Validity != nil || *v.AutoRotationJitterPercentageMin != 80 || *v.AutoRotationJitterPercentageMax != 90 {
		t.Errorf("kubeconfigValidity = %+v, want the documented defaults", v)
	}
	if c.SeedConfig.Name != "local-1" || c.SeedConfig.Spec.Provider.Type != "local" {
		t.Errorf("seedConfig = %+v", c.SeedConfig)
	}
	if health, metrics := c.Server.HealthProbes, c.Server.Metrics; health.BindAddress != "" ||
		metrics.BindAddress != "127.0.0.1" {
		t.Errorf("health is served on %q and metrics on %q, want all addresses of the pod and 127.0.0.1", health.BindAddress,
			metrics.BindAddress)
	}
	if !c.FeatureGates[NewWorkerPoolHash] {
		t.Error("NewWorkerPoolHash is off by default")
	}
	b, e := c.Controllers.BackupBucket, c.Controllers.BackupEntry
	if *b.ConcurrentSyncs != 20 || b.SyncPeriod.Duration != time.Minute || *e.ConcurrentSyncs != 20 ||
		*e.DeletionGracePeriodHours != 0 {
		t.Errorf("backup controllers = %+v and %+v, want the documented defaults", b, e)
	}
	if !*c.LeaderElection.LeaderElect || c.Controllers.ShootCare.SyncPeriod.Duration != time.Minute {
		t.Errorf("leader election %t, care period %s", *c.LeaderElection.LeaderElect,
			c.Controllers.ShootCare.SyncPeriod.Duration)
	}
}

func TestFeatureGatesAreSwitchedOff(t *testing.T) {
	c, err := Parse([]byte(minimal + "featureGates: {NewWorkerPoolHash: false}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c.FeatureGates[NewWorkerPoolHash] {
		t.Error("NewWorkerPoolHash is on although it was switched off")
	}
}

func TestParseRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ replace, by, want string }{
		"another kind":          {"GardenletConfiguration", "Other", `"Other" (gardenlet.config.gardener.cloud/v1alpha1, GardenletConfiguration)`},
		"an unknown field":      {"gardenClientConnection", "gardenConnection", "unknown field"},
		"a seed without a name": {"metadata: {name: local-1}", "metadata: {}", "seedConfig.metadata.name"},
		"no concurrency": {
			"seedConfig:", "controllers: {shoot: {concurrentSyncs: 0}}\nseedConfig:",
			"controllers.shoot.concurrentSyncs: invalid value: 0 (at least 1)",
		},
		"a bad quantity": {
			"seedConfig:", "resources: {capacity: {shoots: many}}\nseedConfig:", "resources.capacity.shoots",
		},
		"an unknown gate": {
			"seedConfig:", "featureGates: {Other: true}\nseedConfig:",
			`featureGates.Other: unknown feature gate (available: NewWorkerPoolHash)`,
		},
		"buckets without concurrency": {
			"seedConfig:", "controllers: {backupBucket: {concurrentSyncs: 0}}\nseedConfig:",
			"controllers.backupBucket.concurrentSyncs",
		},
		"entries without concurrency": {
			"seedConfig:", "controllers: {backupEntry: {concurrentSyncs: 0}}\nseedConfig:",
			"controllers.backupEntry.concurrentSyncs",
		},
		"credentials read too often": {
			"seedConfig:", "controllers: {backupBucket: {syncPeriod: 1s}}\nseedConfig:", "controllers.backupBucket.syncPeriod",
		},
		"a negative grace period": {
			"seedConfig:", "controllers: {backupEntry: {deletionGracePeriodHours: -1}}\nseedConfig:", "deletionGracePeriodHours",
		},
		"a grace period that overflows": {
			"seedConfig:", "controllers: {backupEntry: {deletionGracePeriodHours: 99999999}}\nseedConfig:",
			"deletionGracePeriodHours",
		},
		"an unknown purpose": {
			"seedConfig:", "controllers: {backupEntry: {deletionGracePeriodShootPurposes: [production, fun]}}\nseedConfig:",
			`deletionGracePeriodShootPurposes[1]: unknown purpose: "fun"`,
		},
		"a Secret without a namespace": {
			"kubeconfig: /etc/gardenlet/kubeconfig", "kubeconfigSecret: {name: a}",
			"gardenClientConnection.kubeconfigSecret.namespace: required value",
		},
		"a bootstrap kubeconfig without a Secret for the certificate": {
			"kubeconfig: /etc/gardenlet/kubeconfig", "bootstrapKubeconfig: {namespace: a, name: b}",
			"gardenClientConnection.kubeconfigSecret: required with gardenClientConnection.bootstrapKubeconfig",
		},
		"a bootstrap kubeconfig in addition to another one": {
			"kubeconfig: /etc/gardenlet/kubeconfig",
			"kubeconfig: /k, kubeconfigSecret: {namespace: a, name: c}, bootstrapKubeconfig: {namespace: a, name: b}",
			`gardenClientConnection.kubeconfig: forbidden with gardenClientConnection.bootstrapKubeconfig: "/k"`,
		},
		"a lifetime below the minimum": {
			"kubeconfig: /etc/gardenlet/kubeconfig", "kubeconfigValidity: {validity: 5m}", "kubeconfigValidity.validity",
		},
		"a renewal after the end": {
			"kubeconfig: /etc/gardenlet/kubeconfig", "kubeconfigValidity: {autoRotationJitterPercentageMax: 100}",
			"autoRotationJitterPercentageMax: invalid value: 100",
		},
		"a renewal that ends before it begins": {
			"kubeconfig: /etc/gardenlet/kubeconfig", "kubeconfigValidity: {autoRotationJitterPercentageMax: 70}",
			"autoRotationJitterPercentageMax: invalid value: 70 (autoRotationJitterPercentageMin, which is 80, to 99)",
		},
		"an unknown log level": {"seedConfig:", "logLevel: loud\nseedConfig:", `logLevel: unsupported value: "loud" (error, info, debug)`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse([]byte(strings.Replace(minimal, tc.replace, tc.by, 1))); err == nil ||
				!strings.Contains(err.Error(), tc.want) {
				t.Errorf("Parse() = %v, want an error about %q", err, tc.want)
			}
		})
	}
}

// TestErrorsAreSorted compares the whole text, which conditions and logs repeat, of a configuration with many problems.
func TestErrorsAreSorted(t *testing.T) {
	_, err := Parse([]byte(minimal + `
controllers:
  shoot: {concurrentSyncs: 0, retryDuration: 1s}
  shootCare: {concurrentSyncs: -1}
  controllerInstallation: {concurrentSyncs: 0}
  backupBucket: {concurrentSyncs: 0}
  backupEntry: {concurrentSyncs: 0}
  shootState: {concurrentSyncs: 0}
resources:
  capacity: {a: many, b: more, c: most}
  reserved: {d: few, e: fewer}
featureGates: {F: true, G: true, H: true}
`))
	want := `controllers.shoot.concurrentSyncs: invalid value: 0 (at least 1)
controllers.shootCare.concurrentSyncs: invalid value: -1 (at least 1)
controllers.controllerInstallation.concurrentSyncs: invalid value: 0 (at least 1)
controllers.backupBucket.concurrentSyncs: invalid value: 0 (at least 1)
controllers.backupEntry.concurrentSyncs: invalid value: 0 (at least 1)
controllers.shootState.concurrentSyncs: invalid value: 0 (at least 1)
controllers.shoot.retryDuration: invalid value: 1s (at least 1m0s)
resources.capacity.a: invalid value: "many" (a quantity such as 100 or 1Gi)
resources.capacity.b: invalid value: "more" (a quantity such as 100 or 1Gi)
resources.capacity.c: invalid value: "most" (a quantity such as 100 or 1Gi)
resources.reserved.d: invalid value: "few" (a quantity such as 100 or 1Gi)
resources.reserved.e: invalid value: "fewer" (a quantity such as 100 or 1Gi)
featureGates.F: unknown feature gate (available: NewWorkerPoolHash)
featureGates.G: unknown feature gate (available: NewWorkerPoolHash)
featureGates.H: unknown feature gate (available: NewWorkerPoolHash)`
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Errorf("Parse() mismatch (-want +got):\n%s", diff)
	}
}
