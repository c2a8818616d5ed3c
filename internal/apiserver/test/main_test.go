// Package test checks the API server behind a real kube-apiserver.
package test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	"hortus.dev/hortus/internal/apiserver"
	"hortus.dev/hortus/test/env"
)

func TestMain(m *testing.M) {
	env.Main(m, env.WithGardenAPI(issueTokens,
		func(o *apiserver.Options) { o.Recommended.Admission.DisablePlugins = nil }))
}

const tokenIssuer = "https://issuer.example.com"

// issueTokens gives the server a key for tokens of WorkloadIdentities, next to its serving certificate.
func issueTokens(o *apiserver.Options) {
	path := filepath.Join(filepath.Dir(o.Recommended.SecureServing.ServerCert.CertKey.CertFile), "tokens.key")
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err == nil {
		err = os.WriteFile(path, pem.EncodeToMemory(&pem.Block{
			Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key),
		}), 0o600)
	}
	if err != nil {
		panic(err)
	}
	o.Tokens.Issuer, o.Tokens.KeyFile = tokenIssuer, path
}

// garden has the objects that a Shoot refers to.
type garden struct {
	*env.Environment
	t         *testing.T
	ctx       context.Context
	namespace string
	profile   *corev1beta1.CloudProfile
	binding   *securityv1alpha1.CredentialsBinding
}

// newGarden creates a project, a profile and credentials, each with a name of its own.
func newGarden(t *testing.T) *garden {
	e := env.Shared(t)
	register(e, t)
	g := &garden{Environment: e, t: t, ctx: t.Context(), namespace: *e.Project(t).Spec.Namespace}
	g.profile = newProfile()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "cloud"}}
	g.binding = &securityv1alpha1.CredentialsBinding{
		ObjectMeta:     metav1.ObjectMeta{Namespace: g.namespace, Name: "cloud"},
		Provider:       securityv1alpha1.CredentialsBindingProvider{Type: "local"},
		CredentialsRef: corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Name: "cloud", Namespace: g.namespace},
	}
	e.Create(t, g.profile, secret, g.binding)
	return g
}

// registered is done when an extension is registered for the types that all tests use.
var registered sync.Once

// register registers an extension for the types of newShoot and newSeed.
func register(e *env.Environment, t *testing.T) {
	registered.Do(func() {
		registration := &corev1beta1.ControllerRegistration{ObjectMeta: metav1.ObjectMeta{Name: "local"}}
		for _, kind := range []string{
			"ControlPlane", "Infrastructure", "Worker", "DNSRecord", "BackupBucket", "BackupEntry",
		} {
			registration.Spec.Resources = append(registration.Spec.Resources,
				corev1beta1.ControllerResource{Kind: kind, Type: "local"})
		}
		registration.Spec.Resources = append(registration.Spec.Resources,
			corev1beta1.ControllerResource{Kind: "Network", Type: "bridge"},
			corev1beta1.ControllerResource{Kind: "OperatingSystemConfig", Type: "hortus-machine"})
		if err := e.Client.Create(t.Context(), registration); err != nil {
			t.Fatalf("create ControllerRegistration: %v", err)
		}
	})
}

func newProfile() *corev1beta1.CloudProfile {
	past := metav1.NewTime(time.Now().Add(-time.Hour))
	version := func(v string, class corev1beta1.VersionClassification) corev1beta1.ExpirableVersion {
		return corev1beta1.ExpirableVersion{Version: v, Classification: &class}
	}
	expired := version("1.34.0", corev1beta1.ClassificationDeprecated)
	expired.ExpirationDate = &past
	return &corev1beta1.CloudProfile{
		ObjectMeta: metav1.ObjectMeta{
			Name: env.Name("profile-"), Annotations: map[string]string{corev1beta1.AnnotationAllowExpiredVersions: "true"},
		},
		Spec: corev1beta1.CloudProfileSpec{
			Type: "local",
			Kubernetes: corev1beta1.KubernetesSettings{Versions: []corev1beta1.ExpirableVersion{
				version("1.37.0", corev1beta1.ClassificationPreview),
				version("1.36.3", corev1beta1.ClassificationSupported),
				version("1.36.1", corev1beta1.ClassificationDeprecated),
				version("1.35.4", corev1beta1.ClassificationSupported),
				expired,
			}},
			MachineImages: []corev1beta1.MachineImage{{
				Name: "hortus-machine", Versions: []corev1beta1.MachineImageVersion{
					{ExpirableVersion: version("1.0.0", corev1beta1.ClassificationDeprecated)},
					{ExpirableVersion: version("1.1.0", corev1beta1.ClassificationSupported)},
				},
			}},
			MachineTypes: []corev1beta1.MachineType{{
				Name: "small", CPU: resource.MustParse("1"), GPU: resource.MustParse("0"), Memory: resource.MustParse("2Gi"),
			}},
			Regions: []corev1beta1.Region{{Name: "local", Zones: []corev1beta1.AvailabilityZone{{Name: "a"}, {Name: "b"}}}},
		},
	}
}

