package managedseed

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/gardenlet/config"
	"hortus.dev/hortus/internal/pki"
)

const parentConfiguration = `
apiVersion: gardenlet.config.gardener.cloud/v1alpha1
kind: GardenletConfiguration
gardenClientConnection:
  kubeconfig: /etc/parent/kubeconfig
  kubeconfigSecret: {namespace: garden, name: parent}
  kubeconfigValidity: {validity: 24h}
  qps: 7
controllers:
  shoot: {concurrentSyncs: 3, fenceTime: 4m}
logLevel: debug
leaderElection: {resourceName: parent}
seedConfig: {metadata: {name: parent}, spec: {provider: {type: parent}}}
`

func parent(t *testing.T) Parent {
	t.Helper()
	c, err := config.Parse([]byte(parentConfiguration))
	if err != nil {
		t.Fatal(err)
	}
	return Parent{Config: c, Image: "registry.example/hortus:1.2.3"}
}

// managed returns a ManagedSeed with the given configuration.
func managed(configuration string) *seedmanagementv1alpha1.ManagedSeed {
	m := &seedmanagementv1alpha1.ManagedSeed{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "child"}}
	m.Spec.Shoot = &seedmanagementv1alpha1.Shoot{Name: "child"}
	m.Spec.Gardenlet.Config = &runtime.RawExtension{Raw: []byte(configuration)}
	seedmanagementv1alpha1.SetDefaultsManagedSeed(m)
	return m
}

const ownSeed = `"seedConfig": {"spec": {"provider": {"type": "local"}}}`

func TestConfiguration(t *testing.T) {
	for name, tc := range map[string]struct {
		given string
		alone bool
		// want are values by path; "-" stands for a missing one.
		want map[string]any
	}{
		"of the parent": {
			given: "{" + ownSeed + "}",
			want: map[string]any{
				"controllers.shoot.concurrentSyncs": 3.0, "controllers.shoot.fenceTime": "4m0s", "logLevel": "debug",
				"gardenClientConnection.qps": 7.0, "gardenClientConnection.kubeconfig": "-",
				"gardenClientConnection.kubeconfigSecret": "-", "leaderElection": "-", "seedClientConnection": "-",
				"gardenClientConnection.kubeconfigValidity.validity": "24h0m0s",
				"seedConfig.metadata.name":                           "child",
				"seedConfig.spec.provider.type":                      "local",
				"apiVersion":                                         "-",
				"kind":                                               "-",
			},
		},
		"its own before the parent's": {
			given: `{"logLevel": "error", "controllers": {"shoot": {"concurrentSyncs": 9}}, ` + ownSeed + "}",
			want: map[string]any{
				"logLevel": "error", "controllers.shoot.concurrentSyncs": 9.0, "controllers.shoot.fenceTime": "4m0s",
			},
		},
		"its own alone": {
			given: `{"logLevel": "error", ` + ownSeed + "}", alone: true,
			want: map[string]any{"logLevel": "error", "controllers": "-", "gardenClientConnection": "-",
				"seedConfig.metadata.name": "child"},
		},
		"another name of the Seed": {
			given: `{"seedConfig": {"metadata": {"name": "other", "labels": {"a": "b"}}, "spec": {}}}`,
			want:  map[string]any{"seedConfig.metadata.name": "child", "seedConfig.metadata.labels.a": "b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := managed(tc.given)
			if tc.alone {
				m.Spec.Gardenlet.MergeWithParent = new(false)
			}
			got, err := configuration(m, parent(t).Config)
			if err != nil {
				t.Fatal(err)
			}
			for path, want := range tc.want {
				value, found, err := unstructured.NestedFieldNoCopy(got, strings.Split(path, ".")...)
				if err != nil {
					t.Fatal(err)
				}
				if !found {
					value = "-"
				}
				if !cmp.Equal(value, want) {
					t.Errorf("%s is %v, want %v", path, value, want)
				}
			}
		})
	}
}

func TestConfigurationsThatNoGardenletAccepts(t *testing.T) {
	for given, want := range map[string]string{
		`{"noSuchField": 1, ` + ownSeed + "}":                                    "noSuchField",
		`{"logLevel": "loud", ` + ownSeed + "}":                                  "logLevel",
		`{"controllers": {"shoot": {"concurrentSyncs": 0}}, ` + ownSeed + "}":    "controllers.shoot.concurrentSyncs",
		`{"logLevel": "info"}`:                                                   "spec.gardenlet.config.seedConfig",
		`{"featureGates": {"None": true}, ` + ownSeed + "}":                      "featureGates.None",
		`{"controllers": {"seed": {"leaseResyncSeconds": -1}}, ` + ownSeed + "}": "controllers.seed.leaseResyncSeconds",
	} {
		if _, err := parsed(managed(given), parent(t).Config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want %q in it", given, err, want)
		}
	}
}

