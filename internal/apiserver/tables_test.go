package apiserver

import (
	"fmt"
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	gardencorev1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/apiserver/registry"
	"hortus.dev/hortus/internal/apiserver/registry/core/backupbucket"
	"hortus.dev/hortus/internal/apiserver/registry/core/backupentry"
	"hortus.dev/hortus/internal/apiserver/registry/core/cloudprofile"
	"hortus.dev/hortus/internal/apiserver/registry/core/controllerdeployment"
	"hortus.dev/hortus/internal/apiserver/registry/core/controllerinstallation"
	"hortus.dev/hortus/internal/apiserver/registry/core/controllerregistration"
	"hortus.dev/hortus/internal/apiserver/registry/core/exposureclass"
	"hortus.dev/hortus/internal/apiserver/registry/core/internalsecret"
	"hortus.dev/hortus/internal/apiserver/registry/core/namespacedcloudprofile"
	"hortus.dev/hortus/internal/apiserver/registry/core/project"
	"hortus.dev/hortus/internal/apiserver/registry/core/quota"
	"hortus.dev/hortus/internal/apiserver/registry/core/secretbinding"
	"hortus.dev/hortus/internal/apiserver/registry/core/seed"
	"hortus.dev/hortus/internal/apiserver/registry/core/shoot"
	"hortus.dev/hortus/internal/apiserver/registry/core/shootstate"
	"hortus.dev/hortus/internal/apiserver/registry/operations/bastion"
	"hortus.dev/hortus/internal/apiserver/registry/security/credentialsbinding"
	"hortus.dev/hortus/internal/apiserver/registry/security/workloadidentity"
	"hortus.dev/hortus/internal/apiserver/registry/seedmanagement/gardenlet"
	"hortus.dev/hortus/internal/apiserver/registry/seedmanagement/managedseed"
	"hortus.dev/hortus/internal/golden"
)

// table writes the columns of a kind and the cells of objects as kubectl get -o wide shows them.
func table[T registry.Object](out *strings.Builder, kind *registry.Kind[T], objects ...T) {
	fmt.Fprintf(out, "%s (%s)\n", kind.Resource, strings.Join(append(kind.ShortNames, kind.Categories...), ", "))
	header := []string{"Name"}
	for _, column := range kind.Columns {
		name := column.Name
		if column.Priority > 0 {
			name = "(" + name + ")"
		}
		header = append(header, name)
	}
	fmt.Fprintf(out, "  %s\n", strings.Join(header, " | "))
	for _, object := range objects {
		cells := []string{object.GetName()}
		if kind.Row != nil {
			for _, cell := range kind.Row(object) {
				cells = append(cells, fmt.Sprint(cell))
			}
		}
		fmt.Fprintf(out, "  %s\n", strings.Join(cells, " | "))
	}
}

