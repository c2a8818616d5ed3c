package lint

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/cloudprofile"
	"hortus.dev/hortus/internal/maintenance"
)

var (
	update = flag.Bool("update", false, "rewrite golden files")
	seeds  = flag.Int("seeds", 400, "random profiles per property")
	now    = time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)
)

func TestCommand(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		code int
	}{
		"fleet.txt":   {[]string{"-f", "../plan/testdata/fleet.yaml"}, 3},
		"changed.txt": {[]string{"-f", "../plan/testdata/fleet.yaml", "--with", "../plan/testdata/changed-profile.yaml"}, 3},
		"trouble.txt": {[]string{"-f", "testdata/trouble.yaml"}, 3},
		"clean.txt":   {[]string{"-f", "testdata/clean.yaml"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := newCommand(clocktesting.NewFakePassiveClock(now))
			var out bytes.Buffer
			cmd.SetOut(&out)
			cmd.SetErr(&out)
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs(tc.args)
			err := cmd.Execute()
			var code interface{ Code() int }
			switch {
			case tc.code == 0 && err != nil, tc.code != 0 && (!errors.As(err, &code) || code.Code() != tc.code):
				t.Errorf("error = %v, want exit code %d", err, tc.code)
			}
			path := filepath.Join("testdata", name)
			if *update {
				if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out.String()); diff != "" {
				t.Errorf("output mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

// randomProfile is a small profile whose classes change at midnight, at least three days apart.
func randomProfile(rng *rand.Rand) *corev1beta1.CloudProfileSpec {
	classes := []corev1beta1.VersionClassification{"preview", "supported", "deprecated"}
	expirable := func(version string) corev1beta1.ExpirableVersion {
		v := corev1beta1.ExpirableVersion{Version: version}
		if n := rng.IntN(4); n < 3 {
			v.Classification = &classes[n]
		}
		if rng.IntN(4) > 0 {
			v.ExpirationDate = &metav1.Time{Time: time.Date(2026, 1, 1+3*rng.IntN(20), 0, 0, 0, 0, time.UTC)}
		}
		return v
	}
	spec := &corev1beta1.CloudProfileSpec{MachineTypes: []corev1beta1.MachineType{{Name: "small"}}}
	for minor := 20; minor < 24; minor++ {
		for patch := range 3 {
			if rng.IntN(2) == 0 {
				spec.Kubernetes.Versions = append(spec.Kubernetes.Versions, expirable(fmt.Sprintf("1.%d.%d", minor, patch)))
			}
		}
	}
	strategies := []corev1beta1.MachineImageUpdateStrategy{"patch", "minor", "major"}
	image := corev1beta1.MachineImage{Name: "os", UpdateStrategy: &strategies[rng.IntN(3)]}
	for i := range 12 {
		if rng.IntN(2) == 0 {
			image.Versions = append(image.Versions, corev1beta1.MachineImageVersion{
				ExpirableVersion: expirable(fmt.Sprintf("%d.%d.%d", 1+i/6, i/2%3, i%2))})
		}
	}
	spec.MachineImages = []corev1beta1.MachineImage{image}
	return spec
}

// deadEnds are the findings of dead ends: the version, and whether they are permanent.
func deadEnds(findings []Finding, what string) map[string]bool {
	ends := map[string]bool{}
	for _, f := range findings {
		if f.Rule == RuleDeadEnd && f.What == what {
			ends[f.Version] = f.Until == nil
		}
	}
	return ends
}

// The verdict must be that of an exhaustive simulation: Shoots on every version, created on every day, with windows at
// several times of the day, whose owners switch automatic updates on and off before every maintenance.
func TestDeadEndsAgreeWithExhaustiveSimulation(t *testing.T) {
	for seed := range *seeds {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		spec := randomProfile(rng)
		findings := Check("p", spec, now)
		profile, err := cloudprofile.Compile("p", spec)
		if err != nil {
			t.Fatal(err)
		}
		got := deadEnds(findings, kubernetes)
		want := exhaust(profile, profile.Kubernetes,
			func(d *maintenance.Decider, v string, auto bool, at time.Time) (string, bool) {
				return outcome(d.Decide(&maintenance.Cluster{Kubernetes: v, AutoKubernetes: auto}, at))
			})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("seed %d: Kubernetes dead ends mismatch (-simulation +lint):\n%s\n%s", seed, diff,
				describeVersions(profile.Kubernetes))
		}
		if len(spec.Kubernetes.Versions) == 0 || len(spec.MachineImages[0].Versions) == 0 {
			continue
		}
		var images []*cloudprofile.Version
		for _, v := range profile.Images[0].Versions {
			images = append(images, &v.Version)
		}
		got = deadEnds(findings, "image os")
		want = exhaust(profile, images, func(d *maintenance.Decider, v string, auto bool, at time.Time) (string, bool) {
			decision := d.Decide(&maintenance.Cluster{Kubernetes: "9.9.9", AutoImage: auto,
				Pools: []maintenance.Pool{{Name: "p", MachineType: "small", Image: "os", ImageVersion: v}}}, at)
			for _, item := range decision.Items {
				if item.Subject == maintenance.PoolImage {
					return item.To, item.Err != nil
				}
			}
			return "", false
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("seed %d: image dead ends mismatch (-simulation +lint):\n%s\n%s", seed, diff, describeVersions(images))
		}
	}
}

func describeVersions(versions []*cloudprofile.Version) string {
	var b strings.Builder
	for _, v := range versions {
		expiry, _ := v.Expiry()
		fmt.Fprintf(&b, "%s %s expires %s\n", v.Text, v.Label(time.Time{}), expiry.Format(time.DateOnly))
	}
	return b.String()
}

// exhaust simulates hours, not epochs, and returns the versions on which a Shoot gets stuck and whether it stays so.
func exhaust(
	p *cloudprofile.Profile, versions []*cloudprofile.Version,
	decide func(*maintenance.Decider, string, bool, time.Time) (string, bool),
) map[string]bool {
	decider := maintenance.NewDecider(p)
	end := time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC) // After the last change of a class.
	ends := map[string]bool{}
	for _, hour := range []int{0, 6, 12, 18} {
		on := map[string]bool{}
		for _, v := range versions {
			on[v.Text] = true // Existing Shoots may be on any version.
		}
		for at := now; at.Before(end); at = at.Add(time.Hour) {
			for _, v := range versions {
				if class := v.ClassAt(at); class != cloudprofile.Expired && class != cloudprofile.Unavailable {
					on[v.Text] = true
				}
			}
			if at.Hour() != hour {
				continue
			}
			stuck, next := map[string]bool{}, map[string]bool{}
			for v := range on {
				for _, auto := range []bool{true, false} {
					target, failed := decide(decider, v, auto, at)
					switch {
					case failed:
						stuck[v], next[v] = true, true
					case target == "":
						next[v] = true
					default:
						next[target] = true
					}
				}
			}
			for v := range ends {
				ends[v] = stuck[v]
			}
			for v := range stuck {
				ends[v] = true
			}
			on = next
		}
	}
	return ends
}

// With capabilities, machine types of one architecture can use different versions: a dead end of any of them counts,
// and lists them.
func TestDeadEndsOfEveryMachineType(t *testing.T) {
	named := 0
	for seed := range *seeds {
		rng := rand.New(rand.NewPCG(uint64(seed), 3))
		spec := randomProfile(rng)
		spec.MachineCapabilities = []corev1beta1.CapabilityDefinition{
			{Name: "architecture", Values: []string{"amd64"}}, {Name: "boot", Values: []string{"bios", "uefi"}},
		}
		spec.MachineTypes = []corev1beta1.MachineType{{Name: "any"},
			{Name: "old", Capabilities: corev1beta1.Capabilities{"boot": {"bios"}}},
			{Name: "new", Capabilities: corev1beta1.Capabilities{"boot": {"uefi"}}}}
		image := &spec.MachineImages[0]
		for i := range image.Versions {
			if boot := rng.IntN(3); boot < 2 {
				image.Versions[i].CapabilityFlavors = []corev1beta1.Capabilities{{
					"architecture": {"amd64"}, "boot": {[]string{"bios", "uefi"}[boot]},
				}}
			}
		}
		findings := Check("p", spec, now)
		profile, err := cloudprofile.Compile("p", spec)
		if err != nil {
			t.Fatal(err)
		}
		if len(spec.Kubernetes.Versions) == 0 || len(image.Versions) == 0 {
			continue
		}
		want := map[string]bool{}
		for _, mt := range spec.MachineTypes {
			var usable []*cloudprofile.Version
			for _, v := range profile.Images[0].Versions {
				if profile.Images[0].RunsOn(v, profile.MachineTypes[mt.Name]) {
					usable = append(usable, &v.Version)
				}
			}
			ends := exhaust(profile, usable, func(d *maintenance.Decider, v string, auto bool, at time.Time) (string, bool) {
				decision := d.Decide(&maintenance.Cluster{Kubernetes: "9.9.9", AutoImage: auto,
					Pools: []maintenance.Pool{{Name: "p", MachineType: mt.Name, Image: "os", ImageVersion: v}}}, at)
				for _, item := range decision.Items {
					if item.Subject == maintenance.PoolImage {
						return item.To, item.Err != nil
					}
				}
				return "", false
			})
			for v, forever := range ends {
				want[v] = want[v] || forever
			}
		}
		if diff := cmp.Diff(want, deadEnds(findings, "image os")); diff != "" {
			t.Errorf("seed %d: dead ends mismatch (-simulation +lint):\n%s", seed, diff)
		}
		for _, f := range findings {
			if f.Rule == RuleDeadEnd && strings.Contains(f.Message, "of machine type old") {
				named++
			}
		}
	}
	if named == 0 {
		t.Error("no finding names a machine type")
	}
}

// An additional supported version, without other changes, must not create a dead end.
func TestAddingSupportedVersionsAddsNoDeadEnd(t *testing.T) {
	for seed := range *seeds {
		rng := rand.New(rand.NewPCG(uint64(seed), 2))
		spec := randomProfile(rng)
		before := deadEnds(Check("p", spec, now), kubernetes)
		supported := corev1beta1.ClassificationSupported
		added := fmt.Sprintf("1.%d.9", 19+rng.IntN(6))
		spec.Kubernetes.Versions = append(slices.Clone(spec.Kubernetes.Versions),
			corev1beta1.ExpirableVersion{Version: added, Classification: &supported})
		for v := range deadEnds(Check("p", spec, now), kubernetes) {
			if _, known := before[v]; !known {
				t.Errorf("seed %d: adding %s makes %s a dead end", seed, added, v)
			}
		}
	}
}
