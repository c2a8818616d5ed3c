package ssh

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/cli/kubeconfig"
)

// accessFor is how long the credentials for the Shoot's API server last; they are used at the beginning only. It is the
// minimum.
const accessFor = 10 * time.Minute

// cluster is the API of the Shoot.
type cluster struct{ kubernetes.Interface }

// shootClient requests access to the Shoot's API.
func (c *command) shootClient(ctx context.Context, shoot string) (cluster, error) {
	data, err := kubeconfig.Shoot(ctx, c.config, c.namespace, shoot, false, accessFor)
	if err != nil {
		return cluster{}, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return cluster{}, fmt.Errorf("read the kubeconfig of Shoot %s/%s: %w", c.namespace, shoot, err)
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return cluster{}, fmt.Errorf("connect to Shoot %s/%s: %w", c.namespace, shoot, err)
	}
	return cluster{api}, nil
}

func (c cluster) nodes(ctx context.Context) ([]corev1.Node, error) {
	list, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the nodes of the Shoot: %w", err)
	}
	return list.Items, nil
}

// node is where to log in.
type node struct {
	name, address string
	hostKey       ssh.HostKeyCallback
}

// chooseNode returns the node with a name or an internal address, by default the first one that is ready.
func chooseNode(nodes []corev1.Node, wanted string) (node, error) {
	slices.SortFunc(nodes, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	var names []string
	for i := range nodes {
		n := &nodes[i]
		address := internalAddress(n)
		names = append(names, n.Name)
		switch {
		case wanted == "" && (address == "" || !nodeReady(n)):
			continue
		case wanted != "" && wanted != n.Name && wanted != address:
			continue
		case address == "":
			return node{}, fmt.Errorf("node %s has no internal address yet", n.Name)
		}
		return node{name: n.Name, address: address}, nil
	}
	if wanted == "" {
		return node{}, errors.New("no node of the Shoot is ready. To log in to another one, name it")
	}
	return node{}, fmt.Errorf("node not found: %q (available: %s)", wanted, strings.Join(names, ", "))
}

func internalAddress(n *corev1.Node) string {
	for _, address := range n.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return address.Address
		}
	}
	return ""
}

func nodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// hostKey reads the host key that a node publishes among its logs, nil if it publishes none. The way there, through the
// API server, is authenticated.
func (c cluster) hostKey(ctx context.Context, name string) (ssh.PublicKey, error) {
	file := strings.TrimPrefix(extensionsv1alpha1.SSHHostKeyFile, "/var/log/")
	data, err := c.CoreV1().RESTClient().Get().Resource("nodes").Name(name).SubResource("proxy", "logs", file).
		DoRaw(ctx)
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &status) && (status.Status().Code == http.StatusNotFound ||
		status.Status().Code == http.StatusForbidden || status.Status().Code == http.StatusMethodNotAllowed):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the host key of node %s: %w", name, err)
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(data)
	if err != nil {
		return nil, fmt.Errorf("read the host key of node %s: %w", name, err)
	}
	return key, nil
}
