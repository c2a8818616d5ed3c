// Package test steps the reconciler of Shoots against a real API server that stands for garden and seed. The other
// parts of the seed - kubelets, extensions, the resource-manager - are simulated by functions that change objects.
package test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	"hortus.dev/hortus/internal/component/etcd"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/component/managedresource"
	"hortus.dev/hortus/internal/crds"
	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/gardenlet/shoot"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
	"hortus.dev/hortus/internal/maintenance"
	"hortus.dev/hortus/internal/secretsmanager"
	"hortus.dev/hortus/test/env"
)

const gardenletVersion = "test"

// began is the time of the API server at the beginning of the tests, at which every world begins.
var began = time.Now().Truncate(time.Second)

func TestMain(m *testing.M) {
	env.Main(m, append(seedOptions(), env.WithClock(clocktesting.NewFakeClock(began)),
		env.WithSeedAuthorizer(), env.WithSeedsAuthorizedOnce())...)
}

// seedOptions are for a server that is a seed.
func seedOptions() []env.Option {
	return []env.Option{env.WithCRDs(crds.Seed()...),
		env.WithScheme(extensionsv1alpha1.AddToScheme, resourcesv1alpha1.AddToScheme, gatewayv1.Install,
			machinev1alpha1.AddToScheme)}
}

// world is a project on a seed, with all other actors in the seed besides the gardenlet.
type world struct {
	*env.Environment
	t         *testing.T
	ctx       context.Context
	clock     *clocktesting.FakeClock
	namespace string // Of the project.
	seed      *corev1beta1.Seed
	profile   *corev1beta1.CloudProfile
	r         *shoot.Reconciler
	// user is the cluster of the user.
	user client.Client
	// health is the HTTP status of the Shoot's API server.
	health int
	// backupService is the address of the service of etcd's backups.
	backupService string
	// etcdStatus simulates the process that runs the Shoot's etcd; nil: it runs with the configuration in its pod's
	// annotation.
	etcdStatus func(namespace string) (etcdbackup.Status, error)
	// revision is that of etcd, and all of it is in the backups. saves counts the requests to save it, which end with
	// saveError.
	revision  int64
	saves     int
	saveError error
	// gardenlet has the gardenlet's access to the garden, confined as in production.
	gardenlet client.Client
	// fail makes the extension of a kind report an error with a code.
	fail map[string]corev1beta1.ErrorCode
	// apiServers simulates the Deployment of the Shoot's API server; nil: it is ready at once.
	apiServers func(*appsv1.Deployment) appsv1.DeploymentStatus
	// lazy: the resource-manager of the Shoot does nothing.
	lazy bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldAt(t, clocktesting.NewFakeClock(began))
}

