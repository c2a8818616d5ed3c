package cloudprofile

import (
	"time"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Class is the stage of a version's lifecycle. The values are in the order of the stages.
type Class uint8

const (
	Unavailable Class = iota // Announced, not yet offered.
	Preview
	Supported
	Deprecated
	Expired
)

var classNames = [...]string{"unavailable", "preview", "supported", "deprecated", "expired"}

// String returns the class as in the API.
func (c Class) String() string { return classNames[c] }

// Active reports whether new clusters may use a version of this class.
func (c Class) Active() bool { return c != Unavailable && c != Expired }

func classOf(c corev1beta1.VersionClassification) Class {
	for i, name := range classNames {
		if string(c) == name {
			return Class(i)
		}
	}
	return Supported // Validation rejects unknown names; selection treats them like unclassified versions.
}

// stage is the class that a version has strictly after a time. The zero time means the distant past.
type stage struct {
	after time.Time
	class Class
}

// stagesOf lists the stages of a version. The first one always begins in the distant past.
func stagesOf(v *corev1beta1.ExpirableVersion) []stage {
	if len(v.Lifecycle) > 0 {
		stages := make([]stage, 0, len(v.Lifecycle)+1)
		if v.Lifecycle[0].StartTime != nil {
			stages = append(stages, stage{class: Unavailable})
		}
		for _, s := range v.Lifecycle {
			next := stage{class: classOf(s.Classification)}
			if s.StartTime != nil {
				next.after = s.StartTime.Time
			}
			stages = append(stages, next)
		}
		return stages
	}
	stages := []stage{{class: Supported}}
	if v.Classification != nil {
		stages[0].class = classOf(*v.Classification)
	}
	if v.ExpirationDate != nil {
		stages = append(stages, stage{after: v.ExpirationDate.Time, class: Expired})
	}
	return stages
}

func classAt(stages []stage, t time.Time) Class {
	for i := len(stages) - 1; i > 0; i-- {
		if stages[i].after.Before(t) {
			return stages[i].class
		}
	}
	return stages[0].class
}

// ClassAt returns the class of an offered version at t. An unclassified version counts as supported. At the expiration
// date itself the version is not yet expired.
func ClassAt(v *corev1beta1.ExpirableVersion, t time.Time) Class {
	return classAt(stagesOf(v), t)
}
