package maintenance

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/cloudprofile"
)

// Profiles compiles each profile once and keeps it until the object changes. Safe for concurrent use.
type Profiles struct {
	mu       sync.Mutex
	compiled map[types.NamespacedName]entry // A CloudProfile has no namespace.
}

type entry struct {
	uid             types.UID
	resourceVersion string
	profile         *cloudprofile.Profile
}

// Of returns the compiled profile that the Shoot refers to.
func (p *Profiles) Of(ctx context.Context, c client.Reader, shoot *corev1beta1.Shoot) (*cloudprofile.Profile, error) {
	ref := shoot.Spec.CloudProfile
	switch {
	case ref != nil && ref.Kind == corev1beta1.NamespacedCloudProfileKind:
		profile := &corev1beta1.NamespacedCloudProfile{}
		key := types.NamespacedName{Namespace: shoot.Namespace, Name: ref.Name}
		if err := c.Get(ctx, key, profile); err != nil {
			return nil, fmt.Errorf("get NamespacedCloudProfile %s: %w", key, err)
		}
		return p.of(key, profile, &profile.Status.CloudProfileSpec)
	case ref != nil:
		return p.cluster(ctx, c, ref.Name)
	case shoot.Spec.CloudProfileName != nil:
		return p.cluster(ctx, c, *shoot.Spec.CloudProfileName)
	}
	return nil, fmt.Errorf("Shoot refers to no CloudProfile")
}

func (p *Profiles) cluster(ctx context.Context, c client.Reader, name string) (*cloudprofile.Profile, error) {
	profile := &corev1beta1.CloudProfile{}
	key := types.NamespacedName{Name: name}
	if err := c.Get(ctx, key, profile); err != nil {
		return nil, fmt.Errorf("get CloudProfile %q: %w", name, err)
	}
	return p.of(key, profile, &profile.Spec)
}

func (p *Profiles) of(
	key types.NamespacedName, object client.Object, spec *corev1beta1.CloudProfileSpec,
) (*cloudprofile.Profile, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e, ok := p.compiled[key]; ok && e.uid == object.GetUID() && e.resourceVersion == object.GetResourceVersion() {
		return e.profile, nil
	}
	profile, err := cloudprofile.Compile(object.GetName(), spec)
	if err != nil {
		return nil, err
	}
	if p.compiled == nil {
		p.compiled = map[types.NamespacedName]entry{}
	}
	p.compiled[key] = entry{object.GetUID(), object.GetResourceVersion(), profile}
	return profile, nil
}
