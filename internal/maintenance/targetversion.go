package maintenance

import (
	"errors"
	"fmt"
	"time"

	"github.com/Masterminds/semver/v3"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/cloudprofile"
)

// candidate is an offered version with its class at the time of the decision.
type candidate struct {
	text  string
	v     *semver.Version
	class cloudprofile.Class
}

// target reports whether an update may choose the candidate at all. Preview versions and those not available yet
// are nobody's target; expired ones only the last resort of a forced update.
func (c candidate) target(allowExpired bool) bool {
	switch c.class {
	case cloudprofile.Supported, cloudprofile.Deprecated:
		return true
	case cloudprofile.Expired:
		return allowExpired
	}
	return false
}

func kubernetesCandidates(p *cloudprofile.Profile, now time.Time) []candidate {
	candidates := make([]candidate, 0, len(p.Kubernetes))
	for _, v := range p.Kubernetes {
		candidates = append(candidates, candidate{v.Text, v.Semver, v.ClassAt(now)})
	}
	return candidates
}

func imageCandidates(versions []*cloudprofile.ImageVersion, now time.Time) []candidate {
	candidates := make([]candidate, 0, len(versions))
	for _, v := range versions {
		candidates = append(candidates, candidate{v.Text, v.Semver, v.ClassAt(now)})
	}
	return candidates
}

// Cause is why a version must be updated.
type Cause string

const (
	CauseMissing Cause = "missing" // The version is not in the profile (any more, or not for this pool).
	CauseExpired Cause = "expired"
	CauseAuto    Cause = "auto" // Automatic updates are enabled.
)

// dueness is the first half of a decision: whether there is a reason to update at all.
func dueness(candidates []candidate, current string, auto bool) (Cause, bool) {
	for _, c := range candidates {
		if c.text != current {
			continue
		}
		switch {
		case c.class == cloudprofile.Expired:
			return CauseExpired, true
		case auto:
			return CauseAuto, true
		}
		return "", false
	}
	return CauseMissing, true
}

// strategy is how versions are chosen: autos are tried in order, each restricting the candidates to some distance
// from the current version; force is the way out for versions that must not stay.
type strategy struct {
	autos []func(v, current *semver.Version) bool
	force func(candidates []candidate, current *semver.Version) (candidate, error)
}

func sameMajor(v, current *semver.Version) bool { return v.Major() == current.Major() }

func anyDistance(_, _ *semver.Version) bool { return true }

var (
	kubernetesStrategy = strategy{
		autos: []func(v, current *semver.Version) bool{cloudprofile.SameMinor},
		force: forceConsecutiveMinor,
	}
	imageStrategies = map[corev1beta1.MachineImageUpdateStrategy]strategy{
		corev1beta1.UpdateStrategyPatch: {
			autos: []func(v, current *semver.Version) bool{cloudprofile.SameMinor},
			force: func(candidates []candidate, current *semver.Version) (candidate, error) {
				return forceNextLine(candidates, "minor", func(v *semver.Version) (uint64, bool) {
					return v.Minor(), v.Major() == current.Major() && v.Minor() > current.Minor()
				})
			},
		},
		corev1beta1.UpdateStrategyMinor: {
			autos: []func(v, current *semver.Version) bool{cloudprofile.SameMinor, sameMajor},
			force: func(candidates []candidate, current *semver.Version) (candidate, error) {
				return forceNextLine(candidates, "major", func(v *semver.Version) (uint64, bool) {
					return v.Major(), v.Major() > current.Major()
				})
			},
		},
		corev1beta1.UpdateStrategyMajor: {
			autos: []func(v, current *semver.Version) bool{cloudprofile.SameMinor, anyDistance},
			force: func([]candidate, *semver.Version) (candidate, error) {
				return candidate{},
					errors.New("no higher version that is not expired in the CloudProfile (end of life, or a mistake)")
			},
		},
	}
)

// choice is the outcome of a selection: a target, or an error, or neither if there is nothing to do.
type choice struct {
	cause  Cause
	target string
	forced bool // The target lies beyond what automatic updates may do.
	err    error
}