// Every kind is shown as documented, empty and filled.
func TestTablesOfAllKinds(t *testing.T) {
	var out strings.Builder
	features, now := corev1beta1.DefaultFeatures(), clock.RealClock{}
	named := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	created := metav1.ObjectMeta{Name: "a", CreationTimestamp: metav1.NewTime(time.Now().Add(-50 * time.Hour))}
	empty, a := named("", "empty"), named("dev", "a")
	operation := &corev1beta1.LastOperation{
		Type: corev1beta1.LastOperationTypeReconcile, State: corev1beta1.LastOperationStateProcessing, Progress: 42,
	}
	conditions := func(status corev1beta1.ConditionStatus, types ...corev1beta1.ConditionType) []corev1beta1.Condition {
		var list []corev1beta1.Condition
		for _, kind := range types {
			list = append(list, corev1beta1.Condition{Type: kind, Status: status})
		}
		return list
	}
	ref := corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "dev", Name: "s"}

	table(&out, backupbucket.Kind(), &corev1beta1.BackupBucket{ObjectMeta: empty}, &corev1beta1.BackupBucket{
		ObjectMeta: a, Spec: corev1beta1.BackupBucketSpec{
			Provider: corev1beta1.BackupBucketProvider{Type: "local"}, SeedName: ptr.To("x"),
		},
		Status: corev1beta1.BackupBucketStatus{LastOperation: operation},
	})
	table(&out, backupentry.Kind(), &corev1beta1.BackupEntry{ObjectMeta: empty}, &corev1beta1.BackupEntry{
		ObjectMeta: a, Spec: corev1beta1.BackupEntrySpec{BucketName: "b", SeedName: ptr.To("x")},
		Status: corev1beta1.BackupEntryStatus{LastOperation: operation},
	})
	table(&out, bastion.Kind(now), &operationsv1alpha1.Bastion{ObjectMeta: empty})
	table(&out, cloudprofile.Kind(features, now),
		&corev1beta1.CloudProfile{ObjectMeta: a, Spec: corev1beta1.CloudProfileSpec{Type: "local"}})
	table(&out, controllerdeployment.Kind(), &gardencorev1.ControllerDeployment{ObjectMeta: a})
	table(&out, controllerinstallation.Kind(),
		&corev1beta1.ControllerInstallation{ObjectMeta: empty},
		&corev1beta1.ControllerInstallation{ObjectMeta: a, Spec: corev1beta1.ControllerInstallationSpec{
			RegistrationRef: corev1.ObjectReference{Name: "r"}, ShootRef: &corev1.ObjectReference{Namespace: "dev", Name: "s"},
		}},
		&corev1beta1.ControllerInstallation{ObjectMeta: a, Spec: corev1beta1.ControllerInstallationSpec{
			RegistrationRef: corev1.ObjectReference{Name: "r"}, SeedRef: &corev1.ObjectReference{Name: "x"},
		}, Status: corev1beta1.ControllerInstallationStatus{Conditions: conditions(corev1beta1.ConditionTrue,
			corev1beta1.ControllerInstallationValid, corev1beta1.ControllerInstallationInstalled,
			corev1beta1.ControllerInstallationHealthy)}})
	table(&out, controllerregistration.Kind(),
		&corev1beta1.ControllerRegistration{ObjectMeta: a, Spec: corev1beta1.ControllerRegistrationSpec{
			Resources: []corev1beta1.ControllerResource{{Kind: "Network", Type: "bridge"}, {Kind: "Worker", Type: "local"}},
		}})
	table(&out, credentialsbinding.Kind(), &securityv1alpha1.CredentialsBinding{
		ObjectMeta: a, Provider: securityv1alpha1.CredentialsBindingProvider{Type: "local"}, CredentialsRef: ref,
	})
	table(&out, exposureclass.Kind(), &corev1beta1.ExposureClass{ObjectMeta: a, Handler: "internet"})
	table(&out, internalsecret.Kind(),
		&corev1beta1.InternalSecret{ObjectMeta: a, Type: "Opaque", Data: map[string][]byte{"a": nil, "b": nil}})
	selfMade := &seedmanagementv1alpha1.Gardenlet{ObjectMeta: a, Status: seedmanagementv1alpha1.GardenletStatus{
		Conditions: conditions(corev1beta1.ConditionTrue, seedmanagementv1alpha1.GardenletReconciled),
	}}
	selfMade.Spec.Deployment.Helm.OCIRepository.Ref = ptr.To("registry.example/gardenlet:1")
	table(&out, gardenlet.Kind(), &seedmanagementv1alpha1.Gardenlet{ObjectMeta: empty}, selfMade)
	table(&out, managedseed.Kind(), &seedmanagementv1alpha1.ManagedSeed{ObjectMeta: empty},
		&seedmanagementv1alpha1.ManagedSeed{
			ObjectMeta: a, Spec: seedmanagementv1alpha1.ManagedSeedSpec{Shoot: &seedmanagementv1alpha1.Shoot{Name: "s"}},
			Status: seedmanagementv1alpha1.ManagedSeedStatus{
				Conditions: conditions(corev1beta1.ConditionTrue, seedmanagementv1alpha1.SeedRegistered),
			},
		},
		&seedmanagementv1alpha1.ManagedSeed{
			ObjectMeta: a, Status: seedmanagementv1alpha1.ManagedSeedStatus{
				Conditions: conditions(corev1beta1.ConditionFalse, seedmanagementv1alpha1.SeedRegistered),
			},
		})
	table(&out, namespacedcloudprofile.Kind(features, now), &corev1beta1.NamespacedCloudProfile{
		ObjectMeta: a, Spec: corev1beta1.NamespacedCloudProfileSpec{
			Parent: corev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: "p"},
		},
	})
	table(&out, project.Kind(), &corev1beta1.Project{ObjectMeta: empty},
		&corev1beta1.Project{ObjectMeta: a, Spec: corev1beta1.ProjectSpec{
			Namespace: ptr.To("garden-a"), Owner: &rbacv1.Subject{Name: "alice"}, CreatedBy: &rbacv1.Subject{Name: "bob"},
		}, Status: corev1beta1.ProjectStatus{Phase: corev1beta1.ProjectReady}})
	table(&out, quota.Kind(), &corev1beta1.Quota{ObjectMeta: empty},
		&corev1beta1.Quota{ObjectMeta: a, Spec: corev1beta1.QuotaSpec{
			Scope:               corev1.ObjectReference{APIVersion: "core.gardener.cloud/v1beta1", Kind: "Project"},
			ClusterLifetimeDays: ptr.To[int32](7),
		}})
	table(&out, secretbinding.Kind(),
		&corev1beta1.SecretBinding{ObjectMeta: empty, SecretRef: corev1.SecretReference{Namespace: "dev", Name: "s"}},
		&corev1beta1.SecretBinding{
			ObjectMeta: a, SecretRef: corev1.SecretReference{Namespace: "dev", Name: "s"},
			Provider: &corev1beta1.SecretBindingProvider{Type: "local"},
		})
	table(&out, seed.Kind(), seeds(created, operation)...)
	table(&out, shoot.Kind(features), shoots(a, operation)...)
	table(&out, shootstate.Kind(), &corev1beta1.ShootState{ObjectMeta: a, Spec: corev1beta1.ShootStateSpec{
		Gardener: make([]corev1beta1.GardenerResourceData, 3), Extensions: make([]corev1beta1.ExtensionResourceState, 2),
	}})
	table(&out, workloadidentity.Kind(nil),
		&securityv1alpha1.WorkloadIdentity{ObjectMeta: a, Spec: securityv1alpha1.WorkloadIdentitySpec{
			TargetSystem: securityv1alpha1.TargetSystem{Type: "local"},
		}})
	golden.Bytes(t, "tables.golden", []byte(out.String()))
}

