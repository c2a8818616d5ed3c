package test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/internal/controllermanager/project"
	"hortus.dev/hortus/test/env"
)

// applyProjectRoles creates the roles of the chart that members of projects get. The aggregated one is put together
// here, as the controller manager of Kubernetes does it.
func applyProjectRoles(t *testing.T, e *env.Environment) {
	t.Helper()
	c, err := chart.LoadFS(charts.FS, "garden")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := chart.Render(c, chart.Release{Name: "garden", Namespace: "garden"}, map[string]any{
		"image": "hortus:test", "caCrt": "-", "apiserver": map[string]any{"tlsCrt": "-", "tlsKey": "-", "encryptionKey": "LQ=="},
		"etcd": map[string]any{"image": "etcd:test", "serverCrt": "-", "serverKey": "-", "clientCrt": "-", "clientKey": "-"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var member *rbacv1.ClusterRole
	var aggregated []rbacv1.PolicyRule
	for _, object := range objects {
		if object.GetKind() != "ClusterRole" || object.GetLabels()["gardener.cloud/role"] != "project" {
			continue
		}
		role := &rbacv1.ClusterRole{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
			t.Fatal(err)
		}
		if role.AggregationRule != nil {
			role.AggregationRule, member = nil, role
			continue
		}
		if role.Labels["rbac.gardener.cloud/aggregate-to-project-member"] == "true" {
			aggregated = append(aggregated, role.Rules...)
		}
		e.Create(t, role)
	}
	if member == nil || len(aggregated) == 0 {
		t.Fatal("the chart has no role for members")
	}
	member.Rules = aggregated
	e.Create(t, member)
}

// What lets one take over a cluster is not for members of its project, whatever their role.
func TestMembersDoNotSeeShootStates(t *testing.T) {
	e := env.Shared(t)
	applyProjectRoles(t, e)
	member := func(name string, roles ...string) corev1beta1.ProjectMember {
		return corev1beta1.ProjectMember{
			Subject: rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}, Role: roles[0], Roles: roles[1:],
		}
	}
	p := &corev1beta1.Project{
		ObjectMeta: metav1.ObjectMeta{Name: env.Name("r")},
		Spec: corev1beta1.ProjectSpec{Members: []corev1beta1.ProjectMember{
			member("state-owner", "admin", "owner"), member("state-admin", "admin"), member("state-viewer", "viewer"),
			member("state-uam", "viewer", "uam"), member("state-accounts", "viewer", "serviceaccountmanager"),
		}},
	}
	e.Create(t, p)
	reconciler := &project.Reconciler{Garden: e.Client, Recorder: events.NewFakeRecorder(10)}
	for range 3 { // Finalizer, namespace, roles.
		if err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			t.Fatal(err)
		}
		if _, err := reconciler.Reconcile(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	namespace := *p.Spec.Namespace
	state := &corev1beta1.ShootState{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"}}
	internal := &corev1beta1.InternalSecret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"}}
	e.Create(t, state, internal)

	for _, name := range []string{"state-owner", "state-admin", "state-viewer", "state-uam", "state-accounts"} {
		as := e.ClientAs(t, name)
		env.Eventually(t, name+" may list Shoots", func() (bool, error) {
			err := as.List(t.Context(), &corev1beta1.ShootList{}, client.InNamespace(namespace))
			return err == nil, err
		})
		for what, request := range attempts(as, namespace) {
			if err := request(t.Context()); !apierrors.IsForbidden(err) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
	}
	if err := e.ClientAs(t, "state-admin").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "own"}}); err != nil {
		t.Errorf("an admin cannot create a Secret: %v", err)
	}
}

// attempts are ways to get at what is hidden.
func attempts(as client.Client, namespace string) map[string]func(context.Context) error {
	key := client.ObjectKey{Namespace: namespace, Name: "s"}
	all := map[string]func(context.Context) error{}
	for _, kind := range []string{"ShootState", "InternalSecret"} {
		object := func() *unstructured.Unstructured {
			o := &unstructured.Unstructured{}
			o.SetGroupVersionKind(corev1beta1.SchemeGroupVersion.WithKind(kind))
			o.SetNamespace(namespace)
			o.SetName("s")
			return o
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(corev1beta1.SchemeGroupVersion.WithKind(kind + "List"))
		all["get "+kind] = func(ctx context.Context) error { return as.Get(ctx, key, object()) }
		all["list "+kind] = func(ctx context.Context) error { return as.List(ctx, list, client.InNamespace(namespace)) }
		all["create "+kind] = func(ctx context.Context) error { return as.Create(ctx, object()) }
		all["delete "+kind] = func(ctx context.Context) error { return as.Delete(ctx, object()) }
		all["patch "+kind] = func(ctx context.Context) error {
			return as.Patch(ctx, object(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`)))
		}
	}
	return all
}
