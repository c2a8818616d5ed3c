package steps

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/boundedlist"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/nodeagent/config"
	"hortus.dev/hortus/internal/nodeagent/osc"
)

const (
	nodeAgentResource = "shoot-gardener-node-agent"
	// annotationConfigChecksum on the Secret in the Shoot is what annotationAppliedChecksum on a Node has to become.
	annotationConfigChecksum  = "checksum/data-script"
	annotationAppliedChecksum = "checksum/cloud-config-data"
	// taintPreferNoSchedule marks nodes that a rolling update is about to replace.
	taintPreferNoSchedule = "deployment.machine.sapcloud.io/prefer-no-schedule"
)

// NodeAgent delivers each pool's configuration to the node agents in the Shoot.
var NodeAgent = &flow.Step[*Scope]{
	Name:   "node-agent",
	After:  []*flow.Step[*Scope]{ShootNamespaces, OperatingSystemConfig},
	SkipIf: when(workerless, asleep),
	Ensure: use2(ensureNodeAgent),
}

func ensureNodeAgent(ctx context.Context, s *Values, seed *SeedNamespace) (flow.Outcome, error) {
	keys, err := readKeys(ctx, seed, s.Shoot, s.Namespace)
	if err != nil {
		return flow.Outcome{}, err
	}
	var objects []client.Object
	for _, w := range s.Shoot.Spec.Provider.Workers {
		secret, err := configSecret(ctx, seed, s.Namespace, w.Name, keys[w.Name].name)
		if err != nil {
			return flow.Outcome{}, err
		}
		objects = append(objects, secret)
	}
	return flow.Done(), seed.applyShootResource(ctx, nodeAgentResource, append(objects, osc.Access()...))
}

// configSecret carries the pool's configuration as its extension has completed it.
func configSecret(ctx context.Context, seed client.Reader, namespace, pool, key string) (*corev1.Secret, error) {
	o := &extensionsv1alpha1.OperatingSystemConfig{}
	if err := seed.Get(ctx, client.ObjectKey{Namespace: namespace, Name: key + suffixReconcile}, o); err != nil {
		return nil, fmt.Errorf("read OperatingSystemConfig of pool %q: %w", pool, err)
	}
	content, err := encodeConfig(o)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: key, Namespace: metav1.NamespaceSystem,
			Labels: map[string]string{
				corev1beta1.LabelRole: corev1beta1.RoleOperatingSystemConfig, corev1beta1.LabelWorkerPool: pool,
			},
			Annotations: map[string]string{annotationConfigChecksum: hex.EncodeToString(sum[:])},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{config.OSCDataKey: content},
	}, nil
}

// encodeConfig writes spec and the parts of the status that machines need. What changes with every reconciliation is
// left out, since a changed checksum makes every node apply its configuration again.
func encodeConfig(o *extensionsv1alpha1.OperatingSystemConfig) ([]byte, error) {
	out := &extensionsv1alpha1.OperatingSystemConfig{
		TypeMeta: metav1.TypeMeta{
			APIVersion: extensionsv1alpha1.SchemeGroupVersion.String(), Kind: extensionsv1alpha1.OperatingSystemConfigKind,
		},
		ObjectMeta: metav1.ObjectMeta{Name: o.Name},
		Spec:       o.Spec,
		Status: extensionsv1alpha1.OperatingSystemConfigStatus{
			ExtensionUnits: o.Status.ExtensionUnits, ExtensionFiles: o.Status.ExtensionFiles,
			InPlaceUpdates: o.Status.InPlaceUpdates,
		},
	}
	content, err := yaml.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode OperatingSystemConfig %q: %w", o.Name, err)
	}
	return content, nil
}

// NodesUpdated waits until every node has applied the newest configuration of its pool.
var NodesUpdated = &flow.Step[*Scope]{
	Name:    "nodes-updated",
	After:   []*flow.Step[*Scope]{Worker, SystemComponentsReady},
	SkipIf:  when(workerless, asleep, hibernating, skipReadiness, leaving),
	Ensure:  use3(ensureNodesUpdated),
	Recheck: recheck,
}

// applyLimit is how long a node may take to apply its configuration after its turn has come.
const applyLimit = 3 * time.Minute

// maxOutdated bounds the nodes that a pass finds out of date: more than the largest cluster of Kubernetes has are made
// up.
const maxOutdated = 5000

func ensureNodesUpdated(
	ctx context.Context, s *Values, seed *SeedNamespace, cluster *ShootCluster,
) (flow.Outcome, error) {
	shoot, err := cluster.client()
	if err != nil {
		return flow.Outcome{}, err
	}
	wanted, err := ConfigChecksums(ctx, seed, s.Shoot, s.Namespace)
	if err != nil {
		return flow.Outcome{}, err
	}
	var outdated []string
	err = boundedlist.Read(ctx, shoot, readLimits, &corev1.NodeList{}, func(page *corev1.NodeList) (bool, error) {
		outdated = append(outdated, outdatedNodes(page.Items, wanted)...)
		return len(outdated) <= maxOutdated, nil
	})
	if err != nil {
		return flow.Outcome{}, fmt.Errorf("list nodes of the Shoot: %w", err)
	}
	if len(outdated) > 0 {
		limit := s.Shoot.MaxNodeAgentDelay() + applyLimit
		return flow.WaitingUpTo(limit, waitNode, "Nodes have not applied their configuration yet: "+leftList(outdated)), nil
	}
	return flow.Done(), nil
}

// ConfigChecksums are the checksums that nodes must have applied, by the key of their pool's configuration.
func ConfigChecksums(
	ctx context.Context, seed client.Reader, shoot *corev1beta1.Shoot, namespace string,
) (map[string]string, error) {
	keys, err := readKeys(ctx, seed, shoot, namespace)
	if err != nil {
		return nil, err
	}
	wanted := map[string]string{}
	for pool, key := range keys {
		secret, err := configSecret(ctx, seed, namespace, pool, key.name)
		if err != nil {
			return nil, err
		}
		wanted[secret.Name] = secret.Annotations[annotationConfigChecksum]
	}
	return wanted, nil
}

// outdatedNodes names the nodes that have not applied the configuration of their pool. Nodes that are being replaced,
// or that belong to an older key, need not.
func outdatedNodes(nodes []corev1.Node, wanted map[string]string) []string {
	var out []string
	for _, n := range nodes {
		checksum, ok := wanted[n.Labels[corev1beta1.LabelWorkerNodeAgentSecretName]]
		if !ok || beingReplaced(&n) || n.Annotations[annotationAppliedChecksum] == checksum {
			continue
		}
		out = append(out, n.Name)
	}
	return out
}

func beingReplaced(n *corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == taintPreferNoSchedule {
			return true
		}
	}
	return false
}
