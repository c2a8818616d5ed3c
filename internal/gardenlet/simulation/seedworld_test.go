package simulation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component/gateway"
	"hortus.dev/hortus/internal/component/resourcemanager"
	"hortus.dev/hortus/internal/crds"
	"hortus.dev/hortus/internal/gardenlet/config"
	"hortus.dev/hortus/internal/gardenlet/seed"
	"hortus.dev/hortus/test/sim"
)

const (
	seedConfiguration = `
apiVersion: gardenlet.config.gardener.cloud/v1alpha1
kind: GardenletConfiguration
gardenClientConnection: {kubeconfigSecret: {namespace: garden, name: a}}
seedConfig: {metadata: {name: a, labels: {example.com/from: configuration}}, spec: {provider: {type: local}}}
`
	// heartbeat is the period of the Lease: longer than in production, so that there are fewer renewals.
	heartbeat = 10 * time.Second
	// overdue is the age of the last heartbeat at which the garden gives a Seed up.
	overdue           = 40 * time.Second
	annotationVersion = "example.com/version"
)

// seedRun is a garden with the Seed a, and the cluster of its gardenlet.
type seedRun struct {
	*sim.World
	garden, seed *sim.Cluster
	config       *config.GardenletConfiguration
	version      int // That of the configuration.

	definitions, placeholders []*apiextensionsv1.CustomResourceDefinition
	others                    map[client.Object]*sim.Cluster // As they were created.

	// What happens.
	down, podsFail, extensionFails bool
	downAt                         time.Time
	leftOver                       bool   // There is a control plane without a Shoot.
	leaving                        bool   // The Seed is being deleted.
	written, annotated             bool   // Somebody has written to the Seed, to the Service of the gateway.
	bucketDeleted                  bool   // By somebody else.
	report                         string // The message of the garden's condition BackupBucketsReady.

	// What the rules have seen.
	protected        bool            // The Seed has had the finalizer.
	deployed         map[string]bool // And not removed by somebody else.
	versions         map[int64]string
	observed         int64
	wasTrue, wasFact map[corev1beta1.ConditionType]bool
	falseSince       map[corev1beta1.ConditionType]moment
	passes           int // How often the gardenlet has computed a status.
}

// moment is a point in time, and between two passes.
type moment struct {
	time   time.Time
	passes int
}

func newSeedRun(w *sim.World, c *config.GardenletConfiguration) *seedRun {
	scheme := sim.Scheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		w.T.Fatal(err)
	}
	small := crds.Placeholders()[:4] // The others are like these, and larger.
	r := &seedRun{
		World: w, garden: w.Cluster("garden", sim.Scheme()), seed: w.Cluster("seed", scheme), config: c, version: 1,
		placeholders: small[:2], definitions: small[2:], others: map[client.Object]*sim.Cluster{},
		deployed: map[string]bool{}, versions: map[int64]string{}, wasTrue: map[corev1beta1.ConditionType]bool{},
		wasFact: map[corev1beta1.ConditionType]bool{}, falseSince: map[corev1beta1.ConditionType]moment{},
	}
	r.garden.AddNamespaces(corev1beta1.SeedLeaseNamespace, "garden-dev")
	r.seed.AddNamespaces(metav1.NamespaceSystem, "others")
	w.Process("gardenlet", r.garden, r.start)
	w.Actor("pods and load balancers start", r.seed, r.kubernetes)
	w.Actor("the garden gives the Seed up", r.garden, r.giveUp)
	w.Actor("extensions are installed", r.garden, r.install)
	w.Actor("the bucket is made", r.garden, r.bucketController)
	return r
}

// start adds what a gardenlet runs for its Seed.
func (r *seedRun) start(p *sim.Process) error {
	direct := p.In(r.garden).Direct()
	api, err := rest.UnversionedRESTClientForConfigAndClient(&rest.Config{
		Host: "https://seed.invalid", QPS: -1,
		ContentConfig: rest.ContentConfig{NegotiatedSerializer: clientgoscheme.Codecs.WithoutConversion()},
	}, &http.Client{Transport: apiServer(func(q *http.Request) error {
		if q.URL.Path == "/version" {
			r.passes++
		}
		return p.Call(q.Context(), "seed", "get "+q.URL.Path, false, func() error { return is(!r.down, "down") })
	})})
	if err != nil {
		return err
	}
	lease := &seed.Lease{
		Garden: direct, SeedREST: api, Clock: apart{r.Clock()}, Name: "a", Holder: "gardenlet", Period: heartbeat,
	}
	reconciler := &seed.Reconciler{
		Garden: direct, Cache: p.GetClient(), Seed: p.In(r.seed).Direct(), Discovery: discovery.NewDiscoveryClient(api),
		Clock: r.Clock(), Alive: lease.Alive, CertificateNotAfter: func() *metav1.Time { return notAfter.DeepCopy() },
		Config: r.config, Image: "registry.invalid/hortus:1",
		Definitions: r.definitions, Placeholders: r.placeholders, Policies: crds.Policies()[:2],
	}
	// Not in parallel to the Lease, so that each run of a seed is the same.
	registered := r.register(context.Background(), direct)
	return errors.Join(
		p.Add(manager.RunnableFunc(func(ctx context.Context) error {
			for !registered {
				select {
				case <-ctx.Done():
					return nil
				case <-apart{r.Clock()}.After(2 * time.Second):
					registered = r.register(ctx, direct)
				}
			}
			return nil
		})),
		p.Add(lease), reconciler.AddToManager(p, p.In(r.seed), lease.Resumed()))
}

