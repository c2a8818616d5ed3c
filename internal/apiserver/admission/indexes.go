package admission

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
)

// Indexes of the caches. With them no decision scans all objects of a kind.
const (
	indexNamespace   = "namespace"    // Projects by their namespace.
	indexSeed        = "seed"         // Shoots by the Seeds of spec and status.
	indexBinding     = "binding"      // Shoots by BindingKey.
	indexDomain      = "domain"       // Shoots by their domain.
	indexDomainBelow = "domain-below" // Shoots by all parent domains of their domain.
	indexCredentials = "credentials"  // Bindings by kind, namespace and name of the credentials they refer to.
	indexShoot       = "shoot"        // ManagedSeeds by the name of their Shoot.
)

// BindingKey names a binding of either kind.
func BindingKey(secretBinding bool, name string) string {
	if secretBinding {
		return "SecretBinding/" + name
	}
	return "CredentialsBinding/" + name
}

func credentialsKey(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

type index struct {
	object client.Object
	name   string
	keys   client.IndexerFunc
}

func indexes() []index {
	return []index{
		{&corev1beta1.Project{}, indexNamespace, func(o client.Object) []string {
			return given(o.(*corev1beta1.Project).Spec.Namespace)
		}},
		{&corev1beta1.Shoot{}, indexSeed, func(o client.Object) []string {
			shoot := o.(*corev1beta1.Shoot)
			keys := given(shoot.Spec.SeedName)
			if status := given(shoot.Status.SeedName); len(keys) == 0 || len(status) > 0 && status[0] != keys[0] {
				keys = append(keys, status...)
			}
			return keys
		}},
		{&corev1beta1.Shoot{}, indexBinding, func(o client.Object) []string {
			var keys []string
			for _, name := range given(o.(*corev1beta1.Shoot).Spec.SecretBindingName) {
				keys = append(keys, BindingKey(true, name))
			}
			for _, name := range given(o.(*corev1beta1.Shoot).Spec.CredentialsBindingName) {
				keys = append(keys, BindingKey(false, name))
			}
			return keys
		}},
		{&corev1beta1.Shoot{}, indexDomain, func(o client.Object) []string { return domainOf(o.(*corev1beta1.Shoot)) }},
		{&corev1beta1.Shoot{}, indexDomainBelow, func(o client.Object) []string {
			var parents []string
			for _, domain := range domainOf(o.(*corev1beta1.Shoot)) {
				parents = append(parents, parentsOf(domain)...)
			}
			return parents
		}},
		{&corev1beta1.SecretBinding{}, indexCredentials, func(o client.Object) []string {
			ref := o.(*corev1beta1.SecretBinding).SecretRef
			return []string{credentialsKey("Secret", ref.Namespace, ref.Name)}
		}},
		{&securityv1alpha1.CredentialsBinding{}, indexCredentials, func(o client.Object) []string {
			ref := o.(*securityv1alpha1.CredentialsBinding).CredentialsRef
			return []string{credentialsKey(ref.Kind, ref.Namespace, ref.Name)}
		}},
		{&seedmanagementv1alpha1.ManagedSeed{}, indexShoot, func(o client.Object) []string {
			if shoot := o.(*seedmanagementv1alpha1.ManagedSeed).Spec.Shoot; shoot != nil {
				return []string{shoot.Name}
			}
			return nil
		}},
	}
}

func given(s *string) []string {
	if s == nil || *s == "" {
		return nil
	}
	return []string{*s}
}

func domainOf(shoot *corev1beta1.Shoot) []string {
	if shoot.Spec.DNS == nil {
		return nil
	}
	return given(shoot.Spec.DNS.Domain)
}

// parentsOf returns the parent domains of a domain, the nearest first.
func parentsOf(domain string) []string {
	var parents []string
	for {
		_, parent, found := strings.Cut(domain, ".")
		if !found {
			return parents
		}
		parents, domain = append(parents, parent), parent
	}
}

// keepOfShoot reduces cached Shoots to the fields that decisions about other objects need: identity, placement, domain,
// and the fields that count against quotas. A garden may have many Shoots.
func keepOfShoot(o any) (any, error) {
	shoot, ok := o.(*corev1beta1.Shoot)
	if !ok {
		return o, nil // A tombstone.
	}
	kept := &corev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: shoot.Namespace, Name: shoot.Name, UID: shoot.UID, ResourceVersion: shoot.ResourceVersion,
			DeletionTimestamp: shoot.DeletionTimestamp,
		},
		Spec: corev1beta1.ShootSpec{
			CloudProfile: shoot.Spec.CloudProfile, SeedName: shoot.Spec.SeedName,
			SecretBindingName: shoot.Spec.SecretBindingName, CredentialsBindingName: shoot.Spec.CredentialsBindingName,
			Provider: corev1beta1.Provider{Type: shoot.Spec.Provider.Type},
		},
		Status: corev1beta1.ShootStatus{SeedName: shoot.Status.SeedName},
	}
	if domain := domainOf(shoot); domain != nil {
		kept.Spec.DNS = &corev1beta1.DNS{Domain: &domain[0]}
	}
	if addons := shoot.Spec.Addons; addons != nil && addons.NginxIngress != nil {
		kept.Spec.Addons = &corev1beta1.Addons{NginxIngress: &corev1beta1.NginxIngress{Addon: addons.NginxIngress.Addon}}
	}
	for _, worker := range shoot.Spec.Provider.Workers {
		kept.Spec.Provider.Workers = append(kept.Spec.Provider.Workers, corev1beta1.Worker{
			Name: worker.Name, Machine: corev1beta1.Machine{Type: worker.Machine.Type},
			Minimum: worker.Minimum, Maximum: worker.Maximum, Volume: worker.Volume,
		})
	}
	return kept, nil
}

