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

// need is one way in which pools use an image. Pools that need the same versions are treated alike.
type need struct {
	architecture string
	machineType  string   // Represents all machine types of the architecture that the same image versions run on.
	machineTypes []string // Empty if these are all machine types of the architecture.
	runtime      string   // Empty for containerd without additional runtimes.
	kubelet      string   // Represents all Kubernetes versions that the same image versions accept.
	kubelets     []string
	inPlace      bool
}

func (c *checker) image(image *cloudprofile.Image) {
	what := "image " + image.Name
	versions := make([]*cloudprofile.Version, 0, len(image.Versions))
	for _, v := range image.Versions {
		versions = append(versions, &v.Version)
	}
	c.overlaps(what, versions)
	c.deprecatedForever(what, versions)
	c.unusable(image)
	c.inPlacePaths(image)
	c.imageDeadEnds(image)
}

// unusable reports image versions that no machine type or no Kubernetes version can use.
func (c *checker) unusable(image *cloudprofile.Image) {
	for _, v := range image.Versions {
		if !slices.ContainsFunc(c.profile.Kubernetes, func(k *cloudprofile.Version) bool {
			return k.ClassAt(c.now).Active() && v.AcceptsKubelet(k.Semver)
		}) {
			c.add(Finding{
				Severity: Warning, Rule: RuleUnusable, What: "image " + image.Name, Version: v.Text,
				Message: fmt.Sprintf("its kubeletVersionConstraint %q accepts no offered Kubernetes version", v.KubeletText),
				Fix:     "relax the constraint, or remove the version",
			})
		}
		fits, runs := false, false
		for _, mt := range c.profile.MachineTypes {
			fits = fits || slices.Contains(v.Architectures, mt.Architecture)
			runs = runs || image.RunsOn(v, mt)
		}
		message := ""
		switch {
		case !fits:
			message = fmt.Sprintf("no machine type has its architecture %s", strings.Join(v.Architectures, ", "))
		case !runs:
			message = "no machine type of its architecture has the capabilities of one of its flavors"
		}
		if message != "" {
			c.add(Finding{
				Severity: Warning, Rule: RuleUnusable, What: "image " + image.Name, Version: v.Text,
				Message: message,
				Fix:     "offer such a machine type, or remove the version",
			})
		}
	}
}

// inPlacePaths reports versions that support in-place updates but are never their target, and versions from which the
// newest supported or deprecated one cannot be reached in place.
func (c *checker) inPlacePaths(image *cloudprofile.Image) {
	var newest *cloudprofile.ImageVersion
	lowest := true
	for _, v := range image.Versions {
		if !v.InPlace {
			continue
		}
		if v.InPlaceMinimum == nil && !lowest {
			c.add(Finding{
				Severity: Warning, Rule: RuleInPlacePath, What: "image " + image.Name, Version: v.Text,
				Message: "supports in-place updates but has no minVersionForUpdate, so it is never their target",
				Fix:     "set inPlaceUpdates.minVersionForUpdate",
			})
		}
		lowest = false
		if class := v.ClassAt(c.now); class == cloudprofile.Supported || class == cloudprofile.Deprecated {
			newest = v
		}
	}
	for _, v := range image.Versions {
		if newest == nil || !v.InPlace || !v.ClassAt(c.now).Active() || !v.Semver.LessThan(newest.Semver) ||
			c.reaches(image, v, newest) {
			continue
		}
		c.add(Finding{
			Severity: Warning, Rule: RuleInPlacePath, What: "image " + image.Name, Version: v.Text,
			Message: fmt.Sprintf("no in-place update path to %s (minVersionForUpdate)", newest.Text),
			Fix:     fmt.Sprintf("offer a version that can be updated to from %s, or lower a minVersionForUpdate", v.Text),
		})
	}
}

// reaches reports whether machines can be updated in place from one version to another, in any number of steps.
func (c *checker) reaches(image *cloudprofile.Image, from, to *cloudprofile.ImageVersion) bool {
	seen := map[string]bool{from.Text: true}
	for queue := []*cloudprofile.ImageVersion{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if at == to {
			return true
		}
		for _, v := range image.Versions {
			if class := v.ClassAt(c.now); !seen[v.Text] && v.InPlace && v.InPlaceMinimum != nil &&
				(class == cloudprofile.Supported || class == cloudprofile.Deprecated) &&
				v.Semver.GreaterThan(at.Semver) && !v.InPlaceMinimum.GreaterThan(at.Semver) {
				seen[v.Text] = true
				queue = append(queue, v)
			}
		}
	}
	return false
}

