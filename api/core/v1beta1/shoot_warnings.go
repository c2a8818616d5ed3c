package v1beta1

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A credential is due to be rotated after this time, and a rotation that has begun to be completed after a third.
const (
	rotationDue           = 90 * 24 * time.Hour
	rotationCompletionDue = rotationDue / 3
)

// WarningsShoot names what is accepted but deprecated, without effect or overdue. old is nil for a new Shoot.
func WarningsShoot(shoot, old *Shoot, now time.Time) []string {
	var warnings []string
	warn := func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }
	spec, kubernetes := &shoot.Spec, &shoot.Spec.Kubernetes

	var before ShootSpec
	if old != nil {
		before = old.Spec
	}
	if newlyGiven(spec.CloudProfileName, before.CloudProfileName) {
		warn("spec.cloudProfileName is deprecated, use spec.cloudProfile")
	}
	if spec.SecretBindingName != nil {
		warn("spec.secretBindingName is deprecated, use spec.credentialsBindingName")
	}
	if spec.Addons != nil {
		warn("spec.addons is deprecated, deploy what you need into the cluster")
	}
	if spec.DNS != nil {
		for i, provider := range spec.DNS.Providers {
			if secretNameNewlyGiven(provider.SecretName, before.DNS) {
				warn("spec.dns.providers[%d].secretName is deprecated, use credentialsRef", i)
			}
			if provider.Domains != nil || provider.Zones != nil {
				warn("spec.dns.providers[%d]: domains and zones are deprecated and have no effect", i)
			}
		}
	}
	if server := kubernetes.KubeAPIServer; server != nil {
		if server.EnableAnonymousAuthentication != nil {
			warn("spec.kubernetes.kubeAPIServer.enableAnonymousAuthentication is deprecated, use structuredAuthentication")
		}
		if server.WatchCacheSizes != nil && server.WatchCacheSizes.Default != nil {
			warn("spec.kubernetes.kubeAPIServer.watchCacheSizes.default is deprecated and has no effect")
		}
	}
	if manager := kubernetes.KubeControllerManager; manager != nil && manager.PodEvictionTimeout != nil {
		warn("spec.kubernetes.kubeControllerManager.podEvictionTimeout is deprecated and has no effect")
	}
	if scheduler := kubernetes.KubeScheduler; scheduler != nil && scheduler.KubeMaxPDVols != nil {
		warn("spec.kubernetes.kubeScheduler.kubeMaxPDVols is deprecated and has no effect")
	}
	if proxy := kubernetes.KubeProxy; proxy != nil && deref(proxy.Mode) == ProxyModeIPVS {
		warn("spec.kubernetes.kubeProxy.mode: IPVS is deprecated, use NFTables or IPTables")
	}
	const systemReserved = "%s.systemReserved is deprecated, add it to kubeReserved: the same sum replaces no machines"
	if kubelet := kubernetes.Kubelet; kubelet != nil && kubelet.SystemReserved != nil {
		warn(systemReserved, "spec.kubernetes.kubelet")
	}
	if autoscaler := kubernetes.ClusterAutoscaler; autoscaler != nil {
		if autoscaler.MaxEmptyBulkDelete != nil {
			warn("spec.kubernetes.clusterAutoscaler.maxEmptyBulkDelete is deprecated, use maxScaleDownParallelism")
		}
		if len(autoscaler.IgnoreTaints) > 0 {
			warn("spec.kubernetes.clusterAutoscaler.ignoreTaints is deprecated, use startupTaints")
		}
	}
	for i := range spec.Provider.Workers {
		worker := &spec.Provider.Workers[i]
		if deref(worker.UpdateStrategy) == ManualInPlaceUpdate && (worker.MaxSurge != nil || worker.MaxUnavailable != nil) {
			warn("spec.provider.workers[%d]: maxSurge and maxUnavailable have no effect with ManualInPlaceUpdate", i)
		}
		if k := worker.Kubernetes; k != nil && k.Kubelet != nil && k.Kubelet.SystemReserved != nil {
			warn(systemReserved, fmt.Sprintf("spec.provider.workers[%d].kubernetes.kubelet", i))
		}
	}
	for _, key := range []string{AnnotationOperation, AnnotationMaintenanceOperation} {
		operations := Operations(shoot.Annotations, key)
		for _, operation := range []string{OperationRotateETCDEncryptionKeyStart, OperationRotateETCDEncryptionKeyComplete} {
			if slices.Contains(operations, operation) {
				warn("metadata.annotations[%s]: %s is deprecated, use %s", key, operation, OperationRotateETCDEncryptionKey)
			}
		}
	}
	if old == nil || !equality.Semantic.DeepEqual(shoot.Spec, old.Spec) {
		warnings = append(warnings, withoutEffect(shoot)...)
	}
	warnings = append(warnings, annotationsWithoutEffect(shoot, old)...)
	if old != nil {
		warnings = append(warnings, overdueRotations(shoot, now)...)
	}
	return warnings
}

