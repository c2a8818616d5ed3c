package maintenance

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/cloudprofile"
)

var (
	now     = time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)
	past    = time.Date(2025, 12, 1, 0, 0, 0, 0, time.UTC)
	march   = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	version = regexp.MustCompile(`^([0-9.]+)([sdpx]?)(@mar)?(.*)$`)
	option  = regexp.MustCompile(`\[([^\]]*)\]`)
)

// expirable parses "1.24.5d@mar[ip][min=1.2]": version, class (s, d, p, x for expired), expiration in March, options.
func expirable(t *testing.T, text string) (corev1beta1.ExpirableVersion, []string) {
	t.Helper()
	m := version.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("version %q is not understood", text)
	}
	v := corev1beta1.ExpirableVersion{Version: m[1]}
	classify := func(c corev1beta1.VersionClassification) { v.Classification = &c }
	switch m[2] {
	case "s":
		classify(corev1beta1.ClassificationSupported)
	case "d":
		classify(corev1beta1.ClassificationDeprecated)
	case "p":
		classify(corev1beta1.ClassificationPreview)
	case "x":
		v.ExpirationDate = &metav1.Time{Time: past}
	}
	if m[3] != "" {
		v.ExpirationDate = &metav1.Time{Time: march}
	}
	var options []string
	for _, o := range option.FindAllStringSubmatch(m[4], -1) {
		options = append(options, o[1])
	}
	return v, options
}

func kubernetesVersions(t *testing.T, list string) []corev1beta1.ExpirableVersion {
	t.Helper()
	var versions []corev1beta1.ExpirableVersion
	for _, text := range strings.Fields(list) {
		v, _ := expirable(t, text)
		versions = append(versions, v)
	}
	return versions
}

func imageVersions(t *testing.T, list string) []corev1beta1.MachineImageVersion {
	t.Helper()
	var versions []corev1beta1.MachineImageVersion
	for _, text := range strings.Fields(list) {
		base, options := expirable(t, text)
		v := corev1beta1.MachineImageVersion{ExpirableVersion: base}
		for _, o := range options {
			switch key, value, _ := strings.Cut(o, "="); key {
			case "arch":
				v.Architectures = strings.Split(value, ",")
			case "runtime":
				v.CRI = []corev1beta1.CRI{{Name: "containerd", ContainerRuntimes: []corev1beta1.ContainerRuntime{{Type: value}}}}
			case "kubelet":
				v.KubeletVersionConstraint = &value
			case "ip":
				v.InPlaceUpdates = &corev1beta1.InPlaceUpdates{Supported: true}
			case "min":
				v.InPlaceUpdates.MinVersionForUpdate = &value
			default:
				t.Fatalf("option %q is not understood", o)
			}
		}
		versions = append(versions, v)
	}
	return versions
}

