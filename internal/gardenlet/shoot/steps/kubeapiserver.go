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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/component/gateway"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/internal/secretsmanager"
)

// KubeAPIServerService is the API server's address in the seed, and holds the one that the server advertises.
var KubeAPIServerService = &flow.Step[*Scope]{
	Name:  "kube-apiserver-service",
	After: []*flow.Step[*Scope]{Namespace},
	Ensure: func(ctx context.Context, s *Scope) (flow.Outcome, error) {
		address, err := s.proxyAddress(ctx)
		if err != nil {
			return flow.Outcome{}, err
		}
		return flow.Done(), s.apply(ctx, kubeapiserver.Service(s.Namespace, address))
	},
	Remove: func(ctx context.Context, s *Scope) (flow.Outcome, error) {
		_, err := s.remove(ctx, kubeapiserver.Service(s.Namespace, ""))
		return flow.Done(), err
	},
}

// Route makes the seed's gateway lead the Shoot's host names to the Service.
var Route = &flow.Step[*Scope]{
	Name:   "route",
	After:  []*flow.Step[*Scope]{KubeAPIServerService},
	SkipIf: asleep,
	Ensure: func(ctx context.Context, s *Scope) (flow.Outcome, error) {
		if err := requireDomain(s); err != nil {
			return flow.Outcome{}, err
		}
		return flow.Done(), s.apply(ctx, kubeapiserver.Route(s.Namespace, gateway.Namespace, gateway.Name, s.APIHosts()))
	},
	Remove: removeRoute,
}

func removeRoute(ctx context.Context, s *Scope) (flow.Outcome, error) {
	_, err := s.remove(ctx, &gatewayv1.TLSRoute{
		ObjectMeta: metav1.ObjectMeta{Name: kubeapiserver.Name, Namespace: s.Namespace},
	})
	return flow.Done(), err
}

// KubeAPIServer is the API server of the Shoot.
var KubeAPIServer = &flow.Step[*Scope]{
	Name: "kube-apiserver",
	After: []*flow.Step[*Scope]{
		Credentials, References, Etcd, RestoreBackup, FormerOwnerFenced, KubeAPIServerService, ExtensionsBeforeKubeAPIServer,
	},
	Ensure:  ensureKubeAPIServer,
	Remove:  removeKubeAPIServer,
	Recheck: recheckPods,
}

// KubeAPIServerReady waits until the newest version of it serves.
var KubeAPIServerReady = &flow.Step[*Scope]{
	Name:    "kube-apiserver-ready",
	After:   []*flow.Step[*Scope]{KubeAPIServer, EtcdReady},
	SkipIf:  either(asleep, skipReadiness),
	Ensure:  ensureKubeAPIServerReady,
	Limit:   5 * time.Minute,
	Recheck: recheck,
}

func ensureKubeAPIServer(ctx context.Context, s *Scope) (flow.Outcome, error) {
	address, err := s.proxyAddress(ctx)
	if err != nil {
		return flow.Outcome{}, err
	}
	server, err := s.generateServerCertificate(ctx, address)
	if err != nil {
		return flow.Outcome{}, err
	}
	secrets, err := s.apiServerSecrets(server.Name)
	if err != nil {
		return flow.Outcome{}, err
	}
	encryption, err := s.nextEncryption(ctx)
	if err != nil {
		return flow.Outcome{}, err
	}
	spec := s.Shoot.Spec.Kubernetes.KubeAPIServer
	v := kubeapiserver.Values{
		Namespace:    s.Namespace,
		Image:        s.Images.KubeAPIServer(s.Shoot.Spec.Kubernetes.Version),
		Replicas:     s.apiServerReplicas(),
		AdvertiseIP:  address,
		ExternalHost: s.APIHosts()[len(s.APIHosts())-1],
		ServiceCIDR:  s.ServiceCIDR(),
		Issuer:       issuer(s),
		Size:         s.size(),
		Workers:      !s.Workerless(),
		Secrets:      *secrets,
		Encryption:   encryption,
		EtcdMembers:  s.etcdMembers(),
		Config:       spec,
	}
	if spec != nil {
		if spec.ServiceAccountConfig != nil {
			v.AcceptedIssuers = spec.ServiceAccountConfig.AcceptedIssuers
		}
	}
	if err := s.addServerFiles(ctx, &v); err != nil {
		if s.Deleting() && s.Facts.APIServerReplicas > 0 && len(flow.Codes(err)) > 0 {
			return flow.Done(), nil // What a server needs that only has to be there for the clean-up, it has.
		}
		return flow.Outcome{}, err
	}
	objects, err := kubeapiserver.Render(v)
	if err != nil {
		return flow.Outcome{}, flow.WithCodes(err, string(corev1beta1.ErrorConfigurationProblem))
	}
	if err := s.apply(ctx, objects.All()...); err != nil {
		return flow.Outcome{}, err
	}
	d, err := s.apiServerDeployment(ctx)
	if err != nil {
		return flow.Outcome{}, err
	}
	return flow.Done(), s.pauseDeployment(ctx, d, false)
}

