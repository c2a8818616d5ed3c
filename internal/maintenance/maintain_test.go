package maintenance

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func ptr[T any](v T) *T { return &v }

// shoot is a reconciled cluster on Kubernetes 1.30.1 with one pool on os 1.0.0.
func shoot(change ...func(*corev1beta1.Shoot)) *corev1beta1.Shoot {
	s := &corev1beta1.Shoot{}
	s.Namespace, s.Name = "garden-dev", "one"
	s.CreationTimestamp = metav1.NewTime(now.Add(-100 * day))
	s.Spec.Kubernetes.Version = "1.30.1"
	s.Spec.Maintenance = &corev1beta1.Maintenance{AutoUpdate: &corev1beta1.MaintenanceAutoUpdate{}}
	s.Spec.Maintenance.AutoUpdate.MachineImageVersion = ptr(false)
	s.Spec.Provider.Workers = []corev1beta1.Worker{{
		Name:    "p",
		Machine: corev1beta1.Machine{Type: "small", Image: &corev1beta1.ShootMachineImage{Name: "os", Version: ptr("1.0.0")}},
	}}
	s.Status.LastOperation = &corev1beta1.LastOperation{
		Type: corev1beta1.LastOperationTypeReconcile, State: corev1beta1.LastOperationStateSucceeded,
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func annotated(key, value string) func(*corev1beta1.Shoot) {
	return func(s *corev1beta1.Shoot) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, key, value) }
}

func failed(s *corev1beta1.Shoot) {
	s.Status.LastOperation.State = corev1beta1.LastOperationStateFailed
}

func rotating(credentials corev1beta1.MaintenanceCredentialsAutoRotation) func(*corev1beta1.Shoot) {
	return func(s *corev1beta1.Shoot) {
		s.Spec.Maintenance.AutoRotation = &corev1beta1.MaintenanceAutoRotation{Credentials: &credentials}
	}
}

const (
	calm      = "1.31.0s 1.30.1s"
	expiring  = "1.31.0s 1.30.1x"
	tasksText = "deployInfrastructure,deployDNSRecordInternal,deployDNSRecordExternal,deployDNSRecordIngress"
)

