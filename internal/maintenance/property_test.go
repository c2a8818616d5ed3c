package maintenance

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/Masterminds/semver/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/cloudprofile"
)

const propertySeeds = 3000

// randomSpec has a few versions of each kind with random classes.
func randomSpec(rng *rand.Rand) corev1beta1.CloudProfileSpec {
	classes := []corev1beta1.VersionClassification{"preview", "supported", "deprecated"}
	expirable := func(v string) corev1beta1.ExpirableVersion {
		e := corev1beta1.ExpirableVersion{Version: v}
		if n := rng.IntN(4); n < 3 {
			e.Classification = &classes[n]
		}
		if rng.IntN(3) == 0 {
			e.ExpirationDate = &metav1.Time{Time: now.AddDate(0, 0, rng.IntN(40)-20)}
		}
		return e
	}
	spec := corev1beta1.CloudProfileSpec{}
	for i := range 16 {
		if rng.IntN(3) > 0 {
			spec.Kubernetes.Versions = append(spec.Kubernetes.Versions, expirable(fmt.Sprintf("1.%d.%d", 24+i/4, i%4)))
		}
	}
	strategy := []corev1beta1.MachineImageUpdateStrategy{"patch", "minor", "major"}[rng.IntN(3)]
	image := corev1beta1.MachineImage{Name: "os", UpdateStrategy: &strategy}
	for i := range 27 {
		if rng.IntN(3) == 0 {
			continue
		}
		v := corev1beta1.MachineImageVersion{ExpirableVersion: expirable(fmt.Sprintf("%d.%d.%d", 1+i/9, i/3%3, i%3))}
		switch rng.IntN(5) {
		case 0:
			v.KubeletVersionConstraint = ptr(">= 1.26")
		case 1:
			v.Architectures = []string{"arm64"}
		case 2:
			v.InPlaceUpdates = &corev1beta1.InPlaceUpdates{Supported: true, MinVersionForUpdate: ptr("1.1.0")}
		}
		image.Versions = append(image.Versions, v)
	}
	spec.MachineImages = []corev1beta1.MachineImage{image}
	return spec
}

func randomCluster(rng *rand.Rand) Cluster {
	version := func(minor int) string { return fmt.Sprintf("1.%d.%d", minor, rng.IntN(4)) }
	minor := 24 + rng.IntN(4)
	c := Cluster{Kubernetes: version(minor), AutoKubernetes: rng.IntN(2) == 0, AutoImage: rng.IntN(2) == 0}
	for i := range rng.IntN(4) {
		p := Pool{Name: fmt.Sprint(i), MachineType: "small", Architecture: "amd64", Image: "os", InPlace: rng.IntN(3) == 0,
			ImageVersion: fmt.Sprintf("%d.%d.%d", 1+rng.IntN(3), rng.IntN(3), rng.IntN(3))}
		if rng.IntN(2) == 0 {
			p.Kubernetes = version(minor - rng.IntN(2))
			if semver.MustParse(p.Kubernetes).GreaterThan(semver.MustParse(c.Kubernetes)) {
				p.Kubernetes = c.Kubernetes
			}
		}
		c.Pools = append(c.Pools, p)
	}
	return c
}

// For all profiles and Shoots, no decision may violate one of these rules.
func TestDecisionsKeepTheRules(t *testing.T) {
	for seed := range uint64(propertySeeds) {
		rng := rand.New(rand.NewPCG(seed, 3))
		spec, cluster := randomSpec(rng), randomCluster(rng)
		p := compiled(t, spec)
		d := NewDecider(p).Decide(&cluster, now)
		for _, item := range slices.Concat(d.Items, d.Unreported) {
			if item.Err != nil {
				continue
			}
			from, to := semver.MustParse(item.From), semver.MustParse(item.To)
			var class cloudprofile.Class
			if item.Subject == PoolImage {
				class = p.Image("os").Version(item.To).ClassAt(now)
			} else if v := p.KubernetesVersion(item.To); v != nil {
				class = v.ClassAt(now)
			} else if !item.Capped {
				t.Errorf("seed %d: %+v goes to a version that is not offered", seed, item)
			}
			switch {
			case !to.GreaterThan(from):
				t.Errorf("seed %d: %+v is not an update to a higher version", seed, item)
			case !item.Capped && class == cloudprofile.Preview:
				t.Errorf("seed %d: %+v goes to a preview version", seed, item)
			case !item.Capped && !item.Forced && class == cloudprofile.Expired:
				t.Errorf("seed %d: %+v goes to an expired version without need", seed, item)
			case item.Forced && item.Cause == CauseAuto:
				t.Errorf("seed %d: %+v is forced without need", seed, item)
			case item.Subject != PoolImage && (to.Major() != from.Major() || to.Minor() > from.Minor()+1):
				t.Errorf("seed %d: %+v skips a minor version", seed, item)
			case item.Subject != PoolImage && !item.Forced && to.Minor() != from.Minor():
				t.Errorf("seed %d: %+v changes the minor version automatically", seed, item)
			}
		}
		after := cluster.Apply(&d)
		for _, pool := range after.Pools {
			if pool.Kubernetes != "" && semver.MustParse(pool.Kubernetes).GreaterThan(semver.MustParse(after.Kubernetes)) {
				t.Errorf("seed %d: pool %s on %s is above the control plane on %s", seed, pool.Name, pool.Kubernetes,
					after.Kubernetes)
			}
		}
	}
}

