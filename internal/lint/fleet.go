package lint

import (
	"fmt"
	"slices"
	"time"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/cloudprofile"
	"hortus.dev/hortus/internal/fleet"
	"hortus.dev/hortus/internal/plan"
)

// CheckAll checks profiles, all or the named ones, and counts the Shoots that each finding affects. It also reports
// versions that Shoots use and their profile does not offer, although the API server rejects removing them.
func CheckAll(f *fleet.Fleet, names []string, now time.Time) ([]Finding, error) {
	known := map[string]bool{}
	var findings []Finding
	check := func(name string, spec *corev1beta1.CloudProfileSpec, shoots []*corev1beta1.Shoot) {
		known[name] = true
		if len(names) > 0 && !slices.Contains(names, name) {
			return
		}
		used := inUse{}
		used.count(shoots, spec.MachineImages)
		found := Check(name, spec, now)
		for i := range found {
			found[i].Shoots = used[[2]string{found[i].What, found[i].Version}]
		}
		findings = append(findings, found...)
		findings = append(findings, missing(name, spec, used)...)
	}
	parents := map[string]*corev1beta1.CloudProfileSpec{}
	for i := range f.CloudProfiles {
		p := &f.CloudProfiles[i]
		parents[p.Name] = &p.Spec
		check(p.Name, &p.Spec, shootsOf(f, p.Name))
	}
	for i := range f.NamespacedCloudProfiles {
		p := &f.NamespacedCloudProfiles[i]
		spec := p.Status.CloudProfileSpec
		if parent := parents[p.Spec.Parent.Name]; parent != nil {
			spec = cloudprofile.Merge(parent, &p.Spec)
		}
		check(p.Namespace+"/"+p.Name, &spec, shootsOf(f, p.Namespace+"/"+p.Name))
	}
	for _, name := range names {
		if !known[name] {
			return nil, fmt.Errorf("CloudProfile %q not found", name)
		}
	}
	sortFindings(findings)
	return findings, nil
}

func shootsOf(f *fleet.Fleet, profile string) []*corev1beta1.Shoot {
	var shoots []*corev1beta1.Shoot
	for i := range f.Shoots {
		if s := &f.Shoots[i]; plan.ProfileOf(s) == profile {
			shoots = append(shoots, s)
		}
	}
	return shoots
}

func missing(name string, spec *corev1beta1.CloudProfileSpec, used inUse) []Finding {
	profile, err := cloudprofile.Compile(name, spec)
	if err != nil {
		return nil
	}
	offered := map[[2]string]bool{}
	for _, v := range profile.Kubernetes {
		offered[[2]string{kubernetes, v.Text}] = true
	}
	for _, image := range profile.Images {
		for _, v := range image.Versions {
			offered[[2]string{"image " + image.Name, v.Text}] = true
		}
	}
	var findings []Finding
	for key, shoots := range used {
		if offered[key] || !cloudprofile.Complete(key[1]) {
			continue
		}
		findings = append(findings, Finding{
			Severity: Error, Rule: RuleInUse, Profile: name, What: key[0], Version: key[1], Shoots: shoots,
			Message: "in use, but not in the CloudProfile: Shoots are moved off it in their next maintenance",
			Fix:     "keep it, with an expirationDate in the past if need be, until no Shoot uses it",
		})
	}
	slices.SortFunc(findings, func(a, b Finding) int { return compareText(a, b) })
	return findings
}
