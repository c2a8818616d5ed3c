package v1beta1

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The times after which the cleanup of a Shoot removes finalizers, unless an annotation shortens them.
const (
	// CleanupFinalizeSoon is for webhooks, and for workload and objects that represent external resources.
	CleanupFinalizeSoon = 5 * time.Minute
	// CleanupFinalizeLater is for definitions of kinds, and volume snapshots.
	CleanupFinalizeLater = time.Hour
)

// cleanupTimes are the annotations that shorten these times.
var cleanupTimes = []struct {
	annotation string
	// most is the time of most objects, and longest that of a few; the same if it is the time of all.
	most, longest time.Duration
	few           string
}{
	{AnnotationShootCleanupWebhooksFinalizeGracePeriodSeconds, CleanupFinalizeSoon, CleanupFinalizeSoon, ""},
	{AnnotationShootCleanupExtendedAPIsFinalizeGracePeriodSeconds, CleanupFinalizeLater, CleanupFinalizeLater, ""},
	{AnnotationShootCleanupKubernetesResourcesFinalizeGracePeriodSeconds, CleanupFinalizeSoon, CleanupFinalizeLater,
		"volume snapshots"},
}

// maxCleanupSeconds keeps times within the range of a Duration. It is far above all defaults, and so changes nothing.
const maxCleanupSeconds = 1 << 32

// CleanupTime reads an annotation that shortens a time of the cleanup.
func CleanupTime(text string) (time.Duration, error) {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 {
		return 0, errors.New("must be a number of seconds, 0 or more")
	}
	return time.Duration(min(seconds, maxCleanupSeconds)) * time.Second, nil
}

// validateCleanup checks the annotations about the cleanup that are new or changed. old is nil on creation.
func validateCleanup(shoot, old *Shoot) field.ErrorList {
	var errs field.ErrorList
	for _, of := range cleanupTimes {
		if text, given := newAnnotation(shoot, old, of.annotation); given {
			if _, err := CleanupTime(text); err != nil {
				errs = append(errs, field.Invalid(annotationsPath.Key(of.annotation), text, err.Error()))
			}
		}
	}
	return errs
}

// cleanupWithoutEffect names the annotations about the cleanup that are new or changed, and shorten nothing, or not all
// that they are about.
func cleanupWithoutEffect(shoot, old *Shoot) []string {
	var texts []string
	for _, of := range cleanupTimes {
		text, given := newAnnotation(shoot, old, of.annotation)
		wanted, err := CleanupTime(text)
		switch {
		case !given || err != nil:
		case wanted >= of.longest:
			texts = append(texts, fmt.Sprintf("metadata.annotations[%s] has no effect: it only shortens the default of %.0f seconds",
				of.annotation, of.longest.Seconds()))
		case wanted >= of.most:
			texts = append(texts, fmt.Sprintf("metadata.annotations[%s]: %s only shortens the time of %s; "+
				"that of other objects stays at the default of %.0f seconds", of.annotation, text, of.few, of.most.Seconds()))
		}
	}
	return texts
}
