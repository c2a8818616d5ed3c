package resourcemanager

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/crds"
	"hortus.dev/hortus/internal/resourcemanager/node"
	"hortus.dev/hortus/test/env"
)

func TestMain(m *testing.M) {
	env.Main(m, env.WithCRDs(crds.Get(crds.Resources, crds.Machine)...),
		env.WithScheme(resourcesv1alpha1.AddToScheme, machinev1alpha1.AddToScheme))
}

// counting counts all requests except watches.
type counting struct {
	http.RoundTripper
	n *atomic.Int64
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") == "" {
		c.n.Add(1)
	}
	return c.RoundTripper.RoundTrip(r)
}

// start runs the complete resource-manager for a namespace until the test ends. Source and target are the same cluster.
func start(t *testing.T, e *env.Environment, namespace string) *atomic.Int64 {
	t.Helper()
	requests := &atomic.Int64{}
	config := rest.CopyConfig(e.Config)
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return counting{rt, requests} })
	mgr, err := newManager(options{
		namespace: namespace, controllers: []string{"*"}, syncPeriod: 2 * time.Second, maxDelay: 5 * time.Minute,
		healthAddr: "0", metricsAddr: "0",
	}, config, config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("manager: %v", err)
		}
	})
	return requests
}

// reconciles returns how often a controller has reconciled, in all tests.
func reconciles(t *testing.T, controller string) int {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for _, family := range families {
		if family.GetName() != "controller_runtime_reconcile_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "controller" && label.GetValue() == controller {
					total += metric.GetCounter().GetValue()
				}
			}
		}
	}
	return int(total)
}

const manifests = `
apiVersion: example.hortus.dev/v1
kind: Foo
metadata: {name: foo, namespace: %[1]s}
spec: {a: 1}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: foos.example.hortus.dev}
spec:
  group: example.hortus.dev
  scope: Namespaced
  names: {kind: Foo, plural: foos, singular: foo, listKind: FooList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: %[1]s}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: %[1]s}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: web}]}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: %[1]s}
spec:
  selector: {matchLabels: {app: agent}}
  template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: agent, image: agent}]}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: agent, namespace: %[1]s}
`

func TestResourceManagerOnARealServer(t *testing.T) {
	e := env.Shared(t)
	ctx := t.Context()
	namespace := e.Namespace(t, nil).Name
	requests := start(t, e, namespace)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"},
		Data:       map[string][]byte{"a.yaml": fmt.Appendf(nil, manifests, namespace)},
	}
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mr"},
		Spec: resourcesv1alpha1.ManagedResourceSpec{
			SecretRefs: []corev1.LocalObjectReference{{Name: "s"}}, InjectLabels: map[string]string{"in": "1"},
		}}
	for _, o := range []client.Object{mr, secret} { // The Secret is created later.
		if err := e.Client.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	conditions := func() (out string) {
		if err := e.Client.Get(ctx, client.ObjectKeyFromObject(mr), mr); err != nil {
			return err.Error()
		}
		for _, c := range mr.Status.Conditions {
			out += fmt.Sprintf("%s=%s(%s) ", c.Type, c.Status, c.Reason)
		}
		return out
	}
	wait := func(want string) {
		t.Helper()
		env.Eventually(t, want, func() (bool, error) {
			got := conditions()
			return strings.Contains(got, want), fmt.Errorf("conditions are %s", got)
		})
	}
	wait("ResourcesApplied=True(ApplySucceeded)")
	wait("ResourcesHealthy=False(DaemonSetUnhealthy)")

	ds := &appsv1.DaemonSet{}
	if err := e.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "agent"}, ds); err != nil {
		t.Fatal(err)
	}
	ds.Status.ObservedGeneration = ds.Generation
	if err := e.Client.Status().Update(ctx, ds); err != nil {
		t.Fatal(err)
	}
	wait("ResourcesHealthy=False(DeploymentUnhealthy)")
	d := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: namespace, Name: "web"}
	if err := e.Client.Get(ctx, key, d); err != nil {
		t.Fatal(err)
	}
	now := metav1.Now()
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1,
		AvailableReplicas: 1, Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: "True", LastUpdateTime: now, LastTransitionTime: now},
			{Type: appsv1.DeploymentProgressing, Status: "True", Reason: "NewReplicaSetAvailable", LastUpdateTime: now,
				LastTransitionTime: now}}}
	if err := e.Client.Status().Update(ctx, d); err != nil {
		t.Fatal(err)
	}
	wait("ResourcesHealthy=True(ResourcesHealthy)")
	wait("ResourcesProgressing=False(ResourcesRolledOut)")

	// Checks of an unchanged ManagedResource send no requests.
	sent, checks := requests.Load(), reconciles(t, "managedresource")
	env.Eventually(t, "two checks without requests", func() (bool, error) {
		done := reconciles(t, "managedresource")
		if n := requests.Load() - sent; n > 0 {
			sent, checks = sent+n, done
			return false, fmt.Errorf("%d requests", n)
		}
		return done >= checks+2, fmt.Errorf("%d checks", done-checks)
	})

	if err := e.Client.Get(ctx, key, d); err != nil {
		t.Fatal(err)
	}
	d.Spec.Template.Spec.Containers[0].Image = "other"
	if err := e.Client.Update(ctx, d); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, "the change is undone", func() (bool, error) {
		err := e.Client.Get(ctx, key, d)
		return d.Spec.Template.Spec.Containers[0].Image == "web", err
	})
	if labels := d.Spec.Template.Labels; labels["in"] != "1" || labels[resourcesv1alpha1.LabelManagedBy] != "gardener" {
		t.Errorf("labels of the pods: %v, want the injected one and that of managed objects", labels)
	}

	if err := e.Client.Delete(ctx, mr); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, "all is deleted", func() (bool, error) {
		foo := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		}}
		for _, o := range []client.Object{
			d, ds, mr, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}, foo,
		} {
			k := client.ObjectKeyFromObject(o)
			if o == client.Object(foo) {
				k = client.ObjectKey{Name: "foos.example.hortus.dev"}
			}
			if err := e.Client.Get(ctx, k, o); !apierrors.IsNotFound(err) {
				// No garbage collector runs here to end a deletion in the foreground.
				if err == nil && len(o.GetFinalizers()) > 0 && (o == client.Object(d) || o == client.Object(ds)) &&
					o.GetDeletionTimestamp() != nil {
					o.SetFinalizers(nil)
					_ = e.Client.Update(ctx, o)
				}
				return false, fmt.Errorf("%T is there: %v", o, err)
			}
		}
		return true, nil
	})
}

