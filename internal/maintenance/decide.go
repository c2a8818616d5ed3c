package maintenance

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"

	"hortus.dev/hortus/internal/versionclass"
)

// Subject is what an Item updates.
type Subject string

const (
	ControlPlane   Subject = "ControlPlane"   // The Kubernetes version of the control plane and the pools that follow it.
	PoolKubernetes Subject = "PoolKubernetes" // The Kubernetes version of a pool that sets its own.
	PoolImage      Subject = "PoolImage"      // The machine image version of a pool.
)

// Item is one version that is updated, or that should be and cannot.
type Item struct {
	Subject Subject
	Pool    string // Empty for the control plane.
	Image   string // Name of the machine image; PoolImage only.
	From    string
	To      string // Empty if the update failed.
	Cause   Cause
	Forced  bool   // The target is beyond the reach of automatic updates.
	Capped  bool   // The pool's target was above the control plane and was lowered to its version.
	Reason  string // Why the update is due.
	Err     error  // Why it failed.
}

// Obstacle returns the innermost reason of a failure, without what was being tried.
func (i *Item) Obstacle() string {
	if inner := errors.Unwrap(i.Err); inner != nil {
		return inner.Error()
	}
	return i.Err.Error()
}

// Decision is what one maintenance does to the versions of a Cluster.
type Decision struct {
	Items []Item // Control plane, then pools' Kubernetes versions, then pools' images.
	// ImageErr is set if a pool's machine type or image is not in the profile. Then pools from that one on keep
	// their images; updates of earlier pools are carried out, and are in Unreported instead of Items.
	ImageErr   error
	Unreported []Item
}

// Failed reports whether an update that is due cannot be done.
func (d *Decision) Failed() bool {
	return slices.ContainsFunc(d.Items, func(i Item) bool { return i.Err != nil })
}

// Changed reports whether any version is updated.
func (d *Decision) Changed() bool {
	return len(d.Unreported) > 0 || slices.ContainsFunc(d.Items, func(i Item) bool { return i.Err == nil })
}

// Decider chooses versions out of one profile. It remembers choices it has made, because thousands of Shoots have
// the same version at the same time. It is not safe for concurrent use; make one per goroutine.
type Decider struct {
	profile *versionclass.Profile
	memo    map[question]choice
}

// question identifies a choice: the class of every version is constant within an epoch.
type question struct {
	epoch        int
	version      string
	auto         bool
	image        string // Empty for Kubernetes; otherwise the following say which versions are eligible.
	kubelet      string
	machineType  string
	architecture string
	cri          string
	runtimes     string
	inPlace      bool
}

// NewDecider returns a Decider for the profile.
func NewDecider(profile *versionclass.Profile) *Decider {
	return &Decider{profile: profile, memo: map[question]choice{}}
}

func (d *Decider) ask(now time.Time, q question, answer func() choice) choice {
	q.epoch = sort.Search(len(d.profile.Changes), func(i int) bool { return !d.profile.Changes[i].Before(now) })
	c, ok := d.memo[q]
	if !ok {
		c = answer()
		d.memo[q] = c
	}
	return c
}

// Decide returns what a maintenance at the given time does to the versions of the cluster.
func (d *Decider) Decide(c *Cluster, now time.Time) Decision {
	var decision Decision
	images, err := d.decideImages(c, now)
	if err != nil {
		decision.ImageErr, decision.Unreported, images = err, slices.DeleteFunc(images, func(i Item) bool { return i.Err != nil }), nil
	}
	controlPlane := c.Kubernetes
	if item, due := d.decideKubernetes(c.Kubernetes, c.AutoKubernetes, now); due {
		item.Subject = ControlPlane
		if item.Err == nil {
			controlPlane = item.To
		}
		decision.Items = append(decision.Items, item)
	}
	for i := range c.Pools {
		pool := &c.Pools[i]
		if pool.Kubernetes == "" {
			continue
		}
		if item, due := d.decideKubernetes(pool.Kubernetes, c.AutoKubernetes, now); due {
			item.Subject, item.Pool = PoolKubernetes, pool.Name
			if item.capAt(controlPlane); item.To != item.From {
				decision.Items = append(decision.Items, item)
			}
		}
	}
	decision.Items = append(decision.Items, images...)
	return decision
}

// capAt lowers a pool's target to the version of the control plane, which its kubelets must not pass.
func (i *Item) capAt(controlPlane string) {
	if i.Err != nil {
		return
	}
	to, err := versionclass.ParseVersion(i.To)
	if err != nil {
		return
	}
	if limit, err := versionclass.ParseVersion(controlPlane); err == nil && to.GreaterThan(limit) {
		i.To, i.Capped = controlPlane, true
	}
}

