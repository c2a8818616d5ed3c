package steps

import (
	"context"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component/machinecontrollermanager"
	"hortus.dev/hortus/internal/component/resourcemanager"
	"hortus.dev/hortus/internal/component/shootsystem"
	"hortus.dev/hortus/internal/crds"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/secretsmanager"
)

// ShootNamespaces labels kube-system in the Shoot.
var ShootNamespaces = &flow.Step[*Scope]{
	Name:   "shoot-namespaces",
	After:  []*flow.Step[*Scope]{ManagedResources},
	SkipIf: when(asleep),
	Ensure: use1(ensureShootNamespaces),
}

func ensureShootNamespaces(ctx context.Context, seed *SeedNamespace) (flow.Outcome, error) {
	return flow.Done(), seed.applyShootResource(ctx, shootsystem.NamespaceResourceName, shootsystem.Namespaces())
}

// ShootSystem applies roles, information about the cluster, and the webhooks of the resource-manager, on which objects
// of extensions rely, to the Shoot.
var ShootSystem = &flow.Step[*Scope]{
	Name:   "shoot-system",
	After:  []*flow.Step[*Scope]{ManagedResources, ClusterIdentity},
	SkipIf: when(asleep),
	Ensure: use3(ensureShootSystem),
}

func ensureShootSystem(ctx context.Context, s *Values, seed *SeedNamespace, secrets Secrets) (flow.Outcome, error) {
	objects := shootsystem.Render(shootsystem.Values{
		ClusterIdentity: clusterIdentity(s), Info: shootInfo(s), Workers: !s.Workerless(),
		Definitions: definitions(s.Shoot),
	})
	if !s.Workerless() {
		ca, err := secrets.Bundle(nameCA)
		if err != nil {
			return flow.Outcome{}, err
		}
		objects = append(objects, resourcemanager.ShootWebhooks(ca.Data[secretsmanager.DataBundle]))
		objects = append(objects, machinecontrollermanager.ShootAccess()...)
	}
	return flow.Done(), seed.applyShootResource(ctx, shootsystem.ResourceName, objects)
}

// definitions are those of the vertical pod autoscaler if the user has enabled it. None runs in the Shoot, but
// extensions read the field, too, and create objects of its kinds then.
func definitions(shoot *corev1beta1.Shoot) []*apiextensionsv1.CustomResourceDefinition {
	if a := shoot.Spec.Kubernetes.VerticalPodAutoscaler; a == nil || !a.Enabled {
		return nil
	}
	return crds.PlaceholdersOf(crds.GroupVerticalAutoscaler)
}

// shootInfo describes the Shoot to what runs in it. Keys are those of the contract.
func shootInfo(s *Values) map[string]string {
	info := map[string]string{
		"clusterIdentity":   clusterIdentity(s),
		"kubernetesVersion": s.Shoot.Spec.Kubernetes.Version,
		"projectName":       s.Project.Name,
		"provider":          s.Shoot.Spec.Provider.Type,
		"region":            s.Shoot.Spec.Region,
		"serviceNetwork":    s.ServiceCIDR(),
		"shootName":         s.Shoot.Name,
	}
	if d := s.ExternalDomain(); d != "" {
		info["domain"] = d
	}
	if m := s.Shoot.Spec.Maintenance; m != nil && m.TimeWindow != nil {
		info["maintenanceBegin"], info["maintenanceEnd"] = m.TimeWindow.Begin, m.TimeWindow.End
	}
	if types := extensionTypes(s.Shoot, s.Registered); len(types) > 0 {
		info["extensions"] = strings.Join(types, ",")
	}
	if !s.Workerless() {
		info["podNetwork"] = s.PodCIDR()
		if n := s.Shoot.Status.Networking; n != nil && len(n.Nodes) > 0 {
			info["nodeNetwork"] = strings.Join(n.Nodes, ",")
		}
	}
	return info
}
