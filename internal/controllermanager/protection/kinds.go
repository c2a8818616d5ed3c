package protection

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
)

// Kind is a kind whose objects are protected.
type Kind struct {
	Name      string // In lower case, for names of controllers and indexes.
	Finalizer string
	New       func() client.Object
	Users     []User
}

// User is a kind whose objects refer to protected ones.
type User struct {
	Kind string
	New  func() client.Object
	List func() client.ObjectList
	// Refers returns the protected objects that an object refers to. Cluster-scoped objects have no namespace.
	Refers func(client.Object) []types.NamespacedName
}

// Kinds returns all protected kinds.
func Kinds() []Kind {
	return []Kind{
		{
			Name: "cloudprofile", Finalizer: corev1beta1.FinalizerName,
			New: func() client.Object { return &corev1beta1.CloudProfile{} },
			Users: []User{
				shoots(func(s *corev1beta1.Shoot) []types.NamespacedName {
					ref := profile(s)
					if ref.Kind != corev1beta1.CloudProfileKind {
						return nil
					}
					return named("", ref.Name)
				}),
				{
					Kind: "NamespacedCloudProfile",
					New:  func() client.Object { return &corev1beta1.NamespacedCloudProfile{} },
					List: func() client.ObjectList { return &corev1beta1.NamespacedCloudProfileList{} },
					Refers: func(o client.Object) []types.NamespacedName {
						return named("", o.(*corev1beta1.NamespacedCloudProfile).Spec.Parent.Name)
					},
				},
			},
		},
		{
			Name: "namespacedcloudprofile", Finalizer: corev1beta1.FinalizerName,
			New: func() client.Object { return &corev1beta1.NamespacedCloudProfile{} },
			Users: []User{shoots(func(s *corev1beta1.Shoot) []types.NamespacedName {
				ref := profile(s)
				if ref.Kind != corev1beta1.NamespacedCloudProfileKind {
					return nil
				}
				return named(s.Namespace, ref.Name)
			})},
		},
		{
			Name: "secretbinding", Finalizer: corev1beta1.FinalizerName,
			New: func() client.Object { return &corev1beta1.SecretBinding{} },
			Users: []User{shoots(func(s *corev1beta1.Shoot) []types.NamespacedName {
				return named(s.Namespace, ptr.Deref(s.Spec.SecretBindingName, ""))
			})},
		},
		{
			Name: "credentialsbinding", Finalizer: corev1beta1.FinalizerName,
			New: func() client.Object { return &securityv1alpha1.CredentialsBinding{} },
			Users: []User{shoots(func(s *corev1beta1.Shoot) []types.NamespacedName {
				return named(s.Namespace, ptr.Deref(s.Spec.CredentialsBindingName, ""))
			})},
		},
		{
			Name: "quota", Finalizer: corev1beta1.FinalizerName,
			New: func() client.Object { return &corev1beta1.Quota{} },
			Users: []User{
				{
					Kind: "SecretBinding",
					New:  func() client.Object { return &corev1beta1.SecretBinding{} },
					List: func() client.ObjectList { return &corev1beta1.SecretBindingList{} },
					Refers: func(o client.Object) (out []types.NamespacedName) {
						for _, q := range o.(*corev1beta1.SecretBinding).Quotas {
							out = append(out, named(cmp.Or(q.Namespace, o.GetNamespace()), q.Name)...)
						}
						return out
					},
				},
				{
					Kind: "CredentialsBinding",
					New:  func() client.Object { return &securityv1alpha1.CredentialsBinding{} },
					List: func() client.ObjectList { return &securityv1alpha1.CredentialsBindingList{} },
					Refers: func(o client.Object) (out []types.NamespacedName) {
						for _, q := range o.(*securityv1alpha1.CredentialsBinding).Quotas {
							out = append(out, named(cmp.Or(q.Namespace, o.GetNamespace()), q.Name)...)
						}
						return out
					},
				},
			},
		},
		{
			Name: "exposureclass", Finalizer: corev1beta1.FinalizerName,
			New: func() client.Object { return &corev1beta1.ExposureClass{} },
			Users: []User{shoots(func(s *corev1beta1.Shoot) []types.NamespacedName {
				return named("", ptr.Deref(s.Spec.ExposureClassName, ""))
			})},
		},
		{
			Name: "controllerregistration", Finalizer: corev1beta1.FinalizerControllerRegistration,
			New: func() client.Object { return &corev1beta1.ControllerRegistration{} },
			Users: []User{{
				Kind: "ControllerInstallation",
				New:  func() client.Object { return &corev1beta1.ControllerInstallation{} },
				List: func() client.ObjectList { return &corev1beta1.ControllerInstallationList{} },
				Refers: func(o client.Object) []types.NamespacedName {
					return named("", o.(*corev1beta1.ControllerInstallation).Spec.RegistrationRef.Name)
				},
			}},
		},
		{
			Name: "controllerdeployment", Finalizer: corev1beta1.FinalizerControllerDeployment,
			New: func() client.Object { return &corev1beta1.ControllerDeployment{} },
			Users: []User{
				{
					Kind: "ControllerRegistration",
					New:  func() client.Object { return &corev1beta1.ControllerRegistration{} },
					List: func() client.ObjectList { return &corev1beta1.ControllerRegistrationList{} },
					Refers: func(o client.Object) (out []types.NamespacedName) {
						d := o.(*corev1beta1.ControllerRegistration).Spec.Deployment
						if d == nil {
							return nil
						}
						for _, ref := range d.DeploymentRefs {
							out = append(out, named("", ref.Name)...)
						}
						return out
					},
				},
				{ // One may still refer to a former deployment of its registration.
					Kind: "ControllerInstallation",
					New:  func() client.Object { return &corev1beta1.ControllerInstallation{} },
					List: func() client.ObjectList { return &corev1beta1.ControllerInstallationList{} },
					Refers: func(o client.Object) []types.NamespacedName {
						ref := o.(*corev1beta1.ControllerInstallation).Spec.DeploymentRef
						if ref == nil {
							return nil
						}
						return named("", ref.Name)
					},
				},
			},
		},
	}
}

// shoots returns the most common user. A Shoot that is being deleted still needs the objects it refers to.
func shoots(refers func(*corev1beta1.Shoot) []types.NamespacedName) User {
	return User{
		Kind:   "Shoot",
		New:    func() client.Object { return &corev1beta1.Shoot{} },
		List:   func() client.ObjectList { return &corev1beta1.ShootList{} },
		Refers: func(o client.Object) []types.NamespacedName { return refers(o.(*corev1beta1.Shoot)) },
	}
}

// profile returns the reference to a cloud profile from whichever of the two fields is set.
func profile(s *corev1beta1.Shoot) corev1beta1.CloudProfileReference {
	if s.Spec.CloudProfile != nil {
		ref := *s.Spec.CloudProfile
		ref.Kind = cmp.Or(ref.Kind, corev1beta1.CloudProfileKind)
		return ref
	}
	return corev1beta1.CloudProfileReference{
		Kind: corev1beta1.CloudProfileKind, Name: ptr.Deref(s.Spec.CloudProfileName, ""),
	}
}

// named returns a list with the name, or an empty list if the name is empty.
func named(namespace, name string) []types.NamespacedName {
	if name == "" {
		return nil
	}
	return []types.NamespacedName{{Namespace: namespace, Name: name}}
}