func ensureKubeAPIServerReady(ctx context.Context, s *Scope) (flow.Outcome, error) {
	outcome, err := s.deploymentReady(ctx, kubeapiserver.Name)
	if err != nil || !outcome.IsDone() {
		return outcome, err
	}
	// Requests may still reach a server that is shutting down.
	pods, err := s.podsOf(ctx, kubeapiserver.Name)
	if err != nil {
		return flow.Outcome{}, err
	}
	for i := range pods {
		if !pods[i].DeletionTimestamp.IsZero() {
			return flow.Waiting(fmt.Sprintf("Deployment %s is rolling out: the previous server is shutting down",
				kubeapiserver.Name)), nil
		}
	}
	return flow.Done(), nil
}

// fetchLimit is how long nodes may take to fetch an image. Some registries, the local cloud's for one, make an image
// when it is asked for.
const fetchLimit = 30 * time.Minute

// waitForPods adds to the text what the pods wait for.
func (s *Scope) waitForPods(text string, pods []corev1.Pod) flow.Outcome {
	why, fetching := kube.WaitingContainers(pods, s.Clock.Now())
	if why != "" {
		text += ": " + why
	}
	if fetching {
		return flow.WaitingUpTo(fetchLimit, text)
	}
	return flow.Waiting(text)
}

// deploymentReady reads a Deployment and reports whether its newest version is available.
func (s *Scope) deploymentReady(ctx context.Context, name string) (flow.Outcome, error) {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Namespace}}
	found, err := kube.Exists(ctx, s.Seed, d)
	if err != nil {
		return flow.Outcome{}, err
	}
	if !found {
		return flow.Waiting(fmt.Sprintf("Deployment %s has been deleted by somebody else", name)), nil
	}
	if !kube.DeploymentReady(d) {
		pods := &corev1.PodList{}
		if err := s.Seed.List(ctx, pods, client.InNamespace(s.Namespace),
			client.MatchingLabels(d.Spec.Selector.MatchLabels)); err != nil {
			return flow.Outcome{}, fmt.Errorf("list pods of Deployment %q: %w", name, err)
		}
		return s.waitForPods(kube.DeploymentProgress(d), pods.Items), nil
	}
	return flow.Done(), nil
}

// apiServerReplicas is more than one when the Shoot has to survive failures.
func (s *Scope) apiServerReplicas() int32 {
	n := s.Replicas()
	if cp := s.Shoot.Spec.ControlPlane; n > 0 && cp != nil && cp.HighAvailability != nil {
		return 3
	}
	return n
}