// needsOf lists all ways in which pools may use the image, those with the fewest requirements first.
func (c *checker) needsOf(image *cloudprofile.Image) []need {
	var architectures, runtimes []string
	inPlace := false
	for _, v := range image.Versions {
		architectures = append(architectures, v.Architectures...)
		for _, cri := range v.CRI {
			for _, r := range cri.ContainerRuntimes {
				runtimes = append(runtimes, r.Type)
			}
		}
		inPlace = inPlace || v.InPlace
	}
	var needs []need
	for _, how := range []bool{false, true} {
		if how && !inPlace {
			continue
		}
		for _, architecture := range unique(architectures) {
			groups := c.machineGroups(image, architecture)
			for _, machines := range groups {
				n := need{architecture: architecture, machineType: machines[0], inPlace: how}
				if len(groups) > 1 {
					n.machineTypes = machines
				}
				for _, n.runtime = range append([]string{""}, unique(runtimes)...) {
					for _, n.kubelets = range c.kubeletGroups(image) {
						n.kubelet = n.kubelets[0]
						needs = append(needs, n)
					}
				}
			}
		}
	}
	return needs
}

func unique(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// machineGroups groups the machine types of an architecture by the versions of the image that run on them. Without
// capabilities there is one group.
func (c *checker) machineGroups(image *cloudprofile.Image, architecture string) [][]string {
	var groups [][]string
	at := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(c.profile.MachineTypes)) {
		mt := c.profile.MachineTypes[name]
		if mt.Architecture != architecture {
			continue
		}
		var runs strings.Builder
		for _, v := range image.Versions {
			fmt.Fprint(&runs, image.RunsOn(v, mt))
		}
		i, ok := at[runs.String()]
		if !ok {
			i = len(groups)
			at[runs.String()] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], name)
	}
	return groups
}

// kubeletGroups groups Kubernetes versions by the versions of the image that accept them.
func (c *checker) kubeletGroups(image *cloudprofile.Image) [][]string {
	var groups [][]string
	at := map[string]int{}
	for _, k := range c.profile.Kubernetes {
		var accepted strings.Builder
		for _, v := range image.Versions {
			if v.AcceptsKubelet(k.Semver) {
				accepted.WriteByte('1')
			} else {
				accepted.WriteByte('0')
			}
		}
		i, ok := at[accepted.String()]
		if !ok {
			i = len(groups)
			at[accepted.String()] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], k.Text)
	}
	return groups
}

// failure is a dead end for pools with one need.
type failure struct {
	need  need
	stuck stuckness
	item  maintenance.Item
}

func (c *checker) imageDeadEnds(image *cloudprofile.Image) {
	needs := c.needsOf(image)
	failures := map[string][]failure{}
	for _, n := range needs {
		for version, s := range c.exploreImage(image, n) {
			item := c.imageItem(image, n, version, s.from, false)
			failures[version] = append(failures[version], failure{n, s, *item})
		}
	}
	for _, v := range image.Versions {
		list := failures[v.Text]
		if len(list) == 0 {
			continue
		}
		// The version is reported once, for the needs that are stuck earliest and longest.
		slices.SortStableFunc(list, func(a, b failure) int {
			if a.stuck.forever != b.stuck.forever {
				if a.stuck.forever {
					return -1
				}
				return 1
			}
			return a.stuck.from.Compare(b.stuck.from)
		})
		users := 0
		for _, n := range needs {
			if len(c.eligible(image, n, v.Text)) > 0 {
				users++
			}
		}
		who := ""
		if len(list) < users {
			who = describe(list)
		}
		item := list[0].item
		item.Pool = ""
		c.addDeadEnd("image "+image.Name, &item, list[0].stuck, who, c.endOfLife(image, v, list))
	}
}

// endOfLife reports whether the version is the last one of its image and is a dead end only because it expires, not
// because of constraints.
func (c *checker) endOfLife(image *cloudprofile.Image, v *cloudprofile.ImageVersion, list []failure) bool {
	return v == image.Versions[len(image.Versions)-1] && !slices.ContainsFunc(list, func(f failure) bool {
		return f.item.Cause != maintenance.CauseExpired
	})
}

