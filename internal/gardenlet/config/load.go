package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"hortus.dev/hortus/internal/image"
	"hortus.dev/hortus/internal/ownership"
)

// Load reads, defaults and validates the file.
func Load(path string) (*GardenletConfiguration, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	c, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	return c, nil
}

// Parse decodes, defaults and validates the content of the file. Unknown fields are an error, since a misspelt field
// would otherwise be ignored silently.
func Parse(data []byte) (*GardenletConfiguration, error) {
	c := &GardenletConfiguration{}
	if err := yaml.UnmarshalStrict(data, c); err != nil {
		return nil, err
	}
	SetDefaults(c)
	return c, Validate(c)
}

// SetDefaults sets the fields that are not set.
func SetDefaults(c *GardenletConfiguration) {
	setClientConnection(&c.GardenClientConnection.ClientConnection)
	validity := orNew(c.GardenClientConnection.KubeconfigValidity)
	c.GardenClientConnection.KubeconfigValidity = validity
	setDefault(&validity.AutoRotationJitterPercentageMin, 80)
	setDefault(&validity.AutoRotationJitterPercentageMax, max(*validity.AutoRotationJitterPercentageMin, 90))
	c.SeedClientConnection = orNew(c.SeedClientConnection)
	setClientConnection(c.SeedClientConnection)

	c.Controllers = orNew(c.Controllers)
	shoot := orNew(c.Controllers.Shoot)
	c.Controllers.Shoot = shoot
	setDefault(&shoot.ConcurrentSyncs, 20)
	setDefault(&shoot.SyncPeriod, metav1.Duration{Duration: time.Hour})
	setDefault(&shoot.RespectSyncPeriodOverwrite, false)
	setDefault(&shoot.ReconcileInMaintenanceOnly, false)
	setDefault(&shoot.RetryDuration, metav1.Duration{Duration: 12 * time.Hour})
	setDefault(&shoot.DNSEntryTTLSeconds, 120)
	setDefault(&shoot.FenceTime, metav1.Duration{Duration: ownership.DefaultFenceTime})

	care := orNew(c.Controllers.ShootCare)
	c.Controllers.ShootCare = care
	setDefault(&care.ConcurrentSyncs, 20)
	setDefault(&care.SyncPeriod, metav1.Duration{Duration: time.Minute})
	care.StaleExtensionHealthChecks = orNew(care.StaleExtensionHealthChecks)
	setDefault(&care.StaleExtensionHealthChecks.Enabled, true)
	setDefault(&care.StaleExtensionHealthChecks.Threshold, metav1.Duration{Duration: 5 * time.Minute})
	setDefault(&care.WebhookRemediatorEnabled, false)

	c.Controllers.ControllerInstallation = orNew(c.Controllers.ControllerInstallation)
	setDefault(&c.Controllers.ControllerInstallation.ConcurrentSyncs, 5)
	seed := orNew(c.Controllers.Seed)
	c.Controllers.Seed = seed
	setDefault(&seed.SyncPeriod, metav1.Duration{Duration: time.Hour})
	setDefault(&seed.LeaseResyncSeconds, 2)

	setBackupDefaults(c.Controllers)
	c.Controllers.ShootState = orNew(c.Controllers.ShootState)
	setDefault(&c.Controllers.ShootState.ConcurrentSyncs, 5)
	setDefault(&c.Controllers.ShootState.SyncPeriod, metav1.Duration{Duration: 6 * time.Hour})

	c.LeaderElection = orNew(c.LeaderElection)
	setDefault(&c.LeaderElection.LeaderElect, true)
	if c.LeaderElection.ResourceName == "" {
		c.LeaderElection.ResourceName = "gardenlet-leader-election"
	}
	if c.LeaderElection.ResourceNamespace == "" {
		c.LeaderElection.ResourceNamespace = "garden"
	}
	c.Server = orNew(c.Server)
	c.Server.HealthProbes = orNew(c.Server.HealthProbes)
	c.Server.Metrics = orNew(c.Server.Metrics)
	if c.Server.HealthProbes.Port == 0 {
		c.Server.HealthProbes.Port = 2728
	}
	if c.Server.Metrics.Port == 0 {
		c.Server.Metrics.Port = 2729
	}
	if c.Server.Metrics.BindAddress == "" {
		c.Server.Metrics.BindAddress = "127.0.0.1"
	}
	if c.LogLevel == "" {
		c.LogLevel = "info"
	}
	if c.FeatureGates == nil {
		c.FeatureGates = map[string]bool{}
	}
	for name, on := range featureGates {
		if _, set := c.FeatureGates[name]; !set {
			c.FeatureGates[name] = on
		}
	}
}

