package scheduler

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/fleet"
)

// Elsewhere chooses another Seed for each Shoot that is to leave a Seed, in the given order; each decision counts for
// the next. Planned has the destinations of Shoots that were decided earlier and are not bound yet. Shoots that are not
// in the fleet are left out.
func Elsewhere(
	f *fleet.Fleet, from string, strategy Strategy, leaving []types.NamespacedName,
	planned map[types.NamespacedName]string,
) map[types.NamespacedName]Decision {
	var usage Usage
	shoots := map[types.NamespacedName]*corev1beta1.Shoot{}
	for i := range f.Shoots {
		shoot := new(f.Shoots[i])
		shoot.UID = types.UID(strconv.Itoa(i)) // The load is kept per UID, and manifests have none.
		shoots[types.NamespacedName{Namespace: shoot.Namespace, Name: shoot.Name}] = shoot
		usage.Set(shoot)
	}
	for key, seed := range planned {
		if shoot := shoots[key]; shoot != nil {
			usage.Assume(shoot, seed)
		}
	}
	others, domains := *f, DefaultDomains(f.Seeds)
	others.Seeds = destinations(f, from)
	profiles := profilesOf(f)
	decisions := map[types.NamespacedName]Decision{}
	for _, key := range leaving {
		shoot := shoots[key]
		if shoot == nil {
			continue
		}
		in, err := inputFor(&others, shoot, profiles, strategy, &usage)
		in.DefaultDomains = domains // The default domains of the current seed count, too.
		var d Decision
		switch {
		case err != nil:
			d.Error = err.Error()
		case len(others.Seeds) == 0:
			d.Error = fmt.Sprintf("no other seed has backups and the internal domain of seed %s", from)
		default:
			d = Decide(in)
		}
		if d.Seed != "" {
			usage.Assume(shoot, d.Seed)
		}
		decisions[key] = d
	}
	return decisions
}

// destinations are the Seeds that control planes of a Seed can move to, by name: both need backups, and the internal
// domain must be the same. If the Seed is gone, nothing is known of its domain.
func destinations(f *fleet.Fleet, from string) []corev1beta1.Seed {
	source := slices.IndexFunc(f.Seeds, func(s corev1beta1.Seed) bool { return s.Name == from })
	var others []corev1beta1.Seed
	for i := range f.Seeds {
		seed := &f.Seeds[i]
		sameDomain := source < 0 || seed.Spec.InternalDomain() == f.Seeds[source].Spec.InternalDomain()
		if i != source && seed.Spec.Backup != nil && sameDomain {
			others = append(others, *seed)
		}
	}
	slices.SortFunc(others, func(a, b corev1beta1.Seed) int { return strings.Compare(a.Name, b.Name) })
	return others
}