// choose decides about one version. Candidates are ascending.
func choose(s strategy, candidates []candidate, current string, auto bool) choice {
	cause, due := dueness(candidates, current, auto)
	if !due {
		return choice{}
	}
	v, err := cloudprofile.ParseVersion(current)
	if err != nil {
		return choice{cause: cause, err: fmt.Errorf("could not determine higher suitable version than %q: %w", current, err)}
	}
	for _, within := range s.autos {
		if c, ok := highestForAuto(candidates, v, within); ok {
			return choice{cause: cause, target: c.text}
		}
	}
	if cause == CauseAuto {
		return choice{}
	}
	c, err := s.force(candidates, v)
	if err != nil {
		return choice{cause: cause, err: fmt.Errorf(
			"could not determine higher suitable version than %q: cannot perform forceful update of expired version %s: %w. No suitable version found",
			current, current, err)}
	}
	return choice{cause: cause, target: c.text, forced: true}
}

// highestForAuto returns the highest candidate above current and within the distance, supported if there is one,
// else deprecated.
func highestForAuto(
	candidates []candidate, current *semver.Version, within func(v, current *semver.Version) bool,
) (candidate, bool) {
	var deprecated candidate
	for i := len(candidates) - 1; i >= 0; i-- {
		c := candidates[i]
		if !c.v.GreaterThan(current) {
			break
		}
		if !c.target(false) || !within(c.v, current) {
			continue
		}
		if c.class == cloudprofile.Supported {
			return c, true
		}
		if deprecated.v == nil {
			deprecated = c
		}
	}
	return deprecated, deprecated.v != nil
}

// forceConsecutiveMinor returns the highest version of the next minor, expired only if all others there are.
// Kubernetes cannot skip a minor.
func forceConsecutiveMinor(candidates []candidate, current *semver.Version) (candidate, error) {
	var offered bool
	for _, allowExpired := range []bool{false, true} {
		for i := len(candidates) - 1; i >= 0; i-- {
			c := candidates[i]
			if c.v.Major() != current.Major() || c.v.Minor() != current.Minor()+1 {
				continue
			}
			offered = true
			if c.target(allowExpired) {
				return c, nil
			}
		}
	}
	if offered {
		return candidate{}, fmt.Errorf("only preview versions of %d.%d.x in the CloudProfile", current.Major(),
			current.Minor()+1)
	}
	return candidate{}, fmt.Errorf("no %d.%d.x in the CloudProfile", current.Major(), current.Minor()+1)
}

// forceNextLine returns the highest version of the next line (minor or major). lineOf returns a version's line, and
// whether it lies above the current one. A line may be skipped if all its versions are previews; rather than
// skipping a line with expired versions, the update goes there.
func forceNextLine(
	candidates []candidate, unit string, lineOf func(*semver.Version) (uint64, bool),
) (candidate, error) {
	next, exists := uint64(0), false
	for _, c := range candidates {
		if line, above := lineOf(c.v); above && (!exists || line < next) {
			next, exists = line, true
		}
	}
	if !exists {
		return candidate{}, fmt.Errorf("no higher %s in the CloudProfile", unit)
	}
	if found, ok := highestOfLowestLine(candidates, lineOf, false); ok {
		if line, _ := lineOf(found.v); line == next {
			return found, nil
		}
	}
	if found, ok := highestOfLowestLine(candidates, lineOf, true); ok {
		return found, nil
	}
	return candidate{}, fmt.Errorf("only preview versions of higher %ss in the CloudProfile", unit)
}

func highestOfLowestLine(
	candidates []candidate, lineOf func(*semver.Version) (uint64, bool), allowExpired bool,
) (candidate, bool) {
	var best candidate
	var bestLine uint64
	for _, c := range candidates { // Ascending, so a later version of the same line is a higher one.
		line, above := lineOf(c.v)
		if !above || !c.target(allowExpired) {
			continue
		}
		if best.v == nil || line <= bestLine {
			best, bestLine = c, line
		}
	}
	return best, best.v != nil
}
