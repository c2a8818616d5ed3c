package landscape

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"runtime"
	"text/template"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/apiserver/seedauthorizer"
	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/internal/garden/keyrotation"
	"hortus.dev/hortus/internal/image"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/landscape/cluster"
)

//go:embed manifests
var manifests embed.FS

const (
	gardenNamespace = "garden"
	// projectNamespace is the namespace of the Shoots of the examples.
	projectNamespace = "garden-dev"
)

// installation is the part of Up after the start of the clusters: the garden in the first, a gardenlet in each.
type installation struct {
	options Options
	cloud   *cloud.Client
	about   *cloud.About
	// store has the credentials of the bucket for the garden's backups.
	store    map[string]string
	garden   *kubernetesCluster
	seeds    []*kubernetesCluster
	progress *Progress
	// image of Hortus with its digest, so that a new build replaces the running pods.
	image string
	// accounts of the cloud: that of the landscape itself, and that of the first project.
	landscape, dev *cloud.Config
}

func (l *installation) run(ctx context.Context) error {
	if err := l.prepare(ctx); err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		run  func(context.Context) error
	}{
		{"storage and load balancers work in both clusters", l.supportSeeds},
		{"the garden's API is served", l.installGarden},
		{"the garden offers the local cloud", l.publish},
		{"both seeds are ready", l.installSeeds},
	} {
		if err := l.progress.Step(ctx, step.what, step.run); err != nil {
			return err
		}
	}
	return nil
}

func (l *installation) prepare(ctx context.Context) error {
	var err error
	if l.image, err = withDigest(l.options.Artifacts, image.Hortus()); err != nil {
		return err
	}
	admin, err := waitForCloud(ctx, l.options)
	if err != nil {
		return err
	}
	if l.landscape, err = ensureAccount(ctx, l.options, admin, accountLandscape); err != nil {
		return err
	}
	l.dev, err = ensureAccount(ctx, l.options, admin, accountDev)
	return err
}

// supportSeeds gives both clusters what every production seed brings along: storage and load balancers.
func (l *installation) supportSeeds(ctx context.Context) error {
	return l.inSeeds(ctx, func(ctx context.Context, k *kubernetesCluster) error {
		return k.install(ctx, "seed-support", "kube-system", map[string]any{
			"image":   l.image,
			"cluster": k.spec.name,
			"cloud":   cloudValues(l.landscape),
		})
	})
}

func cloudValues(c *cloud.Config) map[string]any {
	return map[string]any{"endpoint": c.Endpoint, "accessKey": c.AccessKey, "secretKey": c.SecretKey, "ca": c.CA}
}

