package test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/component/etcd"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/component/machinecontrollermanager"
	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/gardenlet/backupentry"
	"hortus.dev/hortus/internal/gardenlet/shoot"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
	"hortus.dev/hortus/internal/gardenlet/shootstate"
	"hortus.dev/hortus/internal/maintenance"
	"hortus.dev/hortus/internal/ownership"
	"hortus.dev/hortus/internal/secretsmanager"
	"hortus.dev/hortus/test/env"
)

// movedFence is the fence time of etcds in moves.
const movedFence = 40 * time.Second

// moved is a Shoot that moves between two seeds, each with its own API server; the first one also has the garden. The
// writes of users are modelled as the revision of etcd, and the backups as a bucket with a revision.
type moved struct {
	t     *testing.T
	ctx   context.Context
	seeds [2]*side
	clock *clocktesting.FakeClock
	// at is the seed that has the control plane.
	at    int
	shoot *corev1beta1.Shoot

	mu sync.Mutex
	// bucket has a revision of etcd, written for an epoch. acknowledged is the newest revision that was acknowledged to a
	// user.
	bucket       struct{ epoch, revision int64 }
	acknowledged int64
	epoch        int64 // Of the Lease.
	// states of extension objects, and the provider IDs of machines, by name.
	states   map[string]string
	machines map[string]string
	// takeOver: the control plane is being taken over from a lost seed.
	takeOver bool
	fault    *fault
	problems []string
	known    map[string]bool
}

// side is a seed: its gardenlet and all simulated actors.
type side struct {
	*backups
	m            *moved
	direct       client.WithWatch // To the seed.
	gardenDirect client.WithWatch // To the garden, with the rights of the gardenlet.
	process      *process
	leftovers    *shoot.Leftovers
	saver        *shootstate.Reconciler
	err          error

	// dirty are the kinds that were written in the seed since its actors made their last pass.
	dirty map[string]bool
	// volumes of etcd, by UID, and the one that etcd runs with; nil if it does not run.
	volumes map[types.UID]*volume
	running *volume
	// serving: the API server has a pod. wanted are the replicas of its Deployment, members those of etcd's StatefulSet.
	serving         bool
	wanted, members int32
}

type volume struct{ epoch, revision int64 }

// turnsUntilSaved is the number of turns until machines are in the ShootState, which is written at most every 10 s.
const turnsUntilSaved = 6

// newMoved creates a Shoot on the first of two seeds.
func newMoved(t *testing.T) *moved {
	t.Helper()
	m := &moved{
		t: t, ctx: t.Context(), clock: clocktesting.NewFakeClock(began), states: map[string]string{},
		known: map[string]bool{},
	}
	m.fault = newFault(0, 0)
	other := env.Start(t, seedOptions()...)
	for i := range m.seeds {
		m.seeds[i] = newSide(t, m, i, other)
	}
	m.seeds[1].namespace = m.seeds[0].namespace
	m.seeds[1].user = m.seeds[0].user
	m.restart()
	m.shoot = m.seeds[0].newShoot("a")
	m.until("Create", 0)
	for range turnsUntilSaved {
		m.turn()
	}
	m.machines = m.seeds[0].machinesOf()
	if len(m.machines) == 0 || len(m.states) < 4 {
		t.Fatalf("the Shoot has machines %v and states %v", m.machines, m.states)
	}
	return m
}

