package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/cloudprofile"
	"hortus.dev/hortus/internal/maintenance"
)

// checker checks one profile.
type checker struct {
	profile  *cloudprofile.Profile
	decider  *maintenance.Decider
	now      time.Time
	findings []Finding
}

// Check returns the problems with the versions of a profile from now on.
func Check(name string, spec *corev1beta1.CloudProfileSpec, now time.Time) []Finding {
	profile, err := cloudprofile.Compile(name, spec)
	if err != nil {
		return []Finding{{
			Severity: Error, Rule: RuleInvalid, Profile: name, What: "versions", Message: err.Error(),
			Fix: "correct the CloudProfile",
		}}
	}
	c := &checker{profile: profile, decider: maintenance.NewDecider(profile), now: now}
	c.kubernetes()
	for _, image := range profile.Images {
		c.image(image)
	}
	c.machineTypes()
	sortFindings(c.findings)
	return c.findings
}

func (c *checker) add(f Finding) {
	f.Profile = c.profile.Name
	if f.Deadline != nil && f.Deadline.Before(c.now) {
		f.Deadline = nil
	}
	c.findings = append(c.findings, f)
}

const kubernetes = "kubernetes"

func (c *checker) kubernetes() {
	versions := c.profile.Kubernetes
	if len(versions) == 0 {
		c.add(Finding{
			Severity: Error, Rule: RuleInvalid, What: kubernetes, Message: "no Kubernetes version is offered", Fix: "offer one",
		})
		return
	}
	c.kubernetesDeadEnds()
	c.minorGaps()
	c.overlaps(kubernetes, versions)
	c.deprecatedForever(kubernetes, versions)
	highest := versions[len(versions)-1]
	if expiry, expires := highest.Expiry(); expires {
		c.add(Finding{
			Severity: Error, Rule: RuleHighestExpires, What: kubernetes, Version: highest.Text,
			Message: fmt.Sprintf("the highest Kubernetes version expires %s", expiry.UTC().Format(time.DateOnly)),
			Fix:     "remove its expirationDate, or offer a higher version",
		})
	}
	if _, err := c.profile.DefaultKubernetesVersion("", c.now); err != nil {
		c.add(Finding{
			Severity: Warning, Rule: RuleNoDefault, What: kubernetes,
			Message: "no version is supported or deprecated, so Shoots that leave the version open are refused",
			Fix:     "classify one as supported",
		})
	}
}

func (c *checker) kubernetesDeadEnds() {
	g := &graph{
		offered: func(v string, t time.Time) bool { return c.profile.KubernetesVersion(v).ClassAt(t).Active() },
		present: func(string) bool { return true },
		decide: func(v string, t time.Time, auto bool) (string, bool) {
			return outcome(c.decider.Decide(&maintenance.Cluster{Kubernetes: v, AutoKubernetes: auto}, t))
		},
	}
	g.epochs, g.ends = epochsOf(c.now, c.profile.Changes)
	for _, v := range c.profile.Kubernetes {
		g.versions = append(g.versions, v.Text)
	}
	stuck := g.explore()
	for _, v := range c.profile.Kubernetes {
		if s, ok := stuck[v.Text]; ok {
			d := c.decider.Decide(&maintenance.Cluster{Kubernetes: v.Text}, s.from)
			c.addDeadEnd(kubernetes, &d.Items[0], s, "", false)
		}
	}
}

// outcome returns the result of a decision about a single version.
func outcome(d maintenance.Decision) (target string, failed bool) {
	if len(d.Items) == 0 {
		return "", d.ImageErr != nil
	}
	return d.Items[0].To, d.Items[0].Err != nil
}

// addDeadEnd reports that Shoots are stuck. who restricts the Shoots, "" for all. An end of life is only a warning,
// because it may be intended.
func (c *checker) addDeadEnd(what string, item *maintenance.Item, s stuckness, who string, endOfLife bool) {
	f := Finding{Severity: Error, Rule: RuleDeadEnd, What: what, Version: item.From, Fix: item.Fix(c.profile)}
	if endOfLife {
		f.Severity = Warning
	}
	begin := s.from
	if begin.After(c.now) {
		begin = begin.Add(-1) // The exact time of the class change is still in time.
		f.Deadline = &begin
	}
	state := "expires"
	if !s.from.After(c.now) {
		state = "expired"
	}
	date := begin
	if expiry, ok := item.Expiry(c.profile); ok {
		date = expiry
	}
	f.Message = fmt.Sprintf("%s %s %s; %s: stuck", item.From, state, date.UTC().Format(time.DateOnly), item.Obstacle())
	if who != "" {
		f.Message += " (" + who + ")"
	}
	if !s.forever && !s.until.IsZero() {
		until := s.until
		f.Severity, f.Until = Warning, &until
		f.Message += " until " + until.UTC().Format(time.DateOnly)
	}
	c.add(f)
}

