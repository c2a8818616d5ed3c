package plan

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"
)

var (
	judgedFleets = flag.Int("judged-fleets", 150, "random fleets of TestStepsAgreeWithTheJudge, of 60 Shoots each")
	judgedSeed   = flag.Uint64("judged-seed", 1, "seed of the first fleet of TestStepsAgreeWithTheJudge")
)

// chance generates the cases of the judge.
type chance struct{ *rand.Rand }

func (c chance) of(percent int) bool { return c.IntN(100) < percent }

func oneOf[T any](c chance, values ...T) T { return values[c.IntN(len(values))] }

var judgedNow = time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)

// moment is a time near now, and sometimes exactly now, where 'strictly before' matters.
func (c chance) moment() string {
	return judgedNow.Add(time.Duration(c.IntN(7)-3) * oneOf(c, time.Second, time.Hour, 24*time.Hour)).Format(time.RFC3339)
}

func (c chance) version(v string) judgedVersion {
	version := judgedVersion{Version: v}
	if c.of(6) {
		version.Lifecycle = nil
		for _, class := range []string{"preview", "supported", "deprecated", "expired"} {
			if c.of(60) {
				version.Lifecycle = append(version.Lifecycle, struct {
					Classification string `json:"classification"`
					StartTime      string `json:"startTime,omitempty"`
				}{class, ""})
			}
		}
		// Stages begin one after the other; the first one may have no beginning.
		begin := judgedNow.Add(-time.Duration(c.IntN(5)) * 24 * time.Hour)
		for i := range version.Lifecycle {
			if i > 0 || c.of(50) {
				version.Lifecycle[i].StartTime = begin.Format(time.RFC3339)
			}
			begin = begin.Add(time.Duration(1+c.IntN(3)) * 24 * time.Hour)
		}
		if len(version.Lifecycle) > 0 {
			return version
		}
	}
	version.Classification = oneOf(c, "", "preview", "supported", "supported", "deprecated")
	if c.of(45) {
		version.ExpirationDate = c.moment()
	}
	return version
}

func (c chance) kubernetesVersions() (versions []judgedVersion) {
	for minor := 24; minor <= 29; minor++ {
		if c.of(15) {
			continue // A gap.
		}
		for patch := range 5 {
			if c.of(55) {
				versions = append(versions, c.version(fmt.Sprintf("1.%d.%d", minor, patch*3)))
			}
		}
	}
	if c.of(10) {
		versions = append(versions, c.version("2.0.0"))
	}
	if len(versions) == 0 {
		versions = append(versions, c.version("1.26.3"))
	}
	c.Shuffle(len(versions), func(i, j int) { versions[i], versions[j] = versions[j], versions[i] })
	return versions
}

var judgedRuntimes = []judgedRuntime{{"gvisor"}, {"kata"}}

func (c chance) image(name string, capabilities bool) judgedImage {
	image := judgedImage{Name: name, Strategy: oneOf(c, "", "patch", "minor", "major")}
	for range 2 + c.IntN(9) {
		v := c.version(fmt.Sprintf("%d.%d.%d", 1+c.IntN(4), c.IntN(4), c.IntN(3)*5))
		if slices.ContainsFunc(image.Versions, func(o judgedVersion) bool { return o.Version == v.Version }) {
			continue
		}
		if c.of(30) {
			v.CRI = []judgedCRI{{Name: "containerd", Runtimes: slices.Clone(judgedRuntimes[:c.IntN(3)])}}
			if c.of(20) {
				v.CRI = append([]judgedCRI{{Name: "other"}}, v.CRI[c.IntN(2):]...)
			}
		}
		if capabilities {
			for range c.IntN(3) {
				flavor := map[string][]string{}
				if c.of(85) {
					flavor["architecture"] = oneOf(c, []string{"amd64"}, []string{"arm64"}, []string{"amd64", "arm64"})
				}
				if c.of(60) {
					flavor["boot"] = oneOf(c, []string{"bios"}, []string{"uefi"}, []string{"bios", "uefi"})
				}
				v.CapabilityFlavors = append(v.CapabilityFlavors, flavor)
			}
		} else {
			v.Architectures = oneOf(c, nil, []string{"amd64"}, []string{"arm64"}, []string{"amd64", "arm64"})
		}
		if c.of(25) {
			v.Kubelet = oneOf(c, ">= 1.26", "< 1.27", ">= 1.25.6", ">= 1.25, < 1.28")
		}
		if c.of(60) {
			v.InPlace = &judgedInPlace{Supported: c.of(80)}
			if c.of(80) {
				v.InPlace.MinVersion = fmt.Sprintf("%d.%d.%d", 1+c.IntN(3), c.IntN(3), c.IntN(2)*5)
			}
		}
		image.Versions = append(image.Versions, v)
	}
	return image
}