func newSide(t *testing.T, m *moved, i int, other *env.Environment) *side {
	t.Helper()
	s := &side{backups: newBackupsAt(t, m.clock), m: m, volumes: map[types.UID]*volume{}}
	var err error
	gardenlet := s.As(corev1beta1.SeedUserPrefix+s.seed.Name, corev1beta1.SeedsGroup)
	options := client.Options{Scheme: s.Scheme, Mapper: s.Client.RESTMapper()}
	if s.gardenDirect, err = client.NewWithWatch(gardenlet, options); err != nil {
		t.Fatal(err)
	}
	if i == 1 { // From here on its environment is the other one; the garden is in the first seed's.
		s.Environment = other
		ensureNamespace(t, other, "garden")
		ensureNamespace(t, other, "hortus-gateway")
		s.gateway()
	}
	if s.direct, err = client.NewWithWatch(s.Config,
		client.Options{Scheme: s.Scheme, Mapper: s.Client.RESTMapper()}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (m *moved) garden() client.Client { return m.seeds[0].Client }

// restart restarts all processes.
func (m *moved) restart() {
	for _, s := range m.seeds {
		s.restart()
	}
}

// restart replaces the process of the gardenlet by one without memory.
func (s *side) restart() {
	m := s.m
	source := func() bool { return m.seeds[m.at] == s }
	s.process = &process{
		written: map[string]string{},
		before:  func(write string) error { return m.fault.before(source(), write) },
		after:   func(write string, changed bool) bool { return m.fault.after(write, changed) },
		done:    s.observe,
	}
	garden, seed := s.process.client(s.gardenDirect), s.process.client(s.direct)
	identity := shoot.Identity{ID: "i", Name: "gardenlet-0", Version: gardenletVersion}
	states := &shootstate.States{Garden: garden, Seed: seed, Clock: m.clock, SeedName: s.seed.Name}
	s.r = &shoot.Reconciler{
		NewWorkerPoolHash: true, RSABits: secretsmanager.TestRSABits,
		Garden: garden, Cache: m.garden(), Seed: seed, Clock: m.clock, Events: &events.FakeRecorder{},
		Shoots: network{connector{s.world}, s}, States: states,
		SeedName: s.seed.Name, GardenIdentity: identityOfGarden, Identity: identity, Images: steps.DefaultImages(),
		Options: maintenance.ReconcileOptions{SyncPeriod: 1000 * time.Hour}, Jitter: maintenance.HashJitter(0),
		RetryDuration: 1000 * time.Hour, DNSTTL: 120,
		FenceTime: movedFence,
	}
	s.leftovers = &shoot.Leftovers{Garden: garden, Shoots: m.garden(), Seed: seed, Clock: m.clock, SeedName: s.seed.Name}
	s.entries = &backupentry.Reconciler{
		Garden: garden, Seed: seed, Clock: m.clock, Events: &events.FakeRecorder{}, SeedName: s.seed.Name,
	}
	s.saver = &shootstate.Reconciler{
		Garden: garden, Shoots: m.garden(), Clock: m.clock, Events: &events.FakeRecorder{}, States: states,
		SyncPeriod: time.Hour, Jitter: maintenance.HashJitter(0),
	}
	s.dirty = nil
}

// network is the connection to the processes of the Shoot on a seed.
type network struct {
	connector
	s *side
}

// SaveBackup stores the revision of etcd, unless another one has claimed the bucket.
func (n network) SaveBackup(context.Context, steps.EtcdAccess) (int64, error) {
	m := n.s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	v := n.s.running
	switch {
	case v == nil:
		return 0, errors.New("etcd does not run")
	case v.epoch != m.bucket.epoch:
		return 0, errors.New("another etcd has claimed the bucket")
	}
	m.bucket.revision = v.revision
	return v.revision, nil
}

// EtcdStatus is that of etcd's process.
func (n network) EtcdStatus(ctx context.Context, access steps.EtcdAccess) (etcdbackup.Status, error) {
	status, err := n.connector.EtcdStatus(ctx, access)
	if err != nil || status.Etcd.State == etcdbackup.EtcdStandby {
		return status, err
	}
	n.s.m.mu.Lock()
	v := n.s.running
	n.s.m.mu.Unlock()
	if v == nil {
		return etcdbackup.Status{}, errors.New("etcd does not run")
	}
	status.Etcd.Restored = &etcdbackup.Restored{Revision: v.revision, Stored: n.s.m.clock.Now()}
	return status, err
}

// ActivateEtcd counts as a write: the process may stop after it.
func (n network) ActivateEtcd(ctx context.Context, access steps.EtcdAccess, epoch int64, holder string) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: n.s.m.shoot.Status.TechnicalID, Name: etcd.Name + "-0"}}
	return n.s.process.write("activate", "", pod, n.s.Scheme,
		func() error { return n.connector.ActivateEtcd(ctx, access, epoch, holder) })
}

func (m *moved) problem(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !m.known[text] {
		m.known[text] = true
		m.problems = append(m.problems, text)
	}
}

// observe is called after every write of the gardenlet. It reads only what may have changed.
func (s *side) observe(kind, name string) {
	m := s.m
	if s.dirty != nil {
		s.dirty[kind] = true
	}
	if m.shoot == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	id := m.shoot.Status.TechnicalID
	switch {
	case kind == "Lease" && strings.Contains(name, ownership.NamePrefix):
		m.checkLease()
	case id == "":
	case kind == "Deployment" && name == id+"/"+kubeapiserver.Name, kind == "StatefulSet", kind == "Pod",
		kind == "Namespace":
		s.look()
		m.check(s)
	case kind == "Deployment" && name == id+"/"+machinecontrollermanager.Name:
		s.checkMachines()
	}
}

