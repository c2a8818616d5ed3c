package controlplane

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/extension"
)

func newClient() client.Client {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(resourcesv1alpha1.AddToScheme(scheme))
	utilruntime.Must(extensionsv1alpha1.AddToScheme(scheme))
	return fake.NewClientBuilder().WithScheme(scheme).Build()
}

func newCluster(hibernated bool) *extension.Cluster {
	shoot := &corev1beta1.Shoot{}
	shoot.Spec.Hibernation = &corev1beta1.Hibernation{Enabled: &hibernated}
	return &extension.Cluster{Shoot: shoot, Object: &extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{extensionsv1alpha1.AnnotationGenericTokenKubeconfig: "generic"},
	}}}
}

func newControlPlane() *extensionsv1alpha1.ControlPlane {
	return &extensionsv1alpha1.ControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shoot--dev--a", Name: "a"},
		Spec:       extensionsv1alpha1.ControlPlaneSpec{SecretRef: corev1.SecretReference{Name: "cloudprovider"}},
	}
}

// TestReplicasFollowHibernation hibernates a Shoot, wakes it up, and deletes it during hibernation. Volumes are
// detached as long as there are machines, so the cloud controller is stopped after the API server.
func TestReplicasFollowHibernation(t *testing.T) {
	for name, tc := range map[string]struct {
		hibernated bool
		apiServer  int32 // -1 for none.
		before     int32
		want       int32
		due        bool // Without a request.
	}{
		"a new Shoot":                          {apiServer: -1, want: 1},
		"a Shoot that is awake":                {apiServer: 1, before: 1, want: 1},
		"one whose machines are being drained": {hibernated: true, apiServer: 1, before: 1, want: 1},
		"one that sleeps":                      {hibernated: true, apiServer: 0, before: 1, want: 0, due: true},
		"one that moves during hibernation":    {hibernated: true, apiServer: -1, want: 0},
		"one that was woken up to be deleted":  {hibernated: true, apiServer: 2, want: 1, due: true},
		"one that is requested to wake up":     {apiServer: 0, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient()
			a, cp, cluster := &Actuator{Client: c, Image: "image"}, newControlPlane(), newCluster(tc.hibernated)
			cp.Status.LastOperation = &corev1beta1.LastOperation{}
			shoot, err := json.Marshal(cluster.Shoot)
			if err != nil {
				t.Fatal(err)
			}
			objects := []client.Object{&extensionsv1alpha1.Cluster{
				ObjectMeta: metav1.ObjectMeta{Name: cp.Namespace},
				Spec:       extensionsv1alpha1.ClusterSpec{Shoot: runtime.RawExtension{Raw: shoot}},
			}}
			for name, replicas := range map[string]int32{apiServer: tc.apiServer, deployment: tc.before} {
				if replicas >= 0 {
					objects = append(objects, &appsv1.Deployment{
						ObjectMeta: metav1.ObjectMeta{Namespace: cp.Namespace, Name: name},
						Spec:       appsv1.DeploymentSpec{Replicas: &replicas},
					})
				}
			}
			for _, o := range objects {
				if err := c.Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			if due, err := a.FollowUp(t.Context(), cp); err != nil || due != tc.due {
				t.Errorf("FollowUp() = %v, %v, want %v", due, err, tc.due)
			}
			if _, err := a.Reconcile(t.Context(), cp, cluster); err != nil {
				t.Fatal(err)
			}
			d := &appsv1.Deployment{}
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: cp.Namespace, Name: deployment}, d); err != nil {
				t.Fatal(err)
			}
			if got := ptr.Deref(d.Spec.Replicas, -1); got != tc.want {
				t.Errorf("replicas are %d, want %d", got, tc.want)
			}
			if due, err := a.FollowUp(t.Context(), cp); err != nil || due {
				t.Errorf("after Reconcile, FollowUp() = %v, %v", due, err)
			}
		})
	}
}

func TestExposureHasNothingToDo(t *testing.T) {
	c := newClient()
	cp := newControlPlane()
	cp.Spec.Purpose = ptr.To(extensionsv1alpha1.ControlPlanePurposeExposure)
	if result, err := (&Actuator{Client: c}).Reconcile(t.Context(), cp, newCluster(false)); err != nil ||
		!result.IsDone() {
		t.Errorf("Reconcile() = %v, %v, want done", result, err)
	}
	secrets := &corev1.SecretList{}
	if err := c.List(t.Context(), secrets); err != nil || len(secrets.Items) != 0 {
		t.Errorf("there are %d secrets (%v), want none", len(secrets.Items), err)
	}
}

func TestStorageCanBeSwitchedOff(t *testing.T) {
	c := newClient()
	a, cp := &Actuator{Client: c, Image: "image"}, newControlPlane()
	key := client.ObjectKey{Namespace: "shoot--dev--a", Name: managedResourceStorage}
	if _, err := a.Reconcile(t.Context(), cp, newCluster(false)); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), key, &resourcesv1alpha1.ManagedResource{}); err != nil {
		t.Fatal(err)
	}
	cp.Spec.ProviderConfig = &runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"local.provider.hortus.dev/v1alpha1","kind":"ControlPlaneConfig","storage":{"disabled":true}}`),
	}
	if _, err := a.Reconcile(t.Context(), cp, newCluster(false)); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), key, &resourcesv1alpha1.ManagedResource{}); client.IgnoreNotFound(err) != nil ||
		err == nil {
		t.Errorf("the storage is still there (%v)", err)
	}
}

// A hibernated Shoot has no resource-manager that would release the ManagedResource, so Migrate leaves it to the
// gardenlet.
func TestMigrateStopsTheCloudController(t *testing.T) {
	c := newClient()
	a, cp := &Actuator{Client: c, Image: "image"}, newControlPlane()
	if _, err := a.Reconcile(t.Context(), cp, newCluster(false)); err != nil {
		t.Fatal(err)
	}
	mr := &resourcesv1alpha1.ManagedResource{}
	key := client.ObjectKey{Namespace: "shoot--dev--a", Name: managedResourceStorage}
	if err := c.Get(t.Context(), key, mr); err != nil {
		t.Fatal(err)
	}
	mr.Finalizers = []string{"resources.gardener.cloud/gardener-resource-manager"} // Somebody acts on it.
	if err := c.Update(t.Context(), mr); err != nil {
		t.Fatal(err)
	}
	if result, err := a.Migrate(t.Context(), cp, newCluster(true)); err != nil || !result.IsDone() {
		t.Fatalf("Migrate() = %v, %v, want to be done", result, err)
	}
	if err := c.Get(t.Context(), key, mr); err != nil || !mr.DeletionTimestamp.IsZero() {
		t.Errorf("the ManagedResource is deleted or in deletion: %v, %v", err, mr.DeletionTimestamp)
	}
	controller := &appsv1.Deployment{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: key.Namespace, Name: deployment},
		controller); !apierrors.IsNotFound(err) {
		t.Errorf("the cloud controller is still there: %v", err)
	}
	// A forced deletion removes it: keepObjects is set before the ManagedResource is deleted.
	if result, err := a.ForceDelete(t.Context(), cp, newCluster(false)); err != nil || result.IsDone() {
		t.Fatalf("ForceDelete() = %v, %v, want to wait", result, err)
	}
	if err := c.Get(t.Context(), key, mr); err != nil {
		t.Fatal(err)
	}
	if !ptr.Deref(mr.Spec.KeepObjects, false) || mr.DeletionTimestamp.IsZero() {
		t.Errorf("keepObjects is %v and the deletion %v, want both", mr.Spec.KeepObjects, mr.DeletionTimestamp)
	}
}
