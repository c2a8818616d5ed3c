package steps

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/encryption"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/golden"
)

// testScope is a Shoot with the given pools on a seed of the local provider.
func testScope(pools ...string) *Scope {
	shoot := &corev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "garden-dev", UID: "shoot-uid", Generation: 1},
		Spec: corev1beta1.ShootSpec{
			Region:   "local",
			Provider: corev1beta1.Provider{Type: "local"},
			Kubernetes: corev1beta1.Kubernetes{
				Version: "1.36.3", KubeProxy: &corev1beta1.KubeProxyConfig{Mode: ptr.To(corev1beta1.ProxyModeNFTables)},
			},
			Networking: &corev1beta1.Networking{
				Type: ptr.To("bridge"), Pods: ptr.To("100.96.0.0/16"), Services: ptr.To("100.64.0.0/16"),
			},
			DNS:      &corev1beta1.DNS{Domain: ptr.To("a.dev.local.hortus.dev")},
			SeedName: ptr.To("local-1"),
		},
		Status: corev1beta1.ShootStatus{TechnicalID: "shoot--dev--a", UID: "shoot-uid"},
	}
	for _, name := range pools {
		shoot.Spec.Provider.Workers = append(shoot.Spec.Provider.Workers, corev1beta1.Worker{
			Name: name, Minimum: 1, Maximum: 2,
			Machine: corev1beta1.Machine{
				Type: "small", Image: &corev1beta1.ShootMachineImage{Name: "hortus-machine", Version: ptr.To("1.0.0")},
			},
			CRI: &corev1beta1.CRI{Name: corev1beta1.CRINameContainerD},
		})
	}
	return &Scope{Values: Values{
		Shoot: shoot,
		SeedObject: &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "local-1"}, Spec: corev1beta1.SeedSpec{
			Provider: corev1beta1.SeedProvider{Type: "local", Region: "local"},
			DNS: corev1beta1.SeedDNS{Internal: &corev1beta1.SeedDNSProviderConfig{
				Type: "local", Domain: "internal.local.hortus.dev",
			}},
		}},
		Project:   &corev1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: "dev"}},
		Namespace: "shoot--dev--a",
		Operation: corev1beta1.LastOperationTypeReconcile,
		Facts: Facts{
			Live: true, APIServer: true, APIServerReplicas: 1, Infrastructure: true, ControlPlane: true, Worker: true,
			InfrastructureStatus: true,
		},
	}}
}

// plan is a flow for a Shoot.
type plan struct {
	graph func() *flow.Graph[*Scope]
	scope *Scope
}

// plans are the flows for typical Shoots, by the names of their golden files.
func plans() map[string]plan {
	with := func(s *Scope, changes ...func(*Scope)) *Scope {
		for _, change := range changes {
			change(s)
		}
		return s
	}
	hibernate := func(s *Scope) { s.Shoot.Spec.Hibernation = &corev1beta1.Hibernation{Enabled: ptr.To(true)} }
	stopped := func(s *Scope) { s.Facts.APIServerReplicas = 0 }
	deleting := func(s *Scope) { s.Operation = corev1beta1.LastOperationTypeDelete }
	backup := func(s *Scope) { s.SeedObject.Spec.Backup = &corev1beta1.Backup{Provider: "local"} }
	restoring := func(s *Scope) { s.Operation = corev1beta1.LastOperationTypeRestore }
	extended := func(s *Scope) {
		s.Registered = []corev1beta1.ControllerRegistration{{Spec: corev1beta1.ControllerRegistrationSpec{
			Resources: []corev1beta1.ControllerResource{
				{Kind: "Extension", Type: "before",
					Lifecycle: &corev1beta1.ControllerResourceLifecycle{Reconcile: ptr.To(corev1beta1.BeforeKubeAPIServer)}},
				{Kind: "Extension", Type: "after"},
				{Kind: "Extension", Type: "everywhere", AutoEnable: []corev1beta1.ClusterType{corev1beta1.ClusterTypeShoot},
					Lifecycle: &corev1beta1.ControllerResourceLifecycle{Reconcile: ptr.To(corev1beta1.AfterWorker)}},
			}}}}
		s.Shoot.Spec.Extensions = []corev1beta1.Extension{{Type: "before"}, {Type: "after"}}
	}
	lateExtensions := func(s *Scope) {
		s.Claim.Settled = true
		s.Registered = []corev1beta1.ControllerRegistration{{Spec: corev1beta1.ControllerRegistrationSpec{
			Resources: []corev1beta1.ControllerResource{
				{Kind: "Extension", Type: "late",
					Lifecycle: &corev1beta1.ControllerResourceLifecycle{Migrate: ptr.To(corev1beta1.AfterKubeAPIServer)}},
			}}}}
	}
	return map[string]plan{
		"one-pool":       {Reconcile, testScope("pool")},
		"two-pools":      {Reconcile, testScope("a", "b")},
		"workerless":     {Reconcile, testScope()},
		"falling-asleep": {Reconcile, with(testScope("pool"), hibernate)},
		"backups":        {Reconcile, with(testScope("pool"), backup)},
		"asleep":         {Reconcile, with(testScope("pool"), hibernate, stopped)},
		"extensions":     {Reconcile, with(testScope("pool"), extended)},
		"restore":        {Reconcile, with(testScope("pool"), backup, restoring)},
		"take-over": {Reconcile, with(testScope("pool"), backup, restoring,
			func(s *Scope) { s.Claim.TakenOver.From = "gone" })},

		"delete": {Delete, with(testScope("pool"), deleting)},
		"delete-workerless": {Delete, with(testScope(), deleting,
			func(s *Scope) { s.Facts = Facts{Live: true, APIServer: true} })},
		"delete-hibernated": {Delete, with(testScope("pool"), deleting, hibernate, stopped)},
		"delete-without-api-server": {Delete, with(testScope("pool"), deleting,
			func(s *Scope) { s.Facts = Facts{Live: true, Infrastructure: true} })},
		"force-delete": {ForceDelete, with(testScope("pool"), deleting)},

		"prepare":                 {Prepare, with(testScope("pool"), backup)},
		"prepare-hibernated":      {Prepare, with(testScope("pool"), backup, hibernate)},
		"prepare-extensions":      {Prepare, with(testScope("pool"), backup, extended)},
		"migrate":                 {Migrate, with(testScope("pool"), backup)},
		"migrate-late-extensions": {Migrate, with(testScope("pool"), backup, lateExtensions)},
		"stop-leftover":           {StopLeftover, testScope("pool")},
		"remove-leftover":         {RemoveLeftover, testScope("pool")},
	}
}

func TestPlans(t *testing.T) {
	for name, p := range plans() {
		t.Run(name, func(t *testing.T) { golden.Bytes(t, "plan/"+name+".txt", []byte(p.graph().Plan(p.scope))) })
	}
}

// TestUsersOfDeploymentsBelongToTheSystem: the API server knows the users of all Deployments as users of the system.
func TestUsersOfDeploymentsBelongToTheSystem(t *testing.T) {
	server, err := kubeapiserver.Render(kubeapiserver.Values{Encryption: encryption.Target{
		Resources: []string{"secrets"}, Writer: encryption.Provider{Cipher: encryption.AESCBC, Key: "k"},
		Keys: map[string]string{"k": "c2VjcmV0"},
	}.Config()})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range Deployments {
		if d.User != "" && !strings.Contains(server.ConfigMap.Data["audit-policy.yaml"], "\n  - "+d.User+"\n") {
			t.Errorf("%s: the audit policy does not leave out user %q; it is not in the table of system users", d.Name, d.User)
		}
	}
}