// newWorldAt creates a world with the clock of another one.
func newWorldAt(t *testing.T, clock *clocktesting.FakeClock) *world {
	t.Helper()
	e := env.Shared(t)
	w := &world{
		Environment: e, t: t, ctx: t.Context(), clock: clock, namespace: *e.Project(t).Spec.Namespace,
		fail: map[string]corev1beta1.ErrorCode{},
	}
	w.health, w.user, w.revision = 200, userCluster(t), 10
	w.profile = &corev1beta1.CloudProfile{ObjectMeta: metav1.ObjectMeta{Name: env.Name("profile-")},
		Spec: corev1beta1.CloudProfileSpec{
			Type:       "local",
			Kubernetes: corev1beta1.KubernetesSettings{Versions: []corev1beta1.ExpirableVersion{{Version: "1.36.3"}}},
			MachineImages: []corev1beta1.MachineImage{{
				Name: "hortus-machine", Versions: []corev1beta1.MachineImageVersion{
					{
						ExpirableVersion: corev1beta1.ExpirableVersion{Version: "1.0.0"},
						InPlaceUpdates:   &corev1beta1.InPlaceUpdates{Supported: true},
						CRI: []corev1beta1.CRI{{
							Name: corev1beta1.CRINameContainerD, ContainerRuntimes: []corev1beta1.ContainerRuntime{{Type: "gvisor"}},
						}},
					},
				},
			}},
			MachineTypes: []corev1beta1.MachineType{{
				Name: "small", CPU: resource.MustParse("1"), GPU: resource.MustParse("0"), Memory: resource.MustParse("2Gi"),
			}},
			Regions: []corev1beta1.Region{{Name: "local"}},
		}}
	ensureNamespace(t, e, "garden")
	ensureNamespace(t, e, "hortus-gateway")
	credentials := corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "garden", Name: env.Name("dns-")}
	w.seed = &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: env.Name("seed-")}, Spec: corev1beta1.SeedSpec{
		Provider: corev1beta1.SeedProvider{Type: "local", Region: "local"},
		Networks: corev1beta1.SeedNetworks{Pods: "10.244.0.0/16", Services: "10.0.0.0/24"},
		Ingress: &corev1beta1.Ingress{
			Domain: "ingress.local.hortus.dev", Controller: corev1beta1.IngressController{Kind: "nginx"},
		},
		DNS: corev1beta1.SeedDNS{
			Provider: &corev1beta1.SeedDNSProvider{Type: "local", CredentialsRef: &credentials},
			Internal: &corev1beta1.SeedDNSProviderConfig{
				Type: "local", Domain: "internal.local.hortus.dev", CredentialsRef: credentials,
			},
			Defaults: []corev1beta1.SeedDNSProviderConfig{{
				Type: "local", Domain: "local.hortus.dev", CredentialsRef: credentials,
			}},
		},
	}}
	e.Create(t, w.profile,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: credentials.Name}},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "cloud"},
			Data:       map[string][]byte{"accessKey": []byte("a")},
		},
		&securityv1alpha1.CredentialsBinding{
			ObjectMeta:     metav1.ObjectMeta{Namespace: w.namespace, Name: "cloud"},
			Provider:       securityv1alpha1.CredentialsBindingProvider{Type: "local"},
			CredentialsRef: corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Name: "cloud", Namespace: w.namespace},
		},
		w.seed)
	w.seedReady()
	w.extensionsInstalled()
	w.gateway()
	e.GardenRoles(t)
	w.gardenlet = e.ClientAs(t, corev1beta1.SeedUserPrefix+w.seed.Name, corev1beta1.SeedsGroup)
	w.r = &shoot.Reconciler{
		NewWorkerPoolHash: true, RSABits: secretsmanager.TestRSABits,
		Garden: w.gardenlet, Cache: e.Client, Seed: e.Client, Clock: w.clock, Events: events.NewFakeRecorder(1000),
		Shoots:   connector{w},
		SeedName: w.seed.Name, GardenIdentity: identityOfGarden,
		Identity: shoot.Identity{ID: "i", Name: "gardenlet-0", Version: gardenletVersion},
		Images:   steps.DefaultImages(), Options: maintenance.ReconcileOptions{SyncPeriod: time.Hour},
		Jitter: maintenance.HashJitter(0), RetryDuration: 12 * time.Hour, DNSTTL: 120,
	}
	return w
}

func identityOfGarden(context.Context) (string, error) { return "garden", nil }

