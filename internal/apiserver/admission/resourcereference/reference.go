package resourcereference

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	"hortus.dev/hortus/internal/apiserverfiles"
)

// reference is an object that must exist and be usable.
type reference struct {
	corev1.ObjectReference
	path *field.Path
	// unread references need no permission of the caller, because no content of the object is exposed.
	unread bool
	// content checks the data of a Secret. Only a caller who may read the Secret gets the error.
	content func(map[string][]byte) error
	// file checks a file of an API server, if the object is a ConfigMap with one. Its errors may quote the file.
	file *apiserverfiles.File
}

func local(namespace, apiVersion, kind, name string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name}
}

// namedByShoot returns the references by name in a Shoot that are new or changed. old is empty on creation.
func namedByShoot(shoot, old *corev1beta1.Shoot) []reference {
	var refs []reference
	spec, before, path, namespace := &shoot.Spec, &old.Spec, field.NewPath("spec"), shoot.Namespace
	for i, resource := range spec.Resources {
		if slices.Contains(before.Resources, resource) {
			continue
		}
		ref := resource.ResourceRef
		refs = append(refs, reference{
			ObjectReference: local(namespace, ref.APIVersion, ref.Kind, ref.Name),
			path:            path.Child("resources").Index(i).Child("resourceRef"),
		})
	}
	if dns := spec.DNS; dns != nil && !equality.Semantic.DeepEqual(dns, before.DNS) {
		for i, provider := range dns.Providers {
			if ref := provider.CredentialsRef; ref != nil {
				refs = append(refs, reference{
					ObjectReference: local(namespace, ref.APIVersion, ref.Kind, ref.Name),
					path:            path.Child("dns", "providers").Index(i).Child("credentialsRef"),
				})
			}
		}
	}
	if server := spec.Kubernetes.KubeAPIServer; server != nil &&
		!equality.Semantic.DeepEqual(server, before.Kubernetes.KubeAPIServer) {
		for _, file := range apiserverfiles.Changed(shoot, old) {
			refs = append(refs, reference{
				ObjectReference: local(namespace, "v1", "ConfigMap", file.ConfigMap), path: file.Path, file: &file,
			})
		}
		refs = append(refs, namedByAPIServer(server, before.Kubernetes.KubeAPIServer, namespace,
			path.Child("kubernetes", "kubeAPIServer"))...)
	}
	return refs
}

// namedByAPIServer returns the Secrets with kubeconfigs for the webhooks that the API server calls.
func namedByAPIServer(server, old *corev1beta1.KubeAPIServerConfig, namespace string, path *field.Path) []reference {
	if old == nil {
		old = &corev1beta1.KubeAPIServerConfig{}
	}
	var refs []reference
	if authorization := server.StructuredAuthorization; authorization != nil &&
		!equality.Semantic.DeepEqual(authorization, old.StructuredAuthorization) {
		for i, kubeconfig := range authorization.Kubeconfigs {
			refs = append(refs, reference{
				ObjectReference: local(namespace, "v1", "Secret", kubeconfig.SecretName),
				path:            path.Child("structuredAuthorization", "kubeconfigs").Index(i).Child("secretName"),
				content:         apiserverfiles.Kubeconfig,
			})
		}
	}
	if equality.Semantic.DeepEqual(server.AdmissionPlugins, old.AdmissionPlugins) {
		return refs
	}
	for i, plugin := range server.AdmissionPlugins {
		if plugin.KubeconfigSecretName == nil {
			continue // Validation requires the given ones to be in spec.resources.
		}
		refs = append(refs, reference{
			ObjectReference: local(namespace, "v1", "Secret", *plugin.KubeconfigSecretName),
			path:            path.Child("admissionPlugins").Index(i).Child("kubeconfigSecretName"), content: hasKubeconfig,
		})
	}
	return refs
}

// hasKubeconfig is the only check of a kubeconfig that no API server gets.
func hasKubeconfig(data map[string][]byte) error {
	if len(data[apiserverfiles.KeyKubeconfig]) == 0 {
		return fmt.Errorf("the Secret must have the key %q", apiserverfiles.KeyKubeconfig)
	}
	return nil
}

// check checks that the object exists, that the caller may read it, and that its content is valid.
func (p *plugin) check(ctx context.Context, a admission.Attributes, ref reference) (field.ErrorList, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return field.ErrorList{field.Invalid(ref.path.Child("apiVersion"), ref.APIVersion, err.Error())}, nil
	}
	if !ref.unread {
		allowed, err := p.MayGet(ctx, a.GetUserInfo(), ref.ObjectReference)
		if err != nil {
			return nil, err
		}
		if !allowed {
			return field.ErrorList{
				field.Forbidden(ref.path, fmt.Sprintf("user %q may not get %s %s/%s", a.GetUserInfo().GetName(), ref.Kind,
					ref.Namespace, ref.Name)),
			}, nil
		}
	}
	return p.read(ctx, gv, ref)
}

// read checks that the object exists and that its content is valid.
func (p *plugin) read(ctx context.Context, gv schema.GroupVersion, ref reference) (field.ErrorList, error) {
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	if ref.content != nil {
		secret := &corev1.Secret{}
		if err := p.Garden.Get(ctx, key, secret); err != nil {
			return missing(ref, err)
		}
		if err := ref.content(secret.Data); err != nil {
			return field.ErrorList{field.Invalid(ref.path, ref.Name, err.Error())}, nil
		}
		return nil, nil
	}
	if ref.file != nil {
		configMap := &corev1.ConfigMap{}
		if err := p.Garden.Get(ctx, key, configMap); err != nil {
			return missing(ref, err)
		}
		return ref.file.Validate(configMap.Data), nil
	}
	reader := p.Garden
	if gv.Group == corev1beta1.GroupName || gv.Group == securityv1alpha1.GroupName {
		reader = p.Live
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(gv.WithKind(ref.Kind))
	return missing(ref, reader.Get(ctx, key, object))
}

func missing(ref reference, err error) (field.ErrorList, error) {
	if apierrors.IsNotFound(err) {
		return field.ErrorList{field.NotFound(ref.path, ref.Kind+" "+ref.Namespace+"/"+ref.Name)}, nil
	}
	return nil, err
}

// namedBySeed returns the references of a Seed that are new or changed. old is empty on creation.
func namedBySeed(seed, old *corev1beta1.Seed) []reference {
	var refs []reference
	for i, resource := range seed.Spec.Resources {
		if slices.Contains(old.Spec.Resources, resource) {
			continue
		}
		ref := resource.ResourceRef
		refs = append(refs, reference{
			ObjectReference: local(corev1beta1.GardenNamespace, ref.APIVersion, ref.Kind, ref.Name),
			path:            field.NewPath("spec", "resources").Index(i).Child("resourceRef"), unread: true,
		})
	}
	return refs
}