func (l *installation) inSeeds(ctx context.Context, run func(context.Context, *kubernetesCluster) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, k := range l.seeds {
		group.Go(func() error {
			if err := run(ctx, k); err != nil {
				return fmt.Errorf("cluster %q: %w", k.spec.name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// gardenPKI are the certificates of the garden's own API server and etcd.
type gardenPKI struct {
	CA                                pki.KeyPair
	APIServer, EtcdServer, EtcdClient pki.KeyPair
	// EncryptionKey is the garden's first one, base64 of 32 bytes. Later ones are in the Secret only.
	EncryptionKey string
}

func newGardenPKI(c clock.PassiveClock) (*gardenPKI, error) {
	ca, err := pki.NewCA("hortus-garden", c)
	if err != nil {
		return nil, fmt.Errorf("make certificate authority: %w", err)
	}
	p := &gardenPKI{CA: ca.KeyPair}
	if _, err := p.renew(c); err != nil {
		return nil, err
	}
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("make encryption key: %w", err)
	}
	p.EncryptionKey = base64.StdEncoding.EncodeToString(key)
	return p, nil
}

// renew replaces the certificates that are due, and reports whether there were any.
func (p *gardenPKI) renew(c clock.PassiveClock) (bool, error) {
	ca, err := pki.LoadCA(p.CA.CertPEM, p.CA.KeyPEM, c)
	if err != nil {
		return false, fmt.Errorf("load certificate authority: %w", err)
	}
	leaves := []cluster.Leaf{
		{Into: &p.APIServer, By: ca, Request: pki.Request{
			CommonName: "hortus-apiserver", Usage: pki.Server, DNSNames: serviceNames("hortus-apiserver")}},
		{Into: &p.EtcdServer, By: ca, Request: pki.Request{
			CommonName: "hortus-etcd", Usage: pki.Server | pki.Client, DNSNames: serviceNames("hortus-etcd")}},
		{Into: &p.EtcdClient, By: ca, Request: pki.Request{CommonName: "hortus-apiserver", Usage: pki.Client}},
	}
	for i := range leaves {
		leaves[i].Request.Validity = halfLife(ca)
	}
	return cluster.Renew(leaves, c)
}

// halfLife of a CA is how long certificates are valid.
func halfLife(ca *pki.CA) time.Duration { return ca.Cert().NotAfter.Sub(ca.Cert().NotBefore) / 2 }

func serviceNames(service string) []string {
	return []string{
		service + "." + gardenNamespace, service + "." + gardenNamespace + ".svc", service + "." + gardenNamespace +
			".svc.cluster.local", "localhost",
	}
}

// authorizerIP is the address of the garden's API server among the Services of its cluster; fixed, since the
// kube-apiserver knows it before the Service is there.
const authorizerIP = "10.0.0.11"

func loadGardenPKI(o Options) (*gardenPKI, error) {
	path, c := filepath.Join(o.StateDir, "landscape", "garden-pki.json"), clock.RealClock{}
	create := func() (*gardenPKI, error) { return newGardenPKI(c) }
	return loadAndRenew(path, create, func(p *gardenPKI) (bool, error) { return p.renew(c) })
}

// seedAuthorizer returns the webhook by which the garden's kube-apiserver authorizes gardenlets.
func seedAuthorizer(o Options) (*cluster.SeedAuthorizer, error) {
	p, err := loadGardenPKI(o)
	if err != nil {
		return nil, err
	}
	return &cluster.SeedAuthorizer{
		Server: "https://" + authorizerIP + seedauthorizer.Path, TLSServerName: "hortus-apiserver." + gardenNamespace +
			".svc", CA: p.CA.CertPEM,
	}, nil
}

// installGarden applies the garden's chart and waits until the aggregated API is available.
func (l *installation) installGarden(ctx context.Context) error {
	p, err := loadGardenPKI(l.options)
	if err != nil {
		return err
	}
	if err := l.ensureEncryptionSecret(ctx, p.EncryptionKey); err != nil {
		return err
	}
	one := map[string]any{"replicas": 1}
	err = l.garden.install(ctx, "garden", gardenNamespace, map[string]any{
		"image": l.image,
		"caCrt": string(p.CA.CertPEM),
		"apiserver": map[string]any{
			"tlsCrt": string(p.APIServer.CertPEM), "tlsKey": string(p.APIServer.KeyPEM),
			"encryptionSecret": keyrotation.SecretName,
			"clusterIP":        authorizerIP, "replicas": 1,
			// The host's resolver does not know the cloud's names.
			"args": []any{"--shoot-kubeconfig-resolve"},
		},
		"seedAuthorizer":    map[string]any{"enabled": true, "caller": cluster.AuthorizationCaller},
		"controllerManager": one, "scheduler": one,
		"etcd": map[string]any{
			"serverCrt": string(p.EtcdServer.CertPEM), "serverKey": string(p.EtcdServer.KeyPEM),
			"clientCrt": string(p.EtcdClient.CertPEM), "clientKey": string(p.EtcdClient.KeyPEM),
			"backup": map[string]any{"store": storeValues(l.store), "prefix": prefixGardenEtcd},
		},
	})
	if err != nil {
		return err
	}
	if err := l.garden.waitRolledOut(ctx, gardenNamespace, "hortus-apiserver", "hortus-controller-manager",
		"hortus-scheduler"); err != nil {
		return err
	}
	return retry(ctx, clusterStart, l.apiServicesAvailable)
}

// ensureEncryptionSecret makes the Secret with the first key. An existing Secret stays unchanged, since its key may
// have been rotated.
func (l *installation) ensureEncryptionSecret(ctx context.Context, key string) error {
	if err := l.garden.ensureNamespace(ctx, gardenNamespace); err != nil {
		return err
	}
	secret := keyrotation.InitialSecret(gardenNamespace, key)
	if err := l.garden.client.Create(ctx, secret); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("create Secret %s: %w", client.ObjectKeyFromObject(secret), err)
	}
	return nil
}

func (l *installation) apiServicesAvailable(ctx context.Context) error {
	for _, name := range []string{"v1beta1.core.gardener.cloud", "v1alpha1.security.gardener.cloud"} {
		service := &unstructured.Unstructured{}
		service.SetGroupVersionKind(schema.GroupVersionKind{
			Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService",
		})
		if err := l.garden.client.Get(ctx, client.ObjectKey{Name: name}, service); err != nil {
			return fmt.Errorf("read APIService %s: %w", name, err)
		}
		if status, message := conditionOf(service, "Available"); status != string(metav1.ConditionTrue) {
			return fmt.Errorf("APIService %s is not available: %s", name, message)
		}
	}
	return nil
}

// conditionOf returns the status and the message of a condition, both empty if there is none.
func conditionOf(object *unstructured.Unstructured, wanted string) (status, message string) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range conditions {
		condition, isMap := item.(map[string]any)
		if isMap && condition["type"] == wanted {
			status, _ = condition["status"].(string)
			message, _ = condition["message"].(string)
			return status, message
		}
	}
	return "", "no condition " + wanted + " yet"
}

// publish creates the objects that an operator would create: the CloudProfile, a Project, its credentials, and the
// provider's extension.
func (l *installation) publish(ctx context.Context) error {
	archive, err := chart.Archive(charts.FS, "provider-local", "provider-local")
	if err != nil {
		return err
	}
	for _, file := range []string{"cloudprofile.yaml", "project.yaml", "extension.yaml", "credentials.yaml"} {
		objects, err := manifest(file, map[string]any{
			"Chart": base64.StdEncoding.EncodeToString(archive), "Image": l.image,
			"Dev": l.dev, "Landscape": l.landscape, "ProjectNamespace": projectNamespace, "Architecture": runtime.GOARCH,
		})
		if err != nil {
			return err
		}
		if err := l.garden.apply(ctx, objects); err != nil {
			return err
		}
	}
	return nil
}

// manifest renders one of the embedded manifests.
func manifest(file string, values map[string]any) ([]*unstructured.Unstructured, error) {
	functions := template.FuncMap{"b64": func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }}
	parsed, err := template.New(file).Funcs(functions).Option("missingkey=error").ParseFS(manifests, "manifests/"+file)
	if err != nil {
		return nil, fmt.Errorf("parse manifest %s: %w", file, err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, values); err != nil {
		return nil, fmt.Errorf("render manifest %s: %w", file, err)
	}
	objects, err := chart.Decode(out.Bytes())
	if err != nil {
		return nil, fmt.Errorf("decode manifest %s: %w", file, err)
	}
	return objects, nil
}
