package provider_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"testing"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/crds"
	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/cloudtest"
	"hortus.dev/hortus/local/provider"
	"hortus.dev/hortus/local/provider/credentials"
	"hortus.dev/hortus/test/env"
)

func TestMain(m *testing.M) {
	if os.Getenv(runMachineControllers) != "" {
		machineControllers()
	}
	env.Main(m, env.WithCRDs(crds.Seed()...),
		env.WithScheme(extensionsv1alpha1.AddToScheme, resourcesv1alpha1.AddToScheme, machinev1alpha1.AddToScheme))
}

// patience is far above the second or two that each step takes: machines that run tests are busy, and an error that
// passes is retried after up to 30 s.
const patience = 5 * time.Minute

// landscape is a seed with a running extension, a cloud, and the namespace of one Shoot.
type landscape struct {
	*env.Environment
	cloud     *cloudtest.Cloud
	namespace string
	secretRef corev1.SecretReference
}

func startLandscape(t *testing.T) *landscape {
	t.Helper()
	e := env.Shared(t)
	l := &landscape{Environment: e, cloud: cloudtest.Start(t, cloudtest.Options{})}
	options := ctrl.Options{
		Scheme: e.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)}, // Every test runs its own extension.
	}
	provider.SlimCache(&options) // As in the real process: decisions use uncached objects.
	mgr, err := ctrl.NewManager(e.Config, options)
	if err != nil {
		t.Fatal(err)
	}
	if err := provider.AddToManager(mgr, provider.Options{Image: "hortus.dev/hortus:test"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run manager: %v", err)
		}
	})
	return l.forShoot(t)
}

// forShoot returns the same landscape with a namespace for another Shoot.
func (l *landscape) forShoot(t *testing.T) *landscape {
	t.Helper()
	out := *l
	out.namespace = env.Name("shoot--dev--s")
	out.secretRef = corev1.SecretReference{Namespace: out.namespace, Name: "cloudprovider"}
	l.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: out.namespace}})
	cfg := out.cloud.Config
	l.Create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: out.namespace, Name: out.secretRef.Name},
		Data: map[string][]byte{
			credentials.KeyEndpoint: []byte(cfg.Endpoint), credentials.KeyAccessKey: []byte(cfg.AccessKey),
			credentials.KeySecretKey: []byte(cfg.SecretKey), credentials.KeyCA: []byte(cfg.CA),
		},
	})
	out.setCluster(t)
	return &out
}

const profile = `{"spec":{
"bastion":{"machineImage":{"name":"hortus-machine"}},
"machineTypes":[{"name":"medium","cpu":"2","memory":"4Gi"},{"name":"small","cpu":"2","memory":"2Gi"}],
"machineImages":[{"name":"hortus-machine","versions":[{"version":"1.1.0"},{"version":"1.0.0"}]}],
"providerConfig":{"apiVersion":"local.provider.hortus.dev/v1alpha1","kind":"CloudProfileConfig","machineImages":[
{"name":"hortus-machine","versions":[{"version":"1.0.0","image":"hortus.dev/machine:1.0.0"},{"version":"1.1.0","image":"hortus.dev/machine:1.1.0"}]}]}}}`

func (l *landscape) setCluster(t *testing.T) {
	t.Helper()
	shoot := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "s"}}
	shoot.Spec.Kubernetes.Version = "1.36.3"
	raw, err := json.Marshal(shoot)
	if err != nil {
		t.Fatal(err)
	}
	l.Create(t, &extensionsv1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{
			Name: l.namespace, Annotations: map[string]string{
				extensionsv1alpha1.AnnotationGenericTokenKubeconfig: "generic-token-kubeconfig",
			},
		},
		Spec: extensionsv1alpha1.ClusterSpec{
			Shoot: runtime.RawExtension{Raw: raw}, CloudProfile: runtime.RawExtension{Raw: []byte(profile)},
		},
	})
}

