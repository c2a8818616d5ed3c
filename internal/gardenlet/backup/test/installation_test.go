package test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1v1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/internal/chart/oci"
	"hortus.dev/hortus/internal/gardenlet/controllerinstallation"
	"hortus.dev/hortus/test/env"
)

// TestUnusedExtensionWhoseChartFails: the condition Required follows the objects in the seed also while the chart
// cannot be rendered, so that an unused extension with such a chart can be uninstalled.
func TestUnusedExtensionWhoseChartFails(t *testing.T) {
	w := newWorld(t)
	s := w.newSeed(w.Client)
	registration := w.offer()
	registration.Spec.Resources = []corev1beta1.ControllerResource{
		{Kind: extensionsv1alpha1.BackupBucketKind, Type: env.Name("other-")},
	}
	w.must(w.Client.Update(w.ctx, registration))
	archive, err := chart.Archive(fstest.MapFS{
		"x/Chart.yaml":            {Data: []byte("apiVersion: v2\nname: x\nversion: 0.1.0\n")},
		"x/templates/object.yaml": {Data: []byte(`{{ fail "no image" }}`)},
	}, "x", "x")
	w.must(err)
	deployment := &corev1v1.ControllerDeployment{ObjectMeta: metav1.ObjectMeta{Name: env.Name("d-")},
		Helm: &corev1v1.HelmControllerDeployment{RawChart: archive}}
	i := &corev1beta1.ControllerInstallation{
		ObjectMeta: metav1.ObjectMeta{Name: env.Name("i-")},
		Spec: corev1beta1.ControllerInstallationSpec{
			RegistrationRef: corev1.ObjectReference{Name: registration.Name},
			DeploymentRef:   &corev1.ObjectReference{Name: deployment.Name},
			SeedRef:         &corev1.ObjectReference{Name: s.object.Name},
		},
	}
	bucket := &extensionsv1alpha1.BackupBucket{ObjectMeta: metav1.ObjectMeta{Name: env.Name("b-")},
		Spec: extensionsv1alpha1.BackupBucketSpec{
			DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: registration.Spec.Resources[0].Type}, Region: "local",
			SecretRef: corev1.SecretReference{Namespace: "garden", Name: "x"},
		}}
	w.Create(t, deployment, i, bucket)
	r := &controllerinstallation.Reconciler{
		Garden: w.Client, Seed: w.Client, Clock: clock, SeedName: s.object.Name, Charts: &oci.Puller{Clock: clock},
		Capabilities:   (&controllerinstallation.Capabilities{Server: w.discovery(), Clock: clock}).Get,
		GardenIdentity: func(context.Context) (string, error) { return "garden", nil },
	}
	step := func(required corev1beta1.ConditionStatus, again time.Duration) {
		t.Helper()
		w.read(i)
		res, err := r.Reconcile(w.ctx, i)
		if err != nil || res.RequeueAfter != again {
			t.Errorf("the installation is reconciled again after %s, want %s; error %v", res.RequeueAfter, again, err)
		}
		w.read(i)
		for kind, want := range map[corev1beta1.ConditionType][3]string{
			"Valid": {"False", "ChartCannotBeRendered", "no image"},
			corev1beta1.ControllerInstallationRequired: {string(required), "", ""},
		} {
			c := corev1beta1.FindCondition(i.Status.Conditions, kind)
			if c == nil || string(c.Status) != want[0] || !strings.Contains(c.Reason, want[1]) ||
				!strings.Contains(c.Message, want[2]) {
				t.Errorf("condition %s is %+v, want %v", kind, c, want)
			}
		}
	}
	step(corev1beta1.ConditionTrue, time.Minute)
	w.must(w.Client.Delete(w.ctx, bucket))
	step(corev1beta1.ConditionFalse, time.Minute)

	// Users wait for an extension that is being unregistered.
	w.must(w.Client.Patch(w.ctx, registration,
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/keeps"]}}`))))
	t.Cleanup(func() {
		w.must(w.Client.Patch(context.Background(), registration,
			client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	})
	w.must(w.Client.Delete(w.ctx, registration))
	step(corev1beta1.ConditionFalse, 5*time.Second)
}

// TestCapabilitiesAreThoseOfTheServer reads them from a real API server.
func TestCapabilitiesAreThoseOfTheServer(t *testing.T) {
	w := newWorld(t)
	reported, err := w.discovery().ServerVersion()
	w.must(err)
	got, err := (&controllerinstallation.Capabilities{Server: w.discovery(), Clock: clock}).Get(w.ctx)
	w.must(err)
	if got.Version() != reported.GitVersion {
		t.Errorf("the version is %s, want %s", got.Version(), reported.GitVersion)
	}
	for api, want := range map[string]bool{
		"v1": true, "v1/Pod": true, "policy/v1": true, "policy/v1/PodDisruptionBudget": true,
		"extensions.gardener.cloud/v1alpha1/Network": true, "policy/v1beta1": false,
	} {
		if got.Has(api) != want {
			t.Errorf("%s is offered: %t, want %t", api, !want, want)
		}
	}
}

func (w *world) discovery() *discovery.DiscoveryClient {
	w.t.Helper()
	out, err := discovery.NewDiscoveryClientForConfig(w.Config)
	w.must(err)
	return out
}

// The garden may lack objects of the seed, as after a restore from a backup.
func TestExtensionsStayAsLongAsObjectsInTheSeedNeedThem(t *testing.T) {
	w := newWorld(t)
	s := w.newSeed(w.Client)
	registration := w.offer()
	other := env.Name("other-")
	registration.Spec.Resources[0].Type = other
	registration.Spec.Resources = append(registration.Spec.Resources,
		corev1beta1.ControllerResource{Kind: "SelfHostedShootExposure", Type: other})
	w.must(w.Client.Update(w.ctx, registration))
	i := &corev1beta1.ControllerInstallation{
		ObjectMeta: metav1.ObjectMeta{
			Name: env.Name("i-"), Finalizers: []string{"core.gardener.cloud/controllerinstallation"},
		},
		Spec: corev1beta1.ControllerInstallationSpec{
			RegistrationRef: corev1.ObjectReference{Name: registration.Name},
			SeedRef:         &corev1.ObjectReference{Name: s.object.Name},
		},
	}
	bucket := &extensionsv1alpha1.BackupBucket{ObjectMeta: metav1.ObjectMeta{Name: env.Name("b-")},
		Spec: extensionsv1alpha1.BackupBucketSpec{
			DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: other}, Region: "local",
			SecretRef: corev1.SecretReference{Namespace: "garden", Name: "x"},
		}}
	w.Create(t, i, bucket)
	w.must(w.Client.Delete(w.ctx, i))
	r := &controllerinstallation.Reconciler{
		Garden: w.Client, Seed: w.Client, Clock: clock, SeedName: s.object.Name, Charts: &oci.Puller{Clock: clock},
	}
	step := func() {
		t.Helper()
		w.read(i)
		res, err := r.Reconcile(w.ctx, i)
		w.must(err)
		w.read(i)
		if !gone(i) && slices.Contains(i.Finalizers, "core.gardener.cloud/controllerinstallation") && res.RequeueAfter == 0 {
			t.Error("the installation is not created again")
		}
	}
	step()
	c := corev1beta1.FindCondition(i.Status.Conditions, corev1beta1.ControllerInstallationRequired)
	if gone(i) || c == nil || c.Status != corev1beta1.ConditionTrue {
		t.Fatalf("the extension is removed although an object needs it: %+v", c)
	}
	w.must(w.Client.Delete(w.ctx, bucket))
	step()
	c = corev1beta1.FindCondition(i.Status.Conditions, corev1beta1.ControllerInstallationRequired)
	if gone(i) || c == nil || c.Status != corev1beta1.ConditionFalse {
		t.Fatalf("no object needs the extension, which the condition does not say: %+v", c)
	}
	step()
	if !gone(i) {
		t.Errorf("the installation stays: %+v", i.Status.Conditions)
	}
}
