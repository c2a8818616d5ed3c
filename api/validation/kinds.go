package validation

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	corev1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
)

// Object is what every kind is.
type Object interface {
	runtime.Object
	metav1.Object
}

// Options are the inputs of the functions other than the objects.
type Options struct {
	Features corev1beta1.Features
	// Now decides what has expired. Zero leaves out the rules that depend on time.
	Now time.Time
	// BeforeAdmission is true for objects as their authors wrote them: what mutating admission fills may be empty.
	BeforeAdmission bool
}

// Kind is a kind and the functions of its type.
type Kind struct {
	schema.GroupVersionKind
	Namespaced bool

	new          func() Object
	setDefaults  func(Object)
	create       func(Object, Options) field.ErrorList
	update       func(object, old Object, o Options) field.ErrorList
	statusUpdate func(object, old Object) field.ErrorList
	warnings     func(object, old Object, o Options) []string
}

// New returns an empty object.
func (k Kind) New() Object { return k.new() }

// SetDefaults fills the empty fields that have a default.
func (k Kind) SetDefaults(object Object) {
	if k.setDefaults != nil {
		k.setDefaults(object)
	}
}

// Create checks a new object, whose defaults are set.
func (k Kind) Create(object Object, o Options) field.ErrorList { return k.create(object, o) }

// Update checks a changed object, which carries the stored status. Both have their defaults.
func (k Kind) Update(object, old Object, o Options) field.ErrorList { return k.update(object, old, o) }

// StatusUpdate checks a changed status. The object carries the stored spec.
func (k Kind) StatusUpdate(object, old Object) field.ErrorList {
	if k.statusUpdate == nil {
		return nil
	}
	return k.statusUpdate(object, old)
}

// Warnings names what is accepted but deprecated, without effect or overdue. old is nil for a new object.
func (k Kind) Warnings(object, old Object, o Options) []string {
	if k.warnings == nil {
		return nil
	}
	return k.warnings(object, old, o)
}

// Find returns the kind of that name.
func Find(gvk schema.GroupVersionKind) (Kind, bool) {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.GroupVersionKind == gvk })
	if i < 0 {
		return Kind{}, false
	}
	return Kinds[i], true
}

// Kinds lists all kinds, by group and name.
var Kinds = []Kind{
	core("BackupBucket", false, corev1beta1.SetDefaultsBackupBucket, corev1beta1.ValidateBackupBucket,
		corev1beta1.ValidateBackupBucketUpdate).
		withWarnings(func(object, old Object, _ Options) []string {
			return corev1beta1.WarningsBackupBucket(as[corev1beta1.BackupBucket](object), as[corev1beta1.BackupBucket](old))
		}),
	core("BackupEntry", true, nil, corev1beta1.ValidateBackupEntry, corev1beta1.ValidateBackupEntryUpdate).
		withWarnings(func(object, old Object, _ Options) []string {
			return corev1beta1.WarningsBackupEntry(as[corev1beta1.BackupEntry](object), as[corev1beta1.BackupEntry](old))
		}),
	cloudProfile(),
	controllerDeployment(),
	core("ControllerInstallation", false, nil, corev1beta1.ValidateControllerInstallation,
		corev1beta1.ValidateControllerInstallationUpdate).
		withWarnings(func(object, old Object, _ Options) []string {
			return corev1beta1.WarningsControllerInstallation(as[corev1beta1.ControllerInstallation](object),
				as[corev1beta1.ControllerInstallation](old))
		}),
	core("ControllerRegistration", false, corev1beta1.SetDefaultsControllerRegistration,
		corev1beta1.ValidateControllerRegistration, corev1beta1.ValidateControllerRegistrationUpdate).
		withWarnings(func(object, old Object, _ Options) []string {
			return corev1beta1.WarningsControllerRegistration(as[corev1beta1.ControllerRegistration](object),
				as[corev1beta1.ControllerRegistration](old))
		}),
	core("ExposureClass", false, nil, corev1beta1.ValidateExposureClass, corev1beta1.ValidateExposureClassUpdate).
		withWarnings(func(object, old Object, _ Options) []string {
			return corev1beta1.WarningsExposureClass(as[corev1beta1.ExposureClass](object), as[corev1beta1.ExposureClass](old))
		}),
	core("InternalSecret", true, corev1beta1.SetDefaultsInternalSecret, corev1beta1.ValidateInternalSecret,
		corev1beta1.ValidateInternalSecretUpdate),
	namespacedCloudProfile(),
	core("Project", false, corev1beta1.SetDefaultsProject, corev1beta1.ValidateProject, corev1beta1.ValidateProjectUpdate).
		withStatus(func(object, old Object) field.ErrorList {
			return corev1beta1.ValidateProjectStatusUpdate(as[corev1beta1.Project](object), as[corev1beta1.Project](old))
		}),
	core("Quota", true, nil, corev1beta1.ValidateQuota, corev1beta1.ValidateQuotaUpdate),
	core("SecretBinding", true, corev1beta1.SetDefaultsSecretBinding, corev1beta1.ValidateSecretBinding,
		corev1beta1.ValidateSecretBindingUpdate).
		withWarnings(func(object, old Object, _ Options) []string {
			return corev1beta1.WarningsSecretBinding(as[corev1beta1.SecretBinding](object), as[corev1beta1.SecretBinding](old))
		}),
	core("Seed", false, corev1beta1.SetDefaultsSeed, corev1beta1.ValidateSeed, corev1beta1.ValidateSeedUpdate).
		withStatus(func(object, old Object) field.ErrorList {
			return corev1beta1.ValidateSeedStatusUpdate(as[corev1beta1.Seed](object), as[corev1beta1.Seed](old))
		}).
		withWarnings(func(object, old Object, _ Options) []string {
			return corev1beta1.WarningsSeed(as[corev1beta1.Seed](object), as[corev1beta1.Seed](old))
		}),
	shoot(),
	core("ShootState", true, nil, corev1beta1.ValidateShootState,
		func(object, old *corev1beta1.ShootState) field.ErrorList {
			return corev1beta1.ValidateShootState(object)
		}),
	simple(corev1.SchemeGroupVersion.WithKind("ControllerDeployment"), false, nil, corev1.ValidateControllerDeployment,
		corev1.ValidateControllerDeploymentUpdate).
		withWarnings(func(object, old Object, _ Options) []string {
			return corev1.WarningsControllerDeployment(as[corev1.ControllerDeployment](object),
				as[corev1.ControllerDeployment](old))
		}),
	simple(operationsv1alpha1.SchemeGroupVersion.WithKind("Bastion"), true, nil, operationsv1alpha1.ValidateBastion,
		operationsv1alpha1.ValidateBastionUpdate),
	simple(securityv1alpha1.SchemeGroupVersion.WithKind("CredentialsBinding"), true,
		securityv1alpha1.SetDefaultsCredentialsBinding,
		securityv1alpha1.ValidateCredentialsBinding, securityv1alpha1.ValidateCredentialsBindingUpdate),
	simple(securityv1alpha1.SchemeGroupVersion.WithKind("WorkloadIdentity"), true, nil,
		securityv1alpha1.ValidateWorkloadIdentity, securityv1alpha1.ValidateWorkloadIdentityUpdate),
	simple(seedmanagementv1alpha1.SchemeGroupVersion.WithKind("Gardenlet"), true,
		seedmanagementv1alpha1.SetDefaultsGardenlet,
		seedmanagementv1alpha1.ValidateGardenlet, seedmanagementv1alpha1.ValidateGardenletUpdate).
		withWarnings(func(object, old Object, _ Options) []string {
			return seedmanagementv1alpha1.WarningsGardenlet(as[seedmanagementv1alpha1.Gardenlet](object),
				as[seedmanagementv1alpha1.Gardenlet](old))
		}),
	managedSeed(),
}

