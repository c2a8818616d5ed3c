package steps

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/component/etcd"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/component/resourcemanager"
	"hortus.dev/hortus/internal/component/shootsystem"
	"hortus.dev/hortus/internal/component/vpnseedserver"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/internal/secretsmanager"
	"hortus.dev/hortus/internal/tunnel"
)

// Names of generated credentials.
const (
	nameCA              = "ca"
	nameCAClient        = "ca-client"
	nameCAEtcd          = "ca-etcd"
	nameCAEtcdPeer      = "ca-etcd-peer"
	nameCAFrontProxy    = "ca-front-proxy"
	nameCAKubelet       = "ca-kubelet"
	nameCAMetricsServer = "ca-metrics-server"
	nameCAVPN           = "ca-vpn"

	nameEtcdServer         = "etcd-server"
	nameEtcdClient         = "etcd-client"
	nameEtcdPeer           = "etcd-peer"
	nameKubeAggregator     = "kube-aggregator"
	nameKubeletClient      = "kube-apiserver-kubelet"
	nameHTTPProxy          = "kube-apiserver-http-proxy"
	nameVPNServer          = "vpn-seed-server"
	nameVPNShoot           = "vpn-shoot-client"
	nameAPIServer          = "kube-apiserver"
	nameWebhooks           = "gardener-resource-manager-webhooks"
	nameServiceAccountKey  = "service-account-key"
	nameEtcdEncryptionKey  = "kube-apiserver-etcd-encryption-key"
	nameSSHKeypair         = "ssh-keypair"
	nameGardener           = "gardener"
	nameGardenerInternal   = "gardener-internal"
	genericTokenKubeconfig = "generic-token-kubeconfig"
)

// certificateValidity of everything that is renewed by replacing pods.
const certificateValidity = 365 * 24 * time.Hour

// Credentials generates the CAs, keys and certificates of the control plane, except the API server's certificate, which
// requires an address that is known only later.
var Credentials = &flow.Step[*Scope]{
	Name:   "credentials",
	After:  []*flow.Step[*Scope]{Namespace},
	Ensure: use3(ensureCredentials),
}

// credential is one config and how its rotation is controlled.
type credential struct {
	config secretsmanager.Config
	opts   secretsmanager.Options
}

func ensureCredentials(ctx context.Context, s *Values, seed *SeedNamespace, secrets Secrets) (flow.Outcome, error) {
	for _, c := range desiredCredentials(s) {
		if _, err := secrets.Generate(ctx, c.config, c.opts); err != nil {
			return flow.Outcome{}, err
		}
	}
	kubeconfig, err := secrets.genericKubeconfig()
	if err != nil {
		return flow.Outcome{}, err
	}
	internal, err := secrets.gardenerKubeconfig()
	if err != nil {
		return flow.Outcome{}, err
	}
	external, err := secrets.kubeconfigFor(s.InternalHost())
	if err != nil {
		return flow.Outcome{}, err
	}
	secret := func(name string, content []byte) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: s.Namespace,
				Labels: map[string]string{corev1beta1.LabelRole: corev1beta1.RoleKubeconfig},
			},
			Type: corev1.SecretTypeOpaque,
			Data: map[string][]byte{"kubeconfig": content},
		}
	}
	// Extensions in the seed use the internal kubeconfig, those elsewhere the external one.
	return flow.Done(), seed.apply(ctx, kubeconfig, clusterAnnotation(s.Namespace, kubeconfig.Name),
		secret(nameGardenerInternal, internal), secret(nameGardener, external))
}

// desiredCredentials lists what to generate, signers first.
func desiredCredentials(s *Values) []credential {
	rotation := &corev1beta1.ShootCredentialsRotation{}
	if c := s.Shoot.Status.Credentials; c != nil && c.Rotation != nil {
		rotation = c.Rotation
	}
	cas := ptr.Deref(rotation.CertificateAuthorities, corev1beta1.CARotation{})
	ca := replaceable(cas.LastInitiationTime, cas.Phase)
	account := ptr.Deref(rotation.ServiceAccountKey, corev1beta1.ServiceAccountKeyRotation{})
	encryption := ptr.Deref(rotation.ETCDEncryptionKey, corev1beta1.ETCDEncryptionKeyRotation{})
	ssh := ptr.Deref(rotation.SSHKeypair, corev1beta1.ShootSSHKeypairRotation{})
	list := []credential{
		{secretsmanager.CA{Name: nameCA, CommonName: "kubernetes"}, ca},
		{secretsmanager.CA{Name: nameCAClient, CommonName: "kubernetes-client"}, ca},
		{secretsmanager.CA{Name: nameCAEtcd, CommonName: "etcd"}, ca},
		{secretsmanager.CA{Name: nameCAEtcdPeer, CommonName: "etcd-peer"}, ca},
		{secretsmanager.CA{Name: nameCAFrontProxy, CommonName: "front-proxy"}, ca},
		{secretsmanager.RSAKey{Name: nameServiceAccountKey}, replaceable(account.LastInitiationTime, account.Phase)},
		{
			secretsmanager.EncryptionKey{Name: nameEtcdEncryptionKey},
			replaceable(encryption.LastInitiationTime, encryption.Phase),
		},
		// Etcd is also a client of itself with this certificate, hence both usages.
		certificate(nameEtcdServer, "etcd-server", nameCAEtcd, pki.Server|pki.Client, etcd.DNSNames(s.Namespace)),
		certificate(nameEtcdClient, "etcd-client", nameCAEtcd, pki.Client, nil),
		certificate(nameEtcdPeer, "etcd-peer", nameCAEtcdPeer, pki.Server|pki.Client, etcd.PeerDNSNames(s.Namespace)),
		certificate(nameKubeAggregator, "system:kube-aggregator", nameCAFrontProxy, pki.Client, nil),
		certificate(nameGardener, kubeapiserver.UserGardenlet, nameCAClient, pki.Client, nil, "system:masters"),
	}
	for _, d := range Deployments {
		if d.User != "" && !(d.Workers && s.Workerless()) {
			list = append(list, certificate(d.Name, d.User, nameCAClient, pki.Client, nil, d.Groups...))
		}
	}
	// The API server of every Shoot reaches the outside through its tunnel server.
	list = append(list,
		credential{secretsmanager.CA{Name: nameCAVPN, CommonName: "vpn"}, ca},
		certificate(nameHTTPProxy, tunnel.APIServerCommonName, nameCAVPN, pki.Client, nil),
		certificate(nameVPNServer, vpnseedserver.Name, nameCAVPN, pki.Server, vpnseedserver.DNSNames(s.Namespace)),
	)
	if s.Workerless() {
		return list
	}
	list = append(list,
		credential{secretsmanager.CA{Name: nameCAKubelet, CommonName: "kubelet"}, ca},
		credential{secretsmanager.CA{Name: nameCAMetricsServer, CommonName: "metrics-server"}, ca},
		credential{config: secretsmanager.Certificate{
			Name: nameKubeletClient, CommonName: shootsystem.UserKubeletClient, SignedBy: nameCAKubelet, Usage: pki.Client,
			Validity: certificateValidity, ForOldPeers: true, // For logs and shells on nodes that have not been replaced yet.
		}},
		certificate(nameWebhooks, resourcemanager.Name, nameCA, pki.Server, resourcemanager.WebhookDNSNames(s.Namespace)),
		certificate(nameVPNShoot, tunnel.ClientCommonName, nameCAVPN, pki.Client, nil),
	)
	if s.SSHAccess() {
		list = append(list, credential{
			secretsmanager.RSAKey{Name: nameSSHKeypair, SSH: true}, replaceable(ssh.LastInitiationTime, ""),
		})
	}
	return list
}

