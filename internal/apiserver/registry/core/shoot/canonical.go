package shoot

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/apiserver/registry"
)

// canonicalize removes fields whose value equals their absence, and sets the labels that are derived from the object.
func canonicalize(s *corev1beta1.Shoot) {
	kubernetes := &s.Spec.Kubernetes
	// A value that validation rejects must stay visible to it.
	if autoscaler := kubernetes.ClusterAutoscaler; autoscaler != nil &&
		autoscaler.AcceptsMaxEmptyBulkDelete(kubernetes.Version) {
		kubernetes.ClusterAutoscaler.MaxEmptyBulkDelete = nil
	}
	if server := kubernetes.KubeAPIServer; server != nil && server.EnableAnonymousAuthentication != nil &&
		!*server.EnableAnonymousAuthentication {
		server.EnableAnonymousAuthentication = nil
	}
	if addons := s.Spec.Addons; addons != nil && addons.NginxIngress == nil &&
		(addons.KubernetesDashboard == nil || !addons.KubernetesDashboard.Enabled) {
		s.Spec.Addons = nil
	}
	canonicalizeLabels(s)
}

func canonicalizeLabels(s *corev1beta1.Shoot) {
	s.Labels = registry.SeedLabels(s.Labels, s.Spec.SeedName, s.Status.SeedName)
	delete(s.Labels, corev1beta1.LabelShootSelfHosted)
	for i := range s.Spec.Provider.Workers {
		if s.Spec.Provider.Workers[i].ControlPlane == nil {
			continue
		}
		if s.Labels == nil {
			s.Labels = map[string]string{}
		}
		s.Labels[corev1beta1.LabelShootSelfHosted] = "true"
	}
}

// syncSpellings keeps the two spellings of a reference equal. If they differ, the one that this request changed
// applies; if both changed, the newer spelling. old is nil on creation.
func syncSpellings(s, old *corev1beta1.Shoot) {
	syncCloudProfile(s, old)
	if s.Spec.DNS == nil {
		return
	}
	for i := range s.Spec.DNS.Providers {
		provider := &s.Spec.DNS.Providers[i]
		var before *corev1beta1.DNSProvider
		if old != nil && old.Spec.DNS != nil && i < len(old.Spec.DNS.Providers) {
			before = &old.Spec.DNS.Providers[i]
		}
		syncDNSCredentials(provider, before)
	}
}

func syncCloudProfile(s, old *corev1beta1.Shoot) {
	spec := &s.Spec
	if old != nil && spec.CloudProfileName != nil && spec.CloudProfile != nil &&
		spec.CloudProfile.Kind == corev1beta1.CloudProfileKind &&
		!equality.Semantic.DeepEqual(spec.CloudProfileName, old.Spec.CloudProfileName) &&
		equality.Semantic.DeepEqual(spec.CloudProfile, old.Spec.CloudProfile) {
		spec.CloudProfile = &corev1beta1.CloudProfileReference{
			Kind: corev1beta1.CloudProfileKind, Name: *spec.CloudProfileName,
		}
	}
	spec.CloudProfileName = nil
	if ref := spec.CloudProfile; ref != nil && ref.Kind == corev1beta1.CloudProfileKind {
		name := ref.Name
		spec.CloudProfileName = &name
	}
}

func syncDNSCredentials(provider, old *corev1beta1.DNSProvider) {
	if old != nil && provider.SecretName != nil &&
		!equality.Semantic.DeepEqual(provider.SecretName, old.SecretName) &&
		equality.Semantic.DeepEqual(provider.CredentialsRef, old.CredentialsRef) {
		provider.CredentialsRef = &autoscalingv1.CrossVersionObjectReference{
			APIVersion: "v1", Kind: "Secret", Name: *provider.SecretName,
		}
	}
	provider.SecretName = nil
	if ref := provider.CredentialsRef; ref != nil && ref.APIVersion == "v1" && ref.Kind == "Secret" {
		name := ref.Name
		provider.SecretName = &name
	}
}