func ensureNamespace(t *testing.T, e *env.Environment, name string) {
	t.Helper()
	err := e.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// seedReady reports on the seed as its gardenlet would.
func (w *world) seedReady() {
	w.t.Helper()
	now := metav1.NewTime(w.clock.Now())
	w.seed.Status.Gardener = &corev1beta1.Gardener{Version: gardenletVersion}
	w.seed.Status.ObservedGeneration = w.seed.Generation
	for _, c := range []corev1beta1.ConditionType{
		corev1beta1.SeedGardenletReady, corev1beta1.SeedSystemComponentsHealthy,
	} {
		w.seed.Status.Conditions = append(w.seed.Status.Conditions, corev1beta1.Condition{
			Type: c, Status: corev1beta1.ConditionTrue, Reason: "Test", LastTransitionTime: now, LastUpdateTime: now,
		})
	}
	w.must(w.Client.Status().Update(w.ctx, w.seed))
}

// extensionsInstalled registers and installs the extensions that Shoots of the local provider need.
func (w *world) extensionsInstalled() {
	w.t.Helper()
	registration := &corev1beta1.ControllerRegistration{ObjectMeta: metav1.ObjectMeta{Name: "local"}}
	for kind, t := range map[string]string{
		"Infrastructure": "local", "ControlPlane": "local", "Worker": "local", "Network": "bridge",
		"OperatingSystemConfig": "hortus-machine", "DNSRecord": "local", "ContainerRuntime": "gvisor",
	} {
		registration.Spec.Resources = append(registration.Spec.Resources, corev1beta1.ControllerResource{Kind: kind, Type: t})
	}
	if err := w.Client.Create(w.ctx, registration); err != nil && !apierrors.IsAlreadyExists(err) {
		w.t.Fatal(err)
	}
	w.installed(registration)
}

// installed reports that an extension is ready in the seed.
func (w *world) installed(registration *corev1beta1.ControllerRegistration) {
	w.t.Helper()
	i := &corev1beta1.ControllerInstallation{
		ObjectMeta: metav1.ObjectMeta{Name: env.Name(registration.Name + "-")},
		Spec: corev1beta1.ControllerInstallationSpec{
			RegistrationRef: corev1.ObjectReference{Name: registration.Name},
			SeedRef:         &corev1.ObjectReference{Name: w.seed.Name},
		},
	}
	w.Create(w.t, i)
	now := metav1.NewTime(w.clock.Now())
	for kind, status := range map[corev1beta1.ConditionType]corev1beta1.ConditionStatus{
		corev1beta1.ControllerInstallationInstalled: "True", corev1beta1.ControllerInstallationHealthy: "True",
		corev1beta1.ControllerInstallationProgressing: "False",
	} {
		i.Status.Conditions = append(i.Status.Conditions,
			corev1beta1.Condition{Type: kind, Status: status, Reason: "Test", LastTransitionTime: now, LastUpdateTime: now})
	}
	w.must(w.Client.Status().Update(w.ctx, i))
}

// gateway creates a gateway that has an address.
func (w *world) gateway() {
	w.t.Helper()
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hortus-gateway", Name: "gateway"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 443}}},
	}
	err := w.Client.Create(w.ctx, s)
	if apierrors.IsAlreadyExists(err) {
		return
	}
	w.must(err)
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "198.18.8.1"}}
	w.must(w.Client.Status().Update(w.ctx, s))
}

// newShoot creates a Shoot that is bound to the seed.
func (w *world) newShoot(pools ...string) *corev1beta1.Shoot {
	w.t.Helper()
	s := &corev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: env.Name("s")},
		Spec: corev1beta1.ShootSpec{
			CloudProfile: &corev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: w.profile.Name},
			Region:       "local",
			Kubernetes:   corev1beta1.Kubernetes{Version: "1.36.3"},
			Provider:     corev1beta1.Provider{Type: "local"},
			SeedName:     ptr.To(w.seed.Name),
			Networking:   &corev1beta1.Networking{Services: ptr.To("100.64.0.0/16")},
		},
	}
	if len(pools) > 0 {
		s.Spec.CredentialsBindingName = ptr.To("cloud")
		s.Spec.Networking = &corev1beta1.Networking{
			Type: ptr.To("bridge"), Pods: ptr.To("100.96.0.0/16"), Services: ptr.To("100.64.0.0/16"),
		}
	}
	for _, name := range pools {
		s.Spec.Provider.Workers = append(s.Spec.Provider.Workers, corev1beta1.Worker{
			Name: name, Minimum: 1, Maximum: 2,
			Machine: corev1beta1.Machine{
				Type: "small", Image: &corev1beta1.ShootMachineImage{Name: "hortus-machine", Version: ptr.To("1.0.0")},
			},
		})
	}
	w.Create(w.t, s)
	return s
}

// step makes one pass over the Shoot, moves the clock, and returns the Shoot; nil if it is gone.
func (w *world) step(s *corev1beta1.Shoot) (*corev1beta1.Shoot, error) {
	w.t.Helper()
	w.clock.Step(2 * time.Second)
	_, err := reconcile.AsReconciler(w.Client, w.r).Reconcile(w.ctx,
		reconcile.Request{NamespacedName: client.ObjectKeyFromObject(s)})
	out := &corev1beta1.Shoot{}
	if getErr := w.Client.Get(w.ctx, client.ObjectKeyFromObject(s), out); apierrors.IsNotFound(getErr) {
		return nil, err
	} else if getErr != nil {
		w.t.Fatal(getErr)
	}
	return out, err
}

// maxPasses is far above the number that a flow needs.
const maxPasses = 150

// run steps the Shoot, and the seed in between, until the condition holds.
func (w *world) run(s *corev1beta1.Shoot, until func(*corev1beta1.Shoot) bool) *corev1beta1.Shoot {
	w.t.Helper()
	var err error
	for range maxPasses {
		var now *corev1beta1.Shoot
		if now, err = w.step(s); until(now) {
			return now
		}
		if now == nil {
			w.t.Fatalf("the Shoot is gone")
		}
		s = now
		w.seedActs(s)
	}
	w.t.Fatalf("not reached after %d passes: %+v, errors %+v, %v", maxPasses, s.Status.LastOperation, s.Status.LastErrors,
		err)
	return nil
}

