package shoot

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/boundedlist"
	"hortus.dev/hortus/internal/gardenlet/shoot/kinds"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/pki"
)

const (
	// requestTimeout bounds one request to a Shoot's API server, which may hang behind its own network.
	requestTimeout = 15 * time.Second
	// maxConnections bounds the cache; a seed has a few hundred Shoots at most, and an entry is small.
	maxConnections = 1000
)

// nodeLimits bound the search for a ready node, of which there are usually only such.
var nodeLimits = boundedlist.Limits{Bytes: 64 << 20, Objects: 10_000}

// Connector makes clients for Shoots' APIs and keeps them, with their connections.
type Connector struct {
	Scheme *runtime.Scheme
	// Now is the time at which certificates of etcd must be valid; nil means the present time.
	Now func() time.Time

	mu    sync.Mutex
	cache map[[sha256.Size]byte]connection
}

type connection struct {
	client    client.Client
	clientset kubernetes.Interface
	// clientUntil is the expiration of the certificate in the kubeconfig; zero without one.
	clientUntil time.Time
	// serverUntil is the expiration of the serving certificate of the last connection; nil before the first one.
	serverUntil *atomic.Pointer[time.Time]
}

// noting notes the end of the certificate that a server shows.
type noting struct {
	next  http.RoundTripper
	until *atomic.Pointer[time.Time]
}

func (n noting) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := n.next.RoundTrip(req)
	if err == nil && resp.TLS != nil && len(resp.TLS.PeerCertificates) > 0 {
		n.until.Store(&resp.TLS.PeerCertificates[0].NotAfter)
	}
	return resp, err
}

// WrappedRoundTripper is for client-go, which looks for methods such as CloseIdleConnections in wrapped transports.
func (n noting) WrappedRoundTripper() http.RoundTripper { return n.next }

// Connect returns a client for the kubeconfig.
func (c *Connector) Connect(kubeconfig []byte) (client.Client, error) {
	conn, err := c.connect(kubeconfig)
	return conn.client, err
}

func (c *Connector) connect(kubeconfig []byte) (connection, error) {
	key := sha256.Sum256(kubeconfig)
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn, ok := c.cache[key]; ok {
		return conn, nil
	}
	config, err := restConfig(kubeconfig)
	if err != nil {
		return connection{}, err
	}
	conn := connection{serverUntil: &atomic.Pointer[time.Time]{}}
	if cert, err := pki.ParseCert(config.CertData); err == nil {
		conn.clientUntil = cert.NotAfter
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return noting{next, conn.serverUntil} })
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return connection{}, err
	}
	if conn.clientset, err = kubernetes.NewForConfigAndClient(config, httpClient); err != nil {
		return connection{}, err
	}
	conn.client, err = client.New(config, client.Options{
		Scheme: c.Scheme, HTTPClient: httpClient, Mapper: kinds.NewMapper(conn.clientset.Discovery()),
	})
	if err != nil {
		return connection{}, err
	}
	if c.cache == nil || len(c.cache) >= maxConnections {
		c.cache = map[[sha256.Size]byte]connection{} // Rotated credentials leave entries behind.
	}
	c.cache[key] = conn
	return conn, nil
}

func restConfig(kubeconfig []byte) (*rest.Config, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	boundedlist.Bound(config)
	config.Timeout = requestTimeout
	config.QPS, config.Burst = 50, 100
	return config, nil
}

// Healthy queries the readiness of the API server.
func (c *Connector) Healthy(ctx context.Context, kubeconfig []byte) error {
	conn, err := c.connect(kubeconfig)
	if err != nil {
		return err
	}
	return conn.clientset.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// Status queries the health of the API server and returns the HTTP status of the answer.
func (c *Connector) Status(ctx context.Context, kubeconfig []byte) (int, error) {
	conn, err := c.connect(kubeconfig)
	if err != nil {
		return 0, err
	}
	result, status := conn.clientset.Discovery().RESTClient().Get().AbsPath("/healthz").Do(ctx), 0
	result.StatusCode(&status)
	if status != 0 {
		return status, nil // An error status is an answer, too.
	}
	return 0, result.Error()
}

// CertificatesUntil returns the expiration of the API server's certificate, as of its last answer, and of the
// certificate in the kubeconfig; zero if not known. It sends no request.
func (c *Connector) CertificatesUntil(kubeconfig []byte) (server, client time.Time) {
	conn, err := c.connect(kubeconfig)
	if err != nil {
		return time.Time{}, time.Time{}
	}
	if end := conn.serverUntil.Load(); end != nil {
		server = *end
	}
	return server, conn.clientUntil
}

// TunnelWorks queries the health of the kubelet of a ready node, through the API server and so through the tunnel.
func (c *Connector) TunnelWorks(ctx context.Context, kubeconfig []byte) error {
	conn, err := c.connect(kubeconfig)
	if err != nil {
		return err
	}
	node := ""
	findReady := func(page *corev1.NodeList) (bool, error) {
		node = kube.ReadyNode(page.Items)
		return node == "", nil
	}
	if err := boundedlist.Read(ctx, conn.client, nodeLimits, &corev1.NodeList{}, findReady); err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	if node == "" {
		return fmt.Errorf("no node is ready")
	}
	kubelet := conn.clientset.CoreV1().RESTClient().Get().Resource("nodes").Name(node).
		SubResource("proxy").Suffix("healthz")
	if err := kubelet.Do(ctx).Error(); err != nil {
		return fmt.Errorf("query kubelet of node %q: %w", node, err)
	}
	return nil
}
