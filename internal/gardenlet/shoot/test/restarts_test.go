package test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/diff"
)

// TestEditsRestartWhatDiffSays edits a Shoot again and again, and compares the workloads of the control plane that get
// other pods with those that 'hortus diff' names.
func TestEditsRestartWhatDiffSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.profile.DeepCopy()
	w.profile.Spec.Kubernetes.Versions = append(w.profile.Spec.Kubernetes.Versions,
		corev1beta1.ExpirableVersion{Version: "1.36.4"})
	w.must(w.Client.Patch(w.ctx, w.profile, client.MergeFrom(before)))
	for name, data := range map[string]map[string]string{
		"audit": {"policy": "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"},
		"authn": {"config.yaml": "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt: []\n"},
	} {
		w.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace}, Data: data})
	}
	const (
		server, controllers, scheduler = "kube-apiserver", "kube-controller-manager", "kube-scheduler"
	)
	s := w.run(w.newShoot("pool"), succeeded)
	written := w.templates(s)
	for _, edit := range []struct {
		spec string // A merge patch.
		want []string
	}{
		{`kubernetes: {version: 1.36.4}`, []string{server, controllers, scheduler}},
		{`kubernetes: {kubeAPIServer: {requests: {maxMutatingInflight: 300}}}`, []string{server}},
		{`kubernetes: {kubeAPIServer: {eventTTL: 2h0m0s, defaultNotReadyTolerationSeconds: 100}}`, []string{server}},
		{`kubernetes: {kubeAPIServer: {runtimeConfig: {"batch/v1": true}, logging: {verbosity: 3}, apiAudiences: [some]}}`,
			[]string{server}},
		{`kubernetes: {kubeAPIServer: {serviceAccountConfig: {maxTokenExpiration: 720h0m0s}}}`, []string{server}},
		{`kubernetes: {kubeAPIServer: {admissionPlugins: [{name: AlwaysPullImages}],
			watchCacheSizes: {resources: [{resource: secrets, size: 50}]}}}`, []string{server}},
		{`kubernetes: {kubeAPIServer: {encryptionConfig: {resources: [configmaps]}}}`, []string{server}},
		{`kubernetes: {kubeAPIServer: {auditConfig: {auditPolicy: {configMapRef: {name: audit}}}}}`, []string{server}},
		{`kubernetes: {kubeAPIServer: {structuredAuthentication: {configMapName: authn}}}`, []string{server}},
		{`kubernetes: {kubeControllerManager: {featureGates: {WatchList: false}}}`, []string{controllers}},
		{`kubernetes: {kubeControllerManager: {nodeMonitorGracePeriod: 50s}, kubeScheduler: {profile: bin-packing}}`,
			[]string{controllers, scheduler}},
		{`kubernetes: {kubeScheduler: {featureGates: {WatchList: false}}}`, []string{scheduler}},
		{`{addons: {kubernetesDashboard: {enabled: false}}, extensions: [{type: some, disabled: true}],
			hibernation: {schedules: [{start: "0 1 * * *", end: "0 2 * * *"}]},
			kubernetes: {clusterAutoscaler: {scanInterval: 20s}, etcd: {main: {autoscaling: {minAllowed: {memory: 1Gi}}}},
				kubeAPIServer: {autoscaling: {minAllowed: {cpu: 100m}}, enableAnonymousAuthentication: false},
				kubeProxy: {mode: NFTables, featureGates: {WatchList: false}}, kubelet: {maxPods: 100},
				verticalPodAutoscaler: {enabled: false}},
			maintenance: {timeWindow: {begin: 010000+0000, end: 020000+0000}},
			monitoring: {alerting: {emailReceivers: [a@example.com]}},
			networking: {providerConfig: {apiVersion: a/v1, kind: B}},
			provider: {infrastructureConfig: {apiVersion: a/v1, kind: B}, controlPlaneConfig: {apiVersion: a/v1, kind: B},
				workersSettings: {sshAccess: {enabled: false}}},
			purpose: production, systemComponents: {coreDNS: {rewriting: {commonSuffixes: [a.b.c]}}}}`, nil},
		{`controlPlane: {highAvailability: {failureTolerance: {type: node}}}`, []string{"etcd-main", server}},
	} {
		patch, err := yaml.YAMLToJSON([]byte("spec:\n  " + edit.spec))
		w.must(err)
		former := fieldsOf(t, s)
		w.must(w.Client.Patch(w.ctx, s, client.RawPatch(types.MergePatchType, patch)))
		var said []string
		for _, part := range diff.Restarts(former, fieldsOf(t, s)) {
			said = append(said, part.Name)
		}
		s = w.run(s, succeeded)
		is := w.templates(s)
		var replaced []string
		for _, name := range slices.Sorted(maps.Keys(is)) {
			if is[name] != written[name] {
				replaced = append(replaced, name)
			}
		}
		written = is
		if d := cmp.Diff(edit.want, replaced); d != "" {
			t.Errorf("%s: replaced, -want +got:\n%s", edit.spec, d)
		}
		if d := cmp.Diff(replaced, said); d != "" {
			t.Errorf("%s: -replaced +said:\n%s", edit.spec, d)
		}
	}
}

// templates are those of the pods in the control plane, by the name of their workload.
func (w *world) templates(s *corev1beta1.Shoot) map[string]string {
	w.t.Helper()
	in := client.InNamespace(s.Status.TechnicalID)
	deployments, sets := &appsv1.DeploymentList{}, &appsv1.StatefulSetList{}
	w.must(w.Client.List(w.ctx, deployments, in))
	w.must(w.Client.List(w.ctx, sets, in))
	out := map[string]string{}
	for i := range deployments.Items {
		out[deployments.Items[i].Name] = deployments.Items[i].Spec.Template.String()
	}
	for i := range sets.Items {
		out[sets.Items[i].Name] = sets.Items[i].Spec.Template.String()
	}
	return out
}

func fieldsOf(t *testing.T, s *corev1beta1.Shoot) map[string]any {
	t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s)
	if err != nil {
		t.Fatal(err)
	}
	return object["spec"].(map[string]any)
}
