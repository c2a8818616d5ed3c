package controllerinstallation

import (
	"encoding/json"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apiversion "k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1v1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/chart"
)

// rendered are the objects of a chart with one template, by kind.
func rendered(t *testing.T, template, values string, seed *corev1beta1.Seed) map[string]client.Object {
	t.Helper()
	objects, err := renderChart(t, template, values, seed, nil)
	if err != nil {
		t.Fatal(err)
	}
	byKind := map[string]client.Object{}
	for _, o := range objects {
		byKind[o.GetObjectKind().GroupVersionKind().Kind] = o
	}
	return byKind
}

// renderChart renders a chart with one template.
func renderChart(
	t *testing.T, template, values string, seed *corev1beta1.Seed, access *gardenAccess,
) ([]client.Object, error) {
	t.Helper()
	archive, err := chart.Archive(fstest.MapFS{
		"x/Chart.yaml":            {Data: []byte("apiVersion: v2\nname: x\nversion: 0.1.0\n")},
		"x/values.yaml":           {Data: []byte("gardener: {seed: {color: blue, name: from-the-chart}}\n")},
		"x/templates/object.yaml": {Data: []byte(template)},
	}, "x", "x")
	if err != nil {
		t.Fatal(err)
	}
	deployment := &corev1v1.ControllerDeployment{Helm: &corev1v1.HelmControllerDeployment{}}
	if values != "" {
		deployment.Helm.Values = &runtime.RawExtension{Raw: []byte(values)}
	}
	parsed, err := expand(deployment.Helm, nil)
	if err != nil {
		t.Fatal(err)
	}
	return render(archive, noticeInstallation, noticeRegistration, parsed.values, seed, "garden-1",
		map[string]bool{"Gate": true}, seedCapabilities, access)
}

// seedCapabilities are those of a seed with one kind.
var seedCapabilities = chart.CapabilitiesOf(apiversion.Info{Major: "1", Minor: "34", GitVersion: "v1.34.7"}, nil,
	[]*metav1.APIResourceList{
		{GroupVersion: "policy/v1", APIResources: []metav1.APIResource{{Kind: "PodDisruptionBudget"}}},
	})

// TestChartsSeeTheSeed: objects of a chart may depend on what the seed offers.
func TestChartsSeeTheSeed(t *testing.T) {
	for expression, want := range map[string]string{
		`.Capabilities.KubeVersion.GitVersion`:                                "v1.34.7",
		`semverCompare ">= 1.21-0" .Capabilities.KubeVersion.Version`:         "true",
		`.Capabilities.APIVersions.Has "policy/v1"`:                           "true",
		`.Capabilities.APIVersions.Has "policy/v1/PodDisruptionBudget"`:       "true",
		`.Capabilities.APIVersions.Has "policy/v1beta1"`:                      "false",
		`.Capabilities.APIVersions.Has "monitoring.coreos.com/v1/Prometheus"`: "false",
	} {
		template := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {value: {{ " + expression + " | quote }}}\n"
		o := rendered(t, template, "", seedForChart())["ConfigMap"].(*unstructured.Unstructured)
		if got, _, _ := unstructured.NestedString(o.Object, "data", "value"); got != want {
			t.Errorf("%s is %q, want %q", expression, got, want)
		}
	}
}

var (
	noticeInstallation = &corev1beta1.ControllerInstallation{ObjectMeta: metav1.ObjectMeta{Name: "notice-blue"}}
	noticeRegistration = &corev1beta1.ControllerRegistration{ObjectMeta: metav1.ObjectMeta{Name: "notice"}}
)

