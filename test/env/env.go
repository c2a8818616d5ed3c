package env

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/apiserver"
	"hortus.dev/hortus/internal/apiserver/seedauthorizer"
	"hortus.dev/hortus/internal/pki"
)

const (
	// The limits are far above the 3 s that a start takes, because machines that run tests are busy.
	startTimeout = 2 * time.Minute
	stopTimeout  = 2 * time.Minute
)

// Environment is a running control plane.
type Environment struct {
	// Config is the access of an administrator with all permissions.
	Config *rest.Config
	// Kubeconfig is the same as a file's content.
	Kubeconfig []byte
	// Scheme knows the kinds of Kubernetes, of the garden and of CustomResourceDefinitions. AddToScheme adds more.
	Scheme *runtime.Scheme
	// Client reads and writes without a cache, with the kinds of Scheme.
	Client client.Client
	// GardenAPI is our own API server if it runs as a process of its own.
	GardenAPI Process

	options options
	plane   *envtest.Environment
	dir     string
	stop    context.CancelFunc // Stops our own API server.
	stopped chan error         // Receives its end. Nil without it.
	address string             // Its address.
	// seeds is set if our API server authorizes gardenlets for the kube-apiserver.
	seeds *seedAuthorizer
	// roles ensures that the roles of the garden are applied once.
	roles      sync.Once
	rolesError error
}

// Process is a program of the environment.
type Process struct {
	PID int
	// URL is its base URL.
	URL string
}

type options struct {
	gardenAPI   bool
	program     string
	arguments   []string
	authorizer  bool
	configure   []func(*apiserver.Options)
	kubernetes  []func(*envtest.APIServer)
	crds        []*apiextensionsv1.CustomResourceDefinition
	addToScheme []func(*runtime.Scheme) error
}

// Option changes what is started.
type Option func(*options)

// WithGardenAPI starts our own API server and registers it with the kube-apiserver.
func WithGardenAPI(configure ...func(*apiserver.Options)) Option {
	return func(o *options) { o.gardenAPI, o.configure = true, append(o.configure, configure...) }
}

// WithSeedAuthorizer starts our own API server, too, and makes it authorize gardenlets for the kube-apiserver, as in
// production.
func WithSeedAuthorizer() Option {
	return func(o *options) { o.gardenAPI, o.authorizer = true, true }
}

// WithSeedsAuthorizedOnce leaves the authorization of gardenlets to the kube-apiserver, which has just decided about
// the same request when it reaches our API server, and lets every client request these decisions. For packages that
// test the work of gardenlets, not their permissions: every decision is a request to the kube-apiserver and one back.
func WithSeedsAuthorizedOnce() Option {
	return WithGardenAPI(func(o *apiserver.Options) {
		authorization := o.Recommended.Authorization
		authorization.AlwaysAllowGroups = append(authorization.AlwaysAllowGroups, corev1beta1.SeedsGroup)
		authorization.AlwaysAllowPaths = append(authorization.AlwaysAllowPaths, seedauthorizer.Path)
	})
}

// WithGardenAPIProcess runs our own API server as a process of the given program with further arguments, all else being
// as in production, to measure its resource usage.
func WithGardenAPIProcess(program string, arguments ...string) Option {
	return func(o *options) { o.gardenAPI, o.program, o.arguments = true, program, arguments }
}

// WithKubeAPIServer changes the flags and the output of the kube-apiserver.
func WithKubeAPIServer(configure func(*envtest.APIServer)) Option {
	return func(o *options) { o.kubernetes = append(o.kubernetes, configure) }
}

// WithClock gives our own API server a clock, which determines the versions that have expired.
func WithClock(c clock.PassiveClock) Option {
	return WithGardenAPI(func(o *apiserver.Options) { o.Clock = c })
}

// WithCRDs installs CustomResourceDefinitions.
func WithCRDs(crds ...*apiextensionsv1.CustomResourceDefinition) Option {
	return func(o *options) { o.crds = append(o.crds, crds...) }
}

// WithScheme adds kinds to those that the client knows.
func WithScheme(add ...func(*runtime.Scheme) error) Option {
	return func(o *options) { o.addToScheme = append(o.addToScheme, add...) }
}

// start starts everything. The caller stops it, also after an error.
func start(opts ...Option) (e *Environment, err error) {
	e = &Environment{Scheme: runtime.NewScheme()}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.shutdown())
		}
	}()
	for _, option := range opts {
		option(&e.options)
	}
	logs := os.Getenv("HORTUS_TEST_LOGS") != ""
	if !logs {
		klog.SetLogger(logr.Discard())
		log.SetLogger(logr.Discard())
	}
	for _, add := range append([]func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme, apiserver.AddToClientScheme,
	}, e.options.addToScheme...) {
		if err := add(e.Scheme); err != nil {
			return e, err
		}
	}
	if e.dir, err = os.MkdirTemp("", "hortus-env-"); err != nil {
		return e, fmt.Errorf("make directory for the environment: %w", err)
	}
	proxy, err := newProxyCA(e.dir)
	if err != nil {
		return e, err
	}
	if err := e.startKubernetes(proxy, logs); err != nil {
		return e, err
	}
	if e.Client, err = client.New(e.Config, client.Options{Scheme: e.Scheme}); err != nil {
		return e, fmt.Errorf("make client: %w", err)
	}
	if e.options.gardenAPI {
		if err := e.startGardenAPI(); err != nil {
			return e, err
		}
	}
	return e, nil
}