// secretNameNewlyGiven compares with all providers from before, because they may have changed their places.
func secretNameNewlyGiven(name *string, before *DNS) bool {
	return name != nil && (before == nil || !slices.ContainsFunc(before.Providers,
		func(p DNSProvider) bool { return !newlyGiven(name, p.SecretName) }))
}

// rotates reports whether credentials are rotated automatically.
func rotates(config *MaintenanceRotationConfig) bool {
	return config != nil && config.RotationPeriod != nil && config.RotationPeriod.Duration > 0
}

// overdueRotations names the credentials that should have been rotated, and rotations that should have been completed.
// Credentials that are rotated automatically are left out.
func overdueRotations(shoot *Shoot, now time.Time) []string {
	if shoot.DeletionTimestamp != nil || shoot.CreationTimestamp.IsZero() {
		return nil
	}
	var auto MaintenanceCredentialsAutoRotation
	if m := shoot.Spec.Maintenance; m != nil && m.AutoRotation != nil && m.AutoRotation.Credentials != nil {
		auto = *m.AutoRotation.Credentials
	}
	rotation := rotationOf(shoot)
	var warnings []string
	check := func(name, operation, completion string, phase CredentialsRotationPhase, begun, done *metav1.Time) {
		if rotating(phase) {
			if begun != nil && completion != "" && now.Sub(begun.Time) > rotationCompletionDue {
				warnings = append(warnings,
					fmt.Sprintf("the rotation of the %s began at %s and is not completed; annotate the Shoot with %s=%s",
						name, begun.UTC().Format(time.RFC3339), AnnotationOperation, completion))
			}
			return
		}
		last := shoot.CreationTimestamp.Time
		if done != nil {
			last = done.Time
		}
		if now.Sub(last) > rotationDue {
			warnings = append(warnings, fmt.Sprintf("the %s should be rotated, last done at %s; annotate the Shoot with %s=%s",
				name, last.UTC().Format(time.RFC3339), AnnotationOperation, operation))
		}
	}
	ca := CARotation{}
	if rotation.CertificateAuthorities != nil {
		ca = *rotation.CertificateAuthorities
	}
	check("certificate authorities", OperationRotateCAStart, OperationRotateCAComplete, ca.Phase, ca.LastInitiationTime,
		ca.LastCompletionTime)
	key := ServiceAccountKeyRotation{}
	if rotation.ServiceAccountKey != nil {
		key = *rotation.ServiceAccountKey
	}
	check("service account key", OperationRotateServiceAccountKeyStart, OperationRotateServiceAccountKeyComplete,
		key.Phase, key.LastInitiationTime, key.LastCompletionTime)
	if !rotates(auto.ETCDEncryptionKey) {
		etcd := ETCDEncryptionKeyRotation{}
		if rotation.ETCDEncryptionKey != nil {
			etcd = *rotation.ETCDEncryptionKey
		}
		completion := OperationRotateETCDEncryptionKeyComplete
		if minorOf(shoot.Spec.Kubernetes.Version) >= 34 {
			completion = ""
		}
		check("etcd encryption key", OperationRotateETCDEncryptionKey, completion, etcd.Phase, etcd.LastInitiationTime,
			etcd.LastCompletionTime)
	}
	if shoot.SSHAccess() && !rotates(auto.SSHKeypair) {
		ssh := ShootSSHKeypairRotation{}
		if rotation.SSHKeypair != nil {
			ssh = *rotation.SSHKeypair
		}
		check("SSH key pair", OperationRotateSSHKeypair, "", "", nil, ssh.LastCompletionTime)
	}
	return warnings
}