func succeeded(s *corev1beta1.Shoot) bool {
	return s != nil && s.Status.LastOperation != nil &&
		s.Status.LastOperation.State == corev1beta1.LastOperationStateSucceeded &&
		s.Status.ObservedGeneration == s.Generation
}

func gone(s *corev1beta1.Shoot) bool { return s == nil }

// seedActs makes one pass of every simulated actor in the seed.
func (w *world) seedActs(s *corev1beta1.Shoot) {
	w.t.Helper()
	if s.Status.TechnicalID == "" || w.namespaceGone(s.Status.TechnicalID) {
		return
	}
	in := client.InNamespace(s.Status.TechnicalID)
	w.workloads(in)
	w.extensions(in)
	w.resourceManager(in)
}

func (w *world) workloads(in client.ListOption) {
	w.t.Helper()
	deployments := &appsv1.DeploymentList{}
	w.must(w.Client.List(w.ctx, deployments, in))
	for i := range deployments.Items {
		d := &deployments.Items[i]
		if d.DeletionTimestamp != nil { // The garbage collector has released its ReplicaSets.
			d.Finalizers = nil
			w.must(w.Client.Update(w.ctx, d))
			continue
		}
		n, before := *d.Spec.Replicas, d.Status
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, AvailableReplicas: n, ReadyReplicas: n,
		}
		if d.Name == kubeapiserver.Name && w.apiServers != nil {
			d.Status = w.apiServers(d)
		}
		if !equality.Semantic.DeepEqual(d.Status, before) {
			w.must(w.Client.Status().Update(w.ctx, d))
		}
	}
	sets := &appsv1.StatefulSetList{}
	w.must(w.Client.List(w.ctx, sets, in))
	for i := range sets.Items {
		s := &sets.Items[i]
		n, before := *s.Spec.Replicas, s.Status
		s.Status = appsv1.StatefulSetStatus{
			ObservedGeneration: s.Generation, Replicas: n, UpdatedReplicas: n, AvailableReplicas: n, ReadyReplicas: n,
		}
		if !equality.Semantic.DeepEqual(s.Status, before) {
			w.must(w.Client.Status().Update(w.ctx, s))
		}
		for i := range max(n, 3) {
			w.podOf(s, i)
		}
	}
}

// podOf creates a pod of a StatefulSet, which is ready at once.
func (w *world) podOf(set *appsv1.StatefulSet, i int32) {
	w.t.Helper()
	key := client.ObjectKey{Namespace: set.Namespace, Name: fmt.Sprintf("%s-%d", set.Name, i)}
	pod := &corev1.Pod{}
	err := w.Client.Get(w.ctx, key, pod)
	w.must(client.IgnoreNotFound(err))
	exists := err == nil
	if exists && (i >= *set.Spec.Replicas || !pod.DeletionTimestamp.IsZero()) {
		w.must(client.IgnoreNotFound(w.Client.Delete(w.ctx, pod, client.GracePeriodSeconds(0))))
	}
	if exists || i >= *set.Spec.Replicas {
		return
	}
	pod = &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Name, pod.Spec.PriorityClassName = key.Namespace, key.Name, ""
	pod.Spec.Containers[0].VolumeMounts = nil // Volumes are not simulated.
	w.must(w.Client.Create(w.ctx, pod))
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning,
		Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: set.Name, Ready: true}}}
	w.must(w.Client.Status().Update(w.ctx, pod))
}

// EtcdStatus is the status of an etcd that runs with the configuration in its pod's annotation.
func (c connector) EtcdStatus(ctx context.Context, access steps.EtcdAccess) (etcdbackup.Status, error) {
	namespace := strings.Split(access.Endpoint, ".")[1]
	if c.etcdStatus != nil {
		return c.etcdStatus(namespace)
	}
	pod := &corev1.Pod{}
	name, _, _ := strings.Cut(strings.TrimPrefix(access.Endpoint, "https://"), ".")
	if name == etcd.Name {
		name += "-0"
	} else {
		namespace = strings.Split(access.Endpoint, ".")[2]
	}
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod)
	if etcd.StandsBy(pod) && pod.Annotations[annotationActivated] == "" {
		return etcdbackup.Status{Etcd: etcdbackup.Etcd{State: etcdbackup.EtcdStandby, Epoch: epochOf(pod)}}, err
	}
	return etcdbackup.Status{Etcd: etcdbackup.Etcd{
		State: etcdbackup.EtcdRunning, Configuration: pod.Annotations[etcd.AnnotationConfiguration], Epoch: epochOf(pod),
	}}, err
}

