package steps

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/encryption"
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

func TestPlans(t *testing.T) {
	with := func(s *Scope, change func(*Scope)) *Scope {
		change(s)
		return s
	}
	hibernate := func(s *Scope) { s.Shoot.Spec.Hibernation = &corev1beta1.Hibernation{Enabled: ptr.To(true)} }
	deleting := func(s *Scope) { s.Operation = corev1beta1.LastOperationTypeDelete }
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
	for name, s := range map[string]*Scope{
		"one-pool":       testScope("pool"),
		"two-pools":      testScope("a", "b"),
		"workerless":     testScope(),
		"falling-asleep": with(testScope("pool"), hibernate),
		"backups": with(testScope("pool"),
			func(s *Scope) { s.SeedObject.Spec.Backup = &corev1beta1.Backup{Provider: "local"} }),
		"asleep":     with(with(testScope("pool"), hibernate), func(s *Scope) { s.Facts.APIServerReplicas = 0 }),
		"extensions": with(testScope("pool"), extended),
	} {
		t.Run(name, func(t *testing.T) { golden.Bytes(t, "plan/"+name+".txt", []byte(Reconcile().Plan(s))) })
	}
	for name, s := range map[string]*Scope{
		"delete": with(testScope("pool"), deleting),
		"delete-workerless": with(with(testScope(), deleting),
			func(s *Scope) { s.Facts = Facts{Live: true, APIServer: true} }),
		"delete-hibernated": with(with(with(testScope("pool"), deleting), hibernate),
			func(s *Scope) { s.Facts.APIServerReplicas = 0 }),
		"delete-without-api-server": with(with(testScope("pool"), deleting),
			func(s *Scope) { s.Facts = Facts{Live: true, Infrastructure: true} }),
	} {
		t.Run(name, func(t *testing.T) { golden.Bytes(t, "plan/"+name+".txt", []byte(Delete().Plan(s))) })
	}
	backup := func(s *Scope) { s.SeedObject.Spec.Backup = &corev1beta1.Backup{Provider: "local"} }
	golden.Bytes(t, "plan/restore.txt", []byte(Reconcile().Plan(with(with(testScope("pool"), backup), func(s *Scope) {
		s.Operation = corev1beta1.LastOperationTypeRestore
	}))))
	golden.Bytes(t, "plan/take-over.txt", []byte(Reconcile().Plan(with(with(testScope("pool"), backup), func(s *Scope) {
		s.Operation, s.Claim.TakenOver.From = corev1beta1.LastOperationTypeRestore, "gone"
	}))))
	golden.Bytes(t, "plan/prepare.txt", []byte(Prepare().Plan(with(testScope("pool"), backup))))
	golden.Bytes(t, "plan/prepare-hibernated.txt",
		[]byte(Prepare().Plan(with(with(testScope("pool"), backup), hibernate))))
	golden.Bytes(t, "plan/prepare-extensions.txt", []byte(Prepare().Plan(with(with(testScope("pool"), backup), extended))))
	golden.Bytes(t, "plan/migrate.txt", []byte(Migrate().Plan(with(testScope("pool"), backup))))
	golden.Bytes(t, "plan/migrate-late-extensions.txt",
		[]byte(Migrate().Plan(with(with(testScope("pool"), backup), func(s *Scope) {
			s.Claim.Settled = true
			s.Registered = []corev1beta1.ControllerRegistration{{Spec: corev1beta1.ControllerRegistrationSpec{
				Resources: []corev1beta1.ControllerResource{
					{Kind: "Extension", Type: "late",
						Lifecycle: &corev1beta1.ControllerResourceLifecycle{Migrate: ptr.To(corev1beta1.AfterKubeAPIServer)}},
				}}}}
		}))))
	golden.Bytes(t, "plan/stop-leftover.txt", []byte(StopLeftover().Plan(testScope("pool"))))
	golden.Bytes(t, "plan/remove-leftover.txt", []byte(RemoveLeftover().Plan(testScope("pool"))))
	golden.Bytes(t, "plan/force-delete.txt", []byte(ForceDelete().Plan(with(testScope("pool"), deleting))))
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