// describe returns the common properties of the needs that are stuck.
func describe(list []failure) string {
	var parts []string
	same := func(of func(need) string) string {
		value := of(list[0].need)
		for _, f := range list {
			if of(f.need) != value {
				return ""
			}
		}
		return value
	}
	if how := same(func(n need) string { return fmt.Sprint(n.inPlace) }); how == "true" {
		parts = append(parts, "in-place pools")
	} else {
		parts = append(parts, "pools")
	}
	if a := same(func(n need) string { return n.architecture }); a != "" {
		parts = append(parts, "on "+a)
	}
	if m := same(func(n need) string { return strings.Join(n.machineTypes, ", ") }); m != "" {
		parts = append(parts, "of machine type "+m)
	}
	if r := same(func(n need) string { return n.runtime }); r != "" {
		parts = append(parts, "with runtime "+r)
	}
	var kubelets []string
	for _, f := range list {
		kubelets = append(kubelets, f.need.kubelets...)
	}
	kubelets = unique(kubelets)
	const most = 4
	if len(kubelets) > most {
		kubelets = append(kubelets[:most], "...")
	}
	return strings.Join(append(parts, "with Kubernetes "+strings.Join(kubelets, ", ")), " ")
}

// cluster returns a cluster with one pool that has the need.
func (c *checker) cluster(image *cloudprofile.Image, n need, version string, auto bool) *maintenance.Cluster {
	pool := maintenance.Pool{
		Name:         "any",
		Kubernetes:   "", // The control plane's version, whose update does not matter here.
		MachineType:  n.machineType,
		Architecture: n.architecture,
		Runtimes:     n.runtime,
		Image:        image.Name,
		ImageVersion: version,
		InPlace:      n.inPlace,
	}
	return &maintenance.Cluster{Kubernetes: n.kubelet, AutoImage: auto, Pools: []maintenance.Pool{pool}}
}

func (c *checker) eligible(image *cloudprofile.Image, n need, version string) []*cloudprofile.ImageVersion {
	needs := cloudprofile.Needs{
		Architecture: n.architecture, MachineType: c.profile.MachineTypes[n.machineType], InPlace: n.inPlace,
		Current: version,
	}
	if n.runtime != "" {
		needs.Runtimes = []string{n.runtime}
	}
	if k := c.profile.KubernetesVersion(n.kubelet); k != nil {
		needs.Kubelet = k.Semver
	}
	return slices.DeleteFunc(image.Eligible(needs), func(v *cloudprofile.ImageVersion) bool { return v.Text != version })
}

func (c *checker) exploreImage(image *cloudprofile.Image, n need) map[string]stuckness {
	usable := func(v string) bool { return len(c.eligible(image, n, v)) > 0 }
	g := &graph{
		offered: func(v string, t time.Time) bool { return usable(v) && image.Version(v).ClassAt(t).Active() },
		present: usable,
		decide: func(v string, t time.Time, auto bool) (string, bool) {
			return c.decideImage(image, n, v, t, auto)
		},
	}
	g.epochs, g.ends = epochsOf(c.now, c.profile.Changes)
	for _, v := range image.Versions {
		g.versions = append(g.versions, v.Text)
	}
	return g.explore()
}

func (c *checker) decideImage(
	image *cloudprofile.Image, n need, version string, t time.Time, auto bool,
) (string, bool) {
	if item := c.imageItem(image, n, version, t, auto); item != nil {
		return item.To, item.Err != nil
	}
	return "", false
}

// imageItem returns the change that maintenance makes to the image of a pool with the need; nil if none.
func (c *checker) imageItem(
	image *cloudprofile.Image, n need, version string, t time.Time, auto bool,
) *maintenance.Item {
	d := c.decider.Decide(c.cluster(image, n, version, auto), t)
	for i := range d.Items {
		if d.Items[i].Subject == maintenance.PoolImage {
			return &d.Items[i]
		}
	}
	return nil
}

// inUse counts the Shoots per version, with the keys of findings.
type inUse map[[2]string]int

func (u inUse) count(shoots []*corev1beta1.Shoot, images []corev1beta1.MachineImage) {
	for _, s := range shoots {
		if s.DeletionTimestamp != nil {
			continue
		}
		seen := map[[2]string]bool{{kubernetes, s.Spec.Kubernetes.Version}: true}
		for _, w := range s.Spec.Provider.Workers {
			if w.Kubernetes != nil && w.Kubernetes.Version != nil {
				seen[[2]string{kubernetes, *w.Kubernetes.Version}] = true
			}
			if image := w.Machine.Image; image != nil && image.Version != nil {
				seen[[2]string{"image " + cloudprofile.ImageName(images, image.Name), *image.Version}] = true
			}
		}
		for key := range seen {
			u[key]++
		}
	}
}
