package resourcemanager

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/resourcemanager/csr"
	"hortus.dev/hortus/internal/resourcemanager/garbage"
	"hortus.dev/hortus/internal/resourcemanager/machineaccess"
	"hortus.dev/hortus/internal/resourcemanager/managedresource"
	"hortus.dev/hortus/internal/resourcemanager/networkpolicy"
	"hortus.dev/hortus/internal/resourcemanager/node"
	"hortus.dev/hortus/internal/resourcemanager/token"
	"hortus.dev/hortus/internal/resourcemanager/webhook"
	"hortus.dev/hortus/internal/webhook/certificate"
)

// clusters is what the controllers are built from.
type clusters struct {
	mgr    ctrl.Manager // Of the source cluster.
	source *rest.Config
	target cluster.Cluster
	direct client.Client // Of the target cluster, without a cache.
	// certificate is what the webhook server of mgr serves with.
	certificate *certificate.Keeper
	options     options
}

// Where a controller runs.
const (
	everywhere = iota
	inShoots   // The target is a Shoot.
	inSeeds    // The target is the seed itself.
)

// controllers is the list of all controllers.
var controllers = []struct {
	name  string
	where int
	add   func(clusters) error
}{
	{name: "managed-resource", add: addManagedResource},
	{name: "token-requestor", where: inShoots, add: addToken},
	{name: "node-readiness", where: inShoots, add: addReadiness},
	{name: "node-agent-delay", where: inShoots, add: addDelay},
	{name: "csr-approver", where: inShoots, add: addCSR},
	{name: "machine-access", where: inShoots, add: addMachineAccess},
	{name: "garbage-collector", add: addGarbage},
	{name: "network-policy", where: inSeeds, add: addNetworkPolicy},
	{name: "webhooks", add: addWebhooks},
}

// names of all controllers.
func controllerNames() []string {
	var out []string
	for _, c := range controllers {
		out = append(out, c.name)
	}
	return out
}

// addControllers adds those that are selected; "*" selects all that fit the class.
func addControllers(c clusters) error {
	for _, name := range c.options.controllers {
		if name != "*" && !slices.Contains(controllerNames(), name) {
			return fmt.Errorf("--controllers: unsupported value: %q (%s)", name, strings.Join(controllerNames(), ", "))
		}
	}
	for _, entry := range controllers {
		here := inShoots
		if c.options.class != "" {
			here = inSeeds
		}
		fits := entry.where == everywhere || entry.where == here || slices.Contains(c.options.controllers, entry.name)
		if c.options.enabled(entry.name) && fits {
			if err := entry.add(c); err != nil {
				return err
			}
		}
	}
	return nil
}

func addManagedResource(c clusters) error {
	managed, err := cache.New(c.target.GetConfig(), cache.Options{
		Scheme: c.target.GetScheme(),
		Mapper: c.target.GetRESTMapper(),
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{
			resourcesv1alpha1.LabelManagedBy: resourcesv1alpha1.ManagedByGardener,
		}),
		DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return fmt.Errorf("create cache of managed objects: %w", err)
	}
	if err := c.mgr.Add(managed); err != nil {
		return fmt.Errorf("add cache of managed objects: %w", err)
	}
	r := &managedresource.Reconciler{
		Source: c.mgr.GetClient(), SourceReader: c.mgr.GetAPIReader(), Target: c.direct, Clock: clock.RealClock{},
		Class: c.options.class, ClusterID: c.options.clusterID, SyncPeriod: c.options.syncPeriod,
		GarbageCollected: c.options.enabled("garbage-collector"), Metrics: c.options.metrics,
	}
	return r.AddToManager(c.mgr, managed)
}

func addToken(c clusters) error {
	secrets, err := cache.New(c.source, cache.Options{
		Scheme:            c.mgr.GetScheme(),
		Mapper:            c.mgr.GetRESTMapper(),
		DefaultNamespaces: c.options.watched(),
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{
			resourcesv1alpha1.LabelPurpose: resourcesv1alpha1.PurposeTokenRequestor}),
		DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return fmt.Errorf("create cache of token Secrets: %w", err)
	}
	if err := c.mgr.Add(secrets); err != nil {
		return fmt.Errorf("add cache of token Secrets: %w", err)
	}
	cached, err := client.New(c.source, client.Options{
		Scheme: c.mgr.GetScheme(), Mapper: c.mgr.GetRESTMapper(), Cache: &client.CacheOptions{Reader: secrets}})
	if err != nil {
		return fmt.Errorf("create client for token Secrets: %w", err)
	}
	r := &token.Reconciler{
		Source: cached, Target: c.direct, Clock: clock.RealClock{}, Class: c.options.class,
		CABundle: token.CABundleOf(c.target.GetConfig()),
	}
	return r.AddToManager(c.mgr, secrets)
}