func (c chance) profile() *judgedProfileSpec {
	p := &judgedProfileSpec{}
	p.Kubernetes = &struct {
		Versions []judgedVersion `json:"versions"`
	}{c.kubernetesVersions()}
	capabilities := c.of(20)
	if capabilities {
		for name, values := range map[string][]string{"architecture": {"amd64", "arm64"}, "boot": {"bios", "uefi"}} {
			p.Capabilities = append(p.Capabilities, struct {
				Name   string   `json:"name"`
				Values []string `json:"values"`
			}{name, values})
		}
	}
	for _, name := range []string{"linux", "Other-OS", "third"} {
		p.Images = append(p.Images, c.image(name, capabilities))
	}
	for _, name := range []string{"small", "big", "arm"} {
		t := judgedMachineType{Name: name, CPU: "1", GPU: "0", Memory: "1Gi", Architecture: oneOf(c, "", "amd64")}
		if name == "arm" {
			t.Architecture = "arm64"
		}
		if capabilities {
			t.Capabilities = map[string][]string{"architecture": {"amd64"}}
			if name == "arm" {
				t.Capabilities["architecture"] = []string{"arm64"}
			}
			if t.Architecture = ""; c.of(60) {
				t.Capabilities["boot"] = []string{oneOf(c, "bios", "uefi")}
			}
		}
		p.Types = append(p.Types, t)
	}
	return p
}

// overlay is a NamespacedCloudProfile with other dates, and additional images, versions and machine types.
func (c chance) overlay(parent string, of *judgedProfileSpec) *judgedProfileSpec {
	p := &judgedProfileSpec{}
	p.Parent = &struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
	}{"CloudProfile", parent}
	p.Kubernetes = &struct {
		Versions []judgedVersion `json:"versions"`
	}{}
	for _, v := range of.Kubernetes.Versions {
		if c.of(40) && len(v.Lifecycle) == 0 {
			p.Kubernetes.Versions = append(p.Kubernetes.Versions, judgedVersion{Version: v.Version, ExpirationDate: c.moment()})
		}
	}
	capabilities := len(of.Capabilities) > 0
	for _, image := range of.Images {
		own := judgedImage{Name: image.Name}
		for _, v := range image.Versions {
			if c.of(40) && len(v.Lifecycle) == 0 {
				own.Versions = append(own.Versions, judgedVersion{Version: v.Version, ExpirationDate: c.moment()})
			}
		}
		for _, v := range c.image(image.Name, capabilities).Versions {
			if c.of(30) && !slices.ContainsFunc(image.Versions, func(o judgedVersion) bool { return o.Version == v.Version }) {
				own.Versions = append(own.Versions, v)
			}
		}
		if len(own.Versions) > 0 {
			p.Images = append(p.Images, own)
		}
	}
	p.Images = append(p.Images, c.image("own", capabilities))
	p.Types = append(p.Types, judgedMachineType{Name: "mine", CPU: "1", GPU: "0", Memory: "1Gi", Architecture: "amd64"})
	if capabilities {
		p.Types[0].Architecture, p.Types[0].Capabilities = "", map[string][]string{"architecture": {"amd64"}}
	}
	return p
}

