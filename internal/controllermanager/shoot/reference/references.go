package reference

import (
	"cmp"
	"slices"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Kind of an object that a Shoot can refer to in its namespace.
type Kind string

const (
	Secret           Kind = "Secret"
	ConfigMap        Kind = "ConfigMap"
	WorkloadIdentity Kind = "WorkloadIdentity"
)

// Reference is the kind and name of an object in the Shoot's namespace.
type Reference struct {
	Kind Kind
	Name string
}

// Of returns the distinct objects that a Shoot refers to, sorted.
func Of(shoot *corev1beta1.Shoot) []Reference {
	var refs []Reference
	add := func(kind Kind, name string) {
		if name != "" {
			refs = append(refs, Reference{kind, name})
		}
	}
	if dns := shoot.Spec.DNS; dns != nil {
		for _, p := range dns.Providers {
			if p.SecretName != nil {
				add(Secret, *p.SecretName)
			}
			if p.CredentialsRef != nil {
				add(Kind(p.CredentialsRef.Kind), p.CredentialsRef.Name)
			}
		}
	}
	for _, r := range shoot.Spec.Resources {
		add(Kind(r.ResourceRef.Kind), r.ResourceRef.Name)
	}
	if k := shoot.Spec.Kubernetes.KubeAPIServer; k != nil {
		if a := k.AuditConfig; a != nil && a.AuditPolicy != nil && a.AuditPolicy.ConfigMapRef != nil {
			add(ConfigMap, a.AuditPolicy.ConfigMapRef.Name)
		}
		if a := k.StructuredAuthentication; a != nil {
			add(ConfigMap, a.ConfigMapName)
		}
		if a := k.StructuredAuthorization; a != nil {
			add(ConfigMap, a.ConfigMapName)
			for _, kubeconfig := range a.Kubeconfigs {
				add(Secret, kubeconfig.SecretName)
			}
		}
	}
	refs = slices.DeleteFunc(refs, func(r Reference) bool {
		return r.Kind != Secret && r.Kind != ConfigMap && r.Kind != WorkloadIdentity
	})
	slices.SortFunc(refs, func(a, b Reference) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(refs)
}
