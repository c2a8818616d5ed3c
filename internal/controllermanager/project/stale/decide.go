package stale

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Config holds the periods after which Projects are stale and stale Projects are deleted. A day has 24 hours.
type Config struct {
	// MinimumLifetimeDays is how long a Project may be unused, after its creation and its last activity, before it is
	// stale.
	MinimumLifetimeDays int
	// GracePeriodDays is how long a Project is stale before its deletion is announced.
	GracePeriodDays int
	// ExpirationTimeDays is how long a Project is stale before it is deleted. An announced date is never moved to an
	// earlier one.
	ExpirationTimeDays int
	// SyncPeriod is how often a Project is checked: the end of a use triggers no reconciliation.
	SyncPeriod time.Duration
}

// Default returns the documented periods.
func Default() Config {
	return Config{MinimumLifetimeDays: 30, GracePeriodDays: 14, ExpirationTimeDays: 90, SyncPeriod: 12 * time.Hour}
}

// Validate returns all errors in the periods.
func (c Config) Validate() error {
	var errs []error
	if c.MinimumLifetimeDays < 0 {
		errs = append(errs, fmt.Errorf("minimum lifetime: %d days (want 0 or more)", c.MinimumLifetimeDays))
	}
	if c.GracePeriodDays < 0 {
		errs = append(errs, fmt.Errorf("grace period: %d days (want 0 or more)", c.GracePeriodDays))
	}
	if c.ExpirationTimeDays < c.GracePeriodDays {
		errs = append(errs, fmt.Errorf("expiration time: %d days (want the grace period of %d or more)",
			c.ExpirationTimeDays, c.GracePeriodDays))
	}
	if c.SyncPeriod <= 0 {
		errs = append(errs, fmt.Errorf("sync period: %s (want more than 0s)", c.SyncPeriod))
	}
	return errors.Join(errs...)
}

func days(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }

// decision is the new status of a Project, and whether it is deleted.
type decision struct {
	since, autoDelete *metav1.Time
	delete            bool
	// again is the time until the next check, at the latest.
	again time.Duration
}

// decide returns the decision on a Project. use is empty if the Project is unused.
func decide(p *corev1beta1.Project, use string, now time.Time, c Config) decision {
	if use != "" {
		return decision{again: c.SyncPeriod}
	}
	lastUse := p.CreationTimestamp.Time
	if last := p.Status.LastActivityTimestamp; last != nil && last.After(lastUse) {
		lastUse = last.Time
	}
	if left := lastUse.Add(days(c.MinimumLifetimeDays)).Sub(now); left > 0 {
		return decision{again: min(left, c.SyncPeriod)}
	}
	d := decision{since: p.Status.StaleSinceTimestamp}
	if d.since == nil {
		d.since = &metav1.Time{Time: now}
	}
	if left := d.since.Add(days(c.GracePeriodDays)).Sub(now); left > 0 {
		d.again = min(left, c.SyncPeriod)
		return d
	}
	// A deletion is always announced in time, even after a long interruption or if the periods have become shorter.
	earliest := now.Add(days(c.ExpirationTimeDays - c.GracePeriodDays))
	if announced := p.Status.StaleAutoDeleteTimestamp; announced != nil {
		earliest = announced.Time
	}
	d.autoDelete = &metav1.Time{Time: d.since.Add(days(c.ExpirationTimeDays))}
	if earliest.After(d.autoDelete.Time) {
		d.autoDelete.Time = earliest
	}
	left := d.autoDelete.Sub(now)
	d.delete, d.again = left <= 0, min(left, c.SyncPeriod)
	return d
}

// exempt returns the reason why a Project is never stale, "" if it can be.
func exempt(ns *corev1.Namespace) string {
	if ns.Name == corev1beta1.GardenNamespace {
		return "it contains the objects of the landscape itself"
	}
	if skip, err := strconv.ParseBool(ns.Annotations[corev1beta1.AnnotationProjectSkipStaleCheck]); err == nil && skip {
		return "annotation " + corev1beta1.AnnotationProjectSkipStaleCheck
	}
	return ""
}

// binding is a SecretBinding or CredentialsBinding.
type binding struct {
	kind, namespace, name string
	// refersTo lists the namespaces of credentials and quotas.
	refersTo []string
}

// usedBy reports whether one of the Shoots of its namespace uses the binding.
func (b binding) usedBy(shoots []corev1beta1.Shoot) bool {
	for i := range shoots {
		name := shoots[i].Spec.CredentialsBindingName
		if b.kind == kindSecretBinding {
			name = shoots[i].Spec.SecretBindingName
		}
		if name != nil && *name == b.name {
			return true
		}
	}
	return false
}