// seeds in every state that the column Status summarizes.
func seeds(meta metav1.ObjectMeta, operation *corev1beta1.LastOperation) []*corev1beta1.Seed {
	with := func(name string, pairs ...string) *corev1beta1.Seed {
		s := &corev1beta1.Seed{ObjectMeta: meta}
		s.Name, s.Spec.Provider = name, corev1beta1.SeedProvider{Type: "local", Region: "home"}
		for i := 0; i < len(pairs); i += 2 {
			s.Status.Conditions = append(s.Status.Conditions, corev1beta1.Condition{
				Type: corev1beta1.ConditionType(pairs[i]), Status: corev1beta1.ConditionStatus(pairs[i+1]),
			})
		}
		return s
	}
	ready := with("ready", "GardenletReady", "True", "ExtensionsReady", "True", "SeedSystemComponentsHealthy", "True",
		"BackupBucketsReady", "True")
	ready.Status.Gardener, ready.Status.KubernetesVersion = &corev1beta1.Gardener{Version: "v1"}, ptr.To("1.36.3")
	ready.Status.LastOperation = operation
	return []*corev1beta1.Seed{
		with("new"), with("lost", "GardenletReady", "Unknown"),
		with("without-backups", "GardenletReady", "True", "ExtensionsReady", "True"),
		with("no-extensions", "GardenletReady", "True"),
		with("backups-fail", "GardenletReady", "True", "ExtensionsReady", "True", "BackupBucketsReady", "Progressing"),
		with("components-fail", "GardenletReady", "True", "ExtensionsReady", "True", "SeedSystemComponentsHealthy",
			"Unknown"),
		with("components-wait", "GardenletReady", "True", "ExtensionsReady", "Progressing", "SeedSystemComponentsHealthy",
			"Progressing"), ready,
	}
}

// shoots in every state that a column summarizes.
func shoots(meta metav1.ObjectMeta, operation *corev1beta1.LastOperation) []*corev1beta1.Shoot {
	with := func(name, profile string, wanted, is bool) *corev1beta1.Shoot {
		s := &corev1beta1.Shoot{ObjectMeta: meta}
		s.Name, s.Spec.CloudProfile = name, &corev1beta1.CloudProfileReference{Kind: profile, Name: "p"}
		s.Spec.Hibernation, s.Status.IsHibernated = &corev1beta1.Hibernation{Enabled: &wanted}, is
		return s
	}
	full := with("full", "CloudProfile", false, false)
	full.Labels = map[string]string{corev1beta1.LabelShootStatus: "healthy"}
	full.Spec.Provider.Type, full.Spec.Region, full.Spec.SeedName, full.Spec.Kubernetes.Version = "local", "home",
		ptr.To("x"), "1.36.3"
	full.Spec.Purpose = ptr.To(corev1beta1.ShootPurposeProduction)
	full.Spec.Resources = []corev1beta1.NamedResourceReference{{
		Name: "r", ResourceRef: autoscalingv1.CrossVersionObjectReference{Name: "s"},
	}}
	full.Status.LastOperation, full.Status.Gardener.Version = operation, "v1"
	for _, kind := range []corev1beta1.ConditionType{
		corev1beta1.ShootAPIServerAvailable, corev1beta1.ShootControlPlaneHealthy, corev1beta1.ShootEveryNodeReady,
		corev1beta1.ShootSystemComponentsHealthy,
	} {
		full.Status.Conditions = append(full.Status.Conditions,
			corev1beta1.Condition{Type: kind, Status: corev1beta1.ConditionTrue})
	}
	return []*corev1beta1.Shoot{
		{ObjectMeta: metav1.ObjectMeta{Name: "empty"}}, with("asleep", "NamespacedCloudProfile", true, true),
		with("falling", "CloudProfile", true, false),
		with("rising", "CloudProfile", false, true), full,
	}
}
