package apiserver

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	etcdkubernetes "go.etcd.io/etcd/client/v3/kubernetes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/client-go/tools/cache"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// A ShootState holds everything that a control plane needs in another Seed: the secrets of the Shoot, the state of
// every extension, and all machines. For large clusters that exceeds the default limits of etcd and its client, 1.5 and
// 2 MiB. ShootStates therefore have their own etcd client. They have no watch cache: only their gardenlet reads them,
// and caching all of them would waste memory.
const (
	// maxBodyBytes bounds the bodies of requests for all kinds but ShootStates. It is the default of the library.
	maxBodyBytes = 3 << 20
	// maxShootStateBytes bounds the bodies of requests for ShootStates. The --max-request-bytes of etcd must be larger;
	// see the chart.
	maxShootStateBytes = 30 << 20
	// etcdSendBytes leaves room for the rest of the request to etcd.
	etcdSendBytes = maxShootStateBytes + 1<<20
)

// The values that the library uses for its own connections.
const (
	etcdDialTimeout      = 20 * time.Second
	etcdKeepAliveTime    = 30 * time.Second
	etcdKeepAliveTimeout = 10 * time.Second
)

// wrapHandler limits request bodies by kind and compresses large responses.
func wrapHandler(config *genericapiserver.Config) error {
	config.MaxRequestBodyBytes = maxShootStateBytes
	build := config.BuildHandlerChainFunc
	pack, err := compressor()
	if err != nil {
		return err
	}
	config.BuildHandlerChainFunc = func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		return build(limitedBodies(pack(handler), c.Serializer), c)
	}
	return nil
}

// limitedBodies limits request bodies by kind. The library has one limit for all kinds.
func limitedBodies(handler http.Handler, serializer runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := apirequest.RequestInfoFrom(r.Context())
		if ok && info.APIGroup == corev1beta1.GroupName && info.Resource == "shootstates" || r.Body == nil {
			handler.ServeHTTP(w, r)
			return
		}
		if r.ContentLength > maxBodyBytes {
			gv := schema.GroupVersion{}
			if ok {
				gv = schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
			}
			responsewriters.ErrorNegotiated(tooLarge(), serializer, gv, w, r)
			return
		}
		limited := r.WithContext(r.Context())
		limited.Body = &limitedBody{ReadCloser: r.Body, left: maxBodyBytes}
		handler.ServeHTTP(w, limited)
	})
}

func tooLarge() error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d bytes", maxBodyBytes))
}

// limitedBody returns the API status for the client when the limit is exceeded.
type limitedBody struct {
	io.ReadCloser
	left int64
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, tooLarge()
	}
	return n, err
}

// storesLargeObjects creates the storage of ShootStates with its own decorator.
type storesLargeObjects struct{ generic.RESTOptionsGetter }

func (g storesLargeObjects) GetRESTOptions(
	resource schema.GroupResource, example runtime.Object,
) (generic.RESTOptions, error) {
	options, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err == nil && resource == corev1beta1.Resource("shootstates") {
		options.Decorator = largeObjects
	}
	return options, err
}

// largeObjects is a generic.StorageDecorator.
func largeObjects(
	config *storagebackend.ConfigForResource, resourcePrefix string, _ func(runtime.Object) (string, error),
	newFunc, newListFunc func() runtime.Object, _ storage.AttrFunc, _ storage.IndexerFuncs, _ *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	client, err := largeObjectClient(config.Transport)
	if err != nil {
		return nil, nil, fmt.Errorf("make etcd client for %s: %w", config.GroupResource, err)
	}
	client.KV = etcd3.NewETCDLatencyTracker(client.KV)
	transformer := config.Transformer
	if transformer == nil {
		transformer = identity.NewEncryptCheckTransformer()
	}
	versioner := storage.APIObjectVersioner{}
	// The client for the other kinds compacts etcd.
	store, err := etcd3.New(client, nil, config.Codec, newFunc, newListFunc, config.Prefix, resourcePrefix,
		config.GroupResource,
		transformer, config.LeaseManagerConfig, etcd3.NewDefaultDecoder(config.Codec, versioner), versioner)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make store of %s: %w", config.GroupResource, err), client.Close())
	}
	var once sync.Once
	return store, func() {
		once.Do(func() {
			store.Close()
			_ = client.Close() // There is no caller to return the error to.
		})
	}, nil
}

func largeObjectClient(c storagebackend.TransportConfig) (*etcdkubernetes.Client, error) {
	if c.EgressLookup != nil {
		return nil, errors.New("etcd cannot be reached through an egress selector")
	}
	config := clientv3.Config{
		Endpoints: c.ServerList, MaxCallSendMsgSize: etcdSendBytes,
		DialTimeout: etcdDialTimeout, DialKeepAliveTime: etcdKeepAliveTime, DialKeepAliveTimeout: etcdKeepAliveTimeout,
	}
	if c.CertFile != "" || c.KeyFile != "" || c.TrustedCAFile != "" {
		var err error
		if config.TLS, err = (transport.TLSInfo{
			CertFile: c.CertFile, KeyFile: c.KeyFile, TrustedCAFile: c.TrustedCAFile,
		}).ClientConfig(); err != nil {
			return nil, err
		}
	}
	return etcdkubernetes.New(config)
}
