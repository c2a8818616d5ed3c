package steps

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/component/coredns"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/kube"
)

// clusterDNSIndex is the place of the DNS server in the range of services; by custom it is the tenth address.
const clusterDNSIndex = 10

// CoreDNS resolves names in the Shoot.
var CoreDNS = &flow.Step[*Scope]{
	Name:   "coredns",
	After:  []*flow.Step[*Scope]{ShootNamespaces, OperatingSystemConfig},
	SkipIf: when(workerless, asleep),
	Ensure: use2(ensureCoreDNS),
}

func ensureCoreDNS(ctx context.Context, s *Values, seed *SeedNamespace) (flow.Outcome, error) {
	ip, err := serviceIP(s.ServiceCIDR(), clusterDNSIndex)
	if err != nil {
		return flow.Outcome{}, err
	}
	v := coredns.Values{
		Image: s.Images.CoreDNS, Placement: component.SystemComponents(s.Shoot.Spec.Provider.Workers), ClusterIP: ip,
		Replicas: 2,
	}
	if maximumNodes(s) < 2 {
		v.Replicas = 1 // A second replica on the same node would not add availability.
	}
	if c := s.Shoot.Spec.SystemComponents; c != nil && c.CoreDNS != nil && c.CoreDNS.Rewriting != nil {
		v.CommonSuffixes = c.CoreDNS.Rewriting.CommonSuffixes
	}
	return flow.Done(), seed.applyShootResource(ctx, coredns.ResourceName, coredns.Render(v))
}

// RestartCoreAddons replaces the pods of CoreDNS one after the other when that task is requested.
var RestartCoreAddons = &flow.Step[*Scope]{
	Name:   "restart-core-addons",
	After:  []*flow.Step[*Scope]{CoreDNS, SystemComponentsReady},
	SkipIf: when(workerless, asleep, hibernating, withoutAddonsTask),
	Ensure: use2(ensureAddonsRestarted),
}

func withoutAddonsTask(s *Values) string {
	return reasonIf(!s.hasTask(corev1beta1.ShootTaskRestartCoreAddons), "not requested")
}

// annotationRestartedAt is what "kubectl rollout restart" sets on a pod template; the resource manager of the Shoot
// leaves it.
const annotationRestartedAt = "kubectl.kubernetes.io/restartedAt"

// ensureAddonsRestarted marks the pods with the start of the operation, so that another pass does not restart them
// again.
func ensureAddonsRestarted(ctx context.Context, s *Values, cluster *ShootCluster) (flow.Outcome, error) {
	shoot, err := cluster.client()
	if err != nil {
		return flow.Outcome{}, err
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: coredns.Name, Namespace: metav1.NamespaceSystem}}
	found, err := kube.Exists(ctx, shoot, d)
	at := s.Started.UTC().Format(time.RFC3339)
	if err != nil || !found || d.Spec.Template.Annotations[annotationRestartedAt] == at {
		return flow.Done(), err
	}
	before := d.DeepCopy()
	if d.Spec.Template.Annotations == nil {
		d.Spec.Template.Annotations = map[string]string{}
	}
	d.Spec.Template.Annotations[annotationRestartedAt] = at
	if err := shoot.Patch(ctx, d, client.MergeFrom(before), client.FieldOwner(FieldOwner)); err != nil {
		return flow.Outcome{}, fmt.Errorf("restart Deployment %q of the Shoot: %w", d.Name, err)
	}
	return flow.Done(), nil
}

// maximumNodes is how many nodes with components of the system the Shoot may have.
func maximumNodes(s *Values) int32 {
	var n int32
	for i := range s.Shoot.Spec.Provider.Workers {
		if w := &s.Shoot.Spec.Provider.Workers[i]; component.AllowsSystemComponents(w) {
			n += w.Maximum
		}
	}
	return n
}
