// Package seedrestriction lets a gardenlet write only objects of its own Seed, and only references to objects that it
// may read. The seed authorizer decides by names and stored objects; this plugin checks the content of a write. An
// attacker who controls one Seed gains no access to the others.
package seedrestriction

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
	"hortus.dev/hortus/internal/apiserver/seedauthorizer"
)

// Name of the plugin.
const Name = "SeedRestriction"

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{Base: hortusadmission.NewBase(admission.Create, admission.Update, admission.Delete)}, nil
}

type plugin struct {
	hortusadmission.Base
	// mayRead reports whether the gardenlet of a Seed may read an object.
	mayRead func(context.Context, string, seedauthorizer.Ref) bool
}

// NewInitializer passes the relations between Seeds and objects to the plugin.
func NewInitializer(seeds *seedauthorizer.Authorizer) admission.PluginInitializer {
	return initializer{seeds}
}

type initializer struct{ seeds *seedauthorizer.Authorizer }

func (i initializer) Initialize(a admission.Interface) {
	if p, ok := a.(*plugin); ok {
		p.mayRead = i.seeds.MayRead
	}
}

// ValidateInitialization implements admission.InitializationValidator.
func (p *plugin) ValidateInitialization() error {
	if p.mayRead == nil {
		return errors.New("the plugin does not know what gardenlets may read")
	}
	return p.Base.ValidateInitialization()
}

// Validate checks a write by a gardenlet.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	seed, extension, confined := seedauthorizer.Identify(a.GetUserInfo())
	if !confined || extension { // Their roles allow extensions to write none of our own kinds.
		return nil
	}
	if a.GetResource().Resource == "workloadidentities" && a.GetSubresource() == "token" {
		return nil // It changes nothing, and only its name can be checked.
	}
	object, old := a.GetObject(), a.GetOldObject()
	if a.GetOperation() == admission.Create {
		old = nil
	}
	allowed, err := p.belongs(ctx, a, seed, object, old)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if !allowed {
		return admission.NewForbidden(a, fmt.Errorf("the gardenlet of Seed %q may not write objects of others", seed))
	}
	if a.GetOperation() == admission.Delete {
		return nil
	}
	if specs := fixed(object, old); specs != nil && !equality.Semantic.DeepEqual(specs[0], specs[1]) {
		return admission.NewForbidden(a, fmt.Errorf("gardenlets may not change the spec"))
	}
	leaving, err := p.leaving(ctx, seed, object, old)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if leaving {
		return admission.NewForbidden(a, fmt.Errorf("ManagedSeed %q is being deleted", seed))
	}
	refused, err := p.newReference(ctx, seed, object, old)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if refused != "" {
		return admission.NewForbidden(a, fmt.Errorf("the gardenlet of Seed %q may not refer to %s", seed, refused))
	}
	return nil
}

// fixed returns the old and new spec of objects of which a gardenlet writes only the status.
func fixed(object, old runtime.Object) []any {
	switch before := old.(type) {
	case *corev1beta1.ControllerInstallation:
		return []any{object.(*corev1beta1.ControllerInstallation).Spec, before.Spec}
	case *seedmanagementv1alpha1.ManagedSeed:
		return []any{object.(*seedmanagementv1alpha1.ManagedSeed).Spec, before.Spec}
	case *seedmanagementv1alpha1.Gardenlet:
		return []any{object.(*seedmanagementv1alpha1.Gardenlet).Spec, before.Spec}
	case *operationsv1alpha1.Bastion:
		return []any{object.(*operationsv1alpha1.Bastion).Spec, before.Spec}
	}
	return nil
}

