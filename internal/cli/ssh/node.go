package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/cli/kubeconfig"
)

// accessFor is how long the credentials for the Shoot's API server last; they are used at the beginning only. It is the
// minimum.
const accessFor = 10 * time.Minute

// apiTimeout bounds each request to the Shoot's API server, without which a known address can still be used.
const apiTimeout = 30 * time.Second

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
	config.Timeout = apiTimeout
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
	hostKey       hostKeyCheck
}

// publication is what is known of the host key that a node publishes.
type publication struct {
	key     ssh.PublicKey // Nil if it is not known.
	missing string        // Why the node's answer has no key: a sentence without full stop.
	err     error         // Why there is no answer. Whoever prevented it might also be between here and the node.
}

// findNode finds a node through the API of the Shoot. If that cannot be used, an internal address is taken as it is,
// and its host key must have been recorded.
func (c *command) findNode(
	ctx context.Context, shoot *corev1beta1.Shoot, wanted string, known knownHosts, notices io.Writer,
) (node, error) {
	api, nodes, err := c.listNodes(ctx, shoot.Name)
	if ctx.Err() != nil {
		return node{}, ctx.Err()
	}
	published := publication{err: err}
	var found node
	if err != nil {
		found, err = withoutAPI(wanted, err)
	} else if found, err = chooseNode(nodes, wanted); err == nil {
		published = api.hostKey(ctx, found.name)
	}
	if err != nil {
		return node{}, err
	}
	uid := string(shoot.UID)
	found.hostKey, err = known.check([]string{uid + "/" + found.name, uid + "/" + found.address}, published, notices)
	return found, err
}

// listNodes requests access to the Shoot's API, and lists the nodes.
func (c *command) listNodes(ctx context.Context, shoot string) (cluster, []corev1.Node, error) {
	api, err := c.shootClient(ctx, shoot)
	if err != nil {
		return cluster{}, nil, err
	}
	nodes, err := api.nodes(ctx)
	return api, nodes, err
}

// withoutAPI is the node with an internal address. Cause says why the API of the Shoot cannot be used.
func withoutAPI(wanted string, cause error) (node, error) {
	address, err := netip.ParseAddr(wanted)
	if err != nil {
		return node{}, fmt.Errorf("%w. To log in without the API of the Shoot, give the internal address of a node", cause)
	}
	return node{name: address.String(), address: address.String()}, nil
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

// hostKey reads the host key that a node publishes among its logs. The way there, through the API server, is
// authenticated.
func (c cluster) hostKey(ctx context.Context, name string) publication {
	file := strings.TrimPrefix(extensionsv1alpha1.SSHHostKeyFile, "/var/log/")
	data, err := c.CoreV1().RESTClient().Get().Resource("nodes").Name(name).SubResource("proxy", "logs", file).
		DoRaw(ctx)
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		switch code := status.Status().Code; code {
		case http.StatusNotFound:
			return publication{missing: "The node publishes no host key"}
		case http.StatusForbidden, http.StatusMethodNotAllowed: // The kubelet of the Shoot may be configured so.
			return publication{missing: fmt.Sprintf("The host key that the node publishes cannot be read (%d)", code)}
		}
	}
	var key ssh.PublicKey
	if err == nil {
		key, _, _, _, err = ssh.ParseAuthorizedKey(data)
	}
	if err != nil {
		return publication{err: fmt.Errorf("read the host key of node %s: %w", name, err)}
	}
	return publication{key: key}
}
