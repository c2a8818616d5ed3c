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
	uses := asked(a)
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

// asked returns the types that an object uses; none if it is being deleted or its spec does not change.
func asked(a admission.Attributes) []use {
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
	path := field.NewPath("spec")
	switch object := object.(type) {
	case *corev1beta1.Shoot:
		return ofShoot(object)
	case *corev1beta1.Seed:
		return ofSeed(object)
	case *corev1beta1.BackupBucket:
		return []use{{kind: "BackupBucket", name: object.Spec.Provider.Type, path: path.Child("provider", "type")}}
	}
	return nil
}

func ofSeed(seed *corev1beta1.Seed) []use {
	spec, path := &seed.Spec, field.NewPath("spec")
	var uses []use
	add := func(kind, name string, path *field.Path) {
		if name != "" {
			uses = append(uses, use{kind: kind, name: name, path: path, cluster: corev1beta1.ClusterTypeSeed})
		}
	}
	if spec.Backup != nil {
		add("BackupBucket", spec.Backup.Provider, path.Child("backup", "provider"))
		add("BackupEntry", spec.Backup.Provider, path.Child("backup", "provider"))
	}
	if spec.DNS.Provider != nil {
		add("DNSRecord", spec.DNS.Provider.Type, path.Child("dns", "provider", "type"))
	}
	if spec.DNS.Internal != nil {
		add("DNSRecord", spec.DNS.Internal.Type, path.Child("dns", "internal", "type"))
	}
	for i, domain := range spec.DNS.Defaults {
		add("DNSRecord", domain.Type, path.Child("dns", "defaults").Index(i).Child("type"))
	}
	for i, extension := range spec.Extensions {
		if extension.Disabled == nil || !*extension.Disabled {
			add("Extension", extension.Type, path.Child("extensions").Index(i).Child("type"))
		}
	}
	return uses
}

// use is a type that an object uses.
type use struct {
	kind, name string
	path       *field.Path
	cluster    corev1beta1.ClusterType // That must support the type; kind Extension only.
	workerless bool                    // The object is a workerless Shoot.
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
		offer, ok := registered[key{use.kind, use.name}]
		switch {
		case !ok:
			errs = append(errs, field.Invalid(use.path, use.name,
				fmt.Sprintf("no extension registered for %s/%s (available: %s)", use.kind, use.name,
					typesOf(use.kind, registered))))
		case use.kind == "Extension" && !slices.Contains(offer.clusters, use.cluster):
			errs = append(errs, field.Invalid(use.path, use.name,
				fmt.Sprintf("the extension does not support clusters of type %s (available: %s)", use.cluster,
					joined(offer.clusters))))
		case use.workerless && use.kind == "Extension" && !offer.workerless:
			errs = append(errs, field.Invalid(use.path, use.name, "the extension does not support Shoots without workers"))
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

func ofShoot(shoot *corev1beta1.Shoot) []use {
	spec, path := &shoot.Spec, field.NewPath("spec")
	workers := shoot.HasWorkers()
	var uses []use
	add := func(kind, name string, path *field.Path) {
		if name != "" {
			uses = append(uses, use{kind, name, path, corev1beta1.ClusterTypeShoot, !workers})
		}
	}
	if workers {
		for _, kind := range []string{"ControlPlane", "Infrastructure", "Worker"} {
			add(kind, spec.Provider.Type, path.Child("provider", "type"))
		}
		if spec.Networking != nil && spec.Networking.Type != nil {
			add("Network", *spec.Networking.Type, path.Child("networking", "type"))
		}
	}
	for i, worker := range spec.Provider.Workers {
		path := path.Child("provider", "workers").Index(i)
		if worker.Machine.Image != nil {
			add("OperatingSystemConfig", worker.Machine.Image.Name, path.Child("machine", "image", "name"))
		}
		if worker.CRI == nil {
			continue
		}
		for j, runtime := range worker.CRI.ContainerRuntimes {
			add("ContainerRuntime", runtime.Type, path.Child("cri", "containerRuntimes").Index(j).Child("type"))
		}
	}
	for i, extension := range spec.Extensions {
		if extension.Disabled == nil || !*extension.Disabled {
			add("Extension", extension.Type, path.Child("extensions").Index(i).Child("type"))
		}
	}
	if spec.DNS != nil {
		for i, provider := range spec.DNS.Providers {
			if provider.Type != nil && *provider.Type != corev1beta1.DNSUnmanaged {
				add("DNSRecord", *provider.Type, path.Child("dns", "providers").Index(i).Child("type"))
			}
		}
	}
	return uses
}
