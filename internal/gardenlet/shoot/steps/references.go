package steps

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/flow"
)

// referencePrefix is put before the names of copied objects, so that a user's name cannot hit one of ours.
const referencePrefix = "ref-"

var (
	// References copies the objects that the Shoot lists as resources into its control plane namespace, for extensions.
	References = &flow.Step[*Scope]{
		Name:   "references",
		After:  []*flow.Step[*Scope]{Namespace},
		Ensure: use3(ensureReferences),
	}
	// StaleReferences deletes the copies of objects that the Shoot lists no more. It is one of the last steps of
	// [Reconcile]: until then, objects of extensions may refer to them.
	StaleReferences = &flow.Step[*Scope]{
		Name:   "stale-references",
		SkipIf: when(asleep),
		Ensure: use2(ensureStaleReferences),
	}
)

func ensureReferences(
	ctx context.Context, s *Values, seed *SeedNamespace, garden *GardenNamespace,
) (flow.Outcome, error) {
	for _, r := range s.Shoot.Spec.Resources {
		o, err := referencedCopy(ctx, s, garden, r)
		if err != nil {
			return flow.Outcome{}, err
		}
		if err := seed.apply(ctx, o); err != nil {
			return flow.Outcome{}, err
		}
	}
	return flow.Done(), nil
}

func ensureStaleReferences(ctx context.Context, s *Values, seed *SeedNamespace) (flow.Outcome, error) {
	wanted := map[string]bool{}
	for _, r := range s.Shoot.Spec.Resources {
		wanted[r.ResourceRef.Kind+"/"+referencePrefix+r.ResourceRef.Name] = true
	}
	secrets, configMaps := &corev1.SecretList{}, &corev1.ConfigMapList{}
	for _, list := range []client.ObjectList{secrets, configMaps} {
		if err := seed.List(ctx, list, client.InNamespace(s.Namespace),
			client.MatchingLabels{corev1beta1.LabelRole: corev1beta1.RoleResourceReference}); err != nil {
			return flow.Outcome{}, fmt.Errorf("list copies of resources of the Shoot: %w", err)
		}
	}
	var stale []client.Object
	for i := range secrets.Items {
		if o := &secrets.Items[i]; !wanted["Secret/"+o.Name] {
			stale = append(stale, o)
		}
	}
	for i := range configMaps.Items {
		if o := &configMaps.Items[i]; !wanted["ConfigMap/"+o.Name] {
			stale = append(stale, o)
		}
	}
	_, err := seed.remove(ctx, stale...)
	return flow.Done(), err
}

func referencedCopy(
	ctx context.Context, s *Values, garden *GardenNamespace, r corev1beta1.NamedResourceReference,
) (client.Object, error) {
	key := client.ObjectKey{Namespace: s.Shoot.Namespace, Name: r.ResourceRef.Name}
	meta := metav1.ObjectMeta{
		Name: referencePrefix + r.ResourceRef.Name, Namespace: s.Namespace,
		Labels: map[string]string{corev1beta1.LabelRole: corev1beta1.RoleResourceReference},
	}
	switch r.ResourceRef.Kind {
	case "Secret":
		from := &corev1.Secret{}
		if err := garden.Get(ctx, key, from); err != nil {
			return nil, fmt.Errorf("read Secret %s, resource %q of the Shoot: %w", key, r.Name, err)
		}
		return &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeOpaque, Data: from.Data}, nil
	case "ConfigMap":
		from := &corev1.ConfigMap{}
		if err := garden.Get(ctx, key, from); err != nil {
			return nil, fmt.Errorf("read ConfigMap %s, resource %q of the Shoot: %w", key, r.Name, err)
		}
		return &corev1.ConfigMap{ObjectMeta: meta, Data: from.Data, BinaryData: from.BinaryData}, nil
	}
	return nil, flow.WithCodes(fmt.Errorf("resource %q of the Shoot has kind %s; only Secret and ConfigMap are supported",
		r.Name, r.ResourceRef.Kind),
		string(corev1beta1.ErrorConfigurationProblem))
}