func TestNodesAndTokensOnARealServer(t *testing.T) {
	e := env.Shared(t)
	ctx := t.Context()
	namespace := e.Namespace(t, nil).Name
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: env.Name("node-")},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: node.TaintNotReady, Effect: corev1.TaintEffectNoSchedule}}},
	}
	critical := map[string]string{node.LabelCritical: "true"}
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cni", Labels: critical},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: critical},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: critical}, Spec: corev1.PodSpec{
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				Containers:  []corev1.Container{{Name: "c", Image: "c"}}}}}}
	e.Create(t, set)
	start(t, e, namespace) // It knows the DaemonSet when it sees the Node.
	e.Create(t, n)
	before := n.DeepCopy()
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: n.Name}}
	if err := e.Client.Status().Patch(ctx, n, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	controlled := true
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cni-x", Labels: critical,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "DaemonSet", Name: set.Name, UID: set.UID, Controller: &controlled,
		}}},
		Spec: corev1.PodSpec{
			NodeName: n.Name, ServiceAccountName: "default", AutomountServiceAccountToken: new(bool),
			Containers: []corev1.Container{{Name: "c", Image: "c"}},
		}}
	e.Create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}, p)
	env.Eventually(t, "the controller waits for the pod", func() (bool, error) {
		list := &eventsv1.EventList{}
		err := e.Client.List(ctx, list)
		return slices.ContainsFunc(list.Items, func(event eventsv1.Event) bool {
			return event.Regarding.Name == n.Name && event.Reason == "UnreadyNodeCriticalPods" &&
				strings.Contains(event.Note, namespace+"/"+p.Name)
		}), err
	})
	if err := e.Client.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil || len(n.Spec.Taints) == 0 {
		t.Fatalf("taints %v before the pod is ready, error %v", n.Spec.Taints, err)
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if err := e.Client.Status().Update(ctx, p); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, "the taint is gone and the delay is set", func() (bool, error) {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(n), n)
		gone := true
		for _, taint := range n.Spec.Taints {
			gone = gone && taint.Key != node.TaintNotReady
		}
		return gone && n.Annotations[node.AnnotationDelay] != "", err
	})

	e.Create(t, &machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "pool-z1-abcde", Labels: map[string]string{machinev1alpha1.NodeLabelKey: "not-there-yet"},
	}})
	asNode := e.ClientAs(t, "system:bootstrap:616263", "system:bootstrappers", "system:masters")
	request := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: env.Name("csr-")},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
			Request:    certificateRequest(t, corev1beta1.NodeAgentUserPrefix+"pool-z1-abcde", corev1beta1.NodeAgentsGroup),
		}}
	if err := asNode.Create(ctx, request); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, "the node-agent's request is approved", func() (bool, error) {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(request), request)
		return len(request.Status.Conditions) == 1 && request.Status.Conditions[0].Type == certificatesv1.CertificateApproved,
			err
	})
	// The permissions are granted before the certificate.
	rights := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "gardener.cloud:machine:pool-z1-abcde"}}
	if err := e.Client.Get(ctx, client.ObjectKeyFromObject(rights), rights); err != nil {
		t.Errorf("the machine has a certificate, but no permissions: %v", err)
	}

	access := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shoot-access-x",
		Labels: map[string]string{resourcesv1alpha1.LabelPurpose: resourcesv1alpha1.PurposeTokenRequestor},
		Annotations: map[string]string{
			resourcesv1alpha1.AnnotationServiceAccountName: "x", resourcesv1alpha1.AnnotationServiceAccountNamespace: namespace,
		}}}
	e.Create(t, access)
	env.Eventually(t, "the token is there", func() (bool, error) {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(access), access)
		return len(access.Data["token"]) > 0, err
	})
}

func certificateRequest(t *testing.T, cn, org string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: cn, Organization: []string{org}}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func TestSelectionOfControllers(t *testing.T) {
	for name, tc := range map[string]struct {
		selected []string
		want     bool // Whether token-requestor runs.
	}{"all": {[]string{"*"}, true}, "all but": {[]string{"*", "-token-requestor"}, false},
		"some": {[]string{"managed-resource"}, false}} {
		if got := (options{controllers: tc.selected}).enabled("token-requestor"); got != tc.want {
			t.Errorf("%s: enabled = %v, want %v", name, got, tc.want)
		}
	}
	if err := addControllers(clusters{options: options{controllers: []string{"nonsense"}}}); err == nil {
		t.Error("an unknown controller was accepted")
	}
}
