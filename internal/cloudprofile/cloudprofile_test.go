package cloudprofile

import (
	"testing"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

var now = time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

func days(n int) *metav1.Time { return &metav1.Time{Time: now.AddDate(0, 0, n)} }

func offered(v string, class corev1beta1.VersionClassification, expires *metav1.Time) corev1beta1.ExpirableVersion {
	e := corev1beta1.ExpirableVersion{Version: v, ExpirationDate: expires}
	if class != "" {
		e.Classification = &class
	}
	return e
}

func TestClassAt(t *testing.T) {
	stages := []corev1beta1.LifecycleStage{
		{Classification: corev1beta1.ClassificationPreview, StartTime: days(1)},
		{Classification: corev1beta1.ClassificationSupported, StartTime: days(2)},
		{Classification: corev1beta1.ClassificationExpired, StartTime: days(3)},
	}
	since := append([]corev1beta1.LifecycleStage{{Classification: corev1beta1.ClassificationSupported}}, stages[2])
	for name, tc := range map[string]struct {
		version corev1beta1.ExpirableVersion
		at      time.Time
		want    Class
	}{
		"unclassified counts as supported":       {offered("1.0.0", "", nil), now, Supported},
		"classified":                             {offered("1.0.0", "deprecated", nil), now, Deprecated},
		"the date is still part of the lifetime": {offered("1.0.0", "supported", days(0)), now, Supported},
		"the time after it is not":               {offered("1.0.0", "supported", days(0)), now.Add(1), Expired},
		"an expired preview is expired":          {offered("1.0.0", "preview", days(-1)), now, Expired},
		"no stage has begun":                     {corev1beta1.ExpirableVersion{Lifecycle: stages}, now, Unavailable},
		"the first stage": {
			corev1beta1.ExpirableVersion{Lifecycle: stages}, now.AddDate(0, 0, 1).Add(1), Preview,
		},
		"the last stage": {
			corev1beta1.ExpirableVersion{Lifecycle: stages}, now.AddDate(0, 0, 9), Expired,
		},
		"a leading stage without a start": {
			corev1beta1.ExpirableVersion{Lifecycle: since}, now.AddDate(-9, 0, 0), Supported,
		},
		"an empty lifecycle counts as none": {
			corev1beta1.ExpirableVersion{Lifecycle: []corev1beta1.LifecycleStage{}}, now, Supported,
		},
		"a stage begins after its start, strictly": {
			corev1beta1.ExpirableVersion{Lifecycle: stages}, now.AddDate(0, 0, 1), Unavailable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ClassAt(&tc.version, tc.at); got != tc.want {
				t.Errorf("ClassAt() = %s, want %s", got, tc.want)
			}
		})
	}
}

