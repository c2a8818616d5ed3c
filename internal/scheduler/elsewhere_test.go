package scheduler

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/fleet"
)

func TestShootsThatLeaveGoElsewhere(t *testing.T) {
	backedUp := func(s *corev1beta1.Seed) {
		s.Spec.Backup = &corev1beta1.Backup{}
		s.Spec.DNS.Internal = &corev1beta1.SeedDNSProviderConfig{Domain: "internal.example.org"}
		s.Status.Conditions = append(s.Status.Conditions,
			corev1beta1.Condition{Type: corev1beta1.SeedBackupBucketsReady, Status: corev1beta1.ConditionTrue})
	}
	places := func(n string) func(*corev1beta1.Seed) {
		return func(s *corev1beta1.Seed) {
			s.Status.Allocatable = corev1.ResourceList{corev1beta1.SeedResourceShoots: resource.MustParse(n)}
		}
	}
	otherDomain := func(s *corev1beta1.Seed) { s.Spec.DNS.Internal.Domain = "other.example.org" }
	on := func(name, bound, on string) corev1beta1.Shoot {
		return *shoot(func(s *corev1beta1.Shoot) {
			s.Name, s.Spec.SeedName, s.Status.SeedName = name, &bound, &on
			s.Spec.CloudProfile = &corev1beta1.CloudProfileReference{Name: "local"}
			s.Spec.SchedulerName = new("other")
		})
	}
	here := seed("here", "eu-west-1", backedUp)
	shoots := []corev1beta1.Shoot{
		on("a", "here", "here"), on("b", "here", "here"), on("c", "here", "here"), on("d", "far", "here"),
		on("e", "one", "one"),
	}
	key := func(name string) types.NamespacedName {
		return types.NamespacedName{Namespace: "garden-dev", Name: name}
	}
	three := func(s string) [3]string { return [3]string{s, s, s} }
	for name, tc := range map[string]struct {
		seeds   []*corev1beta1.Seed
		planned map[types.NamespacedName]string
		want    [3]string // The Seed of each Shoot, or a part of the reason.
	}{
		"each counts for the next": {
			seeds: []*corev1beta1.Seed{here, seed("one", "eu-west-1", backedUp), seed("two", "eu-west-1", backedUp)},
			want:  [3]string{"two", "one", "two"},
		},
		"planned moves count": {
			seeds:   []*corev1beta1.Seed{here, seed("one", "eu-west-1", backedUp), seed("two", "eu-west-1", backedUp)},
			planned: map[types.NamespacedName]string{key("d"): "two", key("gone"): "two"}, want: [3]string{"one", "two", "one"},
		},
		"no place is used twice": {
			seeds: []*corev1beta1.Seed{here, seed("one", "eu-west-1", backedUp, places("2"))},
			want:  [3]string{"one", "it is full: 2 of 2 Shoots", "it is full: 2 of 2 Shoots"},
		},
		"only Seeds that control planes can move to": {
			seeds: []*corev1beta1.Seed{here, seed("bare", "eu-west-1"), seed("foreign", "eu-west-1", backedUp, otherDomain)},
			want:  three("no other seed has backups and the internal domain of seed here"),
		},
		"the Seed that they leave does not exist": {
			seeds: []*corev1beta1.Seed{seed("two", "eu-west-1", backedUp, otherDomain)}, want: three("two"),
		},
		"another region": {
			seeds: []*corev1beta1.Seed{here, seed("far", "us-east-1", backedUp)},
			want:  three(`it is in region "us-east-1", the Shoot in "eu-west-1"`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fleet.Fleet{
				Shoots: shoots, CloudProfiles: []corev1beta1.CloudProfile{{ObjectMeta: metav1.ObjectMeta{Name: "local"}}},
			}
			for _, s := range tc.seeds {
				f.Seeds = append(f.Seeds, *s)
			}
			decisions := Elsewhere(f, "here", SameRegion, []types.NamespacedName{
				key("a"), key("b"), key("c"), key("gone"),
			}, tc.planned)
			if len(decisions) != 3 {
				t.Errorf("there are %d decisions, want 3", len(decisions))
			}
			for i, name := range []string{"a", "b", "c"} {
				if d := decisions[key(name)]; d.Seed != tc.want[i] && (d.Error == "" || !strings.Contains(d.Error, tc.want[i])) {
					t.Errorf("%s goes to %q (%s), want %s", name, d.Seed, d.Error, tc.want[i])
				}
			}
			for i := range f.Shoots {
				if f.Shoots[i].UID != "" {
					t.Error("the fleet has been changed")
				}
			}
		})
	}
}

func TestShootsThatLeaveKeepTheirDomain(t *testing.T) {
	on := func(name string, domains ...string) corev1beta1.Seed {
		return *seed(name, "eu-west-1", func(s *corev1beta1.Seed) {
			s.Spec.Backup = &corev1beta1.Backup{}
			s.Status.Conditions = append(s.Status.Conditions,
				corev1beta1.Condition{Type: corev1beta1.SeedBackupBucketsReady, Status: corev1beta1.ConditionTrue})
			for _, domain := range domains {
				s.Spec.DNS.Defaults = append(s.Spec.DNS.Defaults, corev1beta1.SeedDNSProviderConfig{Domain: domain})
			}
		})
	}
	leaving := shoot(func(s *corev1beta1.Shoot) {
		s.Spec.SeedName, s.Status.SeedName, s.Spec.DNS = new("here"), new("here"),
			&corev1beta1.DNS{Domain: new("demo.dev.example.com")}
		s.Spec.CloudProfile = &corev1beta1.CloudProfileReference{Name: "local"}
	})
	key := types.NamespacedName{Namespace: leaving.Namespace, Name: leaving.Name}
	for name, tc := range map[string]struct {
		other corev1beta1.Seed
		want  string
	}{
		"to a seed with the default domain":                {on("there", "example.com"), "there"},
		"not where only the seed left has its default one": {on("there"), ""},
	} {
		f := &fleet.Fleet{
			Seeds: []corev1beta1.Seed{on("here", "example.com"), tc.other}, Shoots: []corev1beta1.Shoot{*leaving},
			CloudProfiles: []corev1beta1.CloudProfile{{ObjectMeta: metav1.ObjectMeta{Name: "local"}}},
		}
		if d := Elsewhere(f, "here", SameRegion, []types.NamespacedName{key}, nil)[key]; d.Seed != tc.want {
			t.Errorf("%s: seed %q (%s), want %q", name, d.Seed, d.Error, tc.want)
		}
	}
}
