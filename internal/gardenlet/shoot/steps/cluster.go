package steps

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/kube"
)

// rollLimit is how long the machines of a Shoot may take. It is generous, because draining alone may take two hours per
// machine; trouble shows earlier as an error of the extension.
const rollLimit = 3 * time.Hour

// recheck is how soon to look again at what cannot be watched: pods that end, and objects inside the Shoot.
const recheck = 2 * time.Second

// recheckPods is how soon to look again at pods that are ending: most do within a second.
const recheckPods = 500 * time.Millisecond

// ReadKubeconfig returns the gardenlet's own kubeconfig for a Shoot, or nil if there is none yet.
func ReadKubeconfig(ctx context.Context, seed client.Reader, namespace string) ([]byte, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: nameGardenerInternal, Namespace: namespace}}
	if _, err := kube.Exists(ctx, seed, secret); err != nil {
		return nil, err
	}
	return secret.Data["kubeconfig"], nil
}

// client is a client of the Shoot's API.
func (cluster *ShootCluster) client() (client.Client, error) {
	kubeconfig, err := cluster.secrets.gardenerKubeconfig()
	if err != nil {
		return nil, err
	}
	c, err := cluster.connector.Connect(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("connect to the Shoot's API server: %w", err)
	}
	return c, nil
}

// healthy requests the readiness of the API server.
func (cluster *ShootCluster) healthy(ctx context.Context) error {
	kubeconfig, err := cluster.secrets.gardenerKubeconfig()
	if err != nil {
		return err
	}
	return cluster.connector.Healthy(ctx, kubeconfig)
}

// tunnelWorks sends a request to a kubelet, through the API server.
func (cluster *ShootCluster) tunnelWorks(ctx context.Context) error {
	kubeconfig, err := cluster.secrets.gardenerKubeconfig()
	if err != nil {
		return err
	}
	return cluster.connector.TunnelWorks(ctx, kubeconfig)
}

// Connection waits until the gardenlet itself can reach the Shoot's API server.
var Connection = &flow.Step[*Scope]{
	Name:    "connection",
	After:   []*flow.Step[*Scope]{KubeAPIServerReady},
	SkipIf:  when(asleep, skipReadiness),
	Ensure:  use1(ensureConnection),
	Recheck: recheck,
	Limit:   2 * time.Minute,
}

func ensureConnection(ctx context.Context, cluster *ShootCluster) (flow.Outcome, error) {
	if err := cluster.healthy(ctx); err != nil {
		return flow.Waiting(waitAPIServer, fmt.Sprintf("The Shoot's API server does not answer: %v", err)), nil
	}
	return flow.Done(), nil
}

// Tunnel waits until the API server can reach nodes of the Shoot.
var Tunnel = &flow.Step[*Scope]{
	Name:    "tunnel",
	After:   []*flow.Step[*Scope]{SystemComponentsReady, Worker},
	SkipIf:  when(workerless, asleep, hibernating, withoutNodes, skipReadiness, leaving),
	Ensure:  use1(ensureTunnel),
	Recheck: recheck,
	Limit:   15 * time.Minute,
}

// withoutNodes: all pools may be empty.
func withoutNodes(s *Values) string {
	if s.Workerless() {
		return ""
	}
	for _, w := range s.Shoot.Spec.Provider.Workers {
		if w.Minimum > 0 {
			return ""
		}
	}
	return "no pool has a minimum"
}

func ensureTunnel(ctx context.Context, cluster *ShootCluster) (flow.Outcome, error) {
	if err := cluster.tunnelWorks(ctx); err != nil {
		return flow.Waiting(waitTunnel, fmt.Sprintf("The tunnel to the Shoot's nodes does not work: %v", err)), nil
	}
	return flow.Done(), nil
}