func (d *Decider) decideKubernetes(version string, auto bool, now time.Time) (Item, bool) {
	made := d.ask(now, question{version: version, auto: auto}, func() choice {
		return choose(kubernetesStrategy, kubernetesCandidates(d.profile, now), version, auto)
	})
	item := Item{From: version}
	switch made.cause {
	case CauseMissing:
		item.Reason = "Version does not exist in CloudProfile"
	case CauseExpired:
		item.Reason = "Kubernetes version expired - force update required"
	case CauseAuto:
		item.Reason = "Automatic update of Kubernetes version configured"
	}
	return item.complete(made)
}

func (i Item) complete(made choice) (Item, bool) {
	i.To, i.Cause, i.Forced, i.Err = made.target, made.cause, made.forced, made.err
	return i, made.target != "" || made.err != nil
}

// decideImages decides about pools in order until one of them names something that the profile does not know.
func (d *Decider) decideImages(c *Cluster, now time.Time) (items []Item, err error) {
	for i := range c.Pools {
		pool := &c.Pools[i]
		machineType := d.profile.MachineTypes[pool.MachineType]
		if machineType == nil {
			return items, fmt.Errorf("machine type %q of worker pool %q does not exist in CloudProfile", pool.MachineType, pool.Name)
		}
		image := d.profile.Image(pool.Image)
		if image == nil {
			return items, fmt.Errorf("machine image %q of worker pool %q does not exist in CloudProfile", pool.Image, pool.Name)
		}
		if item, due := d.decideImage(c, pool, image, machineType, now); due {
			items = append(items, item)
		}
	}
	return items, nil
}

func (d *Decider) decideImage(c *Cluster, pool *Pool, image *versionclass.Image, machineType *versionclass.MachineType, now time.Time) (Item, bool) {
	kubelet := pool.effectiveKubernetes(c.Kubernetes)
	q := question{
		version:      pool.ImageVersion,
		auto:         c.AutoImage,
		image:        image.Name,
		kubelet:      kubelet,
		architecture: pool.Architecture,
		machineType:  pool.MachineType,
		cri:          pool.CRI,
		runtimes:     pool.Runtimes,
		inPlace:      pool.InPlace,
	}
	made := d.ask(now, q, func() choice {
		eligible := image.Eligible(needsOf(pool, machineType, kubelet))
		return choose(imageStrategies[image.Strategy], imageCandidates(eligible, now), pool.ImageVersion, c.AutoImage)
	})
	item := Item{Subject: PoolImage, Pool: pool.Name, Image: image.Name, From: pool.ImageVersion}
	switch made.cause {
	case CauseMissing:
		item.Reason = "Version does not exist in CloudProfile"
	case CauseExpired:
		item.Reason = fmt.Sprintf("Machine image version expired - force update required (image update strategy: %s)", image.Strategy)
	case CauseAuto:
		item.Reason = fmt.Sprintf("Automatic update of the machine image version is configured (image update strategy: %s)", image.Strategy)
	}
	return item.complete(made)
}

func needsOf(pool *Pool, machineType *versionclass.MachineType, kubelet string) versionclass.Needs {
	needs := versionclass.Needs{
		Architecture: pool.Architecture,
		MachineType:  machineType,
		CRI:          pool.CRI,
		InPlace:      pool.InPlace,
		Current:      pool.ImageVersion,
	}
	if needs.Architecture == "" {
		needs.Architecture = machineType.Architecture
	}
	if pool.Runtimes != "" {
		needs.Runtimes = strings.Split(pool.Runtimes, ",")
	}
	if v, err := semver.NewVersion(kubelet); err == nil {
		needs.Kubelet = v
	}
	return needs
}

// Apply returns the cluster as it is after the decision. The given one is not changed.
func (c Cluster) Apply(d *Decision) Cluster {
	c.Pools = slices.Clone(c.Pools)
	for _, items := range [][]Item{d.Items, d.Unreported} {
		for i := range items {
			c.apply(&items[i])
		}
	}
	return c
}

func (c *Cluster) apply(item *Item) {
	if item.Err != nil {
		return
	}
	if item.Subject == ControlPlane {
		c.Kubernetes = item.To
		return
	}
	for i := range c.Pools {
		switch pool := &c.Pools[i]; {
		case pool.Name != item.Pool:
		case item.Subject == PoolKubernetes:
			pool.Kubernetes = item.To
		default:
			pool.ImageVersion = item.To
		}
	}
}