func (c chance) shoot(all *judgedCase, i int) judgedShoot {
	s := judgedShoot{APIVersion: "core.gardener.cloud/v1beta1", Kind: "Shoot"}
	s.Metadata = judgedMeta{
		Name: fmt.Sprintf("s%d", i), Namespace: oneOf(c, "garden-a", "garden-b"), CreationTimestamp: "2025-10-01T00:00:00Z",
	}
	if c.of(3) {
		s.Metadata.DeletionTimestamp = "2026-01-09T00:00:00Z"
	}
	s.Spec.CloudProfile = &struct {
		Kind string `json:"kind,omitempty"`
		Name string `json:"name"`
	}{oneOf(c, "", "CloudProfile"), oneOf(c, "p0", "p1", "p2")}
	switch c.IntN(8) {
	case 0:
		s.Spec.CloudProfile, s.Spec.CloudProfileName = nil, "p1"
	case 1:
		s.Spec.CloudProfileName = "p0" // The reference takes precedence.
	case 2, 3, 4:
		s.Metadata.Namespace = "garden-a"
		s.Spec.CloudProfile.Kind, s.Spec.CloudProfile.Name = "NamespacedCloudProfile", "n"
	}
	profile := all.profileOf(&s)
	kubernetes := func() string {
		if c.of(10) {
			return fmt.Sprintf("1.%d.%d", 23+c.IntN(6), c.IntN(14)) // Possibly not in the CloudProfile.
		}
		return oneOf(c, profile.Kubernetes.Versions...).Version
	}
	s.Spec.Kubernetes.Version = kubernetes()
	s.Spec.Provider.Type = "local"
	if c.of(15) {
		s.Spec.Hibernation = &struct {
			Enabled bool `json:"enabled"`
		}{c.of(70)}
	}
	for w := range c.IntN(4) {
		pool := judgedPool{Name: fmt.Sprintf("w%d", w), Minimum: 1, Maximum: 2}
		pool.UpdateStrategy = oneOf(c, "", "", "AutoRollingUpdate", "AutoInPlaceUpdate", "ManualInPlaceUpdate")
		machineType := oneOf(c, profile.Types...)
		image := oneOf(c, profile.Images...)
		pool.Machine.Type = machineType.Name
		if c.of(30) {
			pool.Machine.Architecture = "amd64"
			if machineType.Name == "arm" {
				pool.Machine.Architecture = "arm64"
			}
		}
		name, version := image.Name, oneOf(c, image.Versions...).Version
		if c.of(10) {
			version = fmt.Sprintf("%d.%d.%d", 1+c.IntN(4), c.IntN(4), c.IntN(6))
		}
		switch c.IntN(40) {
		case 0:
			name = "gone"
		case 1:
			pool.Machine.Type = "gone"
		case 2, 3:
			name = strings.ToUpper(name)
		}
		pool.Machine.Image = &struct {
			Name    string `json:"name"`
			Version string `json:"version,omitempty"`
		}{name, version}
		if c.of(30) {
			pool.CRI = &judgedCRI{
				Name:     oneOf(c, "containerd", "containerd", "containerd", "other"),
				Runtimes: slices.Clone(judgedRuntimes[:c.IntN(3)]),
			}
		}
		if c.of(40) {
			pool.Kubernetes = &struct {
				Version string `json:"version,omitempty"`
			}{s.Spec.Kubernetes.Version}
			if own := kubernetes(); c.of(60) && higher(s.Spec.Kubernetes.Version, own) {
				pool.Kubernetes.Version = own
			}
			if c.of(10) {
				pool.Kubernetes.Version = ""
			}
		}
		s.Spec.Provider.Workers = append(s.Spec.Provider.Workers, pool)
	}
	if c.of(85) {
		s.maintenance(c)
	}
	return s
}

func (s *judgedShoot) maintenance(c chance) {
	shoot := map[string]any{}
	if c.of(85) {
		update := map[string]any{"kubernetesVersion": c.of(50)}
		if len(s.Spec.Provider.Workers) > 0 && c.of(85) {
			update["machineImageVersion"] = c.of(50)
		}
		shoot["autoUpdate"] = update
	}
	rotation, rotated := map[string]any{}, map[string]any{}
	for _, credentials := range []string{"sshKeypair", "observability", "etcdEncryptionKey"} {
		if c.of(20) {
			rotation[credentials] = oneOf(c, map[string]any{}, map[string]any{"rotationPeriod": "0s"},
				map[string]any{"rotationPeriod": "720h"})
		}
		if c.of(30) {
			status := map[string]any{
				"lastCompletionTime": judgedNow.Add(-time.Duration(c.IntN(40)) * 24 * time.Hour).Format(time.RFC3339),
			}
			if credentials == "etcdEncryptionKey" {
				status["phase"] = oneOf(c, "", "Completed", "Prepared", "Preparing")
			}
			rotated[credentials] = status
		}
	}
	status := map[string]any{"credentials": map[string]any{"rotation": rotated}}
	if c.of(90) {
		status["lastOperation"] = map[string]any{
			"type":  oneOf(c, "Create", "Reconcile", "Reconcile", "Restore"),
			"state": oneOf(c, "Succeeded", "Succeeded", "Error", "Failed", "Processing"),
		}
	}
	if len(rotation) > 0 {
		shoot["autoRotation"] = map[string]any{"credentials": rotation}
	}
	convert(map[string]any{"spec": map[string]any{"maintenance": shoot}, "status": status}, s)
	if settings := oneOf(c, "", "", "true", "false"); settings != "" && len(s.Spec.Provider.Workers) > 0 {
		convert(map[string]any{
			"spec": map[string]any{
				"provider": map[string]any{
					"workersSettings": map[string]any{"sshAccess": map[string]any{"enabled": settings == "true"}},
				},
			},
		}, s)
	}
}