// minorGaps reports minors that clusters of the next lower one cannot be updated to.
func (c *checker) minorGaps() {
	versions := c.profile.Kubernetes
	for i := 1; i < len(versions); i++ {
		below, above := versions[i-1], versions[i]
		if above.Semver.Major() != below.Semver.Major() || above.Semver.Minor() <= below.Semver.Minor()+1 {
			continue
		}
		f := Finding{
			Severity: Warning, Rule: RuleMinorGap, What: kubernetes, Version: below.Text,
			Message: fmt.Sprintf("clusters of %d.%d cannot be updated to %d.%d: minors in between are missing",
				below.Semver.Major(), below.Semver.Minor(), above.Semver.Major(), above.Semver.Minor()),
			Fix: fmt.Sprintf("offer a %d.%d.x", below.Semver.Major(), below.Semver.Minor()+1),
		}
		if expiry, ok := c.minorExpiry(below); ok {
			f.Deadline = &expiry
		}
		c.add(f)
	}
}

// minorExpiry returns when the last version of a minor expires; false if one never does.
func (c *checker) minorExpiry(of *cloudprofile.Version) (last time.Time, ok bool) {
	for _, v := range c.profile.Kubernetes {
		if !cloudprofile.SameMinor(v.Semver, of.Semver) {
			continue
		}
		expiry, expires := v.Expiry()
		if !expires {
			return time.Time{}, false
		}
		if expiry.After(last) {
			last, ok = expiry, true
		}
	}
	return last, ok
}

// overlaps reports versions of the same minor that are supported at the same time. Unclassified versions do not count.
func (c *checker) overlaps(what string, versions []*cloudprofile.Version) {
	epochs, _ := epochsOf(c.now, c.profile.Changes)
	for i, v := range versions {
		for _, w := range versions[i+1:] {
			if !cloudprofile.SameMinor(v.Semver, w.Semver) || v.Unclassified || w.Unclassified {
				continue
			}
			at := slices.IndexFunc(epochs, func(t time.Time) bool {
				return v.ClassAt(t) == cloudprofile.Supported && w.ClassAt(t) == cloudprofile.Supported
			})
			if at < 0 {
				continue
			}
			f := Finding{
				Severity: Error, Rule: RuleOverlap, What: what, Version: v.Text,
				Message: fmt.Sprintf("%s and %s of the same minor are both supported", v.Text, w.Text),
				Fix:     fmt.Sprintf("deprecate %s", v.Text),
			}
			if at > 0 {
				f.Deadline = ptrTo(epochs[at].Add(-1))
			}
			c.add(f)
		}
	}
}

func ptrTo[T any](v T) *T { return &v }

func (c *checker) deprecatedForever(what string, versions []*cloudprofile.Version) {
	for _, v := range versions {
		if _, expires := v.Expiry(); expires || v.ClassAt(c.now) != cloudprofile.Deprecated {
			continue
		}
		c.add(Finding{
			Severity: Info, Rule: RuleDeprecatedForever, What: what, Version: v.Text,
			Message: "deprecated, but never expires: clusters that do not update automatically stay on it",
			Fix:     "give it an expirationDate",
		})
	}
}

func (c *checker) machineTypes() {
	byArchitecture := map[string][]string{}
	for name, mt := range c.profile.MachineTypes {
		byArchitecture[mt.Architecture] = append(byArchitecture[mt.Architecture], name)
	}
	for _, architecture := range []string{"amd64", "arm64"} {
		// Machine types that lack an image for the same Kubernetes versions are reported together.
		alike := map[string][]string{}
		for _, name := range slices.Sorted(slices.Values(byArchitecture[architecture])) {
			if without := c.withoutImage(c.profile.MachineTypes[name]); len(without) > 0 {
				alike[strings.Join(without, ", ")] = append(alike[strings.Join(without, ", ")], name)
			}
		}
		for _, without := range slices.Sorted(maps.Keys(alike)) {
			c.add(Finding{
				Severity: Warning, Rule: RuleNoImage, What: "machine types " + strings.Join(alike[without], ", "),
				Message: fmt.Sprintf("no machine image for architecture %s runs on them with kubelets of Kubernetes %s",
					architecture, without),
				Fix: "offer one, or relax a kubeletVersionConstraint",
			})
		}
	}
}

// withoutImage lists the Kubernetes versions for which no machine image runs on machines of a type.
func (c *checker) withoutImage(machineType *cloudprofile.MachineType) (without []string) {
	for _, k := range c.profile.Kubernetes {
		if !k.ClassAt(c.now).Active() {
			continue
		}
		found := false
		for _, image := range c.profile.Images {
			for _, v := range image.Eligible(cloudprofile.Needs{
				Architecture: machineType.Architecture, MachineType: machineType, Kubelet: k.Semver,
			}) {
				found = found || v.ClassAt(c.now).Active()
			}
		}
		if !found {
			without = append(without, k.Text)
		}
	}
	return without
}