// look reads the actual and the desired state of the processes on the seed.
func (s *side) look() {
	id := s.m.shoot.Status.TechnicalID
	before := s.wanted
	deployment, set, pods := &appsv1.Deployment{}, &appsv1.StatefulSet{}, &corev1.PodList{}
	s.wanted, s.members, s.serving = 0, 0, false
	if s.found(client.ObjectKey{Namespace: id, Name: kubeapiserver.Name}, deployment) &&
		deployment.DeletionTimestamp == nil {
		s.wanted = ptr.Deref(deployment.Spec.Replicas, 1)
	}
	if s.found(client.ObjectKey{Namespace: id, Name: etcd.Name}, set) {
		s.members = ptr.Deref(set.Spec.Replicas, 1)
	}
	s.must(s.Client.List(s.ctx, pods, client.InNamespace(id)))
	etcdRuns := false
	_, standby := etcd.Owner(set)
	for i := range pods.Items {
		p := &pods.Items[i]
		s.serving = s.serving || strings.HasPrefix(p.Name, kubeapiserver.Name)
		if p.Name == etcd.Name+"-0" {
			etcdRuns, standby = true, standsBy(p)
		}
	}
	if !etcdRuns || standby {
		s.running = nil
	}
	if standby { // A prepared API server waits for etcd.
		s.wanted, s.serving = 0, false
	}
	if before == 0 && s.wanted > 0 {
		s.m.checkStart(s)
	}
}

// standsBy: the process in a pod of etcd has not been activated.
func standsBy(p *corev1.Pod) bool {
	return etcd.StandsBy(p) && p.Annotations[annotationActivated] == ""
}

func (s *side) found(key client.ObjectKey, o client.Object) bool {
	err := s.Client.Get(s.ctx, key, o)
	s.must(client.IgnoreNotFound(err))
	return err == nil
}

// check: two API servers never have an etcd each. One that was left on a lost seed has none once it is fenced.
func (m *moved) check(writer *side) {
	a, b := m.seeds[0], m.seeds[1]
	active := func(s *side) bool { return s.members > 0 && (s.wanted > 0 || s.serving) }
	if !m.takeOver && active(a) && active(b) {
		m.problem("both seeds run the control plane, after a write of %s", writer.seed.Name)
	}
}

// checkStart: an API server starts only where all acknowledged writes are, and where no other one runs.
func (m *moved) checkStart(s *side) {
	claim, err := ownership.Read(m.ctx, m.garden(), m.shoot.Namespace, m.shoot.UID)
	s.must(err)
	if claim.Holder != s.seed.Name {
		m.problem("seed %s starts an API server, but %q owns the control plane", s.seed.Name, claim.Holder)
	}
	other := m.seeds[0]
	if s == other {
		other = m.seeds[1]
	}
	if m.takeOver {
		if at := claim.TakenOver.FencedAt(); !claim.Settled && (at.IsZero() || m.clock.Now().Before(at)) {
			m.problem("seed %s starts an API server before the former owner is fenced", s.seed.Name)
		}
		return
	}
	if other.wanted > 0 || other.serving {
		m.problem("seed %s starts an API server before that of %s has ended", s.seed.Name, other.seed.Name)
	}
	if m.bucket.revision < m.acknowledged && (s.running == nil || s.running.revision < m.acknowledged) {
		m.problem("seed %s starts an API server before the last delta was saved", s.seed.Name)
	}
}

// checkLease: epochs only increase, and every holder has its own.
func (m *moved) checkLease() {
	claim, err := ownership.Read(m.ctx, m.garden(), m.shoot.Namespace, m.shoot.UID)
	m.seeds[0].must(err)
	if claim.Epoch < m.epoch || claim.Holder == "" {
		m.problem("the Lease goes back from epoch %d: %+v", m.epoch, claim)
	}
	m.epoch = max(m.epoch, claim.Epoch)
}

// checkMachines: a controller that does not know the machines would create others.
func (s *side) checkMachines() {
	d := &appsv1.Deployment{}
	id := s.m.shoot.Status.TechnicalID
	if !s.found(client.ObjectKey{Namespace: id, Name: machinecontrollermanager.Name}, d) ||
		ptr.Deref(d.Spec.Replicas, 1) == 0 || len(s.m.machines) == 0 {
		return
	}
	if have := s.machinesOf(); !maps.Equal(have, s.m.machines) {
		s.m.problem("the machine controller of seed %s is started with machines %v", s.seed.Name, have)
	}
}

