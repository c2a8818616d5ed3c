package offer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/golden"
)

func profile() *corev1beta1.CloudProfileSpec {
	return &corev1beta1.CloudProfileSpec{
		Type: "local",
		Regions: []corev1beta1.Region{{Name: "r", AccessRestrictions: []corev1beta1.AccessRestriction{{Name: "eu"}},
			Zones: []corev1beta1.AvailabilityZone{
				{Name: "a"}, {Name: "b", UnavailableMachineTypes: []string{"large"}, UnavailableVolumeTypes: []string{"fast"}},
			}}},
		MachineImages: []corev1beta1.MachineImage{{Name: "os", Versions: []corev1beta1.MachineImageVersion{
			{ExpirableVersion: corev1beta1.ExpirableVersion{Version: "1.0.0"}},
		}}},
		MachineTypes: []corev1beta1.MachineType{
			{Name: "small", Architecture: ptr.To("amd64"), CPU: resource.MustParse("2"), Memory: resource.MustParse("4Gi")},
			{Name: "large"}, {Name: "old", Usable: ptr.To(false)},
			{Name: "stored", Storage: &corev1beta1.MachineTypeStorage{MinSize: ptr.To(resource.MustParse("20Gi"))}},
		},
		VolumeTypes: []corev1beta1.VolumeType{
			{Name: "fast", MinSize: ptr.To(resource.MustParse("30Gi"))}, {Name: "gone", Usable: ptr.To(false)},
		},
		Limits: &corev1beta1.Limits{MaxNodesTotal: ptr.To[int32](5)},
	}
}

type shootChange func(*corev1beta1.Shoot)

func shootWith(changes ...shootChange) *corev1beta1.Shoot {
	s := &corev1beta1.Shoot{Spec: corev1beta1.ShootSpec{
		CloudProfile: &corev1beta1.CloudProfileReference{Kind: "NamespacedCloudProfile", Name: "mine"},
		Region:       "r", Provider: corev1beta1.Provider{Type: "local", Workers: []corev1beta1.Worker{
			{Name: "p", Machine: corev1beta1.Machine{Type: "small"}, Minimum: 1},
		}},
	}}
	for _, change := range changes {
		change(s)
	}
	return s
}

func pool(change func(*corev1beta1.Worker)) shootChange {
	return func(s *corev1beta1.Shoot) { change(&s.Spec.Provider.Workers[0]) }
}

func machine(name string) shootChange {
	return pool(func(w *corev1beta1.Worker) { w.Machine.Type = name })
}

func zones(zones ...string) shootChange {
	return pool(func(w *corev1beta1.Worker) { w.Zones = zones })
}

func volume(kind *string, size string) shootChange {
	return pool(func(w *corev1beta1.Worker) { w.Volume = &corev1beta1.Volume{Type: kind, VolumeSize: size} })
}

func dataVolumes(volumes ...corev1beta1.DataVolume) shootChange {
	return pool(func(w *corev1beta1.Worker) { w.DataVolumes = volumes })
}

func data(name, kind, size string) corev1beta1.DataVolume {
	volume := corev1beta1.DataVolume{Name: name, VolumeSize: size}
	if kind != "" {
		volume.Type = &kind
	}
	return volume
}