// Validate returns all problems of a configuration with defaults.
func Validate(c *GardenletConfiguration) error {
	var errs []error
	if c.APIVersion != GroupVersion || c.Kind != Kind {
		errs = append(errs, fmt.Errorf("apiVersion, kind: unsupported values: %q, %q (%s, %s)", c.APIVersion, c.Kind,
			GroupVersion, Kind))
	}
	if c.SeedConfig == nil || c.SeedConfig.Name == "" {
		errs = append(errs, required("seedConfig.metadata.name"))
	}
	errs = append(errs, validateGardenConnection(&c.GardenClientConnection)...)
	errs = append(errs, validateConcurrency(c.Controllers)...)
	errs = append(errs, atLeast("controllers.shoot.retryDuration", c.Controllers.Shoot.RetryDuration, time.Minute)...)
	errs = append(errs, atLeast("controllers.shoot.syncPeriod", c.Controllers.Shoot.SyncPeriod, time.Minute)...)
	// The garden confirms an owner with every check of its Shoot's health. One failed check must not stop etcd.
	if fence, care := c.Controllers.Shoot.FenceTime.Duration,
		c.Controllers.ShootCare.SyncPeriod.Duration; fence < max(30*time.Second, 2*care) {
		errs = append(errs, fmt.Errorf("controllers.shoot.fenceTime: invalid value: %s "+
			"(at least 30s and twice controllers.shootCare.syncPeriod, which is %s)", fence, care))
	}
	errs = append(errs, atLeast("controllers.shootState.syncPeriod", c.Controllers.ShootState.SyncPeriod, time.Minute)...)
	if n := *c.Controllers.Seed.LeaseResyncSeconds; n < 1 {
		errs = append(errs, fmt.Errorf("controllers.seed.leaseResyncSeconds: invalid value: %d (at least 1)", n))
	}
	errs = append(errs, validateBackup(c.Controllers)...)
	if c.Resources != nil {
		errs = append(errs, validateQuantities("resources.capacity", c.Resources.Capacity)...)
		errs = append(errs, validateQuantities("resources.reserved", c.Resources.Reserved)...)
	}
	for _, name := range slices.Sorted(maps.Keys(c.FeatureGates)) {
		if _, known := featureGates[name]; !known {
			errs = append(errs, fmt.Errorf("featureGates.%s: unknown feature gate (available: %s)", name,
				strings.Join(slices.Sorted(maps.Keys(featureGates)), ", ")))
		}
	}
	for _, err := range image.Repositories(c.Images).Validate() {
		errs = append(errs, fmt.Errorf("images.%w", err))
	}
	switch c.LogLevel {
	case "error", "info", "debug":
	default:
		errs = append(errs, fmt.Errorf("logLevel: unsupported value: %q (error, info, debug)", c.LogLevel))
	}
	return errors.Join(errs...)
}

// required is the error about a field that is not set.
func required(path string) error { return fmt.Errorf("%s: required value", path) }

// atLeast returns an error if a duration is less than the minimum.
func atLeast(path string, d *metav1.Duration, minimum time.Duration) []error {
	if d.Duration >= minimum {
		return nil
	}
	return []error{fmt.Errorf("%s: invalid value: %s (at least %s)", path, d.Duration, minimum)}
}

func validateConcurrency(c *Controllers) []error {
	var errs []error
	for _, controller := range []struct {
		name  string
		syncs *int
	}{
		{"shoot", c.Shoot.ConcurrentSyncs},
		{"shootCare", c.ShootCare.ConcurrentSyncs},
		{"controllerInstallation", c.ControllerInstallation.ConcurrentSyncs},
		{"backupBucket", c.BackupBucket.ConcurrentSyncs},
		{"backupEntry", c.BackupEntry.ConcurrentSyncs},
		{"shootState", c.ShootState.ConcurrentSyncs},
	} {
		if *controller.syncs < 1 {
			errs = append(errs, fmt.Errorf("controllers.%s.concurrentSyncs: invalid value: %d (at least 1)", controller.name,
				*controller.syncs))
		}
	}
	return errs
}

func validateQuantities(path string, quantities map[string]string) []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(quantities)) {
		if _, err := resource.ParseQuantity(quantities[name]); err != nil {
			errs = append(errs, fmt.Errorf("%s.%s: invalid value: %q (a quantity such as 100 or 1Gi)", path, name,
				quantities[name]))
		}
	}
	return errs
}

func setClientConnection(c *ClientConnection) {
	if c.QPS == 0 {
		c.QPS = 100
	}
	if c.Burst == 0 {
		c.Burst = 130
	}
}

func orNew[T any](p *T) *T {
	if p == nil {
		return new(T)
	}
	return p
}

func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = ptr.To(value)
	}
}

// minValidity is the shortest life that the API for certificates accepts.
const minValidity = 10 * time.Minute

func validateGardenConnection(c *GardenClientConnection) []error {
	const connection = "gardenClientConnection."
	errs := validateReference(connection+"kubeconfigSecret", c.KubeconfigSecret)
	if c.BootstrapKubeconfig != nil {
		const path = connection + "bootstrapKubeconfig"
		errs = append(errs, validateReference(path, c.BootstrapKubeconfig)...)
		if c.KubeconfigSecret == nil {
			errs = append(errs, fmt.Errorf("%skubeconfigSecret: required with %s", connection, path))
		}
		if c.Kubeconfig != "" {
			errs = append(errs, fmt.Errorf("%skubeconfig: forbidden with %s: %q", connection, path, c.Kubeconfig))
		}
	}
	const path = connection + "kubeconfigValidity"
	if v := c.KubeconfigValidity.Validity; v != nil {
		errs = append(errs, atLeast(path+".validity", v, minValidity)...)
	}
	from, to := *c.KubeconfigValidity.AutoRotationJitterPercentageMin,
		*c.KubeconfigValidity.AutoRotationJitterPercentageMax
	if from < 1 || from > 99 {
		errs = append(errs, fmt.Errorf("%s.autoRotationJitterPercentageMin: invalid value: %d (1 to 99)", path, from))
	}
	if to < from || to > 99 {
		errs = append(errs, fmt.Errorf("%s.autoRotationJitterPercentageMax: invalid value: %d "+
			"(autoRotationJitterPercentageMin, which is %d, to 99)", path, to, from))
	}
	return errs
}

func validateReference(path string, ref *SecretReference) []error {
	var errs []error
	if ref != nil && ref.Namespace == "" {
		errs = append(errs, required(path+".namespace"))
	}
	if ref != nil && ref.Name == "" {
		errs = append(errs, required(path+".name"))
	}
	return errs
}