// newShoot returns a Shoot with one pool and only the required fields.
func (g *garden) newShoot() *corev1beta1.Shoot {
	return &corev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: env.Name("s")},
		Spec: corev1beta1.ShootSpec{
			CloudProfile:           &corev1beta1.CloudProfileReference{Name: g.profile.Name},
			CredentialsBindingName: ptr.To(g.binding.Name),
			Region:                 "local",
			Networking:             &corev1beta1.Networking{Type: ptr.To("bridge")},
			Provider: corev1beta1.Provider{Type: "local", Workers: []corev1beta1.Worker{{
				Name: "pool", Machine: corev1beta1.Machine{Type: "small"}, Minimum: 1, Maximum: 2,
			}}},
		},
	}
}

func newSeed() *corev1beta1.Seed {
	ref := corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "garden", Name: "dns"}
	return &corev1beta1.Seed{
		ObjectMeta: metav1.ObjectMeta{Name: env.Name("seed-")},
		Spec: corev1beta1.SeedSpec{
			Provider: corev1beta1.SeedProvider{Type: "local", Region: "local"},
			Networks: corev1beta1.SeedNetworks{
				Pods: "10.244.0.0/16", Services: "10.0.0.0/24", Nodes: ptr.To("10.1.0.0/24"),
				ShootDefaults: &corev1beta1.ShootNetworks{Pods: ptr.To("100.96.0.0/16"), Services: ptr.To("100.64.0.0/16")},
			},
			Ingress: &corev1beta1.Ingress{
				Domain: "ingress.local.hortus.dev", Controller: corev1beta1.IngressController{Kind: "nginx"},
			},
			DNS: corev1beta1.SeedDNS{
				Provider: &corev1beta1.SeedDNSProvider{Type: "local", CredentialsRef: &ref},
				Internal: &corev1beta1.SeedDNSProviderConfig{
					Type: "local", Domain: "internal.local.hortus.dev", CredentialsRef: ref,
				},
				Defaults: []corev1beta1.SeedDNSProviderConfig{{Type: "local", Domain: "local.hortus.dev", CredentialsRef: ref}},
			},
			Backup: &corev1beta1.Backup{Provider: "local", CredentialsRef: &ref},
		},
	}
}

// writeKubeconfig returns the path of a kubeconfig for commands of a user, or of the administrator if user is empty.
func (g *garden) writeKubeconfig(user string) string {
	g.t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["garden"] = &clientcmdapi.Cluster{Server: g.Config.Host, CertificateAuthorityData: g.Config.CAData}
	config.AuthInfos["admin"] = &clientcmdapi.AuthInfo{
		ClientCertificateData: g.Config.CertData, ClientKeyData: g.Config.KeyData, Token: g.Config.BearerToken,
		Impersonate: user,
	}
	config.Contexts["admin"] = &clientcmdapi.Context{Cluster: "garden", AuthInfo: "admin"}
	config.CurrentContext = "admin"
	path := filepath.Join(g.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		g.t.Fatal(err)
	}
	return path
}

// get reads an object again.
func (g *garden) get(object client.Object) {
	g.t.Helper()
	if err := g.Client.Get(g.ctx, client.ObjectKeyFromObject(object), object); err != nil {
		g.t.Fatalf("get %T: %v", object, err)
	}
}

// patch changes an object with a JSON merge patch.
func (g *garden) patch(object client.Object, patch string, subresource ...string) error {
	p := client.RawPatch("application/merge-patch+json", []byte(patch))
	if len(subresource) > 0 {
		return g.Client.SubResource(subresource[0]).Patch(g.ctx, object, p)
	}
	return g.Client.Patch(g.ctx, object, p)
}

func (g *garden) mustPatch(object client.Object, patch string, subresource ...string) {
	g.t.Helper()
	if err := g.patch(object, patch, subresource...); err != nil {
		g.t.Fatalf("patch %T with %s: %v", object, patch, err)
	}
}