func identityOfGarden(context.Context) (string, error) { return "garden", nil }

// notAfter is when the gardenlet's certificate expires.
var notAfter = metav1.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// register does what a gardenlet does when it starts, and reports whether it has succeeded.
func (r *seedRun) register(ctx context.Context, garden client.Client) bool {
	if r.leaving && !r.garden.Exists(seedA()) {
		return true // Its ManagedSeed is gone, so the API server refuses it.
	}
	return seed.Register(ctx, garden, r.configuration()) == nil
}

// apart is a clock whose timers end when nothing else happens, so that each run of a seed is the same.
type apart struct{ clock.WithTicker }

// After implements clock.Clock.
func (a apart) After(d time.Duration) <-chan time.Time {
	return a.WithTicker.After(d + time.Microsecond)
}

// NewTicker implements clock.WithTicker.
func (a apart) NewTicker(d time.Duration) clock.Ticker {
	return a.WithTicker.NewTicker(d + time.Nanosecond)
}

// apiServer answers requests for health and version, unless there is an error.
type apiServer func(*http.Request) error

// RoundTrip implements http.RoundTripper.
func (a apiServer) RoundTrip(q *http.Request) (*http.Response, error) {
	status := http.StatusOK
	if a(q) != nil {
		status = http.StatusInternalServerError
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Request: q,
		Body: io.NopCloser(strings.NewReader(`{"gitVersion":"v1.36.3"}`)),
	}, nil
}

func seedA() *corev1beta1.Seed { return named[corev1beta1.Seed]("", "a") }

func leaseOf(name string) *coordinationv1.Lease {
	return named[coordinationv1.Lease](corev1beta1.SeedLeaseNamespace, name)
}

func installation(name, seed string) *corev1beta1.ControllerInstallation {
	i := named[corev1beta1.ControllerInstallation]("", name)
	i.Spec.RegistrationRef.Name, i.Spec.SeedRef = name, &corev1.ObjectReference{Name: seed}
	i.Finalizers = []string{"core.gardener.cloud/controllerinstallation"}
	return i
}

func ofSeed(o client.Object) client.Object {
	o.SetLabels(map[string]string{corev1beta1.LabelPrefixSeedName + "a": "true"}) // As the API server does.
	return o
}

func shootCalled(name string) *corev1beta1.Shoot {
	s := named[corev1beta1.Shoot]("garden-dev", name)
	s.Spec.SeedName, s.Status.TechnicalID = new("a"), "shoot--dev--"+name
	ofSeed(s)
	return s
}

func gatewayDeployment() *appsv1.Deployment {
	return named[appsv1.Deployment](gateway.Namespace, gateway.Name)
}

func gatewayService() *corev1.Service { return named[corev1.Service](gateway.Namespace, gateway.Name) }

func resourceManager() *appsv1.Deployment {
	return named[appsv1.Deployment](corev1beta1.GardenNamespace, resourcemanager.Name)
}

// configuration is that of the current version.
func (r *seedRun) configuration() *config.SeedConfig {
	c := &config.SeedConfig{SeedTemplate: *r.config.SeedConfig.SeedTemplate.DeepCopy()}
	v := fmt.Sprint(r.version)
	c.Spec.Settings = &corev1beta1.SeedSettings{LoadBalancerServices: &corev1beta1.SeedSettingLoadBalancerServices{
		Annotations: map[string]string{annotationVersion: v},
	}}
	c.Spec.Backup = &corev1beta1.Backup{Provider: "local", CredentialsRef: &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Secret", Namespace: "garden", Name: "key-" + v,
	}}
	return c
}

// bucket returns the BackupBucket of the Seed, if both exist.
func (r *seedRun) bucket() (*corev1beta1.BackupBucket, bool) {
	s := seedA()
	if !r.garden.Exists(s) {
		return nil, false
	}
	b := named[corev1beta1.BackupBucket]("", string(s.UID))
	return b, r.garden.Exists(b)
}