func compiled(t *testing.T, spec corev1beta1.CloudProfileSpec) *cloudprofile.Profile {
	t.Helper()
	if spec.MachineTypes == nil {
		arm := "arm64"
		spec.MachineTypes = []corev1beta1.MachineType{{Name: "small"}, {Name: "arm", Architecture: &arm}}
	}
	p, err := cloudprofile.Compile("test", &spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// outcome renders items as "cp=1.25.4", "pool=... force", "image=FAIL", one per item.
func outcome(d Decision) string {
	names := map[Subject]string{ControlPlane: "cp", PoolKubernetes: "pool", PoolImage: "image"}
	var parts []string
	for _, i := range d.Items {
		text := fmt.Sprintf("%s=%s", names[i.Subject], i.To)
		if i.Err != nil {
			text += "FAIL"
		}
		if i.Forced {
			text += " force"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

func TestKubernetesExamples(t *testing.T) {
	for _, tc := range []struct {
		name     string
		shoot    string
		auto     bool
		versions string
		want     string
	}{
		{"1", "1.26.2", true, "1.27.0p 1.26.3p 1.26.2s 1.25.5p 1.25.4s 1.24.6s 1.24.5x", ""},
		{"2", "1.25.3", true, "1.26.2s 1.25.5p 1.25.4s 1.25.3d", "cp=1.25.4"},
		{"3", "1.25.3", false, "1.26.2s 1.25.5p 1.25.4s 1.25.3d", ""},
		{"4", "1.24.5", false, "1.25.4s 1.24.6s 1.24.5x", "cp=1.24.6"},
		{"5", "1.24.5", false, "1.25.4s 1.24.6p 1.24.5x", "cp=1.25.4 force"},
		{"6", "1.24.5", true, "1.25.4s 1.24.7d 1.24.6s 1.24.5d", "cp=1.24.6"},
		{"7", "1.24.5", true, "1.25.4s 1.24.8d 1.24.7d 1.24.6x 1.24.5d", "cp=1.24.8"},
		{"8", "1.24.6", true, "1.25.4s 1.24.6d", ""},
		{"9", "1.24.12", false, "1.26.10 1.26.9 1.24.12x", "cp=FAIL"},
		{"10", "1.24.12", false, "1.26.9 1.25.10 1.25.9 1.24.12x", "cp=1.25.10 force"},
		{"11", "1.24.12", true, "1.26.9 1.25.10p 1.25.9p 1.24.12x", "cp=FAIL"},
		{"12", "1.24.12", false, "1.26.9 1.25.10x 1.25.9x 1.24.12x", "cp=1.25.10 force"},
		{"12, next window", "1.25.10", false, "1.26.9 1.25.10x 1.25.9x 1.24.12x", "cp=1.26.9 force"},
		{"13", "1.24.12", false, "1.26.9 1.25.10x 1.25.9d 1.24.12x", "cp=1.25.9 force"},
		{"14", "1.24.12", false, "1.26.9 1.25.10d 1.25.9s 1.24.12x", "cp=1.25.10 force"},
		{"15", "1.24.11", false, "1.26.9 1.25.9s 1.24.12x 1.24.11x", "cp=1.25.9 force"},
		{"16", "1.24.11", false, "1.26.9 1.24.12x 1.24.11x", "cp=FAIL"},
		{"17", "1.24.3", false, "1.25.9s 1.24.12s 1.24.11d", "cp=1.24.12"},
		{"18", "1.24.3", false, "1.25.9s 1.23.12s", "cp=1.25.9 force"},
		{"19", "1.23.3", false, "1.25.9s", "cp=FAIL"},
		{"20", "1.24.12", false, "1.25.9s 1.24.12d@mar", ""},
		{"21", "1.24.12", true, "1.25.9s 1.24.13p 1.24.12x", "cp=1.25.9 force"},
		{"22", "1.27.6", true, "1.27.6s 1.26.9s", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := compiled(t, corev1beta1.CloudProfileSpec{
				Kubernetes: corev1beta1.KubernetesSettings{Versions: kubernetesVersions(t, tc.versions)},
			})
			d := NewDecider(p).Decide(&Cluster{Kubernetes: tc.shoot, AutoKubernetes: tc.auto}, now)
			if diff := cmp.Diff(tc.want, outcome(d)); diff != "" {
				t.Errorf("control plane mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPoolKubernetesExamples(t *testing.T) {
	for _, tc := range []struct {
		name               string
		controlPlane, pool string
		auto               bool
		versions           string
		want               string
	}{
		{"23", "1.24.13", "1.24.12", true, "1.25.9s 1.24.14s 1.24.12x", "cp=1.24.14, pool=1.24.14"},
		{"24", "1.24.14", "1.24.12", false, "1.25.9s 1.24.14s 1.24.12x", "pool=1.24.14"},
		{"25", "1.25.3", "1.24.14", false, "1.25.9s 1.25.3 1.24.14x", "pool=1.25.3 force"},
		{"26", "1.24.12", "", false, "1.26.9 1.25.10 1.25.9 1.24.12x", "cp=1.25.10 force"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := compiled(t, corev1beta1.CloudProfileSpec{
				Kubernetes:    corev1beta1.KubernetesSettings{Versions: kubernetesVersions(t, tc.versions)},
				MachineImages: []corev1beta1.MachineImage{{Name: "os", Versions: imageVersions(t, "1.0.0s")}},
			})
			d := NewDecider(p).Decide(&Cluster{
				Kubernetes:     tc.controlPlane,
				AutoKubernetes: tc.auto,
				Pools:          []Pool{{Name: "p", Kubernetes: tc.pool, MachineType: "small", Image: "os", ImageVersion: "1.0.0"}},
			}, now)
			if diff := cmp.Diff(tc.want, outcome(d)); diff != "" {
				t.Errorf("decision mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestImageExamples(t *testing.T) {
	arm := func(p *Pool) { p.MachineType, p.Architecture = "arm", "arm64" }
	gvisor := func(p *Pool) { p.CRI, p.Runtimes = "containerd", "gvisor" }
	inPlace := func(p *Pool) { p.InPlace = true }
	kubelet := func(v string) func(*Pool) { return func(p *Pool) { p.Kubernetes = v } }
	for _, tc := range []struct {
		name     string
		strategy corev1beta1.MachineImageUpdateStrategy
		image    string
		auto     bool
		versions string
		want     string
		pool     func(*Pool)
	}{
		{"27", "patch", "15.3.1", true, "15.3.1 15.3.4 15.4.2 16.0.0", "image=15.3.4", nil},
		{"28", "patch", "15.3.4", true, "15.3.1 15.3.4 15.4.2 16.0.0", "", nil},
		{"29", "patch", "15.3.4", false, "15.3.4x 15.4.2 15.4.3 15.5.0", "image=15.4.3 force", nil},
		{"30", "patch", "15.3.4", false, "15.3.4x 15.5.0 15.5.1 15.6.0", "image=15.5.1 force", nil},
		{"31", "patch", "15.3.4", false, "15.3.4x 15.4.2x 15.4.3x 15.5.1s", "image=15.4.3 force", nil},
		{"32", "patch", "15.3.4", false, "15.3.4x 15.4.2p 15.5.1s", "image=15.5.1 force", nil},
		{"33", "patch", "15.3.4", false, "15.3.4x 15.4.2s 15.4.3d", "image=15.4.3 force", nil},
		{"34", "patch", "15.3.4", false, "15.3.4x 16.0.0s", "image=FAIL", nil},
		{"35", "patch", "15.3.3", true, "15.3.3x 15.3.4x 15.4.2s", "image=15.4.2 force", nil},
		{"36", "patch", "15.3.3", true, "15.3.3 15.3.4s 15.3.5d 15.4.2s", "image=15.3.4", nil},
		{"37", "patch", "15.3.3", false, "15.3.3x 15.3.4p 15.4.2p", "image=FAIL", nil},
		{"38", "minor", "934.7.0", true, "934.7.0 934.8.0 1096.1.0", "image=934.8.0", nil},
		{"39", "minor", "934.8.0", true, "934.8.0 1096.1.0", "", nil},
		{"40", "minor", "934.8.0", false, "934.8.0x 1096.1.0 1096.2.1 1200.0.0", "image=1096.2.1 force", nil},
		{"41", "minor", "934.7.0", true, "934.7.0 934.7.1d 934.8.0s", "image=934.7.1", nil},
		{"41, next window", "minor", "934.7.1", true, "934.7.0 934.7.1d 934.8.0s", "image=934.8.0", nil},
		{"42", "minor", "934.7.0", true, "934.7.0 934.8.0d 934.9.0d", "image=934.9.0", nil},
		{"43", "minor", "934.7.0", false, "934.7.0x 934.8.0x 1096.1.0x 1312.0.0s", "image=1096.1.0 force", nil},
		{"43, next window", "minor", "1096.1.0", false, "934.7.0x 934.8.0x 1096.1.0x 1312.0.0s", "image=1312.0.0 force", nil},
		{"44", "minor", "934.8.0", false, "934.8.0x 1096.1.0p 1312.0.0s", "image=1312.0.0 force", nil},
		{"45", "minor", "934.8.0", false, "934.8.0x", "image=FAIL", nil},
		{"46", "major", "27.0.0", true, "27.0.0 27.0.1 28.0.0 29.1.0", "image=27.0.1", nil},
		{"46, next window", "major", "27.0.1", true, "27.0.0 27.0.1 28.0.0 29.1.0", "image=29.1.0", nil},
		{"47", "major", "27.0.1", true, "27.0.1 28.0.0 29.1.0d", "image=28.0.0", nil},
		{"48", "major", "27.0.1", true, "27.0.1 28.0.0p 29.1.0p", "", nil},
		{"49", "major", "27.0.1", false, "27.0.1x 28.0.0x 29.1.0s", "image=29.1.0", nil},
		{"50", "major", "29.1.0", false, "27.0.1s 29.1.0x", "image=FAIL", nil},
		{"51", "major", "29.1.0", false, "28.0.0s 29.1.0x 30.0.0x", "image=FAIL", nil},
		{"52", "major", "29.0.9", false, "28.0.0s 29.1.0s", "image=29.1.0", nil},
		{"53", "patch", "15.3.1", true, "15.3.1[arch=amd64,arm64] 15.3.4[arch=amd64] 15.3.3[arch=arm64]", "image=15.3.3",
			arm},
		{"54", "patch", "15.3.1", true, "15.3.1[runtime=gvisor] 15.3.4", "", gvisor},
		{"55", "patch", "15.3.1", true, "15.3.1 15.3.4[kubelet=>=1.26] 15.3.2", "image=15.3.2", kubelet("1.25.4")},
		{"56", "patch", "15.3.1", false, "15.3.1[kubelet=<1.27] 15.3.4", "image=15.3.4", kubelet("1.27.0")},
		{"57", "minor", "1630.0.0", true, "1630.0.0[ip] 1630.1.0 1630.2.0[ip][min=1630.0.0]", "image=1630.2.0", inPlace},
		{"58", "minor", "1630.0.0", true, "1630.0.0[ip] 1630.2.0[ip][min=1630.1.0]", "", inPlace},
		{"59", "minor", "1630.0.0", false, "1630.0.0 1630.2.0[ip][min=1630.0.0]", "image=1630.2.0", inPlace},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := compiled(t, corev1beta1.CloudProfileSpec{
				Kubernetes: corev1beta1.KubernetesSettings{Versions: kubernetesVersions(t, "1.25.4 1.27.0 1.36.0")},
				MachineImages: []corev1beta1.MachineImage{{
					Name: "os", UpdateStrategy: &tc.strategy, Versions: imageVersions(t, tc.versions),
				}},
			})
			pool := Pool{Name: "p", MachineType: "small", Architecture: "amd64", Image: "OS", ImageVersion: tc.image}
			if tc.pool != nil {
				tc.pool(&pool)
			}
			d := NewDecider(p).Decide(&Cluster{Kubernetes: "1.36.0", AutoImage: tc.auto, Pools: []Pool{pool}}, now)
			if diff := cmp.Diff(tc.want, outcome(d)); diff != "" {
				t.Errorf("decision mismatch (-want +got):\n%s", diff)
			}
		})
	}
}