func addReadiness(c clusters) error {
	r := &node.Readiness{
		Target: c.target.GetClient(), Reader: c.target.GetAPIReader(),
		Recorder: c.target.GetEventRecorder("gardener-resource-manager"),
	}
	return r.AddToManager(c.mgr, c.target.GetCache())
}

func addDelay(c clusters) error {
	r := &node.Delay{Target: c.target.GetClient(), Min: c.options.minDelay, Max: c.options.maxDelay}
	return r.AddToManager(c.mgr, c.target.GetCache())
}

func addCSR(c clusters) error {
	r := &csr.Reconciler{
		Target: c.target.GetClient(), TargetReader: c.target.GetAPIReader(),
		Machines: c.mgr.GetClient(), Source: c.mgr.GetAPIReader(), Namespace: c.options.namespace,
		Grants: grants(c), Clock: clock.RealClock{},
	}
	return r.AddToManager(c.mgr, c.target.GetCache())
}

func addMachineAccess(c clusters) error {
	r := &machineaccess.Reconciler{Machines: c.mgr.GetClient(), Namespace: c.options.namespace, Grants: grants(c)}
	return r.AddToManager(c.mgr, c.target.GetCache())
}

func grants(c clusters) machineaccess.Grants {
	return machineaccess.Grants{Target: c.target.GetClient(), Direct: c.target.GetAPIReader()}
}

func addGarbage(c clusters) error {
	g := &garbage.Collector{Target: c.direct, Clock: clock.RealClock{}, Period: garbage.DefaultPeriod}
	if err := c.mgr.Add(g); err != nil {
		return fmt.Errorf("add garbage collector: %w", err)
	}
	return nil
}

func addNetworkPolicy(c clusters) error {
	r := &networkpolicy.Reconciler{
		Client: c.mgr.GetClient(), Live: c.mgr.GetAPIReader(),
		Cluster: c.options.clusterNetworks, Blocked: c.options.blockedNetworks,
	}
	return r.AddToManager(c.mgr)
}

// addWebhooks serves webhooks to the API server of the target.
func addWebhooks(c clusters) error {
	ofSeed := c.options.class != ""
	if c.options.webhookPort == 0 || !ofSeed && c.options.webhookCert == "" {
		return nil
	}
	server := c.mgr.GetWebhookServer()
	webhook.Register(server, c.target.GetAPIReader(), c.mgr.GetScheme(), c.options.webhooks)
	if err := c.mgr.AddReadyzCheck("webhooks", server.StartedChecker()); err != nil {
		return fmt.Errorf("add readiness of the webhooks: %w", err)
	}
	if ofSeed && c.options.webhookCert == "" {
		return c.certificate.SetupWithManager(c.mgr)
	}
	return nil
}

// targetCache keeps of pods and DaemonSets only the critical ones, and of all objects only the fields in use.
func targetCache(o cache.Options) cache.Options {
	critical := labels.SelectorFromSet(labels.Set{node.LabelCritical: "true"})
	o.DefaultTransform = cache.TransformStripManagedFields()
	o.ByObject = map[client.Object]cache.ByObject{
		&corev1.Pod{}:       {Label: critical, Transform: slimPod},
		&appsv1.DaemonSet{}: {Label: critical},
		&corev1.Node{}:      {Transform: slimNode},
	}
	maps.Copy(o.ByObject, machineaccess.TargetCache())
	return o
}

func slimPod(o any) (any, error) {
	if p, ok := o.(*corev1.Pod); ok {
		p.ManagedFields = nil
		p.Spec = corev1.PodSpec{NodeName: p.Spec.NodeName}
		p.Status = corev1.PodStatus{Conditions: p.Status.Conditions}
	}
	return o, nil
}

// slimNode drops the list of images, by far the largest part of a Node.
func slimNode(o any) (any, error) {
	if n, ok := o.(*corev1.Node); ok {
		n.ManagedFields = nil
		n.Status = corev1.NodeStatus{Addresses: n.Status.Addresses}
	}
	return o, nil
}
