package steps

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/networkpolicy"
)

// Namespace is the control plane namespace in the seed.
var Namespace = &flow.Step[*Scope]{
	Name:    "namespace",
	After:   []*flow.Step[*Scope]{RequiredExtensions},
	Ensure:  use2(ensureNamespace),
	Remove:  use1(removeNamespace),
	Recheck: recheckPods,
	Limit:   15 * 60e9, // Deletion waits for every object in it; the contract allows 15 minutes.
}

func ensureNamespace(ctx context.Context, s *Values, seed *SeedNamespace) (flow.Outcome, error) {
	old := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
	found, err := kube.Exists(ctx, seed, old)
	if err != nil {
		return flow.Outcome{}, err
	}
	return applyNamespace(ctx, s, seed, old, !found || old.Labels[networkpolicy.LabelIsolated] == "true")
}

// applyNamespace applies the namespace, given what there is of it, and what keeps an isolated one apart from all others
// before its first pod.
func applyNamespace(
	ctx context.Context, s *Values, seed *SeedNamespace, old *corev1.Namespace, isolated bool,
) (flow.Outcome, error) {
	ns := NamespaceFor(s.Shoot, s.SeedObject, s.Registered, s.Namespace, zonesOf(old))
	ns.Labels[labelPodSecurity] = podSecurity(s.Registered, s.Installations)
	if isolated {
		ns.Labels[networkpolicy.LabelIsolated] = "true"
	}
	if err := seed.apply(ctx, ns); err != nil {
		return flow.Outcome{}, err
	}
	if ns.Status.Phase == corev1.NamespaceTerminating {
		return flow.Waiting(waitNamespace, fmt.Sprintf("Namespace %s of an earlier control plane is still being deleted", ns.Name)), nil
	}
	if isolated {
		return flow.Done(), seed.apply(ctx, networkpolicy.Deny(s.Namespace))
	}
	return flow.Done(), nil
}

// Isolated comes last: only now do all pods of a control plane that an older version has created have the labels that
// network policies require.
var Isolated = &flow.Step[*Scope]{
	Name:  "isolated",
	After: []*flow.Step[*Scope]{Hibernate},
	Ensure: use2(func(ctx context.Context, s *Values, seed *SeedNamespace) (flow.Outcome, error) {
		old := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
		if _, err := kube.Exists(ctx, seed, old); err != nil {
			return flow.Outcome{}, err
		}
		return applyNamespace(ctx, s, seed, old, true)
	}),
}

func removeNamespace(ctx context.Context, seed *SeedNamespace) (flow.Outcome, error) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: seed.namespace}}
	found, err := kube.Exists(ctx, seed, ns)
	if err != nil {
		return flow.Outcome{}, err
	}
	if !found {
		return flow.Done(), nil
	}
	if ns.DeletionTimestamp.IsZero() {
		// Another controller may create one until it has seen the end of the Shoot. Its extension could not delete it
		// without the credentials, which are removed with the namespace.
		bastions, err := extensionobject.Bastions.List(ctx, seed, seed.namespace)
		if err != nil {
			return flow.Outcome{}, err
		}
		if len(bastions) > 0 {
			return waitingFor(bastions[0], " still exists"), nil
		}
		left, err := removeWorkloads(ctx, seed)
		if err != nil {
			return flow.Outcome{}, err
		}
		if left > 0 {
			return flow.Waiting(waitPod, fmt.Sprintf("%d pods of the control plane are still ending", left)), nil
		}
		if _, err := seed.remove(ctx, ns); err != nil {
			return flow.Outcome{}, err
		}
	}
	return flow.Waiting(waitNamespace, fmt.Sprintf("Namespace %s is being deleted%s", ns.Name, remaining(ns))), nil
}

// removeWorkloads deletes the Deployments of the namespace and returns how many of their pods are left. The namespace
// controller of Kubernetes would do so as well, but then looks again only after half the longest grace period of a pod.
// The deletion of the namespace removes everything else.
func removeWorkloads(ctx context.Context, seed *SeedNamespace) (pods int, err error) {
	deployments, left := &appsv1.DeploymentList{}, &corev1.PodList{}
	for _, list := range []client.ObjectList{deployments, left} {
		if err := seed.List(ctx, list, client.InNamespace(seed.namespace)); err != nil {
			return 0, fmt.Errorf("list workloads of the control plane: %w", err)
		}
	}
	for i := range deployments.Items {
		if _, err := seed.remove(ctx, &deployments.Items[i]); err != nil {
			return 0, err
		}
	}
	for i := range left.Items {
		if owner := metav1.GetControllerOf(&left.Items[i]); owner != nil && owner.Kind == "ReplicaSet" {
			pods++
		}
	}
	return pods, nil
}

// remaining returns what blocks the deletion of a Namespace, as far as its conditions report it.
func remaining(ns *corev1.Namespace) string {
	var messages []string
	for _, c := range ns.Status.Conditions {
		if c.Status == corev1.ConditionTrue &&
			(c.Type == corev1.NamespaceContentRemaining || c.Type == corev1.NamespaceFinalizersRemaining) {
			messages = append(messages, c.Message)
		}
	}
	if len(messages) == 0 {
		return ""
	}
	return ": " + strings.Join(messages, "; ")
}

// NamespaceFor returns the namespace of a control plane, with the labels and annotations that others need: selectors of
// network policies and webhooks. It keeps the zones that the namespace already has.
func NamespaceFor(
	shoot *corev1beta1.Shoot, seed *corev1beta1.Seed, registrations []corev1beta1.ControllerRegistration, name string,
	zones []string,
) *corev1.Namespace {
	labels := map[string]string{
		corev1beta1.LabelRole:                           corev1beta1.RoleShoot,
		corev1beta1.LabelSeedProvider:                   seed.Spec.Provider.Type,
		corev1beta1.LabelShootProvider:                  shoot.Spec.Provider.Type,
		corev1beta1.LabelBackupProvider:                 seed.Spec.Provider.Type,
		resourcesv1alpha1.LabelHighAvailabilityConsider: "true",
	}
	if n := shoot.Spec.Networking; n != nil && n.Type != nil {
		labels[corev1beta1.LabelNetworkingProvider] = *n.Type
	}
	if seed.Spec.Backup != nil {
		labels[corev1beta1.LabelBackupProvider] = seed.Spec.Backup.Provider
	}
	for _, name := range extensionTypes(shoot, registrations) {
		labels[corev1beta1.LabelPrefixExtensionType+name] = "true"
	}
	used := usedExtensions(shoot, seed, registrations)
	tolerance := failureTolerance(shoot)
	zones = chooseZones(zones, seed.Spec.Provider.Zones, tolerance, name)
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   name,
		Labels: labels,
		Annotations: map[string]string{
			corev1beta1.AnnotationShootUID:                               string(shoot.Status.UID),
			resourcesv1alpha1.AnnotationHighAvailabilityFailureTolerance: string(tolerance),
			resourcesv1alpha1.AnnotationHighAvailabilityZones:            strings.Join(zones, ","),
			networkpolicy.AnnotationExtensions:                           strings.Join(used, ","),
		},
	}}
}