// startKubernetes starts etcd and kube-apiserver.
func (e *Environment) startKubernetes(proxy *proxyCA, logs bool) error {
	etcd, kubeAPIServer, err := binaries()
	if err != nil {
		return err
	}
	if etcd, err = leash(e.dir, etcd); err != nil {
		return err
	}
	if kubeAPIServer, err = leash(e.dir, kubeAPIServer); err != nil {
		return err
	}
	e.plane = &envtest.Environment{
		Scheme:                   e.Scheme,
		CRDs:                     e.options.crds,
		ControlPlaneStartTimeout: startTimeout,
		ControlPlaneStopTimeout:  stopTimeout,
		AttachControlPlaneOutput: logs,
	}
	e.plane.ControlPlane.Etcd = &envtest.Etcd{Path: etcd}
	// Data that is lost when the machine fails does not matter.
	e.plane.ControlPlane.Etcd.Configure().Set("unsafe-no-fsync", "true").
		// As in the garden's chart: ShootStates may be large.
		Set("max-request-bytes", "33554432")
	e.plane.ControlPlane.APIServer = &envtest.APIServer{Path: kubeAPIServer}
	proxy.configure(e.plane.ControlPlane.APIServer.Configure())
	if e.options.authorizer {
		if e.seeds, err = newSeedAuthorizer(e.dir); err != nil {
			return err
		}
		e.plane.ControlPlane.APIServer.Configure().Disable("authorization-mode").Set("authorization-config",
			e.seeds.configuration)
	}
	token := rand.Text()
	tokens := filepath.Join(e.dir, "tokens.csv")
	if err := os.WriteFile(tokens, fmt.Appendf(nil, "%s,admin,admin,system:masters\n", token), 0o600); err != nil {
		return fmt.Errorf("write tokens: %w", err)
	}
	e.plane.ControlPlane.APIServer.Configure().
		Set("token-auth-file", tokens).
		// Requests of tests are few and have no order of importance.
		Set("enable-priority-and-fairness", "false").
		Set("feature-gates", "WatchListClient=true").
		Set("profiling", "false").
		// Kinds that no test watches need no cache of events.
		Set("event-ttl", "10m")
	for _, configure := range e.options.kubernetes {
		configure(e.plane.ControlPlane.APIServer)
	}
	if e.Config, err = e.plane.Start(); err != nil {
		return fmt.Errorf("start etcd and kube-apiserver: %w", err)
	}
	e.Kubeconfig = e.plane.KubeConfig
	// No rate limit for tests.
	e.Config.QPS, e.Config.Burst = -1, 0
	// A client certificate would be verified with every request, which takes 5 % of the kube-apiserver's time.
	e.Config.CertData, e.Config.KeyData, e.Config.BearerToken = nil, nil, token
	return nil
}

// shutdown stops the programs and removes the files.
func (e *Environment) shutdown() error {
	var errs []error
	if e.stop != nil {
		e.stop()
		select {
		case err := <-e.stopped:
			errs = append(errs, err)
		case <-time.After(stopTimeout):
			errs = append(errs, errors.New("our API server does not stop"))
		}
	} else if e.seeds != nil {
		errs = append(errs, e.seeds.listener.Close())
	}
	if e.plane != nil && e.Config != nil {
		errs = append(errs, e.plane.Stop())
	}
	if e.dir != "" {
		errs = append(errs, os.RemoveAll(e.dir))
	}
	return errors.Join(errs...)
}

// proxyCA holds the files with which the kube-apiserver authenticates itself when it proxies requests to our API
// server.
type proxyCA struct{ ca, cert, key string }

func newProxyCA(dir string) (*proxyCA, error) {
	ca, err := pki.NewCA("front-proxy", clock.RealClock{})
	if err != nil {
		return nil, err
	}
	pair, err := ca.Issue(pki.Request{CommonName: "front-proxy", Usage: pki.Client})
	if err != nil {
		return nil, err
	}
	p := &proxyCA{
		ca: filepath.Join(dir, "front-proxy-ca.crt"), cert: filepath.Join(dir, "front-proxy.crt"),
		key: filepath.Join(dir, "front-proxy.key"),
	}
	for path, content := range map[string][]byte{p.ca: ca.CertPEM, p.cert: pair.CertPEM, p.key: pair.KeyPEM} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return nil, fmt.Errorf("write certificate: %w", err)
		}
	}
	return p, nil
}

func (p *proxyCA) configure(args *envtest.Arguments) {
	args.Set("requestheader-client-ca-file", p.ca).
		Set("requestheader-allowed-names", "front-proxy").
		Set("requestheader-username-headers", "X-Remote-User").
		Set("requestheader-group-headers", "X-Remote-Group").
		Set("requestheader-extra-headers-prefix", "X-Remote-Extra-").
		Set("proxy-client-cert-file", p.cert).
		Set("proxy-client-key-file", p.key)
}