// objectPointer is a pointer to a type that is an object.
type objectPointer[T any] interface {
	*T
	Object
}

// as returns nil for an object that is not there.
func as[T any, P objectPointer[T]](object Object) P {
	p, _ := object.(P)
	return p
}

func simple[T any, P objectPointer[T]](gvk schema.GroupVersionKind, namespaced bool, setDefaults func(P),
	create func(P) field.ErrorList, update func(object, old P) field.ErrorList) Kind {
	k := Kind{
		GroupVersionKind: gvk, Namespaced: namespaced,
		new:    func() Object { return P(new(T)) },
		create: func(object Object, _ Options) field.ErrorList { return create(as[T, P](object)) },
		update: func(object, old Object, _ Options) field.ErrorList { return update(as[T, P](object), as[T, P](old)) },
	}
	if setDefaults != nil {
		k.setDefaults = func(object Object) { setDefaults(as[T, P](object)) }
	}
	return k
}

func core[T any, P objectPointer[T]](name string, namespaced bool, setDefaults func(P),
	create func(P) field.ErrorList, update func(object, old P) field.ErrorList) Kind {
	return simple(corev1beta1.SchemeGroupVersion.WithKind(name), namespaced, setDefaults, create, update)
}

func (k Kind) withWarnings(warnings func(object, old Object, o Options) []string) Kind {
	k.warnings = warnings
	return k
}

func (k Kind) withStatus(update func(object, old Object) field.ErrorList) Kind {
	k.statusUpdate = update
	return k
}

func shoot() Kind {
	k := core("Shoot", true, corev1beta1.SetDefaultsShoot, corev1beta1.ValidateShoot, corev1beta1.ValidateShootUpdate)
	with := func(o Options) corev1beta1.ShootValidation {
		return corev1beta1.ShootValidation{Features: o.Features, BeforeAdmission: o.BeforeAdmission}
	}
	k.create = func(object Object, o Options) field.ErrorList { return with(o).Create(as[corev1beta1.Shoot](object)) }
	k.update = func(object, old Object, o Options) field.ErrorList {
		return with(o).Update(as[corev1beta1.Shoot](object), as[corev1beta1.Shoot](old))
	}
	k.statusUpdate = func(object, old Object) field.ErrorList {
		return corev1beta1.ValidateShootStatusUpdate(as[corev1beta1.Shoot](object), as[corev1beta1.Shoot](old))
	}
	return k.withWarnings(func(object, old Object, o Options) []string {
		return corev1beta1.WarningsShoot(as[corev1beta1.Shoot](object), as[corev1beta1.Shoot](old), o.Now)
	})
}