func seedForChart() *corev1beta1.Seed {
	seed := &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{"a": "b"}}}
	seed.Spec.Provider = corev1beta1.SeedProvider{Type: "local", Region: "here"}
	seed.Spec.Ingress = &corev1beta1.Ingress{Domain: "ingress.example.com"}
	seed.Spec.Networks = corev1beta1.SeedNetworks{
		Pods: "10.1.0.0/16", Services: "10.2.0.0/16", BlockCIDRs: []string{"169.254.169.254/32"},
	}
	seed.Spec.Taints = []corev1beta1.SeedTaint{{Key: "seed.gardener.cloud/protected"}}
	seed.Spec.Volume = &corev1beta1.SeedVolume{
		Providers: []corev1beta1.SeedVolumeProvider{{Purpose: "etcd-main", Name: "fast"}},
	}
	identity := "blue-identity"
	seed.Status.ClusterIdentity = &identity
	return seed
}

// TestValuesOfCharts lists the values that a chart gets about seed and garden.
func TestValuesOfCharts(t *testing.T) {
	const template = `apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}, namespace: {{ .Release.Namespace }}}
data:
  values: {{ toJson .Values | quote }}
`
	for name, tc := range map[string]struct {
		values string
		change func(*corev1beta1.Seed)
		want   map[string]any // Paths of two keys below gardener, and the expected values.
	}{
		"a seed with all fields": {want: map[string]any{
			"garden.clusterIdentity": "garden-1", "gardenlet.featureGates": map[string]any{"Gate": true},
			"seed.name": "blue", "seed.clusterIdentity": "blue-identity", "seed.labels": map[string]any{"a": "b"},
			"seed.provider": "local", "seed.region": "here", "seed.ingressDomain": "ingress.example.com",
			"seed.visible": true, "seed.protected": true,
			"seed.taints":         []any{map[string]any{"key": "seed.gardener.cloud/protected"}},
			"seed.blockCIDRs":     []any{"169.254.169.254/32"},
			"seed.volumeProvider": "fast",
			"seed.volumeProviders": []any{
				map[string]any{"purpose": "etcd-main", "name": "fast"},
			},
			"seed.networks": map[string]any{
				"pods": "10.1.0.0/16", "services": "10.2.0.0/16", "blockCIDRs": []any{"169.254.169.254/32"},
			},
			"seed.color": "blue", // The chart's own.
		}},
		"a seed with little": {
			change: func(s *corev1beta1.Seed) {
				s.Spec.Taints, s.Spec.Volume, s.Spec.Networks.BlockCIDRs = nil, nil, nil
			},
			want: map[string]any{
				"seed.taints": []any{}, "seed.blockCIDRs": []any{}, "seed.volumeProvider": "", "seed.volumeProviders": []any{},
				"seed.protected": false,
			},
		},
		"values of the author": {
			values: `{"gardener": {"seed": {"name": "mine", "size": 3}, "extra": {"key": "kept"}}}`,
			want:   map[string]any{"seed.name": "blue", "seed.size": float64(3), "extra.key": "kept", "seed.color": "blue"},
		},
		"a value of the author instead of a map": {
			values: `{"gardener": "mine"}`, want: map[string]any{"seed.name": "blue"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			seed := seedForChart()
			if tc.change != nil {
				tc.change(seed)
			}
			o := rendered(t, template, tc.values, seed)["ConfigMap"].(*unstructured.Unstructured)
			if o.GetName() != "notice" || o.GetNamespace() != "extension-notice-blue" {
				t.Errorf("the release is %s in %s", o.GetName(), o.GetNamespace())
			}
			data, _, _ := unstructured.NestedStringMap(o.Object, "data")
			var values struct{ Gardener map[string]any }
			if err := json.Unmarshal([]byte(data["values"]), &values); err != nil {
				t.Fatal(err)
			}
			got := map[string]any{}
			for first, below := range values.Gardener {
				if below, isMap := below.(map[string]any); isMap {
					for second, value := range below {
						if _, wanted := tc.want[first+"."+second]; wanted {
							got[first+"."+second] = value
						}
					}
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("values mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNamespaceOfAnExtension lists what depends on the registration and the Seed.
func TestNamespaceOfAnExtension(t *testing.T) {
	for name, tc := range map[string]struct {
		level string // Of pod security; empty if there is none.
		zones []string
		want  map[string]string // Annotations.
	}{
		"no level, no zones": {},
		"restricted":         {level: "restricted"},
		"privileged":         {level: "privileged"},
		"one zone": {
			zones: []string{"a"}, want: map[string]string{"high-availability-config.resources.gardener.cloud/zones": "a"},
		},
		"several zones": {zones: []string{"b", "a", "c"},
			want: map[string]string{"high-availability-config.resources.gardener.cloud/zones": "b,a,c"}},
	} {
		t.Run(name, func(t *testing.T) {
			registration, seed := noticeRegistration.DeepCopy(), seedForChart()
			if tc.level != "" {
				registration.Annotations = map[string]string{"security.gardener.cloud/pod-security-enforce": tc.level}
			}
			seed.Spec.Provider.Zones = tc.zones
			got := desiredNamespace(noticeInstallation, registration, seed)
			want := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: "extension-notice-blue",
				Labels: map[string]string{
					"gardener.cloud/role": "extension", "controllerregistration.core.gardener.cloud/name": "notice",
					"high-availability-config.resources.gardener.cloud/consider": "true",
				},
				Annotations: tc.want,
			}}
			if tc.level != "" {
				want.Labels["pod-security.kubernetes.io/enforce"] = tc.level
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("desiredNamespace() mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

// TestChartsCompareVersionsOfGardener: charts of published extensions switch to older names and selectors below a
// version of Gardener, so the version of Hortus itself would mislead them.
func TestChartsCompareVersionsOfGardener(t *testing.T) {
	for constraint, want := range map[string]string{
		">= 0.0.0-0": "true", ">= 1.98.0-0": "true", ">= 1.120": "true", ">= 1.121.0-0": "false",
	} {
		template := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n" +
			"data: {value: {{ semverCompare \"" + constraint + "\" .Values.gardener.version | quote }}}\n"
		o := rendered(t, template, "", seedForChart())["ConfigMap"].(*unstructured.Unstructured)
		if got, _, _ := unstructured.NestedString(o.Object, "data", "value"); got != want {
			t.Errorf("gardener.version %s is %s, want %s", constraint, got, want)
		}
	}
}

// TestProgramsKnowTheirSeed checks the environment of all containers.
func TestProgramsKnowTheirSeed(t *testing.T) {
	const pod = `{initContainers: [{name: a}], containers: [{name: b, env: [{name: OTHER, value: x}]},
    {name: c, env: [{name: SEED_NAME, value: mine}]}]}`
	for kind, body := range map[string]string{
		"Pod":         pod,
		"Deployment":  "{template: {spec: " + pod + "}}",
		"StatefulSet": "{template: {spec: " + pod + "}}",
		"DaemonSet":   "{template: {spec: " + pod + "}}",
		"ReplicaSet":  "{template: {spec: " + pod + "}}",
		"Job":         "{template: {spec: " + pod + "}}",
		"CronJob":     "{jobTemplate: {spec: {template: {spec: " + pod + "}}}}",
	} {
		t.Run(kind, func(t *testing.T) {
			o := rendered(t, "apiVersion: v1\nkind: "+kind+"\nmetadata: {name: x}\nspec: "+body+"\n", "", seedForChart())[kind]
			raw, _, err := unstructured.NestedMap(o.(*unstructured.Unstructured).Object, podSpecs[kind]...)
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(raw)
			if err != nil {
				t.Fatal(err)
			}
			var got corev1.PodSpec
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
			seed := corev1.EnvVar{Name: "SEED_NAME", Value: "blue"}
			want := corev1.PodSpec{
				InitContainers: []corev1.Container{{Name: "a", Env: []corev1.EnvVar{seed}}},
				Containers: []corev1.Container{
					{Name: "b", Env: []corev1.EnvVar{{Name: "OTHER", Value: "x"}, seed}},
					{Name: "c", Env: []corev1.EnvVar{{Name: "SEED_NAME", Value: "mine"}}},
				},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("pod mismatch (-want +got):\n%s", diff)
			}
		})
	}
}
