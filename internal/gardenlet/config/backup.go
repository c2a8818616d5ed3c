package config

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

const (
	// minCredentialsPeriod bounds how often the credentials of a bucket are read: once a second for many seeds would be
	// felt.
	minCredentialsPeriod = 10 * time.Second
	// maxGraceHours is ten years. More is a mistake in the unit, and much more does not fit into a duration.
	maxGraceHours = 10 * 365 * 24
)

// shootPurposes are all that a Shoot may have.
var shootPurposes = []corev1beta1.ShootPurpose{
	corev1beta1.ShootPurposeEvaluation, corev1beta1.ShootPurposeTesting, corev1beta1.ShootPurposeDevelopment,
	corev1beta1.ShootPurposeProduction, corev1beta1.ShootPurposeInfrastructure,
}

func setBackupDefaults(c *Controllers) {
	c.BackupBucket = orNew(c.BackupBucket)
	setDefault(&c.BackupBucket.ConcurrentSyncs, 20)
	setDefault(&c.BackupBucket.SyncPeriod, metav1.Duration{Duration: time.Minute})
	c.BackupEntry = orNew(c.BackupEntry)
	setDefault(&c.BackupEntry.ConcurrentSyncs, 20)
	setDefault(&c.BackupEntry.DeletionGracePeriodHours, 0)
}

func validateBackup(c *Controllers) []error {
	errs := atLeast("controllers.backupBucket.syncPeriod", c.BackupBucket.SyncPeriod, minCredentialsPeriod)
	if hours := *c.BackupEntry.DeletionGracePeriodHours; hours < 0 || hours > maxGraceHours {
		errs = append(errs, fmt.Errorf("controllers.backupEntry.deletionGracePeriodHours: invalid value: %d (0 to %d)",
			hours, maxGraceHours))
	}
	for i, purpose := range c.BackupEntry.DeletionGracePeriodShootPurposes {
		if !slices.Contains(shootPurposes, purpose) {
			errs = append(errs, fmt.Errorf("controllers.backupEntry.deletionGracePeriodShootPurposes[%d]: "+
				"unknown purpose: %q (available: %v)", i, purpose, shootPurposes))
		}
	}
	return errs
}