func (s *Scope) generateServerCertificate(ctx context.Context, address string) (*corev1.Secret, error) {
	serviceIP, err := firstServiceIP(s.ServiceCIDR())
	if err != nil {
		return nil, flow.WithCodes(err, string(corev1beta1.ErrorConfigurationProblem))
	}
	return s.Secrets.Generate(ctx, secretsmanager.Certificate{
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

func (s *Scope) apiServerSecrets(server string) (*kubeapiserver.Secrets, error) {
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
	out.ClientCABundle = name(s.Secrets.Bundle(nameCAClient))
	out.EtcdCABundle = name(s.Secrets.Bundle(nameCAEtcd))
	out.EtcdClient = name(s.Secrets.Get(nameEtcdClient))
	out.FrontProxyCABundle = name(s.Secrets.Bundle(nameCAFrontProxy))
	out.Aggregator = name(s.Secrets.Get(nameKubeAggregator))
	out.ServiceAccountKey = name(s.Secrets.Get(nameServiceAccountKey))
	out.KeyBundle = name(s.Secrets.Bundle(nameServiceAccountKey))
	out.VPNCABundle = name(s.Secrets.Bundle(nameCAVPN))
	out.VPNClient = name(s.Secrets.Get(nameHTTPProxy))
	if !s.Workerless() {
		out.KubeletCABundle = name(s.Secrets.Bundle(nameCAKubelet))
		out.KubeletClient = name(s.Secrets.Get(nameKubeletClient))
	}
	return out, firstErr
}

// removeKubeAPIServer deletes the API server, and stops what acts on it, so that no pods are left for the namespace.
// Its pods are taken from their controllers first and end at once: nobody uses it any more, so that it need not wait
// for clients.
func removeKubeAPIServer(ctx context.Context, s *Scope) (flow.Outcome, error) {
	const waiting = "Deployment kube-apiserver is being deleted"
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: kubeapiserver.Name, Namespace: s.Namespace}}
	gone, err := kube.Delete(ctx, s.Seed, d, client.PropagationPolicy(metav1.DeletePropagationOrphan))
	if err != nil {
		return flow.Outcome{}, err
	}
	for _, name := range stoppedWithAPIServer {
		if err := s.scaleDeployment(ctx, name, 0); err != nil {
			return flow.Outcome{}, err
		}
	}
	if released, err := s.deleteReplicaSets(ctx, d.Name); err != nil || !gone || !released {
		return waitingOr(waiting, err)
	}
	if ended, err := s.deletePods(ctx, d.Name, func(*corev1.Pod) bool { return true }); err != nil || !ended {
		return waitingOr(waiting, err)
	}
	return flow.Done(), nil
}

// removeDeployment deletes a Deployment and waits for its pods, which the garbage collector removes after it.
func (s *Scope) removeDeployment(ctx context.Context, d *appsv1.Deployment) (flow.Outcome, error) {
	gone, err := s.remove(ctx, d)
	if err != nil {
		return flow.Outcome{}, err
	}
	ended, err := s.endPods(ctx, d.Name)
	if err != nil {
		return flow.Outcome{}, err
	}
	if !gone || !ended {
		return flow.Waiting(fmt.Sprintf("Deployment %s is being deleted", d.Name)), nil
	}
	return flow.Done(), nil
}

// podsOf lists the pods of a component.
func (s *Scope) podsOf(ctx context.Context, name string, opts ...client.ListOption) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	opts = append(opts, client.InNamespace(s.Namespace), client.MatchingLabels(component.Selector(name)))
	if err := s.Seed.List(ctx, pods, opts...); err != nil {
		return nil, fmt.Errorf("list pods of %s: %w", name, err)
	}
	return pods.Items, nil
}

// endPods reports whether the pods of a component have ended that nobody uses any more. Those that are shutting down
// need not wait for their clients.
func (s *Scope) endPods(ctx context.Context, name string) (bool, error) {
	return s.deletePods(ctx, name, func(p *corev1.Pod) bool { return !p.DeletionTimestamp.IsZero() })
}

// deletePods deletes those pods of a component that match, and reports whether it has none.
func (s *Scope) deletePods(ctx context.Context, name string, match func(*corev1.Pod) bool) (bool, error) {
	pods, err := s.podsOf(ctx, name)
	if err != nil {
		return false, err
	}
	for i := range pods {
		p := &pods[i]
		if !match(p) || !p.DeletionTimestamp.IsZero() && ptr.Deref(p.DeletionGracePeriodSeconds, 0) <= 1 {
			continue
		}
		if err := client.IgnoreNotFound(s.Seed.Delete(ctx, p, client.GracePeriodSeconds(1))); err != nil {
			return false, fmt.Errorf("end Pod %q: %w", p.Name, err)
		}
	}
	return len(pods) == 0, nil
}
