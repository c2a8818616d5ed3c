package apiserver

import (
	"context"
	"fmt"
	"net"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
	"hortus.dev/hortus/internal/apiserver/admission/seedrestriction"
	"hortus.dev/hortus/internal/apiserver/registry/core/shoot"
	"hortus.dev/hortus/internal/apiserver/seedauthorizer"
	"hortus.dev/hortus/internal/apiserver/shootbackups"
	"hortus.dev/hortus/internal/apiserver/stored"
)

const serverName = "hortus-apiserver"

// Run serves until the context ends.
func Run(ctx context.Context, o *Options) error {
	server, err := New(o)
	if err != nil {
		return err
	}
	return server.PrepareRun().RunWithContext(ctx)
}

// New creates a server.
func New(o *Options) (*genericapiserver.GenericAPIServer, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	if err := prioritize(o.scheme); err != nil {
		return nil, err
	}
	config := genericapiserver.NewRecommendedConfig(o.codecs)
	config.Serializer = o.serializer
	config.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	addOpenAPI(config)
	if err := wrapHandler(&config.Config); err != nil {
		return nil, err
	}

	var objects *hortusadmission.Objects
	follow := &stored.Kinds{}
	seeds := seedauthorizer.New(clock.RealClock{})
	o.Recommended.ExtraAdmissionInitializers = func(c *genericapiserver.RecommendedConfig) ([]admission.PluginInitializer,
		error) {
		c.Authorization.Authorizer = union.New(seeds, c.Authorization.Authorizer)
		var err error
		if objects, err = newObjects(c, o, follow); err != nil {
			return nil, err
		}
		return []admission.PluginInitializer{
			hortusadmission.NewInitializer(objects), seedrestriction.NewInitializer(seeds),
		}, nil
	}
	if err := o.Recommended.ApplyTo(config); err != nil {
		return nil, fmt.Errorf("apply options: %w", err)
	}

	kube, err := kubernetes.NewForConfig(jsonConfig(config.ClientConfig))
	if err != nil {
		return nil, fmt.Errorf("make client for the garden: %w", err)
	}
	server, err := config.Complete().New(serverName, genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, fmt.Errorf("make server: %w", err)
	}
	issuer := shoot.KubeconfigIssuer{
		CA:         clientCA(objects.Live),
		Bundle:     clusterCA(kube),
		Authorizer: config.Authorization.Authorizer,
		Clock:      o.Clock,
		MaxAdmin:   o.AdminKubeconfigMaxExpiration,
		MaxViewer:  o.ViewerKubeconfigMaxExpiration,
	}
	if o.ResolveShootKubeconfigs {
		issuer.Resolve = resolveHost
	}
	tokens, err := o.Tokens.issuer(objects, o.Clock)
	if err != nil {
		return nil, err
	}
	backups := shootbackups.New(objects.Live, func(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
		return kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	})
	entries := kinds(o.features(), o.Clock, issuer, backups.List, tokens)
	groups, err := apiGroups(entries, o.scheme, o.serializer,
		storesLargeObjects{storedAsV1{config.RESTOptionsGetter, o.codecs}}, follow)
	if err != nil {
		return nil, err
	}
	if err := (installer{server, config}).install(groups); err != nil {
		return nil, err
	}
	// Without this hook the server is ready while it still rejects lists.
	server.AddPostStartHookOrDie("storage-readiness", server.StorageReadinessHook.Hook)
	server.AddPostStartHookOrDie("admission-caches", func(hook genericapiserver.PostStartHookContext) error {
		return objects.Start(hook)
	})
	server.Handler.NonGoRestfulMux.Handle(seedauthorizer.Path, seeds.Webhook())
	server.AddPostStartHookOrDie("seed-authorizer", func(hook genericapiserver.PostStartHookContext) error {
		return feedSeeds(hook, config, follow, seeds)
	})
	server.AddPostStartHookOrDie("cluster-identity", func(hook genericapiserver.PostStartHookContext) error {
		return ensureIdentity(hook, kube, o.ClusterIdentity)
	})
	return server, nil
}

// feedSeeds fills the graph by which requests of gardenlets are authorized, and keeps it up to date.
func feedSeeds(
	ctx context.Context, c *genericapiserver.RecommendedConfig, follow *stored.Kinds, seeds *seedauthorizer.Authorizer,
) error {
	feed, err := seedauthorizer.NewFeed(seeds.Graph, follow.ListerWatcher, jsonConfig(c.ClientConfig))
	if err != nil {
		return err
	}
	if err := feed.Start(ctx); err != nil {
		return err
	}
	seeds.Sync()
	return nil
}

// newObjects connects admission to our own kinds and to Kubernetes' own kinds in the garden.
func newObjects(
	c *genericapiserver.RecommendedConfig, o *Options, follow *stored.Kinds,
) (*hortusadmission.Objects, error) {
	return hortusadmission.NewObjects(hortusadmission.Sources{
		Loopback: jsonConfig(c.LoopbackClientConfig), Stored: follow.ListerWatcher, Garden: jsonConfig(c.ClientConfig),
		AddToScheme: AddToClientScheme,
	}, c.Authorization.Authorizer, o.Clock)
}

// jsonConfig returns a client configuration for types that do not support protobuf.
func jsonConfig(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	return config
}

// clientCA returns a function that reads InternalSecrets.
func clientCA(live client.Reader) func(context.Context, string, string) (map[string][]byte, error) {
	return func(ctx context.Context, namespace, name string) (map[string][]byte, error) {
		secret := &corev1beta1.InternalSecret{}
		err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
		return secret.Data, err
	}
}

// clusterCA returns a function that reads a ConfigMap, or a Secret if the ConfigMap does not exist yet.
func clusterCA(kube kubernetes.Interface) func(context.Context, string, string) ([]byte, error) {
	return func(ctx context.Context, namespace, name string) ([]byte, error) {
		configMap, err := kube.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && configMap.Data[corev1beta1.DataKeyCertificateCA] != "" {
			return []byte(configMap.Data[corev1beta1.DataKeyCertificateCA]), nil
		}
		if err != nil && !errors.IsNotFound(err) {
			return nil, err
		}
		var secret *corev1.Secret
		if secret, err = kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return nil, err
		}
		return secret.Data[corev1beta1.DataKeyCertificateCA], nil
	}
}

// resolveHost returns the first address of a host name, according to this server's resolver.
func resolveHost(ctx context.Context, host string) (string, error) {
	addresses, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return "", fmt.Errorf("resolve %q: %w", host, err)
	}
	return addresses[0], nil
}
