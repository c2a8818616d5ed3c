// Package extensionlabels labels objects with the extensions that they use, so that webhooks of extensions can select
// them.
package extensionlabels

import (
	"context"
	"io"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
)

// Name of the plugin.
const Name = "ExtensionLabels"

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{hortusadmission.NewBase(admission.Create, admission.Update)}, nil
}

type plugin struct{ hortusadmission.Base }

// Admit sets the labels of an object.
func (p *plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" {
		return nil
	}
	var used labels
	switch object := a.GetObject().(type) {
	case *corev1beta1.Shoot:
		used = ofShoot(object)
	case *corev1beta1.Seed:
		used = ofSeed(object)
	case *corev1beta1.CloudProfile:
		used.add(corev1beta1.LabelPrefixProvider, object.Spec.Type)
	case *corev1beta1.NamespacedCloudProfile:
		if err := p.Await(a); err != nil {
			return err
		}
		parent := &corev1beta1.CloudProfile{}
		if err := p.Get(ctx, "", object.Spec.Parent.Name, parent); err != nil {
			return nil // Rejected by the plugin resourcereference.
		}
		used.add(corev1beta1.LabelPrefixProvider, parent.Spec.Type)
	case *corev1beta1.SecretBinding:
		if object.Provider != nil {
			used.add(corev1beta1.LabelPrefixProvider, strings.Split(object.Provider.Type, ",")...)
		}
	case *securityv1alpha1.CredentialsBinding:
		used.add(corev1beta1.LabelPrefixProvider, object.Provider.Type)
	case *securityv1alpha1.WorkloadIdentity:
		used.add(corev1beta1.LabelPrefixProvider, object.Spec.TargetSystem.Type)
	case *corev1beta1.BackupBucket:
		used.add(corev1beta1.LabelPrefixProvider, object.Spec.Provider.Type)
	case *corev1beta1.BackupEntry:
		bucket := &corev1beta1.BackupBucket{}
		if err := p.Live.Get(ctx, client.ObjectKey{Name: object.Spec.BucketName}, bucket); err != nil {
			return nil // Rejected by the plugin resourcereference.
		}
		used.add(corev1beta1.LabelPrefixProvider, bucket.Spec.Provider.Type)
	default:
		return nil
	}
	object := a.GetObject().(metav1.Object)
	object.SetLabels(used.replaceIn(object.GetLabels()))
	return nil
}

// labels are the keys of labels that an object must have.
type labels []string

func (l *labels) add(prefix string, types ...string) {
	for _, name := range types {
		// A type that cannot be part of a label is rejected by validation, with a better message.
		if len(validation.IsQualifiedName(prefix+name)) == 0 {
			*l = append(*l, prefix+name)
		}
	}
}

var prefixes = []string{
	corev1beta1.LabelPrefixProvider, corev1beta1.LabelPrefixDNSRecord, corev1beta1.LabelPrefixNetworking,
	corev1beta1.LabelPrefixOperatingSystemConfig, corev1beta1.LabelPrefixContainerRuntime,
	corev1beta1.LabelPrefixExtension,
	corev1beta1.LabelPrefixSelfHostedShootExposure,
}

func (l labels) replaceIn(existing map[string]string) map[string]string {
	result := maps.Clone(existing)
	maps.DeleteFunc(result, func(key, _ string) bool {
		for _, prefix := range prefixes {
			if strings.HasPrefix(key, prefix) {
				return true
			}
		}
		return false
	})
	for _, key := range l {
		if result == nil {
			result = map[string]string{}
		}
		result[key] = "true"
	}
	return result
}

func ofShoot(shoot *corev1beta1.Shoot) labels {
	var used labels
	spec := &shoot.Spec
	used.add(corev1beta1.LabelPrefixProvider, spec.Provider.Type)
	if spec.Networking != nil && spec.Networking.Type != nil {
		used.add(corev1beta1.LabelPrefixNetworking, *spec.Networking.Type)
	}
	if spec.DNS != nil {
		for _, provider := range spec.DNS.Providers {
			if provider.Type != nil && *provider.Type != corev1beta1.DNSUnmanaged {
				used.add(corev1beta1.LabelPrefixDNSRecord, *provider.Type)
			}
		}
	}
	for _, worker := range spec.Provider.Workers {
		if worker.Machine.Image != nil {
			used.add(corev1beta1.LabelPrefixOperatingSystemConfig, worker.Machine.Image.Name)
		}
		if worker.CRI != nil {
			for _, runtime := range worker.CRI.ContainerRuntimes {
				used.add(corev1beta1.LabelPrefixContainerRuntime, runtime.Type)
			}
		}
	}
	addExtensions(&used, spec.Extensions)
	return used
}

func ofSeed(seed *corev1beta1.Seed) labels {
	var used labels
	spec := &seed.Spec
	used.add(corev1beta1.LabelPrefixProvider, spec.Provider.Type)
	if spec.Backup != nil {
		used.add(corev1beta1.LabelPrefixProvider, spec.Backup.Provider)
	}
	if spec.DNS.Provider != nil {
		used.add(corev1beta1.LabelPrefixDNSRecord, spec.DNS.Provider.Type)
	}
	if spec.DNS.Internal != nil {
		used.add(corev1beta1.LabelPrefixDNSRecord, spec.DNS.Internal.Type)
	}
	for _, domain := range spec.DNS.Defaults {
		used.add(corev1beta1.LabelPrefixDNSRecord, domain.Type)
	}
	addExtensions(&used, spec.Extensions)
	return used
}

func addExtensions(used *labels, extensions []corev1beta1.Extension) {
	for _, extension := range extensions {
		if extension.Disabled == nil || !*extension.Disabled {
			used.add(corev1beta1.LabelPrefixExtension, extension.Type)
		}
	}
}
