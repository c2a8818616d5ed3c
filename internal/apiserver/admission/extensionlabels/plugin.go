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

func (l labels) replaceIn(existing map[string]string) map[string]string {
	result := maps.Clone(existing)
	for _, kind := range corev1beta1.ExtensionKinds() {
		prefix := corev1beta1.LabelPrefixOfKind(kind)
		maps.DeleteFunc(result, func(key, _ string) bool { return strings.HasPrefix(key, prefix) })
	}
	for _, key := range l {
		if result == nil {
			result = map[string]string{}
		}
		result[key] = "true"
	}
	return result
}

func ofShoot(shoot *corev1beta1.Shoot) labels {
	used := labelsOf(shoot.UsedExtensions())
	// Without workers, a Shoot has no objects of these types, but is labelled like others.
	used.add(corev1beta1.LabelPrefixProvider, shoot.Spec.Provider.Type)
	if n := shoot.Spec.Networking; n != nil && n.Type != nil {
		used.add(corev1beta1.LabelPrefixNetworking, *n.Type)
	}
	return used
}

func ofSeed(seed *corev1beta1.Seed) labels {
	used := labelsOf(seed.UsedExtensions())
	used.add(corev1beta1.LabelPrefixProvider, seed.Spec.Provider.Type) // No object has it.
	return used
}

func labelsOf(extensions []corev1beta1.UsedExtension) labels {
	var used labels
	for _, e := range extensions {
		used.add(corev1beta1.LabelPrefixOfKind(e.Kind), e.Type)
	}
	return used
}
