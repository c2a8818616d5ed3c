package steps

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component/gateway"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/internal/secretsmanager"
)

// KubeAPIServerService is the API server's address in the seed, and reserves the address that the server advertises.
var KubeAPIServerService = &flow.Step[*Scope]{
	Name:  "kube-apiserver-service",
	After: []*flow.Step[*Scope]{Namespace},
	Ensure: use2(func(ctx context.Context, s *Values, seed *SeedNamespace) (flow.Outcome, error) {
		address, err := proxyAddress(ctx, s, seed)
		if err != nil {
			return flow.Outcome{}, err
		}
		return flow.Done(), seed.apply(ctx, kubeapiserver.Service(s.Namespace, address))
	}),
	Remove: use1(func(ctx context.Context, seed *SeedNamespace) (flow.Outcome, error) {
		_, err := seed.remove(ctx, kubeapiserver.Service(seed.namespace, ""))
		return flow.Done(), err
	}),
}

// Route makes the seed's gateway route the Shoot's host names to the Service.
var Route = &flow.Step[*Scope]{
	Name:   "route",
	After:  []*flow.Step[*Scope]{KubeAPIServerService},
	SkipIf: when(asleep),
	Ensure: use2(func(ctx context.Context, s *Values, seed *SeedNamespace) (flow.Outcome, error) {
		if err := requireDomain(s); err != nil {
			return flow.Outcome{}, err
		}
		return flow.Done(), seed.apply(ctx, kubeapiserver.Route(s.Namespace, gateway.Namespace, gateway.Name, s.APIHosts()))
	}),
	Remove: use1(removeRoute),
}

func removeRoute(ctx context.Context, seed *SeedNamespace) (flow.Outcome, error) {
	_, err := seed.remove(ctx, &gatewayv1.TLSRoute{
		ObjectMeta: metav1.ObjectMeta{Name: kubeapiserver.Name, Namespace: seed.namespace},
	})
	return flow.Done(), err
}

// KubeAPIServer is the API server of the Shoot.
var KubeAPIServer = &flow.Step[*Scope]{
	Name: "kube-apiserver",
	After: []*flow.Step[*Scope]{
		Credentials, References, Etcd, RestoreBackup, FormerOwnerFenced, KubeAPIServerService, ExtensionsBeforeKubeAPIServer,
	},
	Ensure:  use4(ensureKubeAPIServer),
	Remove:  use1(removeKubeAPIServer),
	Recheck: recheckPods,
}

// KubeAPIServerReady waits until the newest version of the API server serves requests.
var KubeAPIServerReady = &flow.Step[*Scope]{
	Name:    "kube-apiserver-ready",
	After:   []*flow.Step[*Scope]{KubeAPIServer, EtcdReady},
	SkipIf:  when(asleep, skipReadiness),
	Ensure:  use1(ensureKubeAPIServerReady),
	Limit:   5 * time.Minute,
	Recheck: recheck,
}

func ensureKubeAPIServer(
	ctx context.Context, s *Values, seed *SeedNamespace, garden *GardenNamespace, secrets Secrets,
) (flow.Outcome, error) {
	address, err := proxyAddress(ctx, s, seed)
	if err != nil {
		return flow.Outcome{}, err
	}
	server, err := generateServerCertificate(ctx, s, secrets, address)
	if err != nil {
		return flow.Outcome{}, err
	}
	mounted, err := apiServerSecrets(s, secrets, server.Name)
	if err != nil {
		return flow.Outcome{}, err
	}
	encryption, err := nextEncryption(ctx, s, seed, secrets)
	if err != nil {
		return flow.Outcome{}, err
	}
	spec := s.Shoot.Spec.Kubernetes.KubeAPIServer
	v := kubeapiserver.Values{
		Namespace:    s.Namespace,
		Image:        s.Images.KubeAPIServer(s.Shoot.Spec.Kubernetes.Version),
		Replicas:     apiServerReplicas(s),
		AdvertiseIP:  address,
		ExternalHost: s.APIHosts()[len(s.APIHosts())-1],
		ServiceCIDR:  s.ServiceCIDR(),
		Issuer:       issuer(s),
		Size:         s.size(),
		Workers:      !s.Workerless(),
		Secrets:      *mounted,
		Encryption:   encryption,
		EtcdMembers:  s.etcdMembers(),
		Config:       spec,
	}
	if spec != nil {
		if spec.ServiceAccountConfig != nil {
			v.AcceptedIssuers = spec.ServiceAccountConfig.AcceptedIssuers
		}
	}
	if err := addServerFiles(ctx, s, garden, &v); err != nil {
		if s.Deleting() && s.Facts.APIServerReplicas > 0 && len(flow.Codes(err)) > 0 {
			return flow.Done(), nil // A running server has all that the clean-up needs.
		}
		return flow.Outcome{}, err
	}
	objects, err := kubeapiserver.Render(v)
	if err != nil {
		return flow.Outcome{}, flow.WithCodes(err, string(corev1beta1.ErrorConfigurationProblem))
	}
	if err := seed.apply(ctx, objects.All()...); err != nil {
		return flow.Outcome{}, err
	}
	d, err := apiServerDeployment(ctx, seed)
	if err != nil {
		return flow.Outcome{}, err
	}
	return flow.Done(), seed.pauseDeployment(ctx, d, false)
}