func entryOfShoot() *corev1beta1.BackupEntry {
	return named[corev1beta1.BackupEntry]("garden-dev", "backup")
}

// kubernetes does the work of the kubelets and of the load balancers.
func (r *seedRun) kubernetes(context.Context, client.Client) error {
	for _, d := range []*appsv1.Deployment{gatewayDeployment(), resourceManager()} {
		available := int32(0)
		if !r.seed.Exists(d) {
			continue
		}
		if !r.podsFail {
			available = ptr.Deref(d.Spec.Replicas, 1)
		}
		if err := r.seed.EditStatus(d, func() {
			d.Status.ObservedGeneration, d.Status.Replicas = d.Generation, ptr.Deref(d.Spec.Replicas, 1)
			d.Status.UpdatedReplicas, d.Status.AvailableReplicas = d.Status.Replicas, available
		}); err != nil {
			return err
		}
	}
	if s := gatewayService(); r.seed.Exists(s) && len(s.Status.LoadBalancer.Ingress) == 0 {
		return r.seed.EditStatus(s, func() {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
		})
	}
	return nil
}

// giveUp does what the garden does when no heartbeats arrive.
func (r *seedRun) giveUp(context.Context, client.Client) error {
	s, lease, now := seedA(), leaseOf("a"), r.Clock().Now()
	if !r.garden.Exists(s) {
		return nil
	}
	last := s.CreationTimestamp.Time
	if r.garden.Exists(lease) {
		last = lease.Spec.RenewTime.Time
	}
	ready := corev1beta1.FindCondition(s.Status.Conditions, corev1beta1.SeedGardenletReady)
	if now.Sub(last) < overdue || ready != nil && ready.Status == corev1beta1.ConditionUnknown {
		return nil
	}
	return r.garden.EditStatus(s, func() {
		s.Status.Conditions = corev1beta1.SetCondition(s.Status.Conditions, corev1beta1.Condition{
			Type: corev1beta1.SeedGardenletReady, Status: corev1beta1.ConditionUnknown,
		}, now)
	})
}

// install installs an extension, and uninstalls it when the Seed is being deleted and has no bucket left.
func (r *seedRun) install(ctx context.Context, c client.Client) error {
	i := installation("x", "a")
	if !r.garden.Exists(i) {
		return nil
	}
	if i.DeletionTimestamp != nil {
		return r.garden.Edit(i, func() { i.Finalizers = nil })
	}
	s := seedA()
	if _, bucket := r.bucket(); r.garden.Exists(s) && s.DeletionTimestamp != nil && !bucket {
		return c.Delete(ctx, i)
	}
	healthy := corev1beta1.ConditionTrue
	if r.extensionFails {
		healthy = corev1beta1.ConditionFalse
	}
	return r.garden.EditStatus(i, func() {
		i.Status.Conditions = []corev1beta1.Condition{
			{Type: corev1beta1.ControllerInstallationValid, Status: corev1beta1.ConditionTrue},
			{Type: corev1beta1.ControllerInstallationInstalled, Status: corev1beta1.ConditionTrue},
			{Type: corev1beta1.ControllerInstallationHealthy, Status: healthy},
			{Type: corev1beta1.ControllerInstallationProgressing, Status: corev1beta1.ConditionFalse},
		}
	})
}

// bucketController does what other controllers do with the bucket: it stays while backups are in it.
func (r *seedRun) bucketController(context.Context, client.Client) error {
	b, ok := r.bucket()
	switch {
	case !ok:
		return nil
	case b.DeletionTimestamp == nil:
		return r.garden.Edit(b, func() { controllerutil.AddFinalizer(b, corev1beta1.FinalizerName) })
	case !r.garden.Exists(entryOfShoot()):
		r.bucketDeleted = false
		return r.garden.Edit(b, func() { b.Finalizers = nil })
	}
	return nil
}

// addOthers creates objects that the gardenlet must not touch.
func (r *seedRun) addOthers() {
	bucket := named[corev1beta1.BackupBucket]("", "other")
	bucket.Spec.SeedName = new("b")
	shoot := named[corev1beta1.Shoot]("garden-dev", "other")
	shoot.Spec.SeedName = new("b")
	for _, o := range []client.Object{
		named[corev1beta1.Seed]("", "b"), leaseOf("b"), bucket, shoot, installation("y", "b"),
	} {
		r.garden.Add(o)
		r.others[o] = r.garden
	}
	installed := r.placeholders[0].DeepCopy() // By an operator, and not as a placeholder.
	installed.Labels, installed.Spec.Names.ShortNames = nil, []string{"other"}
	for _, o := range []client.Object{
		named[appsv1.Deployment]("others", gateway.Name), named[corev1.Service]("others", gateway.Name), installed,
	} {
		r.seed.Add(o)
		r.others[o] = r.seed
	}
}