// annotationActivated marks a pod whose etcd was on standby before.
const annotationActivated = "test.hortus.dev/activated"

// ActivateEtcd does what the process of a pod on standby does.
func (c connector) ActivateEtcd(ctx context.Context, access steps.EtcdAccess, epoch int64, holder string) error {
	pod := &corev1.Pod{}
	if err := c.Client.Get(ctx, client.ObjectKey{
		Namespace: strings.Split(access.Endpoint, ".")[1], Name: etcd.Name + "-0",
	}, pod); err != nil {
		return err
	}
	if has := epochOf(pod); epoch < has || holder == "" {
		return fmt.Errorf("etcd is on standby for epoch %d: %d of %q", has, epoch, holder)
	}
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, annotationActivated, holder)
	return c.Client.Update(ctx, pod)
}

// epochOf returns the epoch that the process in a pod of etcd was started for; 0 without backups.
func epochOf(pod *corev1.Pod) int64 {
	for _, c := range pod.Spec.Containers {
		epoch, _ := etcd.Owner(&appsv1.StatefulSet{
			Spec: appsv1.StatefulSetSpec{
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{c}}},
			},
		})
		if epoch > 0 {
			return epoch
		}
	}
	return 0
}

// extensions act according to the contract.
func (w *world) extensions(in client.ListOption) {
	w.t.Helper()
	var all []extensionsv1alpha1.Object
	infrastructures, controlPlanes, networks := &extensionsv1alpha1.InfrastructureList{},
		&extensionsv1alpha1.ControlPlaneList{}, &extensionsv1alpha1.NetworkList{}
	workers, configs, records := &extensionsv1alpha1.WorkerList{}, &extensionsv1alpha1.OperatingSystemConfigList{},
		&extensionsv1alpha1.DNSRecordList{}
	runtimes := &extensionsv1alpha1.ContainerRuntimeList{}
	for _, l := range []client.ObjectList{infrastructures, controlPlanes, networks, workers, configs, records, runtimes} {
		w.must(w.Client.List(w.ctx, l, in))
	}
	for i := range infrastructures.Items {
		infrastructures.Items[i].Status.NodesCIDR = ptr.To("10.250.0.0/16")
		all = append(all, &infrastructures.Items[i])
	}
	for i := range configs.Items {
		if c := &configs.Items[i]; c.Spec.Purpose == extensionsv1alpha1.OperatingSystemConfigPurposeProvision {
			c.Status.CloudConfig = &extensionsv1alpha1.CloudConfig{SecretRef: corev1.SecretReference{
				Name: "osc-result-" + c.Name, Namespace: c.Namespace,
			}}
		}
		all = append(all, &configs.Items[i])
	}
	for i := range controlPlanes.Items {
		all = append(all, &controlPlanes.Items[i])
	}
	for i := range networks.Items {
		all = append(all, &networks.Items[i])
	}
	for i := range workers.Items {
		all = append(all, &workers.Items[i])
	}
	for i := range records.Items {
		all = append(all, &records.Items[i])
	}
	for i := range runtimes.Items {
		all = append(all, &runtimes.Items[i])
	}
	for _, o := range all {
		w.act(o)
	}
}

func (w *world) act(o extensionsv1alpha1.Object) {
	w.t.Helper()
	kind := kindOf(o)
	code, failing := w.fail[kind]
	if o.GetAnnotations()[extensionsv1alpha1.AnnotationOperation] == "" &&
		(o.GetDefaultStatus().LastError == nil || failing) {
		return
	}
	status := o.DeepCopyObject().(extensionsv1alpha1.Object)
	annotations := o.GetAnnotations()
	delete(annotations, extensionsv1alpha1.AnnotationOperation)
	o.SetAnnotations(annotations)
	w.must(w.Client.Update(w.ctx, o))
	status.SetResourceVersion(o.GetResourceVersion())
	now := metav1.NewTime(w.clock.Now())
	s := status.GetDefaultStatus()
	s.ObservedGeneration, s.LastError = o.GetGeneration(), nil
	s.LastOperation = &corev1beta1.LastOperation{
		Type: corev1beta1.LastOperationTypeReconcile, State: corev1beta1.LastOperationStateSucceeded, Progress: 100,
		LastUpdateTime: now,
	}
	if failing {
		s.LastOperation.State = corev1beta1.LastOperationStateError
		s.LastError = &corev1beta1.LastError{
			Description: "it failed", Codes: []corev1beta1.ErrorCode{code}, LastUpdateTime: &now,
		}
	}
	status.SetAnnotations(annotations)
	w.must(w.Client.Status().Update(w.ctx, status))
}