func (o *Objects) shootsBy(
	ctx context.Context, index, key string, options ...client.ListOption,
) ([]corev1beta1.Shoot, error) {
	shoots := &corev1beta1.ShootList{}
	options = append(options, client.MatchingFields{index: key}, client.UnsafeDisableDeepCopy)
	if err := o.Cached.List(ctx, shoots, options...); err != nil {
		return nil, fmt.Errorf("list Shoots by %s: %w", index, err)
	}
	return shoots.Items, nil
}

// ShootsOnSeed returns the Shoots whose control plane is on a Seed or is to move there, reduced to the fields that
// keepOfShoot keeps. The objects are shared with the cache and must not be changed.
func (o *Objects) ShootsOnSeed(ctx context.Context, seed string) ([]corev1beta1.Shoot, error) {
	return o.shootsBy(ctx, indexSeed, seed)
}

// ShootsOfBinding is ShootsOnSeed for the Shoots that use a binding.
func (o *Objects) ShootsOfBinding(ctx context.Context, namespace, key string) ([]corev1beta1.Shoot, error) {
	return o.shootsBy(ctx, indexBinding, key, client.InNamespace(namespace))
}

// ShootsInNamespace is ShootsOnSeed for the Shoots of a project.
func (o *Objects) ShootsInNamespace(ctx context.Context, namespace string) ([]corev1beta1.Shoot, error) {
	shoots := &corev1beta1.ShootList{}
	if err := o.Cached.List(ctx, shoots, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Shoots of namespace %q: %w", namespace, err)
	}
	return shoots.Items, nil
}

// ShootsWithCredentials is ShootsOnSeed for the Shoots of all projects whose bindings refer to the same credentials.
func (o *Objects) ShootsWithCredentials(ctx context.Context, ref corev1.ObjectReference) ([]corev1beta1.Shoot, error) {
	byCredentials := []client.ListOption{client.MatchingFields{
		indexCredentials: credentialsKey(ref.Kind, ref.Namespace, ref.Name),
	}, client.UnsafeDisableDeepCopy}
	secretBindings, credentialsBindings := &corev1beta1.SecretBindingList{}, &securityv1alpha1.CredentialsBindingList{}
	if err := o.Cached.List(ctx, secretBindings, byCredentials...); err != nil {
		return nil, fmt.Errorf("list SecretBindings: %w", err)
	}
	if err := o.Cached.List(ctx, credentialsBindings, byCredentials...); err != nil {
		return nil, fmt.Errorf("list CredentialsBindings: %w", err)
	}
	var all []corev1beta1.Shoot
	for i := range secretBindings.Items {
		shoots, err := o.ShootsOfBinding(ctx, secretBindings.Items[i].Namespace,
			BindingKey(true, secretBindings.Items[i].Name))
		if err != nil {
			return nil, err
		}
		all = append(all, shoots...)
	}
	for i := range credentialsBindings.Items {
		shoots, err := o.ShootsOfBinding(ctx, credentialsBindings.Items[i].Namespace,
			BindingKey(false, credentialsBindings.Items[i].Name))
		if err != nil {
			return nil, err
		}
		all = append(all, shoots...)
	}
	return all, nil
}

// ShootsAround returns the Shoots whose domain is the given one, or a parent or subdomain of it.
func (o *Objects) ShootsAround(ctx context.Context, domain string) ([]corev1beta1.Shoot, error) {
	all, err := o.shootsBy(ctx, indexDomainBelow, domain)
	if err != nil {
		return nil, err
	}
	for _, exactly := range append(parentsOf(domain), domain) {
		shoots, err := o.shootsBy(ctx, indexDomain, exactly)
		if err != nil {
			return nil, err
		}
		all = append(all, shoots...)
	}
	return all, nil
}

// ManagedSeedOf returns the ManagedSeed that makes a Shoot a Seed, or nil. It is read from the API server if the cache
// has none.
func (o *Objects) ManagedSeedOf(
	ctx context.Context, namespace, shoot string,
) (*seedmanagementv1alpha1.ManagedSeed, error) {
	if namespace != corev1beta1.GardenNamespace {
		return nil, nil // Shoots of other namespaces cannot be Seeds.
	}
	list := &seedmanagementv1alpha1.ManagedSeedList{}
	if err := o.Cached.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{indexShoot: shoot},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list ManagedSeeds: %w", err)
	}
	if len(list.Items) == 0 {
		if err := o.Live.List(ctx, list, client.InNamespace(namespace),
			client.MatchingFields{"spec.shoot.name": shoot}); err != nil {
			return nil, fmt.Errorf("list ManagedSeeds: %w", err)
		}
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	return &list.Items[0], nil
}
