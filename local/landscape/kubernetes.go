package landscape

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/internal/garden"
	"hortus.dev/hortus/internal/image"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/components"
	"hortus.dev/hortus/local/images"
	"hortus.dev/hortus/local/landscape/cluster"
)

const (
	// fieldOwner of everything that the landscape applies.
	fieldOwner = "hortus-landscape"
	// retryPause is the pause between tries against an API server that is starting; nothing announces that it is ready.
	retryPause = 200 * time.Millisecond
	// clusterStart bounds how long a cluster may take to answer: about 10 s on two free cores, several times that on
	// busy ones.
	clusterStart = 5 * time.Minute
)

// kubernetesCluster is a cluster of the landscape that runs.
type kubernetesCluster struct {
	spec   clusterSpec
	client client.Client
	// kubeconfig of the administrator.
	kubeconfig []byte
	pki        *cluster.PKI
}

func clusterValues(spec clusterSpec, about *cloud.About) cluster.Values {
	return cluster.Values{
		Pods: nodePods(0), Routes: routesFrom(spec, 0),
		Name: spec.name, KubernetesVersion: components.KubernetesDefaultVersion, NodeAddress: spec.address,
		PublicAddress: spec.apiAddress,
		Region:        about.Region, Zone: about.Zones[0],
		APIServerNames: []string{"api." + spec.name + ".landscape.local"},
		PodCIDR:        "10.244.0.0/16", ServiceCIDR: "10.0.0.0/24", APIServiceIP: "10.0.0.1", DNSServiceIP: "10.0.0.10",
		UpstreamDNS: about.DNS,
	}
}

// clusterImages are the images of the landscape's own clusters with their digests, so that a new build replaces what
// runs.
func clusterImages(artifacts string) (images cluster.Images, err error) {
	version := components.KubernetesDefaultVersion
	for _, i := range []struct {
		into *string
		name string
	}{
		{&images.Kubelet, image.Kubelet(version)},
		{&images.Etcd, image.Etcd},
		{&images.KubeAPIServer, image.KubeAPIServer(version)},
		{&images.KubeControllerManager, image.KubeControllerManager(version)},
		{&images.KubeScheduler, image.KubeScheduler(version)},
		{&images.KubeProxy, image.KubeProxy(version)},
		{&images.CoreDNS, image.CoreDNS},
	} {
		if *i.into, err = withDigest(artifacts, i.name); err != nil {
			return cluster.Images{}, err
		}
	}
	return images, nil
}

// withDigest is the name of an image that was built, with its digest.
func withDigest(artifacts, name string) (string, error) {
	digest, err := images.Digest(artifacts, name)
	if err != nil {
		return "", err
	}
	return name + "@" + digest, nil
}

// ensureCluster makes the machine and the Kubernetes cluster on it, and waits until its API answers.
// The etcd of the garden's cluster is backed up to the store.
func ensureCluster(
	ctx context.Context, o Options, c *cloud.Client, about *cloud.About, spec clusterSpec, store map[string]string,
) (*kubernetesCluster, error) {
	values := clusterValues(spec, about)
	images, err := clusterImages(o.Artifacts)
	if err != nil {
		return nil, err
	}
	values.Images = images
	if spec.name == clusters[0].name {
		authorizer, err := seedAuthorizer(o)
		if err != nil {
			return nil, err
		}
		values.SeedAuthorizer = authorizer
		values.EtcdBackup = &cluster.EtcdBackup{Image: image.Hortus(), Store: store, Prefix: prefixKubernetesEtcd}
	}
	material, err := loadAndRenew(filepath.Join(o.StateDir, "landscape", spec.name, "pki.json"),
		func() (*cluster.PKI, error) {
			return cluster.NewPKI(values, clock.RealClock{})
		}, func(p *cluster.PKI) (bool, error) { return p.Renew(values, clock.RealClock{}) })
	if err != nil {
		return nil, err
	}
	kubeconfig, err := material.AdminKubeconfig(spec.name, "https://"+spec.apiAddress)
	if err != nil {
		return nil, fmt.Errorf("render kubeconfig: %w", err)
	}
	if err := writeSecret(garden.KubeconfigPath(o.StateDir, spec.name), kubeconfig); err != nil {
		return nil, err
	}
	userData, err := cluster.UserData(values, material)
	if err != nil {
		return nil, err
	}
	instance, err := ensureInstance(ctx, c, spec, string(userData))
	if err != nil {
		return nil, err
	}
	if err := waitInstance(ctx, c, instance.ID); err != nil {
		return nil, fmt.Errorf("wait for instance %q: %w", spec.name, err)
	}
	k := &kubernetesCluster{spec: spec, kubeconfig: kubeconfig, pki: material}
	if err := k.connect(ctx); err != nil {
		return nil, err
	}
	addons, err := cluster.Addons(values)
	if err != nil {
		return nil, err
	}
	objects, err := chart.Decode(addons)
	if err != nil {
		return nil, fmt.Errorf("decode addons: %w", err)
	}
	if err := k.apply(ctx, objects); err != nil {
		return nil, err
	}
	return k, ensureWorkers(ctx, o, c, about, k, values)
}

