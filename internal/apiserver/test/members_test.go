package test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/internal/controllermanager/project"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/test/env"
)

// applyProjectRoles creates the roles of the chart that members of projects get. It aggregates rules as the controller
// manager of Kubernetes does.
func applyProjectRoles(t *testing.T, e *env.Environment) {
	t.Helper()
	c, err := chart.LoadFS(charts.FS, "garden")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := chart.Render(c, chart.Release{Name: "garden", Namespace: "garden"}, map[string]any{
		"image": "hortus:test", "caCrt": "-",
		"apiserver": map[string]any{"tlsCrt": "-", "tlsKey": "-", "encryptionSecret": "-"},
		"etcd":      map[string]any{"serverCrt": "-", "serverKey": "-", "clientCrt": "-", "clientKey": "-"},
	})
	if err != nil {
		t.Fatal(err)
	}
	create := func(role *rbacv1.ClusterRole) {
		if err := e.Client.Create(t.Context(), role); err != nil { // Kept for the following tests.
			t.Fatal(err)
		}
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
		create(role)
	}
	if member == nil || len(aggregated) == 0 {
		t.Fatal("the chart has no role for members")
	}
	member.Rules = aggregated
	create(member)
}

// applyRoles creates the roles of the chart once, since all tests share them.
var applyRoles sync.Once

