package maintenance

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"

	"hortus.dev/hortus/internal/cloudprofile"
)

// Subject is what an Item updates.
type Subject string

const (
	ControlPlane   Subject = "ControlPlane"   // The Kubernetes version of the control plane and the pools that follow it.
	PoolKubernetes Subject = "PoolKubernetes" // The Kubernetes version of a pool that sets its own.
	PoolImage      Subject = "PoolImage"      // The machine image version of a pool.
)

// Item is one version that is updated, or that is due for an update that cannot be made.
type Item struct {
	Subject Subject
	Pool    string // Empty for the control plane.
	Image   string // Name of the machine image; PoolImage only.
	From    string
	To      string // Empty if the update failed.
	Cause   Cause
	Forced  bool   // The target is not reachable by automatic updates.
	Capped  bool   // The pool's target was above the control plane's version and was lowered to it.
	Rule    string // Short name of cause and reach: auto/patch, expired/force, ...
	Reason  string // Why the update is due.
	Err     error  // Why it failed.
}

// Obstacle returns the innermost cause of a failure, without the context around it.
func (i *Item) Obstacle() string {
	if inner := errors.Unwrap(i.Err); inner != nil {
		return inner.Error()
	}
	return i.Err.Error()
}

// Decision is what one maintenance does with the versions of a Cluster.
type Decision struct {
	Items []Item // Control plane, then Kubernetes versions of pools, then images of pools.
	// ImageErr is set if a pool's machine type or image is not in the profile. That pool and the pools after it keep their
	// images; image updates of the pools before it are applied, and are in Unreported instead of Items.
	ImageErr   error
	Unreported []Item
}

// Failed reports whether an update that is due cannot be made.
func (d *Decision) Failed() bool {
	return slices.ContainsFunc(d.Items, func(i Item) bool { return i.Err != nil })
}

// Changed reports whether any version is updated.
func (d *Decision) Changed() bool {
	return len(d.Unreported) > 0 || slices.ContainsFunc(d.Items, func(i Item) bool { return i.Err == nil })
}

// Decider chooses versions from one profile. It caches its choices, because thousands of Shoots have the same version
// at the same time. It is not safe for concurrent use; create one per goroutine.
type Decider struct {
	profile *cloudprofile.Profile
	memo    map[question]answer
	kinds   map[poolKind]int
	parsed  map[string]*semver.Version
}

// question identifies a choice: the class of every version is constant within an epoch.
type question struct {
	epoch   int
	version string
	auto    bool
	kind    int    // What the pool is like, see poolKind; 0 for Kubernetes versions.
	kubelet string // Machine images only.
}

// answer is an Item without its pool; not due if there is nothing to do.
type answer struct {
	item Item
	due  bool
}

// poolKind is everything about a pool that decides which images suit it, besides its kubelet.
type poolKind struct {
	image, machineType, architecture, cri, runtimes string
	inPlace                                         bool
}

// NewDecider returns a Decider for the profile.
func NewDecider(profile *cloudprofile.Profile) *Decider {
	return &Decider{
		profile: profile,
		memo:    map[question]answer{},
		kinds:   map[poolKind]int{},
		parsed:  map[string]*semver.Version{},
	}
}

func (d *Decider) answer(q question, find func() answer) (Item, bool) {
	a, ok := d.memo[q]
	if !ok {
		a = find()
		d.memo[q] = a
	}
	return a.item, a.due
}

// parse returns the version, nil if it is none.
func (d *Decider) parse(text string) *semver.Version {
	v, ok := d.parsed[text]
	if !ok {
		v, _ = semver.NewVersion(text) // Nil on error.
		d.parsed[text] = v
	}
	return v
}

// SameMinor reports whether two versions have the same major and minor version.
func (d *Decider) SameMinor(a, b string) bool {
	v, w := d.parse(a), d.parse(b)
	return v != nil && w != nil && cloudprofile.SameMinor(v, w)
}

func (d *Decider) kindOf(pool *Pool) int {
	k := poolKind{pool.Image, pool.MachineType, pool.Architecture, pool.CRI, pool.Runtimes, pool.InPlace}
	id, ok := d.kinds[k]
	if !ok {
		id = len(d.kinds) + 1
		d.kinds[k] = id
	}
	return id
}

// epoch counts the class changes of the profile that are over at t.
func (d *Decider) epoch(t time.Time) int {
	changes := d.profile.Changes
	return sort.Search(len(changes), func(i int) bool { return !changes[i].Before(t) })
}