func TestAddressOfTheGarden(t *testing.T) {
	for name, tc := range map[string]struct {
		given string
		want  pki.Kubeconfig
	}{
		"the parent's": {
			"{" + ownSeed + "}", pki.Kubeconfig{Server: "https://garden.internal", TLSServerName: "garden", CAPEM: []byte("ca")},
		},
		"its own": {
			`{"gardenClientConnection": {"gardenClusterAddress": "https://garden.example", "gardenClusterCACert": "b3RoZXI="}, ` +
				ownSeed + "}",
			pki.Kubeconfig{Server: "https://garden.example", CAPEM: []byte("other")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := pki.Kubeconfig{Server: "https://garden.internal", TLSServerName: "garden", CAPEM: []byte("ca")}
			if err := atAddress(&got, managed(tc.given), parent(t).Config); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("kubeconfig (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDeployment checks that each field of spec.gardenlet.deployment changes the Deployment.
func TestDeployment(t *testing.T) {
	m := managed("{" + ownSeed + "}")
	if err := json.Unmarshal([]byte(`{
		"replicaCount": 3, "revisionHistoryLimit": 4, "serviceAccountName": "somebody",
		"image": {"repository": "other.example/hortus", "pullPolicy": "Always"},
		"resources": {"requests": {"cpu": "2"}},
		"podLabels": {"a": "b"}, "podAnnotations": {"c": "d"},
		"additionalVolumes": [{"name": "more", "emptyDir": {}}],
		"additionalVolumeMounts": [{"name": "more", "mountPath": "/more"}],
		"env": [{"name": "E", "value": "1"}],
		"tolerations": [{"key": "k", "operator": "Exists"}],
		"enableHealthProbes": false
	}`), m.Spec.Gardenlet.Deployment); err != nil {
		t.Fatal(err)
	}
	d := deploymentOf(t, m)
	pod := d.Spec.Template
	c := pod.Spec.Containers[0]
	for what, ok := range map[string]bool{
		"replicas":             *d.Spec.Replicas == 3,
		"revisionHistoryLimit": *d.Spec.RevisionHistoryLimit == 4,
		"serviceAccountName":   pod.Spec.ServiceAccountName == "somebody",
		"image":                c.Image == "other.example/hortus:1.2.3",
		"imagePullPolicy":      c.ImagePullPolicy == corev1.PullAlways,
		"cpu":                  c.Resources.Requests.Cpu().String() == "2",
		"memory":               c.Resources.Requests.Memory().String() == "64Mi",
		"labels":               pod.Labels["a"] == "b" && pod.Labels["app"] == "gardenlet",
		"annotations":          pod.Annotations["c"] == "d" && refersTo(pod.Annotations, pod.Spec.Volumes[0].ConfigMap.Name),
		"volumes":              pod.Spec.Volumes[len(pod.Spec.Volumes)-1].Name == "more",
		"volumeMounts":         c.VolumeMounts[len(c.VolumeMounts)-1].MountPath == "/more",
		"env":                  c.Env[len(c.Env)-1].Name == "E",
		"tolerations":          len(pod.Spec.Tolerations) == 1 && pod.Spec.Tolerations[0].Key == "k",
		"no probes":            c.ReadinessProbe == nil && c.LivenessProbe == nil,
	} {
		if !ok {
			t.Errorf("%s: the Deployment is %+v", what, d.Spec)
		}
	}
	if d := deploymentOf(t, managed("{"+ownSeed+"}")); *d.Spec.Replicas != 2 || *d.Spec.RevisionHistoryLimit != 2 ||
		d.Spec.Template.Spec.Containers[0].ReadinessProbe == nil ||
		d.Spec.Template.Spec.Containers[0].Image != "registry.example/hortus:1.2.3" {
		t.Errorf("by default the Deployment is %+v", d.Spec)
	}
}

// refersTo reports whether one of the annotations keeps the ConfigMap, whose name depends on the configuration.
func refersTo(annotations map[string]string, configMap string) bool {
	for key, name := range annotations {
		if strings.HasPrefix(key, "reference.resources.gardener.cloud/configmap-") && name == configMap {
			return strings.HasPrefix(name, "gardenlet-config-")
		}
	}
	return false
}

func deploymentOf(t *testing.T, m *seedmanagementv1alpha1.ManagedSeed) *appsv1.Deployment {
	t.Helper()
	all, err := objects(m, parent(t), []byte("kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		u, ok := o.(*unstructured.Unstructured)
		if !ok || u.GetKind() != "Deployment" {
			continue
		}
		d := &appsv1.Deployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, d, true); err != nil {
			t.Fatal(err)
		}
		return d
	}
	t.Fatal("the chart has no Deployment")
	return nil
}