// A decision depends only on its arguments, not on the order of versions or on earlier decisions.
func TestDecisionsAreDeterministic(t *testing.T) {
	for seed := range uint64(propertySeeds) {
		rng := rand.New(rand.NewPCG(seed, 4))
		spec, cluster := randomSpec(rng), randomCluster(rng)
		shuffled := *spec.DeepCopy()
		rng.Shuffle(len(shuffled.Kubernetes.Versions), func(i, j int) {
			v := shuffled.Kubernetes.Versions
			v[i], v[j] = v[j], v[i]
		})
		rng.Shuffle(len(shuffled.MachineImages[0].Versions), func(i, j int) {
			v := shuffled.MachineImages[0].Versions
			v[i], v[j] = v[j], v[i]
		})
		used := NewDecider(compiled(t, shuffled))
		for range 5 {
			other := randomCluster(rng)
			used.Decide(&other, now.AddDate(0, 0, rng.IntN(40)-20))
		}
		before := cluster
		a, b := NewDecider(compiled(t, spec)).Decide(&cluster, now), used.Decide(&cluster, now)
		if !reflect.DeepEqual(a.Items, b.Items) && fmt.Sprint(a.Items) != fmt.Sprint(b.Items) {
			t.Errorf("seed %d: %v and then %v", seed, a.Items, b.Items)
		}
		if !reflect.DeepEqual(before, cluster) {
			t.Errorf("seed %d: Decide changed its argument", seed)
		}
	}
}

// Maintenances are repeated until nothing is left to do. Versions never decrease, and the end is reached in at most as
// many steps as there are versions.
func TestMaintenancesComeToAnEnd(t *testing.T) {
	for seed := range uint64(propertySeeds) {
		rng := rand.New(rand.NewPCG(seed, 5))
		spec, cluster := randomSpec(rng), randomCluster(rng)
		decider := NewDecider(compiled(t, spec))
		steps := 0
		for ; ; steps++ {
			d := decider.Decide(&cluster, now)
			if !d.Changed() {
				break
			}
			if steps > 50 {
				t.Fatalf("seed %d: no end at %+v", seed, cluster)
			}
			cluster = cluster.Apply(&d)
		}
		if d := decider.Decide(&cluster, now); d.Changed() {
			t.Errorf("seed %d: the final state changes", seed)
		}
	}
}

// An additional supported version does not block updates: everything that could be updated still can be.
func TestAddingASupportedVersionRemovesNoExit(t *testing.T) {
	for seed := range uint64(propertySeeds) {
		rng := rand.New(rand.NewPCG(seed, 6))
		spec, cluster := randomSpec(rng), randomCluster(rng)
		cluster.Pools = nil
		before := NewDecider(compiled(t, spec)).Decide(&cluster, now)
		more := *spec.DeepCopy()
		more.Kubernetes.Versions = append(more.Kubernetes.Versions, corev1beta1.ExpirableVersion{
			Version:        fmt.Sprintf("1.%d.%d", 23+rng.IntN(6), 4+rng.IntN(3)),
			Classification: ptr(corev1beta1.ClassificationSupported)})
		after := NewDecider(compiled(t, more)).Decide(&cluster, now)
		if !before.Failed() && after.Failed() {
			t.Errorf("seed %d: %v fails after adding %s", seed, after.Items,
				more.Kubernetes.Versions[len(more.Kubernetes.Versions)-1].Version)
		}
	}
}

// The decision does not change before the class of a version does.
func TestDecisionsChangeOnlyWithClasses(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 7))
		spec, cluster := randomSpec(rng), randomCluster(rng)
		p := compiled(t, spec)
		from := now.AddDate(0, 0, -25)
		previous := NewDecider(p).Decide(&cluster, from)
		for at := from; at.Before(now.AddDate(0, 0, 25)); at = at.Add(5 * time.Hour) {
			d := NewDecider(p).Decide(&cluster, at)
			changed := fmt.Sprint(d.Items) != fmt.Sprint(previous.Items)
			passed := slices.ContainsFunc(p.Changes,
				func(c time.Time) bool { return c.Before(at) && !c.Before(at.Add(-5*time.Hour)) })
			if changed && !passed {
				t.Errorf("seed %d: another decision at %s without a change of classes", seed, at)
			}
			previous = d
		}
	}
}