func profile(t *testing.T) *Profile {
	t.Helper()
	image := func(e corev1beta1.ExpirableVersion, architectures ...string) corev1beta1.MachineImageVersion {
		return corev1beta1.MachineImageVersion{ExpirableVersion: e, Architectures: architectures}
	}
	inPlace := image(offered("2.0.0", "deprecated", nil))
	inPlace.InPlaceUpdates = &corev1beta1.InPlaceUpdates{Supported: true, MinVersionForUpdate: ptr("1.9.0")}
	gvisor := image(offered("2.0.1", "deprecated", nil))
	gvisor.CRI = []corev1beta1.CRI{{
		Name: "containerd", ContainerRuntimes: []corev1beta1.ContainerRuntime{{Type: "gvisor"}},
	}}
	limited := image(offered("2.0.2", "deprecated", nil))
	limited.KubeletVersionConstraint = ptr("< 1.36")
	p, err := Compile("p", &corev1beta1.CloudProfileSpec{
		Kubernetes: corev1beta1.KubernetesSettings{Versions: []corev1beta1.ExpirableVersion{
			offered("1.37.0", "preview", nil),
			offered("1.36.3", "deprecated", nil),
			offered("1.36.2", "supported", nil),
			offered("1.36.1", "", nil),
			offered("1.35.4", "supported", days(-1)),
			offered("1.35.3", "deprecated", days(5)),
			offered("1.35.2", "deprecated", nil),
			offered("1.34.4", "preview", nil),
		}},
		MachineImages: []corev1beta1.MachineImage{
			{Name: "arm-only", Versions: []corev1beta1.MachineImageVersion{image(offered("9.0.0", "supported", nil), "arm64")}},
			{Name: "os", Versions: []corev1beta1.MachineImageVersion{
				image(offered("3.0.0", "preview", nil)), image(offered("2.1.0", "deprecated", nil)), limited, gvisor, inPlace,
				image(offered("1.9.9", "supported", nil)), image(offered("1.9.10", "supported", days(-1))),
			}},
		},
		MachineTypes: []corev1beta1.MachineType{{Name: "small"}, {Name: "arm", Architecture: ptr("arm64")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDefaultKubernetesVersion(t *testing.T) {
	for given, want := range map[string]string{
		"":        "1.36.2", // Supported before the higher deprecated one; never preview.
		"1":       "1.36.2",
		"1.36":    "1.36.2",
		"1.35":    "1.35.3", // The supported one has expired.
		"1.34":    "error",  // Only a preview.
		"1.30":    "error",
		"one":     "error",
		"1.x":     "error",
		"1.35.4":  "1.35.4", // Validation checks complete versions.
		"1.2.3.4": "1.2.3.4",
		"v1.36":   "1.36.2",
	} {
		got, err := profile(t).DefaultKubernetesVersion(given, now)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("DefaultKubernetesVersion(%q) = %s, want %s", given, got, want)
		}
	}
}

func TestDefaultMachineImage(t *testing.T) {
	for name, tc := range map[string]struct {
		request ImageRequest
		want    string
	}{
		"the first image that runs on the machine": {ImageRequest{MachineType: "small"}, "os 1.9.9"},
		"another architecture":                     {ImageRequest{MachineType: "arm"}, "arm-only 9.0.0"},
		"supported comes before higher deprecated": {ImageRequest{Name: "os", MachineType: "small"}, "os 1.9.9"},
		"only deprecated ones match": {ImageRequest{
			Name: "os", Version: "2", MachineType: "small",
		}, "os 2.1.0"},
		"a prefix of two components": {ImageRequest{
			Name: "os", Version: "2.0", MachineType: "small",
		}, "os 2.0.2"},
		"in-place pools need versions that support it": {ImageRequest{
			Name: "os", Version: "2", MachineType: "small", InPlace: true,
		}, "os 2.0.0"},
		"never a preview": {ImageRequest{Name: "os", Version: "3", MachineType: "small"},
			`machine image "os" has no supported or deprecated version for architecture "amd64" that matches "3"`},
		"in-place pools of an image that does not support it": {ImageRequest{
			Name: "arm-only", MachineType: "arm", InPlace: true,
		},
			`machine image "arm-only" has no supported or deprecated version for architecture "arm64" that can be updated in place ` +
				`(inPlaceUpdates.supported of the version in the CloudProfile), as the pool's updateStrategy needs`},
		"never an expired one, though it is the highest": {ImageRequest{
			Name: "os", Version: "1.9", MachineType: "small",
		}, "os 1.9.9"},
		"complete versions are kept": {ImageRequest{
			Name: "os", Version: "7.7.7", MachineType: "small",
		}, "os 7.7.7"},
		"an unknown image": {
			ImageRequest{Name: "OS", MachineType: "small"}, `image "OS" is not supported`,
		},
		"a specified architecture takes precedence": {
			ImageRequest{Architecture: "arm64", MachineType: "small"}, "arm-only 9.0.0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			image, version, err := profile(t).DefaultMachineImage(tc.request, now)
			got := image + " " + version
			if err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("DefaultMachineImage() = %s (%v), want %s", got, err, tc.want)
			}
		})
	}
}

func shoot(version, image string, change ...func(*corev1beta1.Worker)) *corev1beta1.Shoot {
	s := &corev1beta1.Shoot{}
	s.Spec.Kubernetes.Version = version
	w := corev1beta1.Worker{Name: "pool", Machine: corev1beta1.Machine{Type: "small", Architecture: ptr("amd64"),
		Image: &corev1beta1.ShootMachineImage{Name: "os", Version: &image}}}
	for _, c := range change {
		c(&w)
	}
	s.Spec.Provider.Workers = []corev1beta1.Worker{w}
	return s
}

func TestDefaultShoot(t *testing.T) {
	old := shoot("1.36.1", "1.9.10")
	s := shoot("1.36", "")
	s.Spec.Provider.Workers[0].Machine.Architecture = nil
	s.Spec.Provider.Workers = append(s.Spec.Provider.Workers, corev1beta1.Worker{
		Name: "new", Machine: corev1beta1.Machine{Type: "arm"},
		Kubernetes: &corev1beta1.WorkerKubernetes{Version: ptr("1.35")}})
	if errs := DefaultShoot(s, old, profile(t), now); len(errs) > 0 {
		t.Fatal(errs)
	}
	w := s.Spec.Provider.Workers
	got := []string{s.Spec.Kubernetes.Version, *w[0].Machine.Architecture, *w[0].Machine.Image.Version,
		*w[1].Machine.Architecture, w[1].Machine.Image.Name, *w[1].Machine.Image.Version, *w[1].Kubernetes.Version}
	// The existing pool keeps its image, although that has expired.
	want := []string{"1.36.2", "amd64", "1.9.10", "arm64", "arm-only", "9.0.0", "1.35.3"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("completed Shoot mismatch (-want +got):\n%s", diff)
	}
	if *old.Spec.Provider.Workers[0].Machine.Image.Version != "1.9.10" {
		t.Error("the old Shoot was changed")
	}
	errs := DefaultShoot(shoot("1.30", "5"), nil, profile(t), now)
	if len(errs) != 2 || errs[0].Field != "spec.kubernetes.version" ||
		errs[1].Field != "spec.provider.workers[0].machine.image" {
		t.Errorf("errors = %v", errs)
	}
}

func TestValidateShootVersions(t *testing.T) {
	inPlace := func(w *corev1beta1.Worker) { w.UpdateStrategy = ptr(corev1beta1.AutoInPlaceUpdate) }
	gvisor := func(w *corev1beta1.Worker) {
		w.CRI = &corev1beta1.CRI{Name: "containerd", ContainerRuntimes: []corev1beta1.ContainerRuntime{{Type: "gvisor"}}}
	}
	kubelet := func(v string) func(*corev1beta1.Worker) {
		return func(w *corev1beta1.Worker) { w.Kubernetes = &corev1beta1.WorkerKubernetes{Version: &v} }
	}
	for name, tc := range map[string]struct {
		shoot, old *corev1beta1.Shoot
		want       []string // Fields with errors.
	}{
		"a new Shoot on active versions":        {shoot("1.36.2", "1.9.9"), nil, nil},
		"previews are allowed when named":       {shoot("1.37.0", "3.0.0"), nil, nil},
		"a new Shoot on an expired version":     {shoot("1.35.4", "1.9.9"), nil, []string{"spec.kubernetes.version"}},
		"a new Shoot on an unknown version":     {shoot("1.35.9", "1.9.9"), nil, []string{"spec.kubernetes.version"}},
		"an update to an expired version":       {shoot("1.35.4", "1.9.9"), shoot("1.35.3", "1.9.9"), nil},
		"an unchanged version that was removed": {shoot("1.33.9", "0.0.1"), shoot("1.33.9", "0.0.1"), nil},
		"a new pool on an expired Kubernetes version": {
			shoot("1.36.2", "1.9.9", kubelet("1.35.4")), nil, []string{"spec.provider.workers[0].kubernetes.version"},
		},
		"a new pool on an expired image": {
			shoot("1.36.2", "1.9.10"), nil, []string{"spec.provider.workers[0].machine.image.version"},
		},
		"a pool up to an expired image": {shoot("1.36.2", "1.9.10"), shoot("1.36.2", "1.9.9"), nil},
		"a pool down to an expired image": {
			shoot("1.36.2", "1.9.10"), shoot("1.36.2", "2.1.0"), []string{"spec.provider.workers[0].machine.image.version"},
		},
		"an unknown image version": {
			shoot("1.36.2", "5.0.0"), shoot("1.36.2", "1.9.9"), []string{"spec.provider.workers[0].machine.image.version"},
		},
		"an image for another architecture": {
			shoot("1.36.2", "1.9.9", func(w *corev1beta1.Worker) { w.Machine.Architecture = ptr("arm64") }), nil,
			[]string{"spec.provider.workers[0].machine.image"},
		},
		"a runtime that the image lacks": {
			shoot("1.36.2", "1.9.9", gvisor), nil, []string{"spec.provider.workers[0].cri.containerRuntimes[0].type"},
		},
		"a runtime that it has": {shoot("1.36.2", "2.0.1", gvisor), nil, nil},
		"a kubelet that the image does not accept": {
			shoot("1.36.2", "2.0.2"), nil, []string{"spec.provider.workers[0].machine.image"},
		},
		"a kubelet that it accepts": {shoot("1.36.2", "2.0.2", kubelet("1.35.3")), nil, nil},
		"a control plane that is too new for the pool": {
			shoot("1.36.2", "2.0.2"), shoot("1.35.3", "2.0.2"), []string{"spec.provider.workers[0].machine.image"},
		},
		"a new in-place pool without support": {
			shoot("1.36.2", "1.9.9", inPlace), nil, []string{"spec.provider.workers[0].machine.image"},
		},
		"a new in-place pool": {shoot("1.36.2", "2.0.0", inPlace), nil, nil},
		"an in-place update from far below": {
			shoot("1.36.2", "2.0.0", inPlace), shoot("1.36.2", "1.0.0", inPlace),
			[]string{"spec.provider.workers[0].machine.image"},
		},
		"an in-place update from the minimum on": {
			shoot("1.36.2", "2.0.0", inPlace), shoot("1.36.2", "1.9.9", inPlace), nil,
		},
		"other changes of a pool with an invalid image": {
			shoot("1.36.2", "2.0.2", func(w *corev1beta1.Worker) { w.Maximum = 9 }), shoot("1.36.2", "2.0.2"), nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, err := range ValidateShootVersions(tc.shoot, tc.old, profile(t), now) {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("fields with errors mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSkewProblem(t *testing.T) {
	for _, tc := range []struct {
		controlPlane, pool string
		ok                 bool
	}{
		{"1.36.0", "1.36.0", true}, {"1.36.0", "1.33.9", true}, {"1.36.0", "1.32.9", false}, {"1.36.0", "1.36.1", false},
		{"1.28.0", "1.25.0", true}, {"1.27.0", "1.25.0", true}, {"1.27.0", "1.24.0", false},
	} {
		problem := SkewProblem(semver.MustParse(tc.controlPlane), semver.MustParse(tc.pool))
		if (problem == "") != tc.ok {
			t.Errorf("control plane %s with pool %s: %q", tc.controlPlane, tc.pool, problem)
		}
	}
}

func TestMerge(t *testing.T) {
	parent := &corev1beta1.CloudProfileSpec{
		CABundle: ptr("A\n"),
		Kubernetes: corev1beta1.KubernetesSettings{Versions: []corev1beta1.ExpirableVersion{
			offered("1.35.0", "deprecated", days(1)), offered("1.36.0", "supported", nil),
		}},
		MachineImages: []corev1beta1.MachineImage{{Name: "os", UpdateStrategy: ptr(corev1beta1.UpdateStrategyPatch),
			Versions: []corev1beta1.MachineImageVersion{{ExpirableVersion: offered("1.0.0", "", days(1))}}}},
		MachineTypes: []corev1beta1.MachineType{{Name: "small"}},
		Limits:       &corev1beta1.Limits{MaxNodesTotal: ptr(int32(5))},
	}
	before := parent.DeepCopy()
	merged := Merge(parent, &corev1beta1.NamespacedCloudProfileSpec{
		CABundle: ptr("B"),
		Kubernetes: &corev1beta1.KubernetesSettings{Versions: []corev1beta1.ExpirableVersion{{
			Version: "1.35.0", ExpirationDate: days(90),
		}}},
		MachineImages: []corev1beta1.MachineImage{
			{Name: "os", Versions: []corev1beta1.MachineImageVersion{
				{ExpirableVersion: offered("1.0.0", "", days(90))}, {ExpirableVersion: offered("1.1.0", "", nil)},
			}},
			{Name: "own", Versions: []corev1beta1.MachineImageVersion{{ExpirableVersion: offered("1.0.0", "", nil)}}}},
		MachineTypes: []corev1beta1.MachineType{{Name: "large"}},
		Limits:       &corev1beta1.Limits{MaxNodesTotal: ptr(int32(50))},
	})
	if diff := cmp.Diff(before, parent); diff != "" {
		t.Errorf("the parent was changed:\n%s", diff)
	}
	p, err := Compile("merged", &merged)
	if err != nil {
		t.Fatal(err)
	}
	at := now.AddDate(0, 0, 30)
	if p.KubernetesVersion("1.35.0").ClassAt(at) != Deprecated || p.Image("os").Version("1.0.0").ClassAt(at) != Supported {
		t.Error("the expiration dates are not overridden")
	}
	if p.Image("os").Strategy != corev1beta1.UpdateStrategyPatch || p.Image("os").Version("1.1.0") == nil ||
		p.Image("own") == nil ||
		len(p.MachineTypes) != 2 || *merged.Limits.MaxNodesTotal != 50 || *merged.CABundle != "A\nB" {
		t.Errorf("merged = %+v", merged)
	}
}

func TestCapabilities(t *testing.T) {
	p, err := Compile("p", &corev1beta1.CloudProfileSpec{
		MachineCapabilities: []corev1beta1.CapabilityDefinition{
			{Name: "architecture", Values: []string{"amd64", "arm64"}}, {Name: "disk", Values: []string{"nvme", "scsi"}},
		},
		MachineImages: []corev1beta1.MachineImage{{Name: "os", Versions: []corev1beta1.MachineImageVersion{
			{ExpirableVersion: offered("1.0.0", "", nil),
				CapabilityFlavors: []corev1beta1.Capabilities{{"architecture": {"amd64"}, "disk": {"scsi"}}}},
			{ExpirableVersion: offered("1.1.0", "", nil), CapabilityFlavors: []corev1beta1.Capabilities{
				{"architecture": {"arm64"}}, {"architecture": {"amd64"}, "disk": {"nvme"}},
			}},
			{ExpirableVersion: offered("1.2.0", "", nil),
				CapabilityFlavors: []corev1beta1.Capabilities{{"architecture": {"arm64"}}}},
		}}},
		MachineTypes: []corev1beta1.MachineType{{
			Name: "fast", Capabilities: corev1beta1.Capabilities{"architecture": {"amd64"}, "disk": {"nvme"}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range p.Image("os").Eligible(Needs{Architecture: "amd64", MachineType: p.MachineTypes["fast"]}) {
		got = append(got, v.Text)
	}
	if diff := cmp.Diff([]string{"1.1.0"}, got); diff != "" {
		t.Errorf("eligible mismatch (-want +got):\n%s", diff)
	}
}
