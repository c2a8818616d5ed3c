package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/component/etcd"
	"hortus.dev/hortus/internal/component/vpnshoot"
	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/chain"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
	"hortus.dev/hortus/internal/ownership"
	"hortus.dev/hortus/internal/secretsmanager"
	"hortus.dev/hortus/test/sim"
)

// cause is something that is wrong with a Shoot.
type cause string

const (
	unreachable     cause = "the connections to the API server of the Shoot break"
	hanging         cause = "the API server of the Shoot does not answer"
	erroring        cause = "the API server of the Shoot answers with an error"
	fewReplicas     cause = "kube-controller-manager has no replica"
	noScheduler     cause = "kube-scheduler is missing"
	etcdDown        cause = "etcd is not ready"
	backupsBehind   cause = "the backups are behind"
	noBackupStatus  cause = "the process of the backups does not answer"
	extensionFails  cause = "an extension reports an error"
	extensionRolls  cause = "an extension reports progress"
	extensionSilent cause = "an extension has sent no heartbeat"
	resourceFails   cause = "a ManagedResource is not healthy"
	nodeNotReady    cause = "a node is not ready"
	nodeGone        cause = "a node has vanished"
	noTunnel        cause = "the tunnel is broken"
	expiringCA      cause = "a CA expires soon"
	seedHangs       cause = "the API server of the seed does not answer"
	operationFails  cause = "the operation fails"
)

var allCauses = []cause{
	unreachable, hanging, erroring, fewReplicas, noScheduler, etcdDown, backupsBehind, noBackupStatus, extensionFails,
	extensionRolls, extensionSilent, resourceFails, nodeNotReady, nodeGone, noTunnel, expiringCA, seedHangs,
	operationFails,
}

// careSeed is a seed, and the control plane of the Shoot in it.
type careSeed struct {
	cluster        *sim.Cluster
	exists, scaled bool // The control plane exists; it is scaled down.
}

// careWorld has a Shoot in one of the seeds a and b. What is wrong with it is in causes, from which show makes the
// objects that care observes.
type careWorld struct {
	*sim.World
	garden, user *sim.Cluster
	seeds        map[string]*careSeed
	causes       map[cause]bool
	began        time.Time
	port         int // Local port of the last connection.
}

func newCareWorld(w *sim.World) *careWorld {
	cw := &careWorld{
		World: w, garden: w.Cluster("garden", careScheme()), user: w.Cluster("shoot", careScheme()),
		seeds: map[string]*careSeed{}, causes: map[cause]bool{}, began: w.Clock().Now(),
	}
	cw.garden.AddNamespaces("garden-dev")
	cw.user.AddNamespaces(metav1.NamespaceSystem, metav1.NamespaceDefault)
	for _, name := range []string{"a", "b"} {
		cluster := w.Cluster("seed-"+name, careScheme())
		cluster.AddNamespaces(controlPlane, corev1beta1.ExtensionNamespacePrefix+"network")
		cw.seeds[name] = &careSeed{cluster: cluster}
	}
	registration := named[corev1beta1.ControllerRegistration]("", "network")
	registration.Spec.Resources = []corev1beta1.ControllerResource{{
		Kind: extensionsv1alpha1.NetworkKind, Type: "simulated",
	}}
	installation := named[corev1beta1.ControllerInstallation]("", "network")
	installation.Spec.RegistrationRef.Name = registration.Name
	cw.garden.Add(registration, installation)

	tunnel := named[corev1.Pod](metav1.NamespaceSystem, "vpn-shoot")
	tunnel.Labels = map[string]string{"app": vpnshoot.Name}
	tunnel.Status.Phase = corev1.PodRunning
	cw.user.Add(tunnel)

	s := cw.shoot()
	s.Finalizers = []string{corev1beta1.FinalizerName}
	s.Spec.SeedName, s.Spec.Kubernetes.Version = ptr.To("a"), "1.36.3"
	s.Spec.Provider.Workers = []corev1beta1.Worker{{Name: "pool", Minimum: 2, Maximum: 2}}
	cw.garden.Add(s)
	claim := named[coordinationv1.Lease](s.Namespace, ownership.NamePrefix+string(s.UID))
	claim.Spec.HolderIdentity, claim.Spec.LeaseTransitions = ptr.To("a"), ptr.To[int32](1)
	cw.garden.Add(claim)
	return cw
}