func withCloudProfile(o Options) corev1beta1.CloudProfileValidation {
	return corev1beta1.CloudProfileValidation{Features: o.Features, Now: o.Now}
}

func cloudProfile() Kind {
	k := core("CloudProfile", false, corev1beta1.SetDefaultsCloudProfile, corev1beta1.ValidateCloudProfile,
		corev1beta1.ValidateCloudProfileUpdate)
	k.create = func(object Object, o Options) field.ErrorList {
		return withCloudProfile(o).Create(as[corev1beta1.CloudProfile](object))
	}
	k.update = func(object, old Object, o Options) field.ErrorList {
		return withCloudProfile(o).Update(as[corev1beta1.CloudProfile](object), as[corev1beta1.CloudProfile](old))
	}
	return k.withWarnings(func(object, old Object, _ Options) []string {
		return corev1beta1.WarningsCloudProfile(as[corev1beta1.CloudProfile](object), as[corev1beta1.CloudProfile](old))
	})
}

func namespacedCloudProfile() Kind {
	k := core("NamespacedCloudProfile", true, corev1beta1.SetDefaultsNamespacedCloudProfile,
		corev1beta1.ValidateNamespacedCloudProfile, corev1beta1.ValidateNamespacedCloudProfileUpdate)
	k.create = func(object Object, o Options) field.ErrorList {
		return withCloudProfile(o).CreateNamespaced(as[corev1beta1.NamespacedCloudProfile](object))
	}
	k.update = func(object, old Object, o Options) field.ErrorList {
		return withCloudProfile(o).UpdateNamespaced(as[corev1beta1.NamespacedCloudProfile](object),
			as[corev1beta1.NamespacedCloudProfile](old))
	}
	return k.withWarnings(func(object, old Object, _ Options) []string {
		return corev1beta1.WarningsNamespacedCloudProfile(as[corev1beta1.NamespacedCloudProfile](object),
			as[corev1beta1.NamespacedCloudProfile](old))
	})
}

func managedSeed() Kind {
	k := simple(seedmanagementv1alpha1.SchemeGroupVersion.WithKind("ManagedSeed"), true,
		seedmanagementv1alpha1.SetDefaultsManagedSeed,
		seedmanagementv1alpha1.ValidateManagedSeed, seedmanagementv1alpha1.ValidateManagedSeedUpdate)
	with := func(o Options) seedmanagementv1alpha1.ManagedSeedValidation {
		return seedmanagementv1alpha1.ManagedSeedValidation{BeforeAdmission: o.BeforeAdmission}
	}
	k.create = func(object Object, o Options) field.ErrorList {
		return with(o).Create(as[seedmanagementv1alpha1.ManagedSeed](object))
	}
	k.update = func(object, old Object, o Options) field.ErrorList {
		return with(o).Update(as[seedmanagementv1alpha1.ManagedSeed](object), as[seedmanagementv1alpha1.ManagedSeed](old))
	}
	return k.withWarnings(func(object, old Object, _ Options) []string {
		return seedmanagementv1alpha1.WarningsManagedSeed(as[seedmanagementv1alpha1.ManagedSeed](object),
			as[seedmanagementv1alpha1.ManagedSeed](old))
	})
}

// controllerDeployment checks the older version of the kind as the API server does: by the version that is stored.
func controllerDeployment() Kind {
	stored := func(object Object) (*corev1.ControllerDeployment, field.ErrorList) {
		converted := &corev1.ControllerDeployment{}
		deployment := as[corev1beta1.ControllerDeployment](object)
		if err := converted.ConvertFrom(deployment); err != nil {
			return nil, field.ErrorList{
				field.Invalid(field.NewPath("providerConfig"), string(deployment.ProviderConfig.Raw), err.Error()),
			}
		}
		return converted, nil
	}
	return Kind{
		GroupVersionKind: corev1beta1.SchemeGroupVersion.WithKind("ControllerDeployment"),
		new:              func() Object { return &corev1beta1.ControllerDeployment{} },
		create: func(object Object, _ Options) field.ErrorList {
			deployment, errs := stored(object)
			if errs != nil {
				return errs
			}
			return corev1.ValidateControllerDeployment(deployment)
		},
		update: func(object, old Object, _ Options) field.ErrorList {
			deployment, errs := stored(object)
			before, oldErrs := stored(old)
			if errs != nil || oldErrs != nil {
				return errs
			}
			return corev1.ValidateControllerDeploymentUpdate(deployment, before)
		},
		warnings: func(object, old Object, _ Options) []string {
			deployment, errs := stored(object)
			if errs != nil {
				return nil
			}
			var before *corev1.ControllerDeployment
			if old != nil {
				before, _ = stored(old)
			}
			return corev1.WarningsControllerDeployment(deployment, before)
		},
	}
}
