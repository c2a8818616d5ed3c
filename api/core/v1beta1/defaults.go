package v1beta1

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// AddDefaults makes the decoders of a scheme apply the defaults of this package. The API server's scheme does.
func AddDefaults(scheme *runtime.Scheme) {
	addDefaults(scheme, SetDefaultsBackupBucket, func(l *BackupBucketList) []BackupBucket { return l.Items })
	addDefaults(scheme, SetDefaultsCloudProfile, func(l *CloudProfileList) []CloudProfile { return l.Items })
	addDefaults(scheme, SetDefaultsControllerRegistration,
		func(l *ControllerRegistrationList) []ControllerRegistration { return l.Items })
	addDefaults(scheme, SetDefaultsInternalSecret, func(l *InternalSecretList) []InternalSecret { return l.Items })
	addDefaults(scheme, SetDefaultsNamespacedCloudProfile,
		func(l *NamespacedCloudProfileList) []NamespacedCloudProfile { return l.Items })
	addDefaults(scheme, SetDefaultsProject, func(l *ProjectList) []Project { return l.Items })
	addDefaults(scheme, SetDefaultsSecretBinding, func(l *SecretBindingList) []SecretBinding { return l.Items })
	addDefaults(scheme, SetDefaultsSeed, func(l *SeedList) []Seed { return l.Items })
	addDefaults(scheme, SetDefaultsShoot, func(l *ShootList) []Shoot { return l.Items })
}

// addDefaults registers a function for a kind and for its list.
func addDefaults[T, L any](scheme *runtime.Scheme, set func(*T), items func(*L) []T) {
	object, isObject := any(new(T)).(runtime.Object)
	list, isList := any(new(L)).(runtime.Object)
	if !isObject || !isList {
		panic("defaults for a type that is no API object")
	}
	scheme.AddTypeDefaultingFunc(object, func(obj any) { set(obj.(*T)) })
	scheme.AddTypeDefaultingFunc(list, func(obj any) {
		objects := items(obj.(*L))
		for i := range objects {
			set(&objects[i])
		}
	})
}

// setDefault sets a field that is empty.
func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