func kindOf(o extensionsv1alpha1.Object) string {
	switch o.(type) {
	case *extensionsv1alpha1.Infrastructure:
		return "Infrastructure"
	case *extensionsv1alpha1.Worker:
		return "Worker"
	}
	return ""
}

// resourceManager applies ManagedResources, and issues tokens.
func (w *world) resourceManager(in client.ListOption) {
	w.t.Helper()
	resources := &resourcesv1alpha1.ManagedResourceList{}
	w.must(w.Client.List(w.ctx, resources, in))
	now := metav1.NewTime(w.clock.Now())
	for i := range resources.Items {
		mr := &resources.Items[i]
		if w.lazy {
			break
		}
		secret := &corev1.Secret{}
		err := w.Client.Get(w.ctx, client.ObjectKey{Namespace: mr.Namespace, Name: mr.Spec.SecretRefs[0].Name}, secret)
		if w.must(client.IgnoreNotFound(err)); err != nil {
			continue // There is nothing to apply, yet or any more.
		}
		if ready, _ := managedresource.Ready(mr, managedresource.Checksum(secret)); ready {
			continue
		}
		mr.Status.SecretsDataChecksum = ptr.To(managedresource.Checksum(secret))
		mr.Status.ObservedGeneration = mr.Generation
		mr.Status.Conditions = nil
		for name, status := range map[string]corev1beta1.ConditionStatus{
			resourcesv1alpha1.ResourcesApplied:     corev1beta1.ConditionTrue,
			resourcesv1alpha1.ResourcesHealthy:     corev1beta1.ConditionTrue,
			resourcesv1alpha1.ResourcesProgressing: corev1beta1.ConditionFalse,
		} {
			mr.Status.Conditions = append(mr.Status.Conditions, corev1beta1.Condition{
				Type: corev1beta1.ConditionType(name), Status: status, Reason: "Test", LastTransitionTime: now, LastUpdateTime: now,
			})
		}
		w.must(w.Client.Status().Update(w.ctx, mr))
	}
	secrets := &corev1.SecretList{}
	w.must(w.Client.List(w.ctx, secrets, in,
		client.MatchingLabels{resourcesv1alpha1.LabelPurpose: resourcesv1alpha1.PurposeTokenRequestor}))
	for i := range secrets.Items {
		s := &secrets.Items[i]
		if s.Data["token"] == nil {
			s.Data = map[string][]byte{"token": []byte("t")}
			w.must(w.Client.Update(w.ctx, s))
		}
	}
}

// namespaceGone reports whether the namespace does not exist. It removes one that is being deleted.
func (w *world) namespaceGone(name string) bool {
	w.t.Helper()
	ns := &corev1.Namespace{}
	if err := w.Client.Get(w.ctx, client.ObjectKey{Name: name}, ns); err != nil {
		return apierrors.IsNotFound(err)
	}
	if ns.DeletionTimestamp == nil {
		return false
	}
	ns.Spec.Finalizers = nil
	set, err := kubernetes.NewForConfig(w.Config)
	w.must(err)
	_, err = set.CoreV1().Namespaces().Finalize(w.ctx, ns, metav1.UpdateOptions{})
	w.must(client.IgnoreNotFound(err)) // It is removed with its last finalizer.
	return true
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil && !errors.Is(err, context.Canceled) {
		w.t.Fatal(err)
	}
}

// delete confirms and requests the deletion of the Shoot.
func (w *world) delete(s *corev1beta1.Shoot) {
	w.t.Helper()
	before := s.DeepCopy()
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	s.Annotations[corev1beta1.AnnotationConfirmationDeletion] = "true"
	w.must(w.Client.Patch(w.ctx, s, client.MergeFrom(before)))
	w.must(w.Client.Delete(w.ctx, s))
}