func TestMaintain(t *testing.T) {
	etcdWeekly := rotating(corev1beta1.MaintenanceCredentialsAutoRotation{
		ETCDEncryptionKey: &corev1beta1.MaintenanceRotationConfig{},
	})
	for name, tc := range map[string]struct {
		shoot       *corev1beta1.Shoot
		kubernetes  string
		images      string
		version     string // Kubernetes version afterwards; default 1.30.1.
		annotations map[string]string
		description string // Empty: no operation is recorded.
		failure     string
		state       corev1beta1.LastOperationState
		events      []Event
	}{
		"65: one item succeeds and one fails": {
			shoot: shoot(), kubernetes: expiring, images: "1.0.0x", version: "1.31.0",
			annotations: map[string]string{"gardener.cloud/operation": "reconcile", "shoot.gardener.cloud/tasks": tasksText},
			description: `(1/2) maintenance operations successful. Control Plane: Updated Kubernetes version from "1.30.1" to "1.31.0". Reason: Kubernetes version expired - force update required, Worker pool "p": machine image version maintenance failed. Reason for update: Machine image version expired - force update required (image update strategy: major)`,
			failure:     `Worker pool "p": could not determine higher suitable version than "1.0.0": cannot perform forceful update of expired version 1.0.0: no higher version that is not expired in the CloudProfile (end of life, or a mistake). No suitable version found`,
			state:       corev1beta1.LastOperationStateFailed,
			events: []Event{
				{Reason: "KubernetesVersionMaintenance",
					Message: `Control Plane: Updated Kubernetes version from "1.30.1" to "1.31.0". Reason: Kubernetes version expired - force update required`},
				{Warning: true, Reason: "MachineImageVersionMaintenance",
					Message: `Worker pool "p": machine image version maintenance failed. Reason for update: Machine image version expired - force update required (image update strategy: major). Error: could not determine higher suitable version than "1.0.0": cannot perform forceful update of expired version 1.0.0: no higher version that is not expired in the CloudProfile (end of life, or a mistake). No suitable version found`},
			},
		},
		"66: nothing is due": {
			shoot: shoot(), kubernetes: calm, images: "1.0.0s",
			annotations: map[string]string{"gardener.cloud/operation": "reconcile", "shoot.gardener.cloud/tasks": tasksText},
		},
		"67: a failed Shoot gets its versions but no operation": {
			shoot:      shoot(failed, annotated("maintenance.gardener.cloud/operation", "rotate-ca-start")),
			kubernetes: expiring, images: "1.0.0s", version: "1.31.0",
			annotations: map[string]string{
				"maintenance.gardener.cloud/operation": "rotate-ca-start", "shoot.gardener.cloud/tasks": tasksText,
			},
			description: `All maintenance operations successful. Control Plane: Updated Kubernetes version from "1.30.1" to "1.31.0". Reason: Kubernetes version expired - force update required`,
			state:       corev1beta1.LastOperationStateProcessing,
			events: []Event{{Reason: "KubernetesVersionMaintenance",
				Message: `Control Plane: Updated Kubernetes version from "1.30.1" to "1.31.0". Reason: Kubernetes version expired - force update required`}},
		},
		"68: a failed Shoot whose spec was fixed is retried": {
			shoot:      shoot(failed, annotated("maintenance.shoot.gardener.cloud/needs-retry-operation", "true")),
			kubernetes: calm, images: "1.0.0s",
			annotations: map[string]string{"gardener.cloud/operation": "retry", "shoot.gardener.cloud/tasks": tasksText},
			description: `All maintenance operations successful. Added "retry" operation annotation`,
			state:       corev1beta1.LastOperationStateProcessing,
		},
		"71: deferred operations are started": {
			shoot:      shoot(annotated("maintenance.gardener.cloud/operation", "rotate-ssh-keypair")),
			kubernetes: calm, images: "1.0.0s",
			annotations: map[string]string{
				"gardener.cloud/operation": "rotate-ssh-keypair;reconcile", "shoot.gardener.cloud/tasks": tasksText,
			},
			description: `All maintenance operations successful. Added "rotate-ssh-keypair;reconcile" operation annotation`,
			state:       corev1beta1.LastOperationStateProcessing,
		},
		"63: the request for a maintenance is removed, also before the first operation": {
			shoot: shoot(annotated("gardener.cloud/operation", "maintain"),
				func(s *corev1beta1.Shoot) { s.Status.LastOperation = nil }),
			kubernetes: calm, images: "1.0.0s",
			annotations: map[string]string{"shoot.gardener.cloud/tasks": tasksText},
		},
		"due credentials are rotated": {
			shoot: shoot(etcdWeekly), kubernetes: calm, images: "1.0.0s",
			annotations: map[string]string{
				"gardener.cloud/operation": "reconcile;rotate-etcd-encryption-key", "shoot.gardener.cloud/tasks": tasksText,
			},
			description: `All maintenance operations successful. Credentials "rotate-etcd-encryption-key": Automatic rotation of ETCD encryption key started. Reason: Automatic rotation of ETCD encryption key configured, Added "reconcile;rotate-etcd-encryption-key" operation annotation`,
			state:       corev1beta1.LastOperationStateProcessing,
		},
		"the ETCD key waits while the Shoot hibernates": {
			shoot: shoot(etcdWeekly, func(s *corev1beta1.Shoot) {
				s.Spec.Hibernation = &corev1beta1.Hibernation{Enabled: ptr(true)}
			}),
			kubernetes: calm, images: "1.0.0s",
			annotations: map[string]string{"gardener.cloud/operation": "reconcile", "shoot.gardener.cloud/tasks": tasksText},
		},
		"a rotation that is still running fails": {
			shoot: shoot(etcdWeekly, func(s *corev1beta1.Shoot) {
				s.Status.Credentials = &corev1beta1.ShootCredentials{Rotation: &corev1beta1.ShootCredentialsRotation{
					ETCDEncryptionKey: &corev1beta1.ETCDEncryptionKeyRotation{Phase: corev1beta1.RotationPreparing}}}
			}),
			kubernetes: calm, images: "1.0.0s",
			annotations: map[string]string{"gardener.cloud/operation": "reconcile", "shoot.gardener.cloud/tasks": tasksText},
			description: `(0/1) maintenance operations successful. Credentials "rotate-etcd-encryption-key": Automatic rotation failed. Reason for update: Automatic rotation of ETCD encryption key configured`,
			failure:     `Credentials "rotate-etcd-encryption-key": Could not start ETCD encryption key rotation: rotation of the ETCD encryption key is already in progress`,
			state:       corev1beta1.LastOperationStateFailed,
			events: []Event{{Warning: true, Reason: "MaintenanceFailed",
				Message: `Credentials "rotate-etcd-encryption-key": Automatic rotation failed. Reason for update: Automatic rotation of ETCD encryption key configured. Error: Could not start ETCD encryption key rotation: rotation of the ETCD encryption key is already in progress`}},
		},
		"the rotation that a user has started is not started again": {
			shoot:      shoot(etcdWeekly, annotated("maintenance.gardener.cloud/operation", "rotate-etcd-encryption-key-start")),
			kubernetes: calm, images: "1.0.0s",
			annotations: map[string]string{
				"gardener.cloud/operation": "rotate-etcd-encryption-key-start;reconcile", "shoot.gardener.cloud/tasks": tasksText,
			},
			description: `All maintenance operations successful. Added "rotate-etcd-encryption-key-start;reconcile" operation annotation`,
			state:       corev1beta1.LastOperationStateProcessing,
		},
		"an unknown machine type leaves the images alone": {
			shoot:      shoot(func(s *corev1beta1.Shoot) { s.Spec.Provider.Workers[0].Machine.Type = "gone" }),
			kubernetes: calm, images: "1.0.0x 1.0.1s",
			annotations: map[string]string{"gardener.cloud/operation": "reconcile", "shoot.gardener.cloud/tasks": tasksText},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := compiled(t, corev1beta1.CloudProfileSpec{
				Kubernetes:    corev1beta1.KubernetesSettings{Versions: kubernetesVersions(t, tc.kubernetes)},
				MachineImages: []corev1beta1.MachineImage{{Name: "os", Versions: imageVersions(t, tc.images)}},
			})
			before := tc.shoot.DeepCopy()
			o := Maintain(tc.shoot, NewDecider(p), now, Options{})
			if diff := cmp.Diff(before, tc.shoot); diff != "" {
				t.Errorf("Maintain changed its argument (-before +after):\n%s", diff)
			}
			if tc.version == "" {
				tc.version = "1.30.1"
			}
			if got := o.Shoot.Spec.Kubernetes.Version; got != tc.version {
				t.Errorf("Kubernetes version = %s, want %s", got, tc.version)
			}
			if diff := cmp.Diff(tc.annotations, o.Shoot.Annotations); diff != "" {
				t.Errorf("annotations mismatch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.events, o.Events()); diff != "" {
				t.Errorf("events mismatch (-want +got):\n%s", diff)
			}
			if got, want := o.Record(), tc.description != ""; got != want {
				t.Fatalf("Record() = %v, want %v", got, want)
			}
			if !o.Record() {
				return
			}
			want := &corev1beta1.LastMaintenance{
				Description: tc.description, TriggeredTime: metav1.NewTime(now), State: tc.state,
			}
			if tc.failure != "" {
				want.FailureReason = &tc.failure
			}
			if diff := cmp.Diff(want, o.LastMaintenance(now)); diff != "" {
				t.Errorf("lastMaintenance mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRestartTasksJoinExistingOnes(t *testing.T) {
	p := compiled(t, corev1beta1.CloudProfileSpec{
		Kubernetes: corev1beta1.KubernetesSettings{Versions: kubernetesVersions(t, calm)},
	})
	s := shoot(annotated("shoot.gardener.cloud/tasks", "deployInfrastructure"))
	s.Spec.Provider.Workers = nil
	o := Maintain(s, NewDecider(p), now, Options{RestartControlPlane: true, RestartCoreAddons: true})
	want := tasksText + ",restartControlPlanePods,restartCoreAddons"
	if got := o.Shoot.Annotations["shoot.gardener.cloud/tasks"]; got != want {
		t.Errorf("tasks = %s, want %s", got, want)
	}
}

func TestFixUp(t *testing.T) {
	spec := func() *corev1beta1.ShootSpec {
		return &corev1beta1.ShootSpec{
			Kubernetes: corev1beta1.Kubernetes{
				KubeAPIServer: &corev1beta1.KubeAPIServerConfig{
					KubernetesConfig: corev1beta1.KubernetesConfig{FeatureGates: map[string]bool{
						"PodIndexLabel": true, "AllowOverwriteTerminationGracePeriodSeconds": true, "APIServerIdentity": true}},
					RuntimeConfig: map[string]bool{
						"storagemigration.k8s.io/v1alpha1": true, "api/alpha": true, "batch/v1/jobs": true,
					},
					EnableAnonymousAuthentication: ptr(true),
					AdmissionPlugins: []corev1beta1.AdmissionPlugin{
						{Name: "SecurityContextDeny"}, {Name: "PodNodeSelector"},
					},
				},
				KubeControllerManager: &corev1beta1.KubeControllerManagerConfig{
					PodEvictionTimeout: &metav1.Duration{Duration: time.Minute},
				},
			},
			Provider: corev1beta1.Provider{Workers: []corev1beta1.Worker{{
				Name: "old",
				Kubernetes: &corev1beta1.WorkerKubernetes{Version: ptr("1.34.0"),
					Kubelet: &corev1beta1.KubeletConfig{
						KubernetesConfig: corev1beta1.KubernetesConfig{FeatureGates: map[string]bool{"PodIndexLabel": true}},
					}},
			}}},
		}
	}
	if !MayNeedFixUp(spec()) || MayNeedFixUp(&corev1beta1.ShootSpec{}) {
		t.Error("MayNeedFixUp is wrong")
	}
	s := spec()
	s.Kubernetes.Version = "1.35.1"
	got := fixUp(s, "1.34.9")
	want := []string{
		"Removed field spec.kubernetes.kubeControllerManager.podEvictionTimeout: not allowed from Kubernetes 1.33 on",
		"Removed field spec.kubernetes.kubeAPIServer.enableAnonymousAuthentication: not allowed from Kubernetes 1.35 on",
		"Removed feature gates from spec.kubernetes.kubeAPIServer: AllowOverwriteTerminationGracePeriodSeconds, PodIndexLabel (not supported by Kubernetes 1.35.1)",
		"Removed admission plugins from spec.kubernetes.kubeAPIServer: SecurityContextDeny (not supported by Kubernetes 1.35.1)",
		"Removed API versions from spec.kubernetes.kubeAPIServer.runtimeConfig: storagemigration.k8s.io/v1alpha1 (not supported by Kubernetes 1.35.1)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("texts mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{"APIServerIdentity": true}, s.Kubernetes.KubeAPIServer.FeatureGates); diff != "" {
		t.Errorf("gates mismatch (-want +got):\n%s", diff)
	}
	if len(s.Provider.Workers[0].Kubernetes.Kubelet.FeatureGates) != 1 {
		t.Error("the gate of a pool on an older version was removed")
	}
	if again := fixUp(s, "1.35.1"); len(again) != 0 {
		t.Errorf("a second run removed %v", again)
	}
}