// connect waits until the API server is ready and makes the client.
func (k *kubernetesCluster) connect(ctx context.Context) error {
	config, err := clientcmd.RESTConfigFromKubeConfig(k.kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS = -1
	requests, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	err = retry(ctx, clusterStart, func(ctx context.Context) error {
		return requests.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
	if err != nil {
		return fmt.Errorf("the API server of %q does not become ready: see 'hortus cloud instances console %s': %w",
			k.spec.name, k.spec.name, err)
	}
	k.client, err = client.New(config, client.Options{Scheme: newScheme()})
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	return nil
}

// apply applies the objects in their order. It waits for kinds and webhooks that are just being introduced.
func (k *kubernetesCluster) apply(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		wanted := object
		err := retry(ctx, time.Minute,
			func(ctx context.Context) error { return kube.Apply(ctx, k.client, wanted.DeepCopy(), fieldOwner) })
		if err != nil {
			return err
		}
	}
	return nil
}

// ensureNamespace makes a namespace that charts are installed into, as 'helm install --create-namespace' does.
func (k *kubernetesCluster) ensureNamespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := k.client.Create(ctx, namespace); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("create Namespace %s: %w", name, err)
	}
	return nil
}

// install renders one of the embedded charts and applies it.
func (k *kubernetesCluster) install(ctx context.Context, name, namespace string, values map[string]any) error {
	loaded, err := chart.LoadFS(charts.FS, name)
	if err != nil {
		return err
	}
	objects, err := chart.Render(loaded, chart.Release{Name: name, Namespace: namespace}, values)
	if err != nil {
		return err
	}
	if err := k.ensureNamespace(ctx, namespace); err != nil {
		return err
	}
	return k.apply(ctx, objects)
}

// waitRolledOut waits until the newest pods of the Deployments are the only ones, and available.
func (k *kubernetesCluster) waitRolledOut(ctx context.Context, namespace string, names ...string) error {
	return retry(ctx, clusterStart, func(ctx context.Context) error {
		for _, name := range names {
			deployment := &appsv1.Deployment{}
			if err := k.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, deployment); err != nil {
				return fmt.Errorf("read Deployment %s: %w", name, err)
			}
			if !kube.DeploymentReady(deployment) {
				return errors.New(kube.DeploymentProgress(deployment))
			}
		}
		return nil
	})
}

// retry calls run until it succeeds or the time is over, and then returns the last error.
func retry(ctx context.Context, limit time.Duration, run func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var last error
	for {
		err := run(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return last
		case <-time.After(retryPause):
		}
	}
}

// loadOrMake reads a value from a JSON file, or makes it and writes the file; later runs find the same value.
func loadOrMake[T any](path string, create func() (*T, error)) (*T, error) {
	data, err := os.ReadFile(path)
	if err == nil {
		value := new(T)
		if err := json.Unmarshal(data, value); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		return value, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	value, err := create()
	if err != nil {
		return nil, err
	}
	if data, err = json.Marshal(value); err != nil {
		return nil, fmt.Errorf("encode %s: %w", path, err)
	}
	return value, writeSecret(path, data)
}

// loadAndRenew is loadOrMake for certificates: those that are due are replaced, in the file, too. Machines and pods get
// them like any other change.
func loadAndRenew[T any](path string, create func() (*T, error), renew func(*T) (changed bool, err error)) (*T, error) {
	value, err := loadOrMake(path, create)
	if err != nil {
		return nil, err
	}
	changed, err := renew(value)
	if err != nil {
		return nil, fmt.Errorf("renew certificates in %s: %w", path, err)
	}
	if !changed {
		return value, nil
	}
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", path, err)
	}
	return value, writeSecret(path, data)
}

// empty returns the empty value that a renewal fills with the first certificates.
func empty[T any]() (*T, error) { return new(T), nil }

// writeSecret replaces a file that only root may read, as a whole.
func writeSecret(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(path+".new", path)
}