// Decide returns what a maintenance at the given time does with the versions of the cluster.
func (d *Decider) Decide(c *Cluster, now time.Time) Decision {
	var decision Decision
	epoch := d.epoch(now)
	images, err := d.decideImages(c, epoch, now)
	if err != nil {
		decision.ImageErr, decision.Unreported, images = err,
			slices.DeleteFunc(images, func(i Item) bool { return i.Err != nil }), nil
	}
	controlPlane := c.Kubernetes
	if item, due := d.decideKubernetes(c.Kubernetes, c.AutoKubernetes, epoch, now); due {
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
		if item, due := d.decideKubernetes(pool.Kubernetes, c.AutoKubernetes, epoch, now); due {
			item.Subject, item.Pool = PoolKubernetes, pool.Name
			if d.capAt(&item, controlPlane); item.To != item.From {
				decision.Items = append(decision.Items, item)
			}
		}
	}
	if len(decision.Items) == 0 {
		decision.Items = images
	} else {
		decision.Items = append(decision.Items, images...)
	}
	return decision
}

var cappedRules = map[Cause]string{
	CauseMissing: "missing/capped", CauseExpired: "expired/capped", CauseAuto: "auto/capped",
}

// capAt lowers a pool's target to the version of the control plane, which its kubelets must not pass.
func (d *Decider) capAt(item *Item, controlPlane string) {
	if item.Err != nil {
		return
	}
	if to, limit := d.parse(item.To), d.parse(controlPlane); to != nil && limit != nil && to.GreaterThan(limit) {
		item.To, item.Capped, item.Rule = controlPlane, true, cappedRules[item.Cause]
	}
}

func (d *Decider) decideKubernetes(version string, auto bool, epoch int, now time.Time) (Item, bool) {
	return d.answer(question{epoch: epoch, version: version, auto: auto}, func() answer {
		made := choose(kubernetesStrategy, kubernetesCandidates(d.profile, now), version, auto)
		item := Item{From: version, Rule: string(made.cause) + "/patch"}
		switch made.cause {
		case CauseMissing:
			item.Reason = "Version does not exist in CloudProfile"
		case CauseExpired:
			item.Reason = "Kubernetes version expired - force update required"
		case CauseAuto:
			item.Reason = "Automatic update of Kubernetes version configured"
		}
		return item.complete(made)
	})
}

func (i Item) complete(made choice) answer {
	i.To, i.Cause, i.Forced, i.Err = made.target, made.cause, made.forced, made.err
	if i.Forced {
		i.Rule = string(i.Cause) + "/force"
	}
	return answer{i, made.target != "" || made.err != nil}
}

// decideImages decides about pools in order until one of them names something that the profile does not know.
func (d *Decider) decideImages(c *Cluster, epoch int, now time.Time) (items []Item, err error) {
	for i := range c.Pools {
		pool := &c.Pools[i]
		machineType := d.profile.MachineTypes[pool.MachineType]
		if machineType == nil {
			return items, fmt.Errorf("machine type %q of worker pool %q does not exist in CloudProfile", pool.MachineType,
				pool.Name)
		}
		image := d.profile.Image(pool.Image)
		if image == nil {
			return items, fmt.Errorf("machine image %q of worker pool %q does not exist in CloudProfile", pool.Image, pool.Name)
		}
		kubelet := pool.effectiveKubernetes(c.Kubernetes)
		q := question{epoch: epoch, version: pool.ImageVersion, auto: c.AutoImage, kind: d.kindOf(pool), kubelet: kubelet}
		item, due := d.answer(q, func() answer {
			return decideImage(pool, image, image.Eligible(needsOf(pool, machineType, kubelet)), c.AutoImage, now)
		})
		if due {
			item.Pool = pool.Name
			items = append(items, item)
		}
	}
	return items, nil
}

func decideImage(
	pool *Pool, image *cloudprofile.Image, eligible []*cloudprofile.ImageVersion, auto bool, now time.Time,
) answer {
	made := choose(imageStrategies[image.Strategy], imageCandidates(eligible, now), pool.ImageVersion, auto)
	item := Item{
		Subject: PoolImage,
		Image:   pool.Image, // As the Shoot spells it.
		From:    pool.ImageVersion,
		Rule:    string(made.cause) + "/" + string(image.Strategy),
	}
	switch made.cause {
	case CauseMissing:
		item.Reason = "Version does not exist in CloudProfile"
	case CauseExpired:
		item.Reason = fmt.Sprintf("Machine image version expired - force update required (image update strategy: %s)",
			image.Strategy)
	case CauseAuto:
		item.Reason = fmt.Sprintf("Automatic update of the machine image version is configured (image update strategy: %s)",
			image.Strategy)
	}
	return item.complete(made)
}

// NeedsOf is what a pool requires of its machine image, given the version of the control plane.
func NeedsOf(pool *Pool, p *cloudprofile.Profile, controlPlane string) cloudprofile.Needs {
	machineType := p.MachineTypes[pool.MachineType]
	if machineType == nil {
		machineType = &cloudprofile.MachineType{Architecture: p.DefaultArchitecture(pool.MachineType)}
	}
	return needsOf(pool, machineType, pool.effectiveKubernetes(controlPlane))
}

func needsOf(pool *Pool, machineType *cloudprofile.MachineType, kubelet string) cloudprofile.Needs {
	needs := cloudprofile.Needs{
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

// Apply returns the cluster after the decision; the receiver is not changed.
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
