package apiserver

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	authenticationv1alpha1 "hortus.dev/hortus/api/authentication/v1alpha1"
	backupv1alpha1 "hortus.dev/hortus/api/backup/v1alpha1"
	corev1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
)

// groupVersions are the served versions in which objects are stored. ControllerDeployments are stored in another one,
// core.gardener.cloud/v1.
var groupVersions = []schema.GroupVersion{
	corev1beta1.SchemeGroupVersion,
	securityv1alpha1.SchemeGroupVersion,
	seedmanagementv1alpha1.SchemeGroupVersion,
	operationsv1alpha1.SchemeGroupVersion,
}

// AddToClientScheme registers every kind of the garden once, as clients, caches and events need it.
func AddToClientScheme(scheme *runtime.Scheme) error {
	builder := runtime.SchemeBuilder{
		corev1beta1.AddToScheme, corev1.AddToScheme, securityv1alpha1.AddToScheme,
		seedmanagementv1alpha1.AddToScheme, operationsv1alpha1.AddToScheme, authenticationv1alpha1.AddToScheme,
		backupv1alpha1.AddToScheme,
	}
	return builder.AddToScheme(scheme)
}

// newServerScheme registers every kind a second time as the internal version of its group. In this scheme a type has
// two kinds, which many helpers reject, so it is not used outside of the server.
func newServerScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(AddToClientScheme(scheme))
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})

	internal := func(group string, types []runtime.Object) {
		scheme.AddKnownTypes(schema.GroupVersion{Group: group, Version: runtime.APIVersionInternal}, types...)
	}
	// ControllerDeployment is stored as core.gardener.cloud/v1, so that type is the internal one.
	internal(corev1beta1.GroupName, slices.DeleteFunc(corev1beta1.Types(), func(t runtime.Object) bool {
		switch t.(type) {
		case *corev1beta1.ControllerDeployment, *corev1beta1.ControllerDeploymentList:
			return true
		}
		return false
	}))
	internal(corev1.GroupName, corev1.Types())
	internal(securityv1alpha1.GroupName, securityv1alpha1.Types())
	internal(seedmanagementv1alpha1.GroupName, seedmanagementv1alpha1.Types())
	internal(operationsv1alpha1.GroupName, operationsv1alpha1.Types())
	internal(authenticationv1alpha1.GroupName, authenticationv1alpha1.Types())
	internal(backupv1alpha1.GroupName, backupv1alpha1.Types())

	corev1beta1.AddDefaults(scheme)
	securityv1alpha1.AddDefaults(scheme)
	seedmanagementv1alpha1.AddDefaults(scheme)
	authenticationv1alpha1.AddDefaults(scheme)
	utilruntime.Must(addControllerDeploymentConversions(scheme))
	return scheme
}

// addControllerDeploymentConversions registers the conversions between the two versions of the kind, for objects and
// lists.
func addControllerDeploymentConversions(scheme *runtime.Scheme) error {
	type (
		v1     = corev1.ControllerDeployment
		v1list = corev1.ControllerDeploymentList
		old    = corev1beta1.ControllerDeployment
		olds   = corev1beta1.ControllerDeploymentList
	)
	if err := scheme.AddConversionFunc((*v1)(nil), (*old)(nil), func(a, b any, _ conversion.Scope) error {
		return a.(*v1).ConvertTo(b.(*old))
	}); err != nil {
		return err
	}
	if err := scheme.AddConversionFunc((*old)(nil), (*v1)(nil), func(a, b any, _ conversion.Scope) error {
		return b.(*v1).ConvertFrom(a.(*old))
	}); err != nil {
		return err
	}
	if err := scheme.AddConversionFunc((*v1list)(nil), (*olds)(nil), func(a, b any, _ conversion.Scope) error {
		in, out := a.(*v1list), b.(*olds)
		out.ListMeta, out.Items = in.ListMeta, make([]old, len(in.Items))
		for i := range in.Items {
			if err := in.Items[i].ConvertTo(&out.Items[i]); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return scheme.AddConversionFunc((*olds)(nil), (*v1list)(nil), func(a, b any, _ conversion.Scope) error {
		in, out := a.(*olds), b.(*v1list)
		out.ListMeta, out.Items = in.ListMeta, make([]v1, len(in.Items))
		for i := range in.Items {
			if err := out.Items[i].ConvertFrom(&in.Items[i]); err != nil {
				return err
			}
		}
		return nil
	})
}
