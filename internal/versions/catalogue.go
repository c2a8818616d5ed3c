package versions

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/cloudprofile"
	"hortus.dev/hortus/internal/fleet"
	"hortus.dev/hortus/internal/plan"
)

// Entry is one offered version.
type Entry struct {
	CloudProfile   string     `json:"cloudProfile"`
	Image          string     `json:"image,omitempty"` // Empty for Kubernetes.
	Version        string     `json:"version"`
	Classification string     `json:"classification"` // Now; "unclassified" if none is given.
	ExpirationDate *time.Time `json:"expirationDate,omitempty"`
	DaysLeft       *int       `json:"daysLeft,omitempty"` // Whole days; negative after expiration.
	Shoots         int        `json:"shoots"`             // Shoots that use it in at least one pool or the control plane.
}

// Catalogue lists the versions of all profiles, or of the named ones, in descending order.
func Catalogue(f *fleet.Fleet, names []string, now time.Time) ([]Entry, error) {
	var entries []Entry
	known := map[string]bool{}
	add := func(name string, spec *corev1beta1.CloudProfileSpec) error {
		known[name] = true
		if len(names) > 0 && !slices.Contains(names, name) {
			return nil
		}
		profile, err := cloudprofile.Compile(name, spec)
		if err != nil {
			return err
		}
		used := usage(f.Shoots, name, spec.MachineImages)
		entry := func(image string, v *cloudprofile.Version) Entry {
			e := Entry{
				CloudProfile: name, Image: image, Version: v.Text, Classification: v.Label(now),
				Shoots: used[[2]string{image, v.Text}],
			}
			if expiry, expires := v.Expiry(); expires {
				days := int(expiry.Sub(now).Hours() / 24)
				if expiry.Before(now) {
					days = -int(now.Sub(expiry).Hours() / 24)
				}
				e.ExpirationDate, e.DaysLeft = &expiry, &days
			}
			return e
		}
		for _, v := range slices.Backward(profile.Kubernetes) {
			entries = append(entries, entry("", v))
		}
		for _, image := range profile.Images {
			for _, v := range slices.Backward(image.Versions) {
				entries = append(entries, entry(image.Name, &v.Version))
			}
		}
		return nil
	}
	parents := map[string]*corev1beta1.CloudProfileSpec{}
	for i := range f.CloudProfiles {
		p := &f.CloudProfiles[i]
		parents[p.Name] = &p.Spec
		if err := add(p.Name, &p.Spec); err != nil {
			return nil, err
		}
	}
	for i := range f.NamespacedCloudProfiles {
		p := &f.NamespacedCloudProfiles[i]
		spec := p.Status.CloudProfileSpec
		if parent := parents[p.Spec.Parent.Name]; parent != nil {
			spec = cloudprofile.Merge(parent, &p.Spec)
		}
		if err := add(p.Namespace+"/"+p.Name, &spec); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		if !known[name] {
			return nil, fmt.Errorf("CloudProfile %q not found", name)
		}
	}
	return entries, nil
}

// usage counts the Shoots of a profile by image, empty for Kubernetes, and version.
func usage(shoots []corev1beta1.Shoot, profile string, images []corev1beta1.MachineImage) map[[2]string]int {
	used := map[[2]string]int{}
	for i := range shoots {
		s := &shoots[i]
		if plan.ProfileOf(s) != profile {
			continue
		}
		seen := map[[2]string]bool{{"", s.Spec.Kubernetes.Version}: true}
		for _, w := range s.Spec.Provider.Workers {
			if w.Kubernetes != nil && w.Kubernetes.Version != nil {
				seen[[2]string{"", *w.Kubernetes.Version}] = true
			}
			if image := w.Machine.Image; image != nil && image.Version != nil {
				seen[[2]string{cloudprofile.ImageName(images, image.Name), *image.Version}] = true
			}
		}
		for key := range seen {
			used[key]++
		}
	}
	return used
}

func writeCatalogue(out io.Writer, entries []Entry) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CLOUDPROFILE\tWHAT\tVERSION\tCLASS\tEXPIRES\tDAYS LEFT\tSHOOTS")
	for _, e := range entries {
		what, expires, left := "kubernetes", "-", "-"
		if e.Image != "" {
			what = e.Image
		}
		if e.ExpirationDate != nil {
			expires, left = e.ExpirationDate.UTC().Format(time.DateOnly), fmt.Sprint(*e.DaysLeft)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\n", e.CloudProfile, what, e.Version, e.Classification, expires, left,
			e.Shoots)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write versions: %w", err)
	}
	return nil
}