func certificate(name, commonName, ca string, usage pki.Usage, dnsNames []string, organizations ...string) credential {
	return credential{config: secretsmanager.Certificate{
		Name: name, CommonName: commonName, Organizations: organizations, DNSNames: dnsNames, Usage: usage, SignedBy: ca,
		Validity: certificateValidity,
	}}
}

// replaceable are the options of a credential that rotations replace.
func replaceable(initiated *metav1.Time, phase corev1beta1.CredentialsRotationPhase) secretsmanager.Options {
	return secretsmanager.Options{
		Persist: true, KeepOld: true, RotationInitiated: timeOf(initiated),
		// Once a rotation is being completed, the replaced credentials are no longer accepted.
		IgnoreOld: phase == corev1beta1.RotationCompleting || phase == corev1beta1.RotationCompleted,
	}
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// genericKubeconfig is the Secret with the kubeconfig for components that have a token of the Shoot. Its name changes
// with its content, so that pods that use it are replaced.
func (secrets Secrets) genericKubeconfig() (*corev1.Secret, error) {
	ca, err := secrets.Bundle(nameCA)
	if err != nil {
		return nil, err
	}
	content, err := pki.Kubeconfig{
		Name:      "shoot",
		Server:    component.APIServerURL,
		CAPEM:     ca.Data[secretsmanager.DataBundle],
		TokenFile: component.GenericKubeconfigPath + "/token",
	}.Render()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: genericTokenKubeconfig + "-" + hex.EncodeToString(sum[:])[:8], Namespace: secrets.namespace,
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{"kubeconfig": content},
	}, nil
}

// clusterAnnotation has the name of that Secret for extensions. Only the annotation is applied: the rest of the Cluster
// object belongs to the reconciler.
func clusterAnnotation(namespace, secret string) *unstructured.Unstructured {
	cluster := &unstructured.Unstructured{}
	cluster.SetGroupVersionKind(extensionsv1alpha1.SchemeGroupVersion.WithKind("Cluster"))
	cluster.SetName(namespace)
	cluster.SetAnnotations(map[string]string{extensionsv1alpha1.AnnotationGenericTokenKubeconfig: secret})
	return cluster
}

// gardenerKubeconfig is the gardenlet's own way into the Shoot, over the Service in the seed.
func (secrets Secrets) gardenerKubeconfig() ([]byte, error) {
	return secrets.kubeconfigFor(nameAPIServer + "." + secrets.namespace + ".svc")
}

// kubeconfigFor has all rights, by a name of the Shoot's API server.
func (secrets Secrets) kubeconfigFor(host string) ([]byte, error) {
	ca, err := secrets.Bundle(nameCA)
	if err != nil {
		return nil, err
	}
	cert, err := secrets.Get(nameGardener)
	if err != nil {
		return nil, err
	}
	return pki.Kubeconfig{
		Name:   secrets.namespace,
		Server: "https://" + host,
		CAPEM:  ca.Data[secretsmanager.DataBundle],
		Client: &pki.KeyPair{CertPEM: cert.Data[secretsmanager.DataCert], KeyPEM: cert.Data[secretsmanager.DataKey]},
	}.Render()
}

// access is the way of a component into the Shoot's API by client certificate.
func (secrets Secrets) access(certName string) (component.ClientAccess, error) {
	ca, err := secrets.Bundle(nameCA)
	if err != nil {
		return component.ClientAccess{}, err
	}
	cert, err := secrets.Get(certName)
	if err != nil {
		return component.ClientAccess{}, err
	}
	return component.ClientAccess{CASecret: ca.Name, CertSecret: cert.Name}, nil
}