// TestValidate compares all messages with testdata/messages.golden.
func TestValidate(t *testing.T) {
	reserve := func(cpu, memory string) shootChange {
		return pool(func(w *corev1beta1.Worker) {
			w.Kubernetes = &corev1beta1.WorkerKubernetes{Kubelet: &corev1beta1.KubeletConfig{
				KubeReserved: &corev1beta1.KubeletConfigReserved{
					CPU: ptr.To(resource.MustParse(cpu)), Memory: ptr.To(resource.MustParse(memory)),
				}}}
		})
	}
	pinned := func(s *corev1beta1.Shoot) { s.Spec.ControlPlane = &corev1beta1.ControlPlane{Zones: []string{"a"}} }
	restricted := func(name string) shootChange {
		return func(s *corev1beta1.Shoot) {
			s.Spec.AccessRestrictions = []corev1beta1.AccessRestrictionWithOptions{
				{AccessRestriction: corev1beta1.AccessRestriction{Name: name}},
			}
		}
	}
	region := func(change func(*corev1beta1.Region)) func(*corev1beta1.CloudProfileSpec) {
		return func(s *corev1beta1.CloudProfileSpec) { change(&s.Regions[0]) }
	}
	cases := map[string]struct {
		shoot, old *corev1beta1.Shoot
		profile    func(*corev1beta1.CloudProfileSpec) // Differences of the case. May be nil.
	}{
		"all is offered": {
			shoot: shootWith(zones("a", "b"), volume(nil, "1Gi"), reserve("1", "1Gi"), dataVolumes(data("d", "", "1Gi"))),
		},
		"other provider":                 {shoot: shootWith(func(s *corev1beta1.Shoot) { s.Spec.Provider.Type = "x" })},
		"unknown region":                 {shoot: shootWith(func(s *corev1beta1.Shoot) { s.Spec.Region = "x" })},
		"access restriction not offered": {shoot: shootWith(restricted("us"))},
		"no access restrictions": {
			shoot: shootWith(restricted("eu")), profile: region(func(r *corev1beta1.Region) { r.AccessRestrictions = nil }),
		},
		"no regions": {
			shoot: shootWith(), profile: func(s *corev1beta1.CloudProfileSpec) { s.Regions = nil },
		},
		"no zones": {
			shoot: shootWith(zones("a")), profile: region(func(r *corev1beta1.Region) { r.Zones = nil }),
		},
		"no machine types": {
			shoot: shootWith(), profile: func(s *corev1beta1.CloudProfileSpec) { s.MachineTypes = nil },
		},
		"no usable machine types": {shoot: shootWith(machine("old")), profile: func(s *corev1beta1.CloudProfileSpec) {
			s.MachineTypes = []corev1beta1.MachineType{{Name: "old", Usable: ptr.To(false)}}
		}},
		"no volume types": {
			shoot:   shootWith(volume(ptr.To("fast"), "50Gi")),
			profile: func(s *corev1beta1.CloudProfileSpec) { s.VolumeTypes = nil },
		},
		"region that has gone": {
			shoot: shootWith(func(s *corev1beta1.Shoot) { s.Spec.Region = "x" }),
			old:   shootWith(func(s *corev1beta1.Shoot) { s.Spec.Region = "x" }),
		},
		"zones of the control plane":    {shoot: shootWith(pinned)},
		"zones that were chosen before": {shoot: shootWith(pinned), old: shootWith(pinned)},
		"configuration without version": {
			shoot: shootWith(func(s *corev1beta1.Shoot) {
				s.Spec.Provider.InfrastructureConfig = raw("local.example.com/__internal")
			}),
		},
		"unknown machine type":         {shoot: shootWith(machine("none"))},
		"unusable machine type":        {shoot: shootWith(machine("old"))},
		"unusable machine type in use": {shoot: shootWith(machine("old")), old: shootWith(machine("old"))},
		"other architecture": {
			shoot: shootWith(pool(func(w *corev1beta1.Worker) { w.Machine.Architecture = ptr.To("arm64") })),
		},
		"machine type not in the zone":  {shoot: shootWith(machine("large"), zones("b"))},
		"unknown and repeated zones":    {shoot: shootWith(zones("a", "x", "a"))},
		"unknown volume type":           {shoot: shootWith(volume(ptr.To("none"), "50Gi"))},
		"unusable volume type":          {shoot: shootWith(volume(ptr.To("gone"), "50Gi"))},
		"volume too small for its type": {shoot: shootWith(volume(ptr.To("fast"), "25Gi"))},
		"volume too small for machines": {shoot: shootWith(machine("stored"), volume(nil, "10Gi"))},
		"volume type not in the zone":   {shoot: shootWith(zones("b"), volume(ptr.To("fast"), "50Gi"))},
		"unknown type of a data volume": {
			shoot: shootWith(dataVolumes(data("a", "fast", "50Gi"), data("b", "none", "50Gi"))),
		},
		"data volume too small":          {shoot: shootWith(dataVolumes(data("a", "fast", "10Gi")))},
		"data volume not in the zone":    {shoot: shootWith(zones("b"), dataVolumes(data("a", "fast", "50Gi")))},
		"data volume of a small machine": {shoot: shootWith(machine("stored"), dataVolumes(data("a", "", "10Gi")))},
		"data volumes from before": {
			shoot: shootWith(dataVolumes(data("b", "gone", "1Gi"))),
			old:   shootWith(dataVolumes(data("a", "", "1Gi"), data("b", "gone", "1Gi"))),
		},
		"data volume that changes": {
			shoot: shootWith(dataVolumes(data("b", "gone", "2Gi"))), old: shootWith(dataVolumes(data("b", "gone", "1Gi"))),
		},
		"everything is reserved": {shoot: shootWith(reserve("2", "4Gi"))},
		"too many nodes":         {shoot: shootWith(pool(func(w *corev1beta1.Worker) { w.Minimum = 6 }))},
	}
	var messages strings.Builder
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		fmt.Fprintf(&messages, "# %s\n", name)
		profile := profile()
		if change := cases[name].profile; change != nil {
			change(profile)
		}
		for _, err := range Validate(cases[name].shoot, cases[name].old, profile) {
			fmt.Fprintln(&messages, err)
		}
	}
	golden.Bytes(t, "messages.golden", []byte(messages.String()))
}

func raw(apiVersion string) *runtime.RawExtension {
	return &runtime.RawExtension{Raw: []byte(`{"apiVersion":"` + apiVersion + `"}`)}
}

func TestInUse(t *testing.T) {
	image := func(version string) shootChange {
		return pool(func(w *corev1beta1.Worker) {
			w.Machine.Image = &corev1beta1.ShootMachineImage{Name: "os", Version: &version}
		})
	}
	const at = "spec.provider.workers[0]."
	for name, tc := range map[string]struct {
		shoot, old *corev1beta1.Shoot
		want       []string
	}{
		"all is there":   {shootWith(image("1.0.0"), volume(ptr.To("fast"), "1Gi")), shootWith(), nil},
		"a new pool":     {shootWith(machine("none")), &corev1beta1.Shoot{}, nil},
		"a machine type": {shootWith(machine("none")), shootWith(), []string{at + "machine.type"}},
		"an image":       {shootWith(image("2.0.0")), shootWith(), []string{at + "machine.image"}},
		"volume types": {shootWith(volume(ptr.To("none"), "1Gi"),
			dataVolumes(data("a", "fast", "1Gi"), data("b", "none", "1Gi"))), shootWith(),
			[]string{at + "volume.type", at + "dataVolumes[1].type"}},
	} {
		var got []string
		for _, err := range InUse(tc.shoot, tc.old, profile()) {
			got = append(got, err.Field)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: InUse() mismatch (-want +got):\n%s", name, diff)
		}
	}
}
