package controllerinstallation

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/networkpolicy"
	"hortus.dev/hortus/internal/pki"
)

func noticeAccess(t *testing.T, server string) *gardenAccess {
	t.Helper()
	access, err := newGardenAccess(noticeInstallation, pki.Kubeconfig{
		Name: "garden", Server: server, CAPEM: []byte("ca"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return access
}

// podsOf decodes the specification and the labels of the pods of an object.
func podsOf(t *testing.T, o client.Object) (corev1.PodSpec, map[string]string) {
	t.Helper()
	u := o.(*unstructured.Unstructured)
	where := podSpecs[u.GetKind()]
	content, _, err := unstructured.NestedMap(u.Object, where...)
	if err != nil {
		t.Fatal(err)
	}
	var spec corev1.PodSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &spec); err != nil {
		t.Fatal(err)
	}
	labels, _, err := unstructured.NestedStringMap(u.Object,
		append(slices.Clone(where[:len(where)-1]), "metadata", "labels")...)
	if err != nil {
		t.Fatal(err)
	}
	return spec, labels
}

// workload is an object with pods, whose specification is at depth templates.
func workload(kind, version, meta, spec string) string {
	pods := map[string]string{
		"Pod":     "spec: {SPEC}",
		"CronJob": "spec: {jobTemplate: {spec: {template: {metadata: {labels: {app: x}}, spec: {SPEC}}}}}",
	}[kind]
	if pods == "" {
		pods = "spec: {template: {metadata: {labels: {app: x}}, spec: {SPEC}}}"
	}
	return "apiVersion: " + version + "\nkind: " + kind + "\nmetadata: {name: x" + meta + "}\n" +
		strings.Replace(pods, "SPEC", spec, 1) + "\n"
}

const wantGardenPath = "/var/run/secrets/gardener.cloud/garden/generic-kubeconfig"

// TestPodsGetTheGardenKubeconfig checks every kind with pods.
func TestPodsGetTheGardenKubeconfig(t *testing.T) {
	access := noticeAccess(t, "https://garden.example.com")
	for kind, version := range map[string]string{
		"Pod": "v1", "Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "ReplicaSet": "apps/v1",
		"Job": "batch/v1", "CronJob": "batch/v1",
	} {
		t.Run(kind, func(t *testing.T) {
			objects, err := renderChart(t, workload(kind, version, "",
				"initContainers: [{name: i}], containers: [{name: a, volumeMounts: [{name: own, mountPath: /own}]}, "+
					"{name: b, env: [{name: GARDEN_KUBECONFIG, value: mine}]}], volumes: [{name: own}]"), "", seedForChart(), access)
			if err != nil {
				t.Fatal(err)
			}
			spec, labels := podsOf(t, objects[len(objects)-1])
			env := map[string]string{}
			mounts := map[string][]string{}
			for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
				for _, e := range c.Env {
					if e.Name == "GARDEN_KUBECONFIG" {
						env[c.Name] = e.Value
					}
				}
				for _, m := range c.VolumeMounts {
					mounts[c.Name] = append(mounts[c.Name], m.Name+" "+m.MountPath)
				}
			}
			path := wantGardenPath + "/kubeconfig"
			if diff := cmp.Diff(map[string]string{"i": path, "a": path, "b": "mine"}, env); diff != "" {
				t.Errorf("GARDEN_KUBECONFIG (-want +got):\n%s", diff)
			}
			own := "garden-kubeconfig " + wantGardenPath
			if diff := cmp.Diff(map[string][]string{"i": {own}, "a": {"own /own", own}}, mounts); diff != "" {
				t.Errorf("mounts (-want +got):\n%s", diff)
			}
			if len(spec.Volumes) != 2 || spec.Volumes[1].Projected == nil {
				t.Fatalf("volumes are %+v", spec.Volumes)
			}
			var sources []string
			for _, s := range spec.Volumes[1].Projected.Sources {
				sources = append(sources, s.Secret.Name+" "+s.Secret.Items[0].Key+" "+s.Secret.Items[0].Path)
			}
			want := []string{access.kubeconfigSecret + " kubeconfig kubeconfig", "garden-access-extension token token"}
			if diff := cmp.Diff(want, sources); diff != "" {
				t.Errorf("sources (-want +got):\n%s", diff)
			}
			if labels[networkpolicy.LabelToGarden] != "allowed" || kind != "Pod" && labels["app"] != "x" {
				t.Errorf("the pods have the labels %v", labels)
			}
		})
	}
}

func TestPodsWithoutTheGardenKubeconfig(t *testing.T) {
	const set = "env: [{name: GARDEN_KUBECONFIG, value: mine}]"
	for name, tc := range map[string]struct {
		meta, spec string
		without    bool // The deployment requests no access.
		err        string
	}{
		"no access":              {spec: "containers: [{name: a}]", without: true},
		"an object opts out":     {meta: `, labels: {extensions.gardener.cloud/inject-garden-kubeconfig: "false"}`, spec: "containers: [{name: a}]"},
		"all containers have it": {spec: "initContainers: [{name: i, " + set + "}], containers: [{name: a, " + set + "}]"},
		"the volume has another author": {
			spec: "containers: [{name: a}], volumes: [{name: garden-kubeconfig}]",
			err: `inject kubeconfig of the garden into Deployment "x": the volume garden-kubeconfig exists: the gardenlet ` +
				`adds one with this name`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			access := noticeAccess(t, "https://garden.example.com")
			if tc.without {
				access = nil
			}
			objects, err := renderChart(t, workload("Deployment", "apps/v1", tc.meta, tc.spec), "", seedForChart(), access)
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Errorf("the error is %v, want %s", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			spec, labels := podsOf(t, objects[len(objects)-1])
			if len(spec.Volumes) > 0 || labels[networkpolicy.LabelToGarden] != "" {
				t.Errorf("the pods have volumes %v, labels %v", spec.Volumes, labels)
			}
			if _, hasPolicy := byType[*networkingv1.NetworkPolicy](objects); hasPolicy == tc.without {
				t.Errorf("there is a NetworkPolicy: %t", hasPolicy)
			}
		})
	}
}

func byType[T client.Object](objects []client.Object) (T, bool) {
	for _, o := range objects {
		if found, ok := o.(T); ok {
			return found, true
		}
	}
	var none T
	return none, false
}

// TestObjectsOfGardenAccess compares them with what extensions and the token requestor rely on.
func TestObjectsOfGardenAccess(t *testing.T) {
	access := noticeAccess(t, "https://garden.example.com:6443")
	secrets := map[string]*corev1.Secret{}
	for _, o := range access.objects {
		if o.GetNamespace() != "extension-notice-blue" {
			t.Errorf("%s is in namespace %s", o.GetName(), o.GetNamespace())
		}
		if secret, ok := o.(*corev1.Secret); ok {
			secrets[secret.Name] = secret
		}
	}
	requested := secrets["garden-access-extension"]
	if diff := cmp.Diff(map[string]string{
		"resources.gardener.cloud/purpose": "token-requestor", "resources.gardener.cloud/class": "garden",
	}, requested.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{
		resourcesv1alpha1.AnnotationServiceAccountName: "extension-notice-blue",
	}, requested.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if len(requested.Data) > 0 {
		t.Errorf("the Secret has %v, which would replace the token", slices.Sorted(maps.Keys(requested.Data)))
	}
	if !strings.HasPrefix(access.kubeconfigSecret, "generic-garden-kubeconfig-") {
		t.Errorf("the kubeconfig is in Secret %s", access.kubeconfigSecret)
	}
	config, err := clientcmd.Load(secrets[access.kubeconfigSecret].Data["kubeconfig"])
	if err != nil {
		t.Fatal(err)
	}
	current := config.Contexts[config.CurrentContext]
	user, cluster := config.AuthInfos[current.AuthInfo], config.Clusters[current.Cluster]
	if user.TokenFile != wantGardenPath+"/token" || user.Token != "" ||
		cluster.Server != "https://garden.example.com:6443" || string(cluster.CertificateAuthorityData) != "ca" {
		t.Errorf("the kubeconfig has user %+v, cluster %+v", user, cluster)
	}
	if other := noticeAccess(t, "https://other.example.com"); other.kubeconfigSecret == access.kubeconfigSecret {
		t.Errorf("another kubeconfig is in the same Secret, %s", other.kubeconfigSecret)
	}
}

func TestChartsKnowTheSecretWithTheKubeconfig(t *testing.T) {
	const template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n" +
		"data: {secret: {{ .Values.gardener.garden.genericKubeconfigSecretName | quote }}}\n"
	access := noticeAccess(t, "https://garden.example.com")
	objects, err := renderChart(t, template, "", seedForChart(), access)
	if err != nil {
		t.Fatal(err)
	}
	o := objects[len(objects)-1].(*unstructured.Unstructured)
	if got, _, _ := unstructured.NestedString(o.Object, "data", "secret"); got != access.kubeconfigSecret {
		t.Errorf("the chart gets %q, want %q", got, access.kubeconfigSecret)
	}
}