func convert(from, to any) {
	data, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		panic(err)
	}
}

func (c chance) fleet() *judgedCase {
	all := &judgedCase{profiles: map[string]*judgedProfileSpec{}, namespaced: map[string]*judgedProfileSpec{}}
	for _, name := range []string{"p0", "p1", "p2"} {
		all.profiles[name] = c.profile()
	}
	all.namespaced["garden-a/n"] = c.overlay("p2", all.profiles["p2"])
	for i := range 60 {
		all.shoots = append(all.shoots, c.shoot(all, i))
	}
	return all
}

// manifests are the fleet as documents, with Shoots and profiles in random order.
func (all *judgedCase) manifests(c chance) string {
	var documents []string
	add := func(object any) {
		data, err := json.Marshal(object)
		if err != nil {
			panic(err)
		}
		documents = append(documents, string(data))
	}
	for _, name := range slices.Sorted(maps.Keys(all.profiles)) {
		add(map[string]any{
			"apiVersion": "core.gardener.cloud/v1beta1", "kind": "CloudProfile", "metadata": judgedMeta{Name: name},
			"spec": all.profiles[name],
		})
	}
	for key, spec := range all.namespaced {
		namespace, name, _ := strings.Cut(key, "/")
		add(map[string]any{
			"apiVersion": "core.gardener.cloud/v1beta1", "kind": "NamespacedCloudProfile",
			"metadata": judgedMeta{Name: name, Namespace: namespace}, "spec": spec,
		})
	}
	for _, s := range all.shoots {
		add(s)
	}
	c.Shuffle(len(documents), func(i, j int) { documents[i], documents[j] = documents[j], documents[i] })
	return strings.Join(documents, "\n---\n")
}

// TestStepsAgreeWithTheJudge generates fleets and compares 'hortus plan --step' with the judge. A difference is
// reported with its seed; -judged-seed=N -judged-fleets=1 replays it.
func TestStepsAgreeWithTheJudge(t *testing.T) {
	changed, failed, still := 0, 0, 0
	for seed := *judgedSeed; seed < *judgedSeed+uint64(*judgedFleets); seed++ {
		c := chance{rand.New(rand.NewPCG(seed, 0))}
		all := c.fleet()
		cmd := newCommand(clocktesting.NewFakePassiveClock(time.Time{}))
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetIn(strings.NewReader(all.manifests(c)))
		cmd.SetArgs([]string{"--step", "-f", "-", "--at", judgedNow.Format(time.RFC3339)})
		if err := cmd.Execute(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got := map[string]Step{}
		for line := range strings.Lines(out.String()) {
			var step Step
			if err := json.Unmarshal([]byte(line), &step); err != nil {
				t.Fatal(err)
			}
			got[step.Namespace+"/"+step.Name] = step
		}
		for i := range all.shoots {
			s := &all.shoots[i]
			want := all.judge(s, judgedNow)
			step, ok := got[s.Metadata.Namespace+"/"+s.Metadata.Name]
			if !ok {
				t.Fatalf("seed %d: no line for %s", seed, s.Metadata.Name)
			}
			step.Reasons = comparable(want.Reasons, step.Reasons)
			if diff := cmp.Diff(want, step); diff != "" {
				manifest, _ := json.Marshal(s)
				profile, _ := json.Marshal(all.profileOf(s))
				t.Fatalf("seed %d, Shoot %s: mismatch (-judge +plan):\n%s\n%s\n%s", seed, s.Metadata.Name, diff, manifest, profile)
			}
			switch {
			case want.Failed:
				failed++
			case want.Changed:
				changed++
			default:
				still++
			}
		}
	}
	t.Logf("%d Shoots change, %d fail, %d stay", changed, failed, still)
	if *judgedFleets >= 100 && min(changed, failed, still) < 1000 {
		t.Error("one outcome is rare: the cases cover too little")
	}
}

// comparable cuts lines to the parts that the judge has: it has no texts of errors, and only the beginning of lines
// about credentials. Lines about the API server and about aborted steps are not results.
func comparable(want, got []string) []string {
	got = slices.DeleteFunc(slices.Clone(got), func(line string) bool {
		return strings.HasPrefix(line, "The API server will refuse") ||
			strings.HasPrefix(line, "Machine images are not maintained")
	})
	for i := range got {
		if i < len(want) && strings.HasPrefix(got[i], want[i]) &&
			(strings.HasPrefix(want[i], "Credentials ") || strings.HasPrefix(got[i][len(want[i]):], ". Error: ")) {
			got[i] = want[i]
		}
	}
	return got
}