// machinesOf returns the provider IDs of the machines.
func (s *side) machinesOf() map[string]string {
	list := &machinev1alpha1.MachineList{}
	s.must(s.Client.List(s.ctx, list, client.InNamespace(s.m.shoot.Status.TechnicalID)))
	out := map[string]string{}
	for i := range list.Items {
		out[list.Items[i].Name] = list.Items[i].Spec.ProviderID
	}
	return out
}

// read reads the Shoot.
func (m *moved) read() {
	m.t.Helper()
	m.seeds[0].must(m.garden().Get(m.ctx, client.ObjectKeyFromObject(m.shoot), m.shoot))
}

// pass makes a pass of a seed's gardenlet over the Shoot, repeated until it ends without a fault, and then one of all
// other actors in the seed.
func (s *side) pass() {
	m := s.m
	s.t.Helper()
	if s.dirty == nil {
		s.dirty = map[string]bool{"": true}
	}
	for range maxRestarts {
		faults := m.fault.hits
		s.reconcile()
		m.read()
		if s.process.stopped() {
			s.restart()
			s.dirty = map[string]bool{"": true}
		} else if m.fault.hits == faults {
			break
		}
	}
	m.mu.Lock()
	s.usersWrite()
	m.mu.Unlock()
	s.everybodyActs()
}

// maxRestarts is how often a gardenlet may stop or fail before the other actors make a pass.
const maxRestarts = 10

// reconcile makes one pass of every controller of the gardenlet.
func (s *side) reconcile() {
	m := s.m
	s.err = nil
	look := func(_ reconcile.Result, err error) { s.err = errors.Join(s.err, err) }
	shows := func(seeds ...*string) bool {
		return slices.ContainsFunc(seeds, func(name *string) bool { return ptr.Deref(name, "") == s.seed.Name })
	}
	id, mine := m.shoot.Status.TechnicalID, shows(m.shoot.Spec.SeedName, m.shoot.Status.SeedName)
	if mine {
		look(s.r.Reconcile(m.ctx, m.shoot.DeepCopy()))
	}
	if id == "" {
		return
	}
	look(s.leftovers.Reconcile(m.ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: id}}))
	entry := &corev1beta1.BackupEntry{}
	entry.Namespace, entry.Name = m.shoot.Namespace, id+"--"+string(m.shoot.UID)
	err := m.garden().Get(m.ctx, client.ObjectKeyFromObject(entry), entry)
	s.must(client.IgnoreNotFound(err))
	if err == nil && shows(entry.Spec.SeedName, entry.Status.SeedName) {
		look(s.entries.Reconcile(m.ctx, entry))
	}
	if mine {
		look(s.saver.Reconcile(m.ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m.shoot)}))
	}
}

// usersWrite if there is an API server, and get a response.
func (s *side) usersWrite() {
	m := s.m
	if !s.serving || s.running == nil || m.bucket.epoch != s.running.epoch {
		return
	}
	s.running.revision++
	if s.running.revision <= m.acknowledged {
		m.problem("seed %s serves revision %d of etcd after revision %d was acknowledged", s.seed.Name, s.running.revision,
			m.acknowledged)
	}
	m.acknowledged = s.running.revision
}

// until makes passes until a last operation has succeeded on a seed, and nothing is left to be cleaned up.
func (m *moved) until(operation corev1beta1.LastOperationType, seed int, absent ...*side) {
	m.t.Helper()
	why := ""
	for range maxTurns {
		m.turn(absent...)
		if why = m.unfinished(operation, seed, absent); why == "" || len(m.problems) > 0 {
			return
		}
	}
	m.problem("not finished after %d turns: %s; last operation %+v, errors %v, %v", maxTurns, why,
		m.shoot.Status.LastOperation, m.seeds[0].err, m.seeds[1].err)
}

// turn makes one pass of both seeds, except of lost ones.
func (m *moved) turn(absent ...*side) {
	m.t.Helper()
	m.clock.Step(2 * time.Second)
	for _, s := range m.seeds {
		if !slices.Contains(absent, s) {
			s.pass()
		}
	}
}

// maxTurns is far above the number that a move needs in which every write fails.
const maxTurns = 1500