// request creates the object with a request, or updates the existing object and requests an operation.
func (l *landscape) request(t *testing.T, obj extensionsv1alpha1.Object, operation string) {
	t.Helper()
	annotations := maps.Clone(obj.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[extensionsv1alpha1.AnnotationOperation] = operation
	annotations[extensionsv1alpha1.AnnotationTimestamp] = time.Now().UTC().Format(time.RFC3339Nano)
	if obj.GetResourceVersion() == "" {
		obj.SetAnnotations(annotations)
		l.Create(t, obj)
		return
	}
	current := obj.DeepCopyObject().(client.Object)
	if err := l.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), current); err != nil {
		t.Fatal(err)
	}
	obj.SetResourceVersion(current.GetResourceVersion())
	obj.SetAnnotations(annotations)
	if err := l.Client.Patch(t.Context(), obj, client.MergeFrom(current)); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until the condition returns no reason to wait.
func eventually(t *testing.T, condition func() string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		reason := condition()
		if reason == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(reason)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// succeeded waits for the success of the requested operation and reads the object.
func (l *landscape) succeeded(t *testing.T, obj extensionsv1alpha1.Object) {
	t.Helper()
	eventually(t, func() string {
		if err := l.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err.Error()
		}
		status := obj.GetDefaultStatus()
		if op, asked := obj.GetAnnotations()[extensionsv1alpha1.AnnotationOperation]; asked {
			return "request " + op + " is still there"
		}
		if status.LastOperation == nil {
			return "no operation yet"
		}
		if status.LastOperation.State != corev1beta1.LastOperationStateSucceeded {
			return string(status.LastOperation.State) + ": " + status.LastOperation.Description
		}
		return ""
	})
}

// gone deletes the object, as the gardenlet does, and waits until it is gone.
func (l *landscape) gone(t *testing.T, obj extensionsv1alpha1.Object) {
	t.Helper()
	before := obj.DeepCopyObject().(client.Object)
	metav1.SetMetaDataAnnotation(objectMeta(obj), extensionsv1alpha1.AnnotationConfirmDeletion, "true")
	if err := l.Client.Patch(t.Context(), obj, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if err := l.Client.Delete(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		err := l.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
		if err == nil {
			return "still there: " + obj.GetDefaultStatus().LastOperation.Description
		}
		if client.IgnoreNotFound(err) != nil {
			return err.Error()
		}
		return ""
	})
}

// objectMeta is the metadata of a typed object, for helpers that need the struct.
func objectMeta(obj extensionsv1alpha1.Object) *metav1.ObjectMeta {
	return obj.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta)
}

func (l *landscape) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: l.namespace, Name: name}
}

func (l *landscape) infrastructure() *extensionsv1alpha1.Infrastructure {
	return &extensionsv1alpha1.Infrastructure{ObjectMeta: l.meta("s"), Spec: extensionsv1alpha1.InfrastructureSpec{
		DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "local"}, Region: "local", SecretRef: l.secretRef,
	}}
}

func (l *landscape) osc() *extensionsv1alpha1.OperatingSystemConfig {
	return &extensionsv1alpha1.OperatingSystemConfig{ObjectMeta: l.meta("pool-init"),
		Spec: extensionsv1alpha1.OperatingSystemConfigSpec{
			DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "hortus-machine"},
			Purpose:     extensionsv1alpha1.OperatingSystemConfigPurposeProvision,
			Files: []extensionsv1alpha1.File{{
				Path: "/var/lib/token", Permissions: ptr.To(uint32(0o600)),
				Content: extensionsv1alpha1.FileContent{
					Inline: &extensionsv1alpha1.FileContentInline{Data: "<<BOOTSTRAP_TOKEN>>"}, TransmitUnencoded: ptr.To(true),
				},
			}},
		}}
}

// events returns the instances of the Shoot.
func (l *landscape) instances(t *testing.T) []cloud.Instance {
	t.Helper()
	found, err := l.cloud.Client.ListInstances(t.Context(),
		cloud.Filter{Tags: map[string]string{"cluster.hortus.dev/name": l.namespace}})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
