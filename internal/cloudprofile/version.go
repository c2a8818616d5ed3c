package cloudprofile

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Version is an offered version, parsed once.
type Version struct {
	Text         string          // As written in the CloudProfile.
	Semver       *semver.Version // Never nil.
	Unclassified bool            // It has neither a classification nor a lifecycle.
	stages       []stage
}

func newVersion(v *corev1beta1.ExpirableVersion) (*Version, error) {
	parsed, err := semver.NewVersion(v.Version)
	if err != nil {
		return nil, fmt.Errorf("parse version %q: %w", v.Version, err)
	}
	return &Version{
		Text:         v.Version,
		Semver:       parsed,
		Unclassified: v.Classification == nil && len(v.Lifecycle) == 0,
		stages:       stagesOf(v),
	}, nil
}

// ClassAt returns the class at t.
func (v *Version) ClassAt(t time.Time) Class { return classAt(v.stages, t) }

// Label returns the class at t for display: "unclassified" instead of "supported" for an unclassified version.
func (v *Version) Label(t time.Time) string {
	class := v.ClassAt(t)
	if v.Unclassified && class == Supported {
		return "unclassified"
	}
	return class.String()
}

// Expiry returns the time after which the version is expired, and false if it never expires.
func (v *Version) Expiry() (time.Time, bool) {
	for _, s := range v.stages {
		if s.class == Expired {
			return s.after, true
		}
	}
	return time.Time{}, false
}

// Changes returns the times strictly after which the class differs.
func (v *Version) Changes() []time.Time {
	var changes []time.Time
	for _, s := range v.stages {
		if !s.after.IsZero() {
			changes = append(changes, s.after)
		}
	}
	return changes
}

// ParseVersion parses a version of a Shoot. Missing components count as zero.
func ParseVersion(text string) (*semver.Version, error) {
	v, err := semver.NewVersion(text)
	if err != nil {
		return nil, fmt.Errorf("parse version %q: %w", text, err)
	}
	return v, nil
}

// Core returns the version without the part after the first "-", "+" or "~", which constraints ignore.
func Core(v *semver.Version) *semver.Version {
	if v.Prerelease() == "" && v.Metadata() == "" {
		return v
	}
	return semver.New(v.Major(), v.Minor(), v.Patch(), "", "")
}

// SameMinor reports whether both versions have the same major and minor.
func SameMinor(a, b *semver.Version) bool { return a.Major() == b.Major() && a.Minor() == b.Minor() }

// prefix is a partial version: "", "1" or "1.30".
type prefix []uint64

// parsePrefix returns the components of a partial version. complete is true for versions with three or more components,
// which are not completed.
func parsePrefix(text string) (p prefix, complete bool, err error) {
	text = strings.TrimPrefix(text, "v")
	if text == "" {
		return nil, false, nil
	}
	parts := strings.Split(text, ".")
	if len(parts) > 2 {
		return nil, true, nil
	}
	for _, part := range parts {
		n, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return nil, false, fmt.Errorf("version %q must consist of numbers", text)
		}
		p = append(p, n)
	}
	return p, false, nil
}

// Complete reports whether a version has all its components.
func Complete(text string) bool {
	_, complete, err := parsePrefix(text)
	return complete || err != nil
}

func (p prefix) matches(v *semver.Version) bool {
	return (len(p) < 1 || p[0] == v.Major()) && (len(p) < 2 || p[1] == v.Minor())
}
