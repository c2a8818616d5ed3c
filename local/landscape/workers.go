package landscape

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/landscape/cluster"
)

// maxSeedNodes is the maximum number of nodes of a seed: one for each member of an etcd.
const maxSeedNodes = 3

// nodePods returns the range of the addresses of a node's pods. The first node, number 0, has the control plane.
func nodePods(node int) string { return fmt.Sprintf("10.244.%d.0/22", 4*node) }

// nodeAddress is the private address of a node.
func nodeAddress(spec clusterSpec, node int) string {
	network := spec.address[:strings.LastIndex(spec.address, ".")]
	return fmt.Sprintf("%s.%d", network, 10+node)
}

// routesFrom returns the routes from a node to the pods of all other nodes, including nodes that do not exist.
func routesFrom(spec clusterSpec, node int) []cluster.Route {
	var routes []cluster.Route
	for other := range maxSeedNodes {
		if other != node {
			routes = append(routes, cluster.Route{Pods: nodePods(other), Via: nodeAddress(spec, other)})
		}
	}
	return routes
}

func workerOf(spec clusterSpec, about *cloud.About, node int) cluster.Worker {
	return cluster.Worker{
		Name: fmt.Sprintf("%s-node-%d", spec.name, node+1), Address: nodeAddress(spec, node),
		Zone: about.Zones[node%len(about.Zones)],
		Pods: nodePods(node), Routes: routesFrom(spec, node),
	}
}

// ensureWorkers gives a seed the nodes that it should have besides the one with the control plane.
func ensureWorkers(
	ctx context.Context, o Options, c *cloud.Client, about *cloud.About, k *kubernetesCluster, values cluster.Values,
) error {
	instances, err := c.ListInstances(ctx, cloud.Filter{})
	if err != nil {
		return fmt.Errorf("list instances: %w", err)
	}
	for node := 1; node < maxSeedNodes; node++ {
		w := workerOf(k.spec, about, node)
		at := slices.IndexFunc(instances, func(i cloud.Instance) bool { return i.Name == w.Name })
		switch wanted := node < o.SeedNodes || o.SeedNodes == 0 && at >= 0; {
		case wanted:
			if err := k.ensureWorker(ctx, o, c, values, w); err != nil {
				return err
			}
		case at >= 0:
			if err := k.removeWorker(ctx, c, instances[at]); err != nil {
				return err
			}
		}
	}
	return nil
}

// ensureWorker makes a node, and waits until it is ready.
func (k *kubernetesCluster) ensureWorker(
	ctx context.Context, o Options, c *cloud.Client, values cluster.Values, w cluster.Worker,
) error {
	credentials, err := loadAndRenew(filepath.Join(o.StateDir, "landscape", k.spec.name, w.Name+".json"),
		empty[cluster.WorkerPKI],
		func(p *cluster.WorkerPKI) (bool, error) { return k.pki.RenewWorker(p, w, clock.RealClock{}) })
	if err != nil {
		return err
	}
	userData, err := cluster.WorkerUserData(values, w, k.pki, credentials)
	if err != nil {
		return err
	}
	network, err := c.CreateNetwork(ctx, cloud.CreateNetwork{Name: k.spec.name, CIDR: k.spec.cidr})
	if err != nil {
		return fmt.Errorf("create network %q: %w", k.spec.name, err)
	}
	instance, err := ensureInstanceWith(ctx, c, cloud.CreateInstance{
		Name: w.Name, MachineType: clusterMachineType, Image: clusterImage, NetworkID: network.ID, Zone: w.Zone,
		UserData: string(userData), Address: w.Address, Tags: map[string]string{tagCluster: k.spec.name},
	})
	if err != nil {
		return err
	}
	if err := waitInstance(ctx, c, instance.ID); err != nil {
		return fmt.Errorf("wait for instance %q: %w", w.Name, err)
	}
	return retry(ctx, clusterStart, func(ctx context.Context) error {
		node := &corev1.Node{}
		if err := k.client.Get(ctx, client.ObjectKey{Name: w.Name}, node); err != nil {
			return fmt.Errorf("node %q of cluster %q: %w", w.Name, k.spec.name, err)
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("node %q of cluster %q is not ready", w.Name, k.spec.name)
	})
}

// removeWorker removes a node, unless it runs a control plane of a Shoot, whose data would be lost.
func (k *kubernetesCluster) removeWorker(ctx context.Context, c *cloud.Client, instance cloud.Instance) error {
	pods := &corev1.PodList{}
	if err := k.client.List(ctx, pods, client.MatchingFields{"spec.nodeName": instance.Name}); err != nil {
		return fmt.Errorf("list pods on node %q: %w", instance.Name, err)
	}
	for _, pod := range pods.Items {
		if strings.HasPrefix(pod.Namespace, "shoot--") {
			return fmt.Errorf("node %q cannot be removed: control planes of Shoots are on it (Pod %s/%s); "+
				"move them to the other seed first, or delete the Shoots", instance.Name, pod.Namespace, pod.Name)
		}
	}
	if err := c.DeleteInstance(ctx, instance.ID); err != nil && cloud.CodeOf(err) != cloud.CodeNotFound {
		return fmt.Errorf("delete instance %q: %w", instance.Name, err)
	}
	if _, err := kube.Delete(ctx, k.client, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: instance.Name}}); err != nil {
		return err
	}
	return cloudUntil(ctx, c, func() (bool, error) {
		_, err := c.GetInstance(ctx, instance.ID)
		if cloud.CodeOf(err) == cloud.CodeNotFound {
			return true, nil
		}
		return false, err
	})
}