// careScheme has the kinds that care reads. It is only read.
var careScheme = sync.OnceValue(func() *runtime.Scheme {
	scheme := sim.Scheme()
	for _, add := range []func(*runtime.Scheme) error{apiextensionsv1.AddToScheme, machinev1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return scheme
})

func (w *careWorld) shoot() *corev1beta1.Shoot { return named[corev1beta1.Shoot]("garden-dev", "s") }

// put makes an object exist as change makes it, with its status, or not exist.
func put(cluster *sim.Cluster, o client.Object, wanted bool, change func()) error {
	switch {
	case !wanted:
		return client.IgnoreNotFound(cluster.Delete(context.Background(), o))
	case !cluster.Exists(o):
		change()
		return cluster.Create(context.Background(), o)
	}
	before := o.DeepCopyObject()
	if change(); equality.Semantic.DeepEqual(before, o) {
		return nil
	}
	if err := cluster.Update(context.Background(), o); err != nil {
		return err
	}
	return cluster.EditStatus(o, change)
}

// show makes the objects as the causes say.
func (w *careWorld) show() error {
	var errs []error
	for _, name := range []string{"n1", "n2"} {
		n, status := named[corev1.Node]("", name), corev1.ConditionTrue
		if name == "n1" && w.causes[nodeNotReady] {
			status = corev1.ConditionFalse
		}
		errs = append(errs, put(w.user, n, name == "n1" || !w.causes[nodeGone], func() {
			n.Labels = map[string]string{corev1beta1.LabelWorkerPool: "pool"}
			n.Status.NodeInfo.KubeletVersion = "v1.36.3"
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		}))
	}
	for _, name := range []string{"a", "b"} {
		errs = append(errs, w.showControlPlane(w.seeds[name]), w.showMachines(w.seeds[name]))
	}
	return errors.Join(errs...)
}

func (w *careWorld) showControlPlane(seed *careSeed) error {
	c, replicas, ready := seed.cluster, int32(1), int32(1)
	if seed.scaled {
		replicas, ready = 0, 0
	}
	var errs []error
	for _, deployment := range steps.Deployments {
		d := named[appsv1.Deployment](controlPlane, deployment.Name)
		wanted := seed.exists && !(d.Name == "kube-scheduler" && w.causes[noScheduler])
		errs = append(errs, put(c, d, wanted, func() {
			d.Spec.Replicas, d.Status.ObservedGeneration = &replicas, max(1, d.Generation)
			d.Status.AvailableReplicas = ready
			if d.Name == "kube-controller-manager" && w.causes[fewReplicas] {
				d.Status.AvailableReplicas = 0
			}
		}))
	}
	set := named[appsv1.StatefulSet](controlPlane, etcd.Name)
	ca := named[corev1.Secret](controlPlane, "ca")
	kubeconfig := named[corev1.Secret](controlPlane, "gardener-internal")
	return errors.Join(append(errs,
		put(c, set, seed.exists, func() {
			set.Spec.Replicas, set.Status.ReadyReplicas = &replicas, ready
			if w.causes[etcdDown] {
				set.Status.ReadyReplicas = 0
			}
			set.Spec.Template.Spec.Containers = []corev1.Container{{
				Name: "etcd", Command: []string{"etcd", "--store-credentials=/x"},
			}}
		}),
		put(c, ca, seed.exists, func() {
			end := w.began.AddDate(10, 0, 0)
			if w.causes[expiringCA] {
				end = w.began.AddDate(0, 6, 0)
			}
			ca.Labels = map[string]string{
				secretsmanager.LabelManagedBy: secretsmanager.ManagedBy, secretsmanager.LabelPersist: "true",
				secretsmanager.LabelName: "ca", secretsmanager.LabelValidUntil: strconv.FormatInt(end.Unix(), 10),
			}
			ca.Data = map[string][]byte{secretsmanager.DataCACert: []byte("x")}
		}),
		put(c, kubeconfig, seed.exists, func() { kubeconfig.Data = map[string][]byte{"kubeconfig": []byte("x")} }),
		w.showExtension(seed), w.showResource(seed),
	)...)
}

func (w *careWorld) showExtension(seed *careSeed) error {
	network := named[extensionsv1alpha1.Network](controlPlane, "s")
	lease := named[coordinationv1.Lease](corev1beta1.ExtensionNamespacePrefix+"network", extensionsv1alpha1.HeartbeatLease)
	report := corev1beta1.Condition{Type: corev1beta1.ShootControlPlaneHealthy, Status: corev1beta1.ConditionTrue}
	switch {
	case w.causes[extensionFails]:
		report.Status, report.Reason = corev1beta1.ConditionFalse, "AgentsFail"
	case w.causes[extensionRolls]:
		report.Status, report.Reason = corev1beta1.ConditionProgressing, "AgentsRollOut"
	}
	beat := w.began.AddDate(1, 0, 0) // No time of a run is so late that it is old.
	if w.causes[extensionSilent] {
		beat = w.began.Add(-time.Hour)
	}
	return errors.Join(
		put(seed.cluster, network, seed.exists, func() {
			network.Spec.Type = "simulated"
			network.Status.Conditions = []corev1beta1.Condition{report}
		}),
		put(seed.cluster, lease, true, func() { lease.Spec.RenewTime = &metav1.MicroTime{Time: beat} }))
}

func (w *careWorld) showResource(seed *careSeed) error {
	mr := named[resourcesv1alpha1.ManagedResource](controlPlane, "shoot-core")
	return put(seed.cluster, mr, seed.exists, func() {
		mr.Status.ObservedGeneration = max(1, mr.Generation)
		healthy := corev1beta1.Condition{Type: resourcesv1alpha1.ResourcesHealthy, Status: corev1beta1.ConditionTrue}
		if w.causes[resourceFails] {
			healthy.Status, healthy.Reason = corev1beta1.ConditionFalse, "PodsUnhealthy"
		}
		mr.Status.Conditions = []corev1beta1.Condition{
			{Type: resourcesv1alpha1.ResourcesApplied, Status: corev1beta1.ConditionTrue}, healthy,
			{Type: resourcesv1alpha1.ResourcesProgressing, Status: corev1beta1.ConditionFalse},
		}
	})
}

func (w *careWorld) showMachines(seed *careSeed) error {
	d := named[machinev1alpha1.MachineDeployment](controlPlane, "pool")
	errs := []error{put(seed.cluster, d, seed.exists, func() { d.Spec.Replicas = 2 })}
	for _, name := range []string{"m1", "m2"} {
		m := named[machinev1alpha1.Machine](controlPlane, name)
		errs = append(errs, put(seed.cluster, m, seed.exists, func() {
			m.Status.CurrentStatus.Phase = machinev1alpha1.MachineRunning
		}))
	}
	return errors.Join(errs...)
}

// answers reports whether the API server of the Shoot answers to a seed, with the status 200.
func (w *careWorld) answers(seed *careSeed) bool {
	return seed.exists && !seed.scaled && !w.causes[unreachable] && !w.causes[hanging] && !w.causes[erroring]
}

// careConnector connects a seed to the API server of the Shoot, and to the process of its backups.
type careConnector struct {
	*careWorld
	process *sim.Process
	seed    *careSeed
	user    client.Client
}

// broken is the error of a connection that breaks. It has the local port, as errors of connections have.
func (c careConnector) broken() error {
	c.port++
	return fmt.Errorf("read tcp 10.0.0.1:%d->10.0.0.2:443: read: connection reset by peer", 30_000+c.port)
}

// Connect implements care.Connector.
func (c careConnector) Connect([]byte) (client.Client, error) { return c.user, nil }

// Status implements care.Connector.
func (c careConnector) Status(ctx context.Context, _ []byte) (int, error) {
	switch {
	case c.causes[hanging]:
		<-ctx.Done()
		return 0, ctx.Err()
	case !c.seed.exists, c.seed.scaled, c.causes[unreachable]:
		return 0, c.broken()
	case c.causes[erroring]:
		return 500, nil
	}
	return 200, nil
}

// CertificatesUntil implements care.Connector.
func (c careConnector) CertificatesUntil([]byte) (server, client time.Time) {
	return c.began.AddDate(1, 0, 0), c.began.AddDate(1, 0, 0)
}

// TunnelWorks implements care.Connector.
func (c careConnector) TunnelWorks(context.Context, []byte) error {
	if c.causes[noTunnel] {
		return c.broken()
	}
	return nil
}

// BackupStatus implements care.Connector.
func (c careConnector) BackupStatus(context.Context, steps.EtcdAccess) (etcdbackup.Status, error) {
	if c.causes[noBackupStatus] {
		return etcdbackup.Status{}, c.broken()
	}
	s := etcdbackup.Status{
		Phase: etcdbackup.PhaseActive, EtcdRevision: 7, SavedRevision: 7, Chains: 1, LastFull: &chain.Object{},
	}
	if c.causes[backupsBehind] {
		s.SecondsBehind = (c.Clock().Since(c.began) + 410*time.Second).Seconds()
	}
	return s, nil
}

// ConfirmOwner implements care.Connector. Others may change anything at this point of a check.
func (c careConnector) ConfirmOwner(ctx context.Context, _ steps.EtcdAccess, epoch int64) error {
	if epoch != 1 {
		c.T.Errorf("epoch %d was confirmed", epoch)
	}
	return c.process.Call(ctx, "etcd", "confirm the owner", true, func() error { return nil })
}

// toggle brings and removes causes.
func (w *careWorld) toggle(causes ...cause) change {
	return func(context.Context, client.Client) error {
		for _, c := range causes {
			w.causes[c] = !w.causes[c]
		}
		return w.show()
	}
}

// present are the causes that exist now, sorted.
func (w *careWorld) present() (out []cause) {
	for _, c := range allCauses {
		if w.causes[c] {
			out = append(out, c)
		}
	}
	return out
}

// editShoot changes the Shoot, if it exists.
func (w *careWorld) editShoot(edit func(*corev1beta1.Shoot)) change {
	return func(context.Context, client.Client) error {
		s := w.shoot()
		if !w.garden.Exists(s) {
			return nil
		}
		return w.garden.Edit(s, func() { edit(s) })
	}
}

// editShootStatus changes the status of the Shoot, if it exists.
func (w *careWorld) editShootStatus(edit func(*corev1beta1.ShootStatus)) change {
	return func(context.Context, client.Client) error {
		s := w.shoot()
		if !w.garden.Exists(s) {
			return nil
		}
		return w.garden.EditStatus(s, func() { edit(&s.Status) })
	}
}

func (w *careWorld) hibernate(enabled bool) change {
	return w.editShoot(func(s *corev1beta1.Shoot) { s.Spec.Hibernation = &corev1beta1.Hibernation{Enabled: &enabled} })
}

func hibernationOf(s *corev1beta1.Shoot) bool {
	return s.Spec.Hibernation != nil && ptr.Deref(s.Spec.Hibernation.Enabled, false)
}

// careTypes are the conditions, and judgedConstraints the constraints, that care always sets.
var (
	careTypes = []corev1beta1.ConditionType{
		corev1beta1.ShootAPIServerAvailable, corev1beta1.ShootControlPlaneHealthy, corev1beta1.ShootEveryNodeReady,
		corev1beta1.ShootSystemComponentsHealthy,
	}
	judgedConstraints = []corev1beta1.ConditionType{
		corev1beta1.ShootHibernationPossible, corev1beta1.ShootMaintenancePreconditionsSatisfied,
	}
)

// byCare reports whether care sets the condition or constraint.
func byCare(kind corev1beta1.ConditionType) bool {
	return slices.Contains(careTypes, kind) || slices.Contains(judgedConstraints, kind) ||
		kind == corev1beta1.ShootCACertificateValiditiesAcceptable
}