// newReference returns an object that the write newly refers to and the gardenlet may not read: the reference would
// make it readable. References of a new Seed, which nobody could read before, need the annotation AnnotationSeeds.
func (p *plugin) newReference(ctx context.Context, seed string, object, old runtime.Object) (string, error) {
	_, node, _ := seedauthorizer.Of(object)
	var before seedauthorizer.Node
	if old != nil {
		_, before, _ = seedauthorizer.Of(old)
	}
	for _, ref := range node.Needs {
		if slices.Contains(before.Needs, ref) || p.mayRead(ctx, seed, ref) {
			continue
		}
		name := fmt.Sprintf("%s %s/%s", ref.Kind, ref.Namespace, ref.Name)
		if _, isSeed := object.(*corev1beta1.Seed); !isSeed {
			return name, nil
		}
		offered, err := p.offered(ctx, seed, ref)
		if err == nil && !offered {
			offered, err = p.configured(ctx, seed, ref)
		}
		if err != nil {
			return "", err
		}
		if !offered {
			return fmt.Sprintf("%s: does not exist, or lacks the annotation %s with the name of the Seed, and no ManagedSeed "+
				"refers to it", name, AnnotationSeeds), nil
		}
	}
	return "", nil
}

// AnnotationSeeds on credentials lists the Seeds, separated by commas, whose gardenlets may register a Seed that refers
// to them; * allows all.
const AnnotationSeeds = "hortus.dev/seeds"

func (p *plugin) offered(ctx context.Context, seed string, ref seedauthorizer.Ref) (bool, error) {
	object, reader := &metav1.PartialObjectMetadata{}, p.Live
	switch ref.Kind {
	case seedauthorizer.Secret, seedauthorizer.ConfigMap:
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(string(ref.Kind)))
		reader = p.Garden
	case seedauthorizer.WorkloadIdentity:
		object.SetGroupVersionKind(securityv1alpha1.SchemeGroupVersion.WithKind(string(ref.Kind)))
	default:
		object.SetGroupVersionKind(corev1beta1.SchemeGroupVersion.WithKind(string(ref.Kind)))
	}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, object); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	for _, name := range strings.Split(object.Annotations[AnnotationSeeds], ",") {
		if name = strings.TrimSpace(name); name == seed || name == "*" {
			return true, nil
		}
	}
	return false, nil
}

// configured reports whether the ManagedSeed of a Seed refers to an object: operators write ManagedSeeds, and decide
// what their Seeds refer to.
func (p *plugin) configured(ctx context.Context, seed string, ref seedauthorizer.Ref) (bool, error) {
	managed, err := p.managedSeed(ctx, seed)
	if managed == nil {
		return false, err
	}
	_, node, _ := seedauthorizer.Of(managed)
	return slices.Contains(node.Needs, ref), nil
}

// leaving reports whether a write registers a Seed whose ManagedSeed is being deleted. The gardenlet, which would have
// to release the Seed, is removed once there is no Seed: one that is registered afterwards would never go away.
func (p *plugin) leaving(ctx context.Context, seed string, object, old runtime.Object) (bool, error) {
	if _, isSeed := object.(*corev1beta1.Seed); !isSeed || old != nil {
		return false, nil
	}
	managed, err := p.managedSeed(ctx, seed)
	return managed != nil && managed.DeletionTimestamp != nil, err
}

// managedSeed returns the ManagedSeed of a Seed; nil if there is none.
func (p *plugin) managedSeed(ctx context.Context, seed string) (*seedmanagementv1alpha1.ManagedSeed, error) {
	managed := &seedmanagementv1alpha1.ManagedSeed{}
	err := p.Live.Get(ctx, client.ObjectKey{Namespace: corev1beta1.GardenNamespace, Name: seed}, managed)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return managed, nil
}