// unfinished returns what is still to be done, "" for nothing.
func (m *moved) unfinished(operation corev1beta1.LastOperationType, seed int, absent []*side) string {
	s, other := m.seeds[seed], m.seeds[1-seed]
	last := m.shoot.Status.LastOperation
	if last == nil || last.Type != operation && operation != "" || !succeeded(m.shoot) ||
		ptr.Deref(m.shoot.Status.SeedName, "") != s.seed.Name ||
		ptr.Deref(m.shoot.Spec.SeedName, "") != s.seed.Name {
		return "the operation"
	}
	entry := &corev1beta1.BackupEntry{ObjectMeta: metav1.ObjectMeta{
		Namespace: m.shoot.Namespace, Name: m.shoot.Status.TechnicalID + "--" + string(m.shoot.UID),
	}}
	if err := m.garden().Get(m.ctx, client.ObjectKeyFromObject(entry), entry); err != nil ||
		ptr.Deref(entry.Status.SeedName, "") != s.seed.Name ||
		entry.Status.LastOperation.State != corev1beta1.LastOperationStateSucceeded {
		return "the BackupEntry"
	}
	if slices.Contains(absent, other) {
		return ""
	}
	for _, o := range []client.Object{&corev1.Namespace{}, &extensionsv1alpha1.Cluster{}} {
		if other.found(client.ObjectKey{Name: m.shoot.Status.TechnicalID}, o) {
			return reflect.TypeOf(o).Elem().Name() + " on " + other.seed.Name
		}
	}
	if other.found(client.ObjectKey{Name: entry.Name}, &extensionsv1alpha1.BackupEntry{}) {
		return "extension's BackupEntry on " + other.seed.Name
	}
	return ""
}

// bind binds the control plane to a seed, and declares the seed ready for it.
func (m *moved) bind(seed int, annotations map[string]string) {
	m.t.Helper()
	m.read()
	before := m.shoot.DeepCopy()
	for k, v := range annotations {
		metav1.SetMetaDataAnnotation(&m.shoot.ObjectMeta, k, v)
	}
	m.shoot.Spec.SeedName = ptr.To(m.seeds[seed].seed.Name)
	m.seeds[0].must(m.garden().SubResource("binding").Patch(m.ctx, m.shoot, client.MergeFrom(before)))
	before = m.shoot.DeepCopy()
	m.shoot.Status.Constraints = corev1beta1.SetCondition(m.shoot.Status.Constraints, corev1beta1.Condition{
		Type: corev1beta1.ShootReadyForMigration, Status: corev1beta1.ConditionTrue, Reason: "Test", Message: "Ready.",
	}, m.clock.Now())
	m.seeds[0].must(m.garden().Status().Patch(m.ctx, m.shoot, client.MergeFrom(before)))
}

// verify compares the state of the seed with the state before.
func (m *moved) verify(seed int, had map[string]map[string]string) {
	m.t.Helper()
	s := m.seeds[seed]
	claim, err := ownership.Read(m.ctx, m.garden(), m.shoot.Namespace, m.shoot.UID)
	s.must(err)
	if claim.Holder != s.seed.Name || !claim.Settled || claim.Called != "" || claim.Epoch != m.epoch ||
		claim.Epoch != m.bucket.epoch {
		m.problem("claim is %+v, epoch of the bucket %d", claim, m.bucket.epoch)
	}
	have := s.persistent(m.shoot)
	for name, data := range had {
		if !isEncryptionConfig(name) && !maps.Equal(data, have[name]) {
			m.problem("Secret %s was generated anew or is missing", name)
		}
	}
	if machines := s.machinesOf(); !maps.Equal(machines, m.machines) {
		m.problem("machines are %v, were %v", machines, m.machines)
	}
	s.dirty = nil // All objects.
	left := maps.Clone(m.states)
	for _, o := range s.extensionObjects() {
		if name := nameOf(o); string(ptr.Deref(o.GetDefaultStatus().State, runtime.RawExtension{}).Raw) == m.states[name] {
			delete(left, name)
		}
	}
	if len(left) > 0 {
		m.problem("states are missing: %v", slices.Sorted(maps.Keys(left)))
	}
	if s.running == nil || s.running.revision != m.acknowledged || !s.serving || s.wanted == 0 {
		m.problem("etcd has %+v, acknowledged was %d, serving %v", s.running, m.acknowledged, s.serving)
	}
	server := &appsv1.Deployment{}
	if !s.found(client.ObjectKey{Namespace: m.shoot.Status.TechnicalID, Name: kubeapiserver.Name}, server) ||
		server.Spec.Paused {
		m.problem("the Deployment of the API server is missing or paused")
	}
	ns := &corev1.Namespace{}
	if !s.found(client.ObjectKey{Name: m.shoot.Status.TechnicalID}, ns) || ns.DeletionTimestamp != nil {
		m.problem("the namespace on seed %s is being deleted", s.seed.Name)
	}
	if len(m.shoot.Status.LastErrors) > 0 {
		m.problem("errors are left: %+v", m.shoot.Status.LastErrors)
	}
}

func nameOf(o extensionsv1alpha1.Object) string {
	return reflect.TypeOf(o).Elem().Name() + " " + o.GetName()
}
