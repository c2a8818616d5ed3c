package managedresource

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/releaseutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

// parse reads one object from YAML.
func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	objects, err := decodeValue("test.yaml", []byte(text))
	if err != nil || len(objects) != 1 {
		t.Fatalf("decode %d objects, error %v:\n%s", len(objects), err, text)
	}
	return objects[0]
}

func TestMerge(t *testing.T) {
	for name, tc := range map[string]struct {
		live, want string
		last       resourcesv1alpha1.ObjectReference
		scaled     bool
		options    mergeOptions
		result     string
	}{
		"identity, status and finalizers are kept": {
			live:   `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, uid: u, resourceVersion: "7", finalizers: [f], ownerReferences: [{name: o}]}, status: {x: 1}, data: {old: "1"}}`,
			want:   `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {new: "1"}, status: {x: 2}}`,
			result: `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, uid: u, resourceVersion: "7", finalizers: [f], ownerReferences: [{name: o}]}, status: {x: 1}, data: {new: "1"}}`,
		},
		"foreign labels stay; ours that are no longer wanted are removed unless changed": {
			live:   `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {foreign: x, ours: "1", changed: theirs, wanted: old}}}`,
			want:   `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {wanted: new}}}`,
			last:   resourcesv1alpha1.ObjectReference{Labels: map[string]string{"ours": "1", "changed": "1", "wanted": "old"}},
			result: `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {foreign: x, changed: theirs, wanted: new}}}`,
		},
		"foreign labels and annotations are removed when overwriting": {
			live:    `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {foreign: x}, annotations: {foreign: x}}}`,
			want:    `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {a: b}, annotations: {c: d}}}`,
			options: mergeOptions{overwriteLabels: true, overwriteAnnotations: true},
			result:  `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {a: b}, annotations: {c: d}}}`,
		},
		"the token of a Secret that requests one is kept": {
			live:   `{apiVersion: v1, kind: Secret, metadata: {name: a, labels: {resources.gardener.cloud/purpose: token-requestor}}, data: {token: dA==, other: bw==}}`,
			want:   `{apiVersion: v1, kind: Secret, metadata: {name: a, labels: {resources.gardener.cloud/purpose: token-requestor}}}`,
			result: `{apiVersion: v1, kind: Secret, metadata: {name: a, labels: {resources.gardener.cloud/purpose: token-requestor}}, data: {token: dA==}}`,
		},
		"the token of another Secret is not": {
			live:   `{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {token: dA==}}`,
			want:   `{apiVersion: v1, kind: Secret, metadata: {name: a}}`,
			result: `{apiVersion: v1, kind: Secret, metadata: {name: a}}`,
		},
		"CAs of webhooks are kept when not specified": {
			live:   `{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: a}, webhooks: [{name: gone, clientConfig: {caBundle: Zw==}}, {name: x, clientConfig: {url: old, caBundle: Y2E=}}, {name: own, clientConfig: {caBundle: bw==}}]}`,
			want:   `{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: a}, webhooks: [{name: x, clientConfig: {url: new}}, {name: own, clientConfig: {caBundle: bmV3}}, {name: new, clientConfig: {url: x}}]}`,
			result: `{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: a}, webhooks: [{name: x, clientConfig: {url: new, caBundle: Y2E=}}, {name: own, clientConfig: {caBundle: bmV3}}, {name: new, clientConfig: {url: x}}]}`,
		},
		"replicas are kept when not specified": {
			live:   `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 3}}`,
			want:   `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {paused: true}}`,
			result: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 3, paused: true}}`,
		},
		"replicas are set when specified": {
			live:   `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {replicas: 3}}`,
			want:   `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {replicas: 1}}`,
			result: `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {replicas: 1}}`,
		},
		"replicas are kept when autoscaled": {
			live:   `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 3}}`,
			want:   `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 1}}`,
			scaled: true,
			result: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 3}}`,
		},
		"replicas are kept when requested by annotation": {
			live:   `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 3}}`,
			want:   `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, annotations: {resources.gardener.cloud/preserve-replicas: "true"}}, spec: {replicas: 1}}`,
			result: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, annotations: {resources.gardener.cloud/preserve-replicas: "true"}}, spec: {replicas: 3}}`,
		},
		"resources are kept by container name when requested": {
			live:   `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a}, spec: {template: {spec: {containers: [{name: x, resources: {requests: {cpu: 9}}}, {name: gone}]}}}}`,
			want:   `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a, annotations: {resources.gardener.cloud/preserve-resources: "true"}}, spec: {template: {spec: {containers: [{name: new, resources: {requests: {cpu: 1}}}, {name: x, image: i, resources: {requests: {cpu: 1}}}]}}}}`,
			result: `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a, annotations: {resources.gardener.cloud/preserve-resources: "true"}}, spec: {template: {spec: {containers: [{name: new, resources: {requests: {cpu: 1}}}, {name: x, image: i, resources: {requests: {cpu: 9}}}]}}}}`,
		},
		"a restart by kubectl is kept": {
			live:   `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {template: {metadata: {annotations: {kubectl.kubernetes.io/restartedAt: now, other: x}}}}}`,
			want:   `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {template: {metadata: {annotations: {a: b}}}}}`,
			result: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {template: {metadata: {annotations: {kubectl.kubernetes.io/restartedAt: now, a: b}}}}}`,
		},
		"claim templates of a StatefulSet are kept": {
			live:   `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {volumeClaimTemplates: [{metadata: {name: x}}]}}`,
			want:   `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {volumeClaimTemplates: [{metadata: {name: y}}]}}`,
			result: `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {volumeClaimTemplates: [{metadata: {name: x}}]}}`,
		},
		"selector and labels of a Job are kept": {
			live:   `{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {selector: {matchLabels: {controller-uid: u}}, template: {metadata: {labels: {controller-uid: u}}}}}`,
			want:   `{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {template: {metadata: {labels: {app: a}}}}}`,
			result: `{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {selector: {matchLabels: {controller-uid: u}}, template: {metadata: {labels: {controller-uid: u}}}}}`,
		},
		"addresses of a Service are kept": {
			live:   `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ipFamilies: [IPv4], ipFamilyPolicy: SingleStack}}`,
			want:   `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 80}]}}`,
			result: `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ipFamilies: [IPv4], ipFamilyPolicy: SingleStack, ports: [{port: 80}]}}`,
		},
		"node ports of a load balancer are kept by port": {
			live:   `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: LoadBalancer, loadBalancerIP: 1.2.3.4, healthCheckNodePort: 31000, ports: [{port: 80, protocol: TCP, nodePort: 30080}, {port: 80, protocol: UDP, nodePort: 30081}, {port: 81, nodePort: 30082}]}}`,
			want:   `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: LoadBalancer, ports: [{port: 80}, {port: 80, protocol: UDP}, {port: 82}, {port: 81, nodePort: 32000}]}}`,
			result: `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: LoadBalancer, loadBalancerIP: 1.2.3.4, healthCheckNodePort: 31000, ports: [{port: 80, nodePort: 30080}, {port: 80, protocol: UDP, nodePort: 30081}, {port: 82}, {port: 81, nodePort: 32000}]}}`,
		},
		"node ports are removed when the Service becomes internal": {
			live:   `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: NodePort, clusterIP: 10.0.0.1, ports: [{port: 80, nodePort: 30080}]}}`,
			want:   `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: ClusterIP, ports: [{port: 80}]}}`,
			result: `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: ClusterIP, clusterIP: 10.0.0.1, ports: [{port: 80}]}}`,
		},
		"an external name has no addresses": {
			live:   `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIP: 10.0.0.1}}`,
			want:   `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: ExternalName, externalName: x}}`,
			result: `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: ExternalName, externalName: x}}`,
		},
		"secrets of a ServiceAccount are kept": {
			live:   `{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, secrets: [{name: t}], imagePullSecrets: [{name: p}]}`,
			want:   `{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, imagePullSecrets: [{name: q}]}`,
			result: `{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, secrets: [{name: t}], imagePullSecrets: [{name: q}]}`,
		},
		"a claim only grows": {
			live:   `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {volumeName: v, storageClassName: s, resources: {requests: {storage: 1Gi}}}}`,
			want:   `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {accessModes: [x], resources: {requests: {storage: 2Gi}}}}`,
			result: `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {volumeName: v, storageClassName: s, resources: {requests: {storage: 2Gi}}}}`,
		},
		"aggregated rules are kept": {
			live:   `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}, rules: [{verbs: [get]}]}`,
			want:   `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}, aggregationRule: {clusterRoleSelectors: []}, rules: []}`,
			result: `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}, aggregationRule: {clusterRoleSelectors: []}, rules: [{verbs: [get]}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := parse(t, tc.want)
			before := want.DeepCopy()
			got := merge(parse(t, tc.live), want, tc.last, tc.scaled, tc.options)
			if diff := cmp.Diff(asYAML(t, parse(t, tc.result)), asYAML(t, got)); diff != "" {
				t.Errorf("merge() mismatch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, want); diff != "" {
				t.Errorf("merge() changed its argument:\n%s", diff)
			}
		})
	}
}

func asYAML(t *testing.T, u *unstructured.Unstructured) string {
	t.Helper()
	if len(u.GetLabels()) == 0 {
		unstructured.RemoveNestedField(u.Object, "metadata", "labels")
	}
	if len(u.GetAnnotations()) == 0 {
		unstructured.RemoveNestedField(u.Object, "metadata", "annotations")
	}
	b, err := yaml.Marshal(u.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestInjected(t *testing.T) {
	u := parse(t,
		`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a, labels: {x: z}}, spec: {template: {metadata: {labels: {app: a}}}, volumeClaimTemplates: [{metadata: {name: c}}]}, status: {replicas: 1}}`)
	got := injected(u, mergeOptions{origin: "seed:ns/mr", injectLabels: map[string]string{"in": "1"}})
	const managedBy = "resources.gardener.cloud/managed-by"
	want := map[string]string{"x": "z", "in": "1", managedBy: "gardener"}
	if diff := cmp.Diff(want, got.GetLabels()); diff != "" {
		t.Errorf("labels mismatch (-want +got):\n%s", diff)
	}
	template, _, _ := unstructured.NestedStringMap(got.Object, "spec", "template", "metadata", "labels")
	if diff := cmp.Diff(map[string]string{"app": "a", "in": "1", managedBy: "gardener"}, template); diff != "" {
		t.Errorf("template labels mismatch (-want +got):\n%s", diff)
	}
	claims, _, _ := unstructured.NestedSlice(got.Object, "spec", "volumeClaimTemplates")
	claim, _, _ := unstructured.NestedStringMap(claims[0].(map[string]any), "metadata", "labels")
	if diff := cmp.Diff(map[string]string{"in": "1", managedBy: "gardener"}, claim); diff != "" {
		t.Errorf("claim labels mismatch (-want +got):\n%s", diff)
	}
	if got.GetAnnotations()[resourcesv1alpha1.AnnotationOrigin] != "seed:ns/mr" || got.Object["status"] != nil {
		t.Errorf("want the origin and no status, got %v", got.Object)
	}
}

// TestOrderIsThatOfHelm ignores what no server has: lists, and PodSecurityPolicies.
func TestOrderIsThatOfHelm(t *testing.T) {
	helm := slices.DeleteFunc(slices.Clone(releaseutil.InstallOrder), func(kind string) bool {
		return strings.HasSuffix(kind, "List") || kind == "PodSecurityPolicy"
	})
	if diff := cmp.Diff([]string(helm), installOrder); diff != "" {
		t.Errorf("installOrder differs (-Helm's +ours):\n%s", diff)
	}
}

func TestInOrder(t *testing.T) {
	var objects []*object
	for _, kind := range []string{
		"Foo", "Deployment", "CustomResourceDefinition", "Service", "ClusterRole", "Namespace", "Secret", "Deployment", "Bar",
	} {
		objects = append(objects, &object{ref: reference{Name: "x"}})
		objects[len(objects)-1].ref.Kind = kind
	}
	var got []string
	for _, group := range inOrder(objects) {
		got = append(got, group[0].ref.Kind)
	}
	want := []string{
		"Namespace", "Secret", "CustomResourceDefinition", "ClusterRole", "Service", "Deployment", "Bar", "Foo",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inOrder() mismatch (-want +got):\n%s", diff)
	}
}

func TestCompareKnowsEquivalentGroups(t *testing.T) {
	status := func(apiVersion, kind, name string) resourcesv1alpha1.ObjectReference {
		return resourcesv1alpha1.ObjectReference{ObjectReference: corev1.ObjectReference{
			APIVersion: apiVersion, Kind: kind, Name: name,
		}}
	}
	wanted := []*object{
		{ref: fromStatus(status("apps/v1", "Deployment", "a"))}, {ref: fromStatus(status("v2.example/v1", "Foo", "b"))},
	}
	before := []resourcesv1alpha1.ObjectReference{
		status("extensions/v1beta1", "Deployment", "a"), status("v1.example/v1", "Foo", "b"), status("v1", "ConfigMap", "c"),
	}
	id := identities(nil)
	orphans, last := compare(before, wanted, nil, id)
	if len(orphans) != 2 || len(last) != 1 {
		t.Errorf("without own equivalences: %d orphans, %d known; want 2, 1", len(orphans), len(last))
	}
	id = identities([][]metav1.GroupKind{{{Group: "v1.example", Kind: "Foo"}, {Group: "v2.example", Kind: "Foo"}}})
	orphans, last = compare(before, wanted, nil, id)
	if len(orphans) != 1 || orphans[0].Name != "c" || len(last) != 2 {
		t.Errorf("with own equivalences: orphans %v, %d known; want only c, 2", orphans, len(last))
	}
}
