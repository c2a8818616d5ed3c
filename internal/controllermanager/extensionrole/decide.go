package extensionrole

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

const (
	// LabelCustom, "true" on a ClusterRole, has it bound to ServiceAccounts of extensions.
	LabelCustom = "authorization.gardener.cloud/custom-extensions-permissions"
	// AnnotationSelector of the role is a label selector for them, as JSON.
	AnnotationSelector = "authorization.gardener.cloud/extensions-serviceaccount-selector"
	// labelRegistration of a ServiceAccount names its ControllerRegistration.
	labelRegistration = "controllerregistration.core.gardener.cloud/name"
	// bindingPrefix followed by the name of a role is that of its binding.
	bindingPrefix = "gardener.cloud:extensions:"
)

// selectorOf reads the selector of a role. Without the annotation it selects nothing.
func selectorOf(role *rbacv1.ClusterRole) (labels.Selector, error) {
	text, found := role.Annotations[AnnotationSelector]
	if !found {
		return labels.Nothing(), nil
	}
	var selector metav1.LabelSelector
	if err := json.Unmarshal([]byte(text), &selector); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", AnnotationSelector, err)
	}
	out, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return nil, fmt.Errorf("annotation %s: %w", AnnotationSelector, err)
	}
	return out, nil
}

// installed is an extension in a seed.
type installed struct{ registration, seed string }

func installedBy(installations []corev1beta1.ControllerInstallation) map[installed]bool {
	out := map[installed]bool{}
	for i := range installations {
		if spec := &installations[i].Spec; spec.SeedRef != nil {
			out[installed{spec.RegistrationRef.Name, spec.SeedRef.Name}] = true
		}
	}
	return out
}

// subjects returns the selected ServiceAccounts of extensions, ordered.
func subjects(
	selector labels.Selector, accounts []corev1.ServiceAccount, extensions map[installed]bool,
) []rbacv1.Subject {
	var out []rbacv1.Subject
	for i := range accounts {
		account := &accounts[i]
		if !eligible(account, extensions) || !selector.Matches(labels.Set(account.Labels)) {
			continue
		}
		out = append(out, rbacv1.Subject{
			Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name,
		})
	}
	slices.SortFunc(out, func(a, b rbacv1.Subject) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// eligible reports whether a ServiceAccount may have the rights of extensions.
func eligible(account *corev1.ServiceAccount, extensions map[installed]bool) bool {
	seed, inSeed := strings.CutPrefix(account.Namespace, corev1beta1.SeedNamespacePrefix)
	if !inSeed {
		return false
	}
	if !strings.HasPrefix(account.Name, corev1beta1.ExtensionNamespacePrefix) {
		return false // It belongs to somebody else in the namespace of the Seed.
	}
	if account.DeletionTimestamp != nil {
		return false
	}
	registration, named := account.Labels[labelRegistration]
	if !named {
		return true
	}
	// Gardenlets write the labels: they must not take over the rights of an extension that runs in other seeds.
	return extensions[installed{registration, seed}]
}

// desired returns the binding of a role, nil without subjects.
func desired(role *rbacv1.ClusterRole, subjects []rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	if len(subjects) == 0 {
		return nil
	}
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Name: bindingPrefix + role.Name, Labels: map[string]string{LabelCustom: "true"},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(role, rbacv1.SchemeGroupVersion.WithKind("ClusterRole")),
			},
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: subjects,
	}
}
