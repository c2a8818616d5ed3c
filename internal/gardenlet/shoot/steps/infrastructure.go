package steps

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/secretsmanager"
)

// Times in section 1 of the extension contract: how long errors with codes are tolerated.
const (
	severeInfrastructure = 3 * time.Minute
	severeDefault        = 30 * time.Second
	severeDNS            = 15 * time.Second
)

// Infrastructure is the network and everything else that the provider needs before it can create machines.
var Infrastructure = &flow.Step[*Scope]{
	Name:   "infrastructure",
	After:  []*flow.Step[*Scope]{CloudCredentials, Credentials, References},
	SkipIf: when(workerless),
	Ensure: use5(ensureInfrastructure),
	Remove: use2(removeInfrastructure),
}

func ensureInfrastructure(
	ctx context.Context, s *Values, garden *GardenNamespace, secrets Secrets, extensions *Extensions, status *Status,
) (flow.Outcome, error) {
	key, err := sshPublicKey(s, secrets)
	if err != nil {
		return flow.Outcome{}, err
	}
	o := &extensionsv1alpha1.Infrastructure{
		ObjectMeta: s.extensionMeta(s.Shoot.Name),
		Spec: extensionsv1alpha1.InfrastructureSpec{
			DefaultSpec: extensionsv1alpha1.DefaultSpec{
				Type: s.Shoot.Spec.Provider.Type, ProviderConfig: s.Shoot.Spec.Provider.InfrastructureConfig,
			},
			Region:       s.Shoot.Spec.Region,
			SecretRef:    cloudSecretRef(s.Namespace),
			SSHPublicKey: key,
		},
	}
	outcome, err := extensions.reconcile(ctx, extensionRequest{
		object: o, trigger: triggerIfNeeded, task: corev1beta1.ShootTaskDeployInfrastructure, severe: severeInfrastructure,
	})
	if err != nil || !outcome.IsDone() {
		return outcome, err
	}
	return flow.Done(), recordNetworks(ctx, s, garden, status, o)
}

// recordNetworks writes the ranges that the infrastructure has turned out to have into the Shoot.
func recordNetworks(
	ctx context.Context, s *Values, garden *GardenNamespace, status *Status, o *extensionsv1alpha1.Infrastructure,
) error {
	want := networkingStatus(s.Shoot, o)
	status.change(func(to *corev1beta1.ShootStatus) { to.Networking = want })
	nodes := firstNodesCIDR(o)
	// Restores and deletions leave the spec as it is; the next reconciliation records a missing range.
	frozen := s.Restoring() || s.Shoot.DeletionTimestamp != nil
	if nodes == "" || s.Shoot.Spec.Networking == nil || s.Shoot.Spec.Networking.Nodes != nil || frozen {
		return nil
	}
	after := s.Shoot.DeepCopy()
	after.Spec.Networking.Nodes = ptr.To(nodes)
	if err := garden.Patch(ctx, after, client.MergeFrom(s.Shoot)); err != nil {
		return fmt.Errorf("record the range of nodes in the Shoot: %w", err)
	}
	// The change is our own, and this operation already considers it.
	status.change(func(to *corev1beta1.ShootStatus) {
		if to.ObservedGeneration == s.Shoot.Generation {
			to.ObservedGeneration = after.Generation
		}
	})
	return nil
}

func networkingStatus(shoot *corev1beta1.Shoot, o *extensionsv1alpha1.Infrastructure) *corev1beta1.NetworkingStatus {
	n := &corev1beta1.NetworkingStatus{EgressCIDRs: o.Status.EgressCIDRs}
	list := func(s *string) []string {
		if s == nil || *s == "" {
			return nil
		}
		return []string{*s}
	}
	if spec := shoot.Spec.Networking; spec != nil {
		n.Pods, n.Services, n.Nodes = list(spec.Pods), list(spec.Services), list(spec.Nodes)
	}
	if status := o.Status.Networking; status != nil {
		for _, p := range []struct {
			to   *[]string
			from []string
		}{{&n.Pods, status.Pods}, {&n.Services, status.Services}, {&n.Nodes, status.Nodes}} {
			if len(p.from) > 0 {
				*p.to = p.from
			}
		}
	}
	if cidr := firstNodesCIDR(o); cidr != "" && len(n.Nodes) == 0 {
		n.Nodes = []string{cidr}
	}
	return n
}

func firstNodesCIDR(o *extensionsv1alpha1.Infrastructure) string {
	if o.Status.NodesCIDR != nil {
		return *o.Status.NodesCIDR
	}
	if o.Status.Networking != nil && len(o.Status.Networking.Nodes) > 0 {
		return o.Status.Networking.Nodes[0]
	}
	return ""
}

func removeInfrastructure(ctx context.Context, s *Values, extensions *Extensions) (flow.Outcome, error) {
	return extensions.delete(ctx, &extensionsv1alpha1.Infrastructure{ObjectMeta: s.extensionMeta(s.Shoot.Name)},
		severeInfrastructure)
}

// infrastructure reads the object for those that build on its status.
func infrastructure(ctx context.Context, s *Values, seed *SeedNamespace) (*extensionsv1alpha1.Infrastructure, error) {
	o := &extensionsv1alpha1.Infrastructure{ObjectMeta: s.extensionMeta(s.Shoot.Name)}
	if _, err := kube.Exists(ctx, seed, o); err != nil {
		return nil, err
	}
	return o, nil
}

func cloudSecretRef(namespace string) corev1.SecretReference {
	return corev1.SecretReference{Name: cloudProviderSecret, Namespace: namespace}
}

// sshPublicKey is the key for users of machines, or nil.
func sshPublicKey(s *Values, secrets Secrets) ([]byte, error) {
	if !s.SSHAccess() {
		return nil, nil
	}
	pair, err := secrets.Get(nameSSHKeypair)
	if err != nil {
		return nil, err
	}
	return pair.Data[secretsmanager.DataPublicRSA], nil
}