// newProject creates a project with a member for each role, named <prefix>-<role>, and all objects that the controller
// manager creates for it.
func newProject(t *testing.T, prefix string) (*env.Environment, *corev1beta1.Project) {
	t.Helper()
	e := env.Shared(t)
	applyRoles.Do(func() { applyProjectRoles(t, e) })
	member := func(name string, roles ...string) corev1beta1.ProjectMember {
		return corev1beta1.ProjectMember{
			Subject: rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: prefix + "-" + name},
			Role:    roles[0], Roles: roles[1:],
		}
	}
	p := &corev1beta1.Project{
		ObjectMeta: metav1.ObjectMeta{Name: env.Name("r")},
		Spec: corev1beta1.ProjectSpec{Members: []corev1beta1.ProjectMember{
			member("owner", "admin", "owner"), member("admin", "admin"), member("viewer", "viewer"),
			member("uam", "viewer", "uam"), member("accounts", "viewer", "serviceaccountmanager"),
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
	for _, role := range []string{"owner", "admin", "viewer", "uam", "accounts"} {
		env.Eventually(t, role+" may list Shoots", func() (bool, error) {
			err := e.ClientAs(t, prefix+"-"+role).List(t.Context(), &corev1beta1.ShootList{},
				client.InNamespace(*p.Spec.Namespace))
			return err == nil, err
		})
	}
	return e, p
}

// Members of a project have no access to credentials that control a cluster, whatever their role.
func TestMembersDoNotSeeShootStates(t *testing.T) {
	e, p := newProject(t, "state")
	namespace := *p.Spec.Namespace
	state := &corev1beta1.ShootState{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"}}
	internal := &corev1beta1.InternalSecret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"}}
	e.Create(t, state, internal)

	for _, name := range []string{"state-owner", "state-admin", "state-viewer", "state-uam", "state-accounts"} {
		as := e.ClientAs(t, name)
		for what, request := range attempts(as, namespace) {
			if err := request(t.Context()); !apierrors.IsForbidden(err) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
	}
	if err := e.ClientAs(t, "state-admin").Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "own"}}); err != nil {
		t.Errorf("an admin cannot create a Secret: %v", err)
	}
}

// attempts to read hidden objects.
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
			return as.Patch(ctx, object(),
				client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`)))
		}
	}
	return all
}

// Some changes of a project require more than the permission to update it.
func TestVerbsOfMembers(t *testing.T) {
	e, p := newProject(t, "verb")
	user := func(name string) corev1beta1.ProjectMember {
		return corev1beta1.ProjectMember{Subject: rbacv1.Subject{
			APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name,
		}, Role: "viewer"}
	}
	account := corev1beta1.ProjectMember{Subject: rbacv1.Subject{
		Kind: rbacv1.ServiceAccountKind, Namespace: *p.Spec.Namespace, Name: "robot",
	}, Role: "admin"}
	const manage, tolerate = "manage-members", "modify-spec-tolerations-whitelist"
	for _, tc := range []struct {
		who, what string
		change    func(*corev1beta1.ProjectSpec)
		verb      string // The missing permission; empty: allowed.
	}{
		{"admin", "a purpose", func(s *corev1beta1.ProjectSpec) { s.Purpose = new("tests") }, ""},
		{"admin", "another member", func(s *corev1beta1.ProjectSpec) { s.Members = append(s.Members, user("carol")) },
			manage},
		{"admin", "another robot", func(s *corev1beta1.ProjectSpec) { s.Members = append(s.Members, account) }, ""},
		{"admin", "more roles for itself", func(s *corev1beta1.ProjectSpec) { s.Members[1].Roles = []string{"uam"} }, manage},
		{"admin", "ownership", func(s *corev1beta1.ProjectSpec) { s.Owner = &s.Members[1].Subject }, manage},
		{"admin", "a toleration", func(s *corev1beta1.ProjectSpec) {
			s.Tolerations = &corev1beta1.ProjectTolerations{Whitelist: []corev1beta1.Toleration{{Key: "t"}}}
		}, tolerate},
		{"owner", "a toleration", func(s *corev1beta1.ProjectSpec) {
			s.Tolerations = &corev1beta1.ProjectTolerations{Whitelist: []corev1beta1.Toleration{{Key: "t"}}}
		}, tolerate},
		{"uam", "another member", func(s *corev1beta1.ProjectSpec) { s.Members = append(s.Members, user("carol")) }, ""},
		{"owner", "another member", func(s *corev1beta1.ProjectSpec) { s.Members = append(s.Members, user("dave")) }, ""},
		{"owner", "a new owner", func(s *corev1beta1.ProjectSpec) { s.Owner = &s.Members[1].Subject }, ""},
	} {
		as, changed := e.ClientAs(t, "verb-"+tc.who), &corev1beta1.Project{}
		if err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(p), changed); err != nil {
			t.Fatal(err)
		}
		tc.change(&changed.Spec)
		err := as.Update(t.Context(), changed, client.DryRunAll)
		switch {
		case tc.verb == "" && err != nil:
			t.Errorf("%s wants %s: %v", tc.who, tc.what, err)
		case tc.verb != "":
			refuse(t, tc.who+" wants "+tc.what, err, apierrors.IsForbidden, fmt.Sprintf("needs the verb %q", tc.verb))
		}
	}
	if err := e.ClientAs(t, "verb-viewer").Update(t.Context(), p, client.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("a viewer's update: %v", err)
	}
}

// The role in a project determines the role in its clusters.
func TestKubeconfigsOfMembers(t *testing.T) {
	e, p := newProject(t, "config")
	g := newGarden(t)
	g.namespace = *p.Spec.Namespace
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "cloud"}}
	binding := g.binding.DeepCopy()
	binding.ObjectMeta, binding.CredentialsRef.Namespace = metav1.ObjectMeta{
		Namespace: g.namespace, Name: "cloud",
	}, g.namespace
	shoot := g.newShoot()
	g.Create(t, secret, binding, shoot)
	_, err := g.adminKubeconfig(g.Client, shoot)
	refuse(t, "a Shoot without address", err, apierrors.IsInvalid, "status.advertisedAddresses")
	g.mustPatch(shoot,
		`{"status":{"advertisedAddresses":[{"name":"wildcard-tls-seed-bound","url":"https://x.seed.example.com"},{"name":"unmanaged","url":"https://10.0.0.1"}]}}`, "status")
	_, err = g.adminKubeconfig(g.Client, shoot)
	refuse(t, "a Shoot without client CA", err, apierrors.IsServiceUnavailable, "client CA")
	ca := g.publishCA(shoot)

	for _, tc := range []struct {
		who, request string
		want         string // Name and groups; empty: not allowed.
	}{
		{"admin", "admin", "gardener.cloud:admin:config-admin gardener.cloud:project:admins"},
		{"admin", "viewer", "gardener.cloud:viewer:config-admin gardener.cloud:project:viewers"},
		{"viewer", "admin", ""},
		{"viewer", "viewer", "gardener.cloud:viewer:config-viewer gardener.cloud:project:viewers"},
	} {
		as := e.ClientAs(t, "config-"+tc.who)
		issue := g.adminKubeconfig
		if tc.request == "viewer" {
			issue = g.viewerKubeconfig
		}
		kubeconfig, err := issue(as, shoot)
		if tc.want == "" {
			if !apierrors.IsForbidden(err) {
				t.Errorf("%s requests %s: %v", tc.who, tc.request, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s requests %s: %v", tc.who, tc.request, err)
			continue
		}
		config, err := clientcmd.Load(kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		prefix := g.namespace + "--" + shoot.Name + "-"
		cert, err := pki.ParseCert(config.AuthInfos[config.CurrentContext].ClientCertificateData)
		if err != nil {
			t.Fatal(err)
		}
		if got := cert.Subject.CommonName + " " + strings.Join(cert.Subject.Organization, " "); got != tc.want {
			t.Errorf("%s requests %s and gets user %q, want %q", tc.who, tc.request, got, tc.want)
		}
		if wildcard := config.Clusters[prefix+"wildcard-tls-seed-bound"]; wildcard == nil ||
			len(wildcard.CertificateAuthorityData) > 0 {
			t.Errorf("cluster with a public certificate: %+v", wildcard)
		}
		if other := config.Clusters[prefix+"unmanaged"]; other == nil ||
			string(other.CertificateAuthorityData) != string(ca.CertPEM) {
			t.Errorf("cluster with a certificate of its own: %+v", other)
		}
	}
}