// belongs reports whether an object belongs to a Seed before and after the write. During a control plane migration,
// objects that move belong to two Seeds.
func (p *plugin) belongs(
	ctx context.Context, a admission.Attributes, seed string, object, old runtime.Object,
) (bool, error) {
	present := old // A deletion has only the old object.
	if present == nil {
		present = object
	}
	switch present := present.(type) {
	case *corev1beta1.Seed:
		if present.Name == seed || a.GetOperation() != admission.Delete {
			return present.Name == seed, nil
		}
		managed, err := p.managedSeed(ctx, present.Name)
		if managed == nil || managed.DeletionTimestamp == nil || managed.Spec.Shoot == nil {
			return false, err
		}
		return p.shootOnSeed(ctx, managed.Namespace, managed.Spec.Shoot.Name, seed)
	case *corev1beta1.Shoot:
		if a.GetOperation() != admission.Update || a.GetSubresource() == "binding" || !onSeed(present, seed) {
			return false, nil
		}
		after, before := object.(*corev1beta1.Shoot).Status.SeedName, present.Status.SeedName
		if ptr.Deref(present.Spec.SeedName, "") != seed &&
			(ptr.Deref(after, "") == "" || ptr.Deref(after, "") == ptr.Deref(present.Spec.SeedName, "")) {
			return true, nil // The control plane has left this Seed and is handed over to its destination.
		}
		return is(after, seed) || ptr.Deref(after, "") == ptr.Deref(before, ""), nil
	case *corev1beta1.BackupBucket:
		if after, ok := object.(*corev1beta1.BackupBucket); ok && !is(after.Spec.SeedName, seed) {
			return false, nil
		}
		return is(present.Spec.SeedName, seed), nil
	case *corev1beta1.BackupEntry:
		if is(present.Spec.SeedName, seed) || is(present.Status.SeedName, seed) {
			return true, nil
		}
		return p.runsShootOf(ctx, present, seed)
	case *corev1beta1.ControllerInstallation:
		return present.Spec.SeedRef != nil && present.Spec.SeedRef.Name == seed, nil
	case *operationsv1alpha1.Bastion:
		return a.GetOperation() != admission.Create && is(present.Spec.SeedName, seed), nil
	case *corev1beta1.ShootState:
		return p.shootOnSeed(ctx, present.Namespace, present.Name, seed)
	case *corev1beta1.InternalSecret:
		shoot, _, ok := strings.Cut(present.Name, ".")
		if !ok {
			return false, nil
		}
		return p.shootOnSeed(ctx, present.Namespace, shoot, seed)
	case *seedmanagementv1alpha1.ManagedSeed:
		if a.GetOperation() != admission.Update || present.Spec.Shoot == nil {
			return false, nil
		}
		return p.shootOnSeed(ctx, present.Namespace, present.Spec.Shoot.Name, seed)
	case *seedmanagementv1alpha1.Gardenlet:
		return a.GetOperation() == admission.Update && present.Name == seed, nil
	}
	return false, nil
}

func (p *plugin) shootOnSeed(ctx context.Context, namespace, name, seed string) (bool, error) {
	shoot := &corev1beta1.Shoot{}
	err := p.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, shoot)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && onSeed(shoot, seed), err
}

// runsShootOf reports whether the Shoot of a BackupEntry has its control plane on a Seed. Its Seed decides where its
// backups are.
func (p *plugin) runsShootOf(ctx context.Context, entry *corev1beta1.BackupEntry, seed string) (bool, error) {
	for _, owner := range entry.OwnerReferences {
		if owner.Kind != "Shoot" {
			continue
		}
		shoot := &corev1beta1.Shoot{}
		err := p.Live.Get(ctx, client.ObjectKey{Namespace: entry.Namespace, Name: owner.Name}, shoot)
		if err != nil {
			return false, client.IgnoreNotFound(err)
		}
		return shoot.UID == owner.UID && is(shoot.Status.SeedName, seed), nil
	}
	return false, nil
}

// onSeed reports whether a control plane is on a Seed or is to move there.
func onSeed(shoot *corev1beta1.Shoot, seed string) bool {
	return is(shoot.Spec.SeedName, seed) || is(shoot.Status.SeedName, seed)
}

func is(name *string, seed string) bool { return name != nil && *name == seed }
