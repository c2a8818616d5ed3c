// Package extensionvalidator requires a registered extension for each type that an object uses. Without an extension
// the object would never be reconciled.
package extensionvalidator

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
)

// Name of the plugin.
const Name = "ExtensionValidator"

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{hortusadmission.NewBase(admission.Create, admission.Update)}, nil
}

type plugin struct{ hortusadmission.Base }

// Validate compares the types that an object uses with the registered types.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" {
		return nil
	}
	uses := used(a)
	if len(uses) == 0 {
		return nil
	}
	if err := p.Await(a); err != nil {
		return err
	}
	var errs field.ErrorList
	for _, reader := range []client.Reader{p.Cached, p.Live} { // The cache may not have a new registration yet.
		registrations := &corev1beta1.ControllerRegistrationList{}
		if err := reader.List(ctx, registrations); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("list ControllerRegistrations: %w", err))
		}
		if errs = missing(uses, offersOf(registrations.Items)); len(errs) == 0 {
			return nil
		}
	}
	return hortusadmission.Forbid(a, errs)
}

// used returns the types that an object uses; none if it is being deleted or its spec does not change.
func used(a admission.Attributes) []use {
	object, ok := a.GetObject().(metav1.Object)
	if !ok || object.GetDeletionTimestamp() != nil {
		return nil
	}
	if a.GetOperation() == admission.Update &&
		equality.Semantic.DeepEqual(specOf(a.GetObject()), specOf(a.GetOldObject())) {
		return nil
	}
	return usesOf(a.GetObject())
}

func specOf(object runtime.Object) any {
	switch object := object.(type) {
	case *corev1beta1.Shoot:
		return &object.Spec
	case *corev1beta1.Seed:
		return &object.Spec
	case *corev1beta1.BackupBucket:
		return &object.Spec
	}
	return nil
}

func usesOf(object runtime.Object) []use {
	switch object := object.(type) {
	case *corev1beta1.Shoot:
		return ofShoot(object)
	case *corev1beta1.Seed:
		return ofSeed(object)
	case *corev1beta1.BackupBucket:
		return []use{{UsedExtension: corev1beta1.UsedExtension{
			Kind: extensionsv1alpha1.BackupBucketKind, Type: object.Spec.Provider.Type,
			Path: field.NewPath("spec", "provider", "type"),
		}}}
	}
	return nil
}

// use is a type that an object uses.
type use struct {
	corev1beta1.UsedExtension
	cluster    corev1beta1.ClusterType // That must support the type; kind Extension only.
	workerless bool                    // The object is a workerless Shoot.
}

func ofShoot(shoot *corev1beta1.Shoot) []use {
	return uses(shoot.UsedExtensions(), corev1beta1.ClusterTypeShoot, !shoot.HasWorkers())
}

func ofSeed(seed *corev1beta1.Seed) []use {
	return uses(seed.UsedExtensions(), corev1beta1.ClusterTypeSeed, false)
}

func uses(extensions []corev1beta1.UsedExtension, cluster corev1beta1.ClusterType, workerless bool) []use {
	var all []use
	for _, e := range extensions {
		all = append(all, use{e, cluster, workerless})
	}
	return all
}

// offer describes a registered type.
type offer struct {
	clusters   []corev1beta1.ClusterType // For kind Extension.
	workerless bool
}

type key struct{ kind, name string }

func offersOf(registrations []corev1beta1.ControllerRegistration) map[key]offer {
	offers := map[key]offer{}
	for _, registration := range registrations {
		if registration.DeletionTimestamp != nil {
			continue
		}
		for _, resource := range registration.Spec.Resources {
			if resource.Primary == nil || *resource.Primary {
				offers[key{resource.Kind, resource.Type}] = offer{
					resource.ClusterCompatibility, resource.WorkerlessSupported != nil && *resource.WorkerlessSupported,
				}
			}
		}
	}
	return offers
}

func missing(uses []use, registered map[key]offer) field.ErrorList {
	var errs field.ErrorList
	for _, use := range uses {
		offer, ok := registered[key{use.Kind, use.Type}]
		switch {
		case !ok:
			errs = append(errs, field.Invalid(use.Path, use.Type,
				fmt.Sprintf("no extension registered for %s/%s (available: %s)", use.Kind, use.Type,
					typesOf(use.Kind, registered))))
		case use.Kind == extensionsv1alpha1.ExtensionKind && !slices.Contains(offer.clusters, use.cluster):
			errs = append(errs, field.Invalid(use.Path, use.Type,
				fmt.Sprintf("the extension does not support clusters of type %s (available: %s)", use.cluster,
					joined(offer.clusters))))
		case use.workerless && use.Kind == extensionsv1alpha1.ExtensionKind && !offer.workerless:
			errs = append(errs, field.Invalid(use.Path, use.Type, "the extension does not support Shoots without workers"))
		}
	}
	return errs
}

func joined(clusters []corev1beta1.ClusterType) string {
	var names []string
	for _, cluster := range clusters {
		names = append(names, string(cluster))
	}
	return strings.Join(names, ", ")
}

// typesOf lists the registered types of a kind.
func typesOf(kind string, registered map[key]offer) string {
	var names []string
	for offered := range registered {
		if offered.kind == kind {
			names = append(names, offered.name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return hortusadmission.Named(names)
}