func ensureKubeAPIServerReady(ctx context.Context, seed *SeedNamespace) (flow.Outcome, error) {
	outcome, err := seed.deploymentReady(ctx, kubeapiserver.Name)
	if err != nil || !outcome.IsDone() {
		return outcome, err
	}
	// Requests may still reach a server that is shutting down.
	pods, err := seed.podsOf(ctx, kubeapiserver.Name)
	if err != nil {
		return flow.Outcome{}, err
	}
	for i := range pods {
		if !pods[i].DeletionTimestamp.IsZero() {
			return flow.Waiting(waitDeployment, fmt.Sprintf("Deployment %s is rolling out: the previous server is shutting down",
				kubeapiserver.Name)), nil
		}
	}
	return flow.Done(), nil
}

// apiServerReplicas is more than one when the Shoot has to survive failures.
func apiServerReplicas(s *Values) int32 {
	n := s.Replicas()
	if cp := s.Shoot.Spec.ControlPlane; n > 0 && cp != nil && cp.HighAvailability != nil {
		return 3
	}
	return n
}

func generateServerCertificate(
	ctx context.Context, s *Values, secrets Secrets, address string,
) (*corev1.Secret, error) {
	serviceIP, err := firstServiceIP(s.ServiceCIDR())
	if err != nil {
		return nil, flow.WithCodes(err, string(corev1beta1.ErrorConfigurationProblem))
	}
	return secrets.Generate(ctx, secretsmanager.Certificate{
		Name:       nameAPIServer,
		CommonName: "kube-apiserver",
		DNSNames:   append(kubeapiserver.DNSNames(s.Namespace), s.APIHosts()...),
		IPs:        []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(address), net.ParseIP(serviceIP)},
		Usage:      pki.Server,
		SignedBy:   nameCA,
		Validity:   certificateValidity,
	}, secretsmanager.Options{})
}

// firstServiceIP is the address of the Service `kubernetes`.
func firstServiceIP(cidr string) (string, error) { return serviceIP(cidr, 1) }

// serviceIP is the n-th address of a range.
func serviceIP(cidr string, n int) (string, error) {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return "", fmt.Errorf("range of services %q: %w", cidr, err)
	}
	ip := prefix.Masked().Addr()
	for range n {
		ip = ip.Next()
	}
	if !prefix.Contains(ip) {
		return "", fmt.Errorf("range of services %q is too small", cidr)
	}
	return ip.String(), nil
}

func apiServerSecrets(s *Values, secrets Secrets, server string) (*kubeapiserver.Secrets, error) {
	out := &kubeapiserver.Secrets{Server: server}
	var firstErr error
	name := func(secret *corev1.Secret, err error) string {
		if err != nil {
			if firstErr == nil {
				firstErr = err
			}
			return ""
		}
		return secret.Name
	}
	out.ClientCABundle = name(secrets.Bundle(nameCAClient))
	out.EtcdCABundle = name(secrets.Bundle(nameCAEtcd))
	out.EtcdClient = name(secrets.Get(nameEtcdClient))
	out.FrontProxyCABundle = name(secrets.Bundle(nameCAFrontProxy))
	out.Aggregator = name(secrets.Get(nameKubeAggregator))
	out.ServiceAccountKey = name(secrets.Get(nameServiceAccountKey))
	out.KeyBundle = name(secrets.Bundle(nameServiceAccountKey))
	out.VPNCABundle = name(secrets.Bundle(nameCAVPN))
	out.VPNClient = name(secrets.Get(nameHTTPProxy))
	if !s.Workerless() {
		out.KubeletCABundle = name(secrets.Bundle(nameCAKubelet))
		out.KubeletClient = name(secrets.Get(nameKubeletClient))
	}
	return out, firstErr
}

// removeKubeAPIServer deletes the API server, and stops what acts on it, so that no pods are left for the namespace.
// Its pods are taken from their controllers first and end at once: nobody uses it any more, so that it need not wait
// for clients.
func removeKubeAPIServer(ctx context.Context, seed *SeedNamespace) (flow.Outcome, error) {
	const waiting = "Deployment kube-apiserver is being deleted"
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: kubeapiserver.Name, Namespace: seed.namespace}}
	gone, err := seed.applied.Delete(ctx, seed, d, client.PropagationPolicy(metav1.DeletePropagationOrphan))
	if err != nil {
		return flow.Outcome{}, err
	}
	for _, name := range stoppedWithAPIServer() {
		if err := seed.scaleDeployment(ctx, name, 0); err != nil {
			return flow.Outcome{}, err
		}
	}
	if released, err := seed.deleteReplicaSets(ctx, d.Name); err != nil || !gone || !released {
		return waitingOr(waitDeployment, waiting, err)
	}
	if ended, err := seed.deletePods(ctx, d.Name, func(*corev1.Pod) bool { return true }); err != nil || !ended {
		return waitingOr(waitDeployment, waiting, err)
	}
	return flow.Done(), nil
}

// apiServerDeployment reads the Deployment; an empty one if it does not exist.
func apiServerDeployment(ctx context.Context, seed *SeedNamespace) (*appsv1.Deployment, error) {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: kubeapiserver.Name, Namespace: seed.namespace}}
	_, err := kube.Exists(ctx, seed, d)
	return d, err
}
