package steps

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/gardenlet/shootstate"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/secretsmanager"
)

// FieldOwner owns the fields that the gardenlet applies.
const FieldOwner = "gardenlet"

// SecretsIdentity marks the generated Secrets of the gardenlet among those of others.
const SecretsIdentity = "gardenlet"

// Scope has everything that the steps of one pass need. It is made anew for every pass and not changed during one. No
// step gets all of it: the signature of a step's function names the parts that it uses.
type Scope struct {
	Values
	// Garden reads and writes directly, Seed is a view of the control plane's namespace: a step must see what an earlier
	// one has just written.
	Garden, Seed client.Client
	// GardenApplied and SeedApplied know what was applied before.
	GardenApplied, SeedApplied *kube.ApplyCache
	Clock                      clock.PassiveClock
	// Secrets generates the credentials of the control plane.
	Secrets *secretsmanager.Manager
	// Shoots connects to the API servers of Shoots, Etcds to the processes that run etcd.
	Shoots Connector
	Etcds  EtcdConnector
	// State is what the garden has kept of the control plane; nil unless it is being restored. States keeps that current.
	State  *shootstate.Saved
	States *shootstate.States
	// Status is for the end of the pass.
	Status Status
}

// The parts of the scope. [Values] are one, too.
type (
	// Seed is the namespace of the control plane in the seed.
	Seed struct {
		client.Client
		namespace string
		applied   *kube.ApplyCache
		clock     clock.PassiveClock
		// operation tells the current one from others.
		operation string
	}
	// Garden is the project's namespace in the garden, and what the garden keeps for the Shoot.
	Garden struct {
		client.Client
		applied *kube.ApplyCache
		states  *shootstate.States
		clock   clock.PassiveClock
	}
	// Secrets are the generated credentials of the control plane.
	Secrets struct {
		*secretsmanager.Manager
		namespace string
	}
	// Extensions are the objects by which extensions are asked to act.
	Extensions struct {
		seed   *Seed
		values *Values
		state  *shootstate.Saved
	}
	// Cluster is the user's cluster.
	Cluster struct {
		connector Connector
		secrets   Secrets
		clock     clock.PassiveClock
	}
	// Etcds are the processes that run etcd, and what the garden records of their backups.
	Etcds struct {
		EtcdConnector
		secrets Secrets
		garden  *Garden
	}
	// Status collects changes of the Shoot's status, for one write at the end of the pass. Until then steps see the
	// status as it was when the pass began.
	Status struct {
		mu      sync.Mutex
		changes []func(*corev1beta1.ShootStatus)
	}
)

// part is implemented by the parts: of returns that of a scope, whatever the receiver is.
type part[P any] interface{ of(*Scope) P }

func (*Values) of(s *Scope) *Values { return &s.Values }
func (*Seed) of(s *Scope) *Seed {
	operation := string(s.Operation) + " " + s.Started.UTC().Format(time.RFC3339Nano)
	return &Seed{s.Seed, s.Namespace, s.SeedApplied, s.Clock, operation}
}
func (*Garden) of(s *Scope) *Garden { return &Garden{s.Garden, s.GardenApplied, s.States, s.Clock} }
func (Secrets) of(s *Scope) Secrets { return Secrets{s.Secrets, s.Namespace} }
func (*Extensions) of(s *Scope) *Extensions {
	return &Extensions{get[*Seed](s), &s.Values, s.State}
}
func (*Cluster) of(s *Scope) *Cluster { return &Cluster{s.Shoots, get[Secrets](s), s.Clock} }
func (Etcds) of(s *Scope) Etcds       { return Etcds{s.Etcds, get[Secrets](s), get[*Garden](s)} }
func (*Status) of(s *Scope) *Status   { return &s.Status }

func (status *Status) change(change func(*corev1beta1.ShootStatus)) {
	status.mu.Lock()
	defer status.mu.Unlock()
	status.changes = append(status.changes, change)
}

// ApplyTo makes the changes of all steps, after the pass.
func (status *Status) ApplyTo(shoot *corev1beta1.ShootStatus) {
	for _, change := range status.changes {
		change(shoot)
	}
}

func get[P part[P]](s *Scope) P {
	var p P
	return p.of(s)
}

// run is Ensure or Remove of a step.
type run = func(context.Context, *Scope) (flow.Outcome, error)

// use1 to use6 make Ensure or Remove of a step from a function that takes so many parts of the scope.
func use1[A part[A]](f func(context.Context, A) (flow.Outcome, error)) run {
	return func(ctx context.Context, s *Scope) (flow.Outcome, error) { return f(ctx, get[A](s)) }
}

func use2[A part[A], B part[B]](f func(context.Context, A, B) (flow.Outcome, error)) run {
	return func(ctx context.Context, s *Scope) (flow.Outcome, error) { return f(ctx, get[A](s), get[B](s)) }
}

func use3[A part[A], B part[B], C part[C]](f func(context.Context, A, B, C) (flow.Outcome, error)) run {
	return func(ctx context.Context, s *Scope) (flow.Outcome, error) {
		return f(ctx, get[A](s), get[B](s), get[C](s))
	}
}

func use4[A part[A], B part[B], C part[C], D part[D]](f func(context.Context, A, B, C, D) (flow.Outcome, error)) run {
	return func(ctx context.Context, s *Scope) (flow.Outcome, error) {
		return f(ctx, get[A](s), get[B](s), get[C](s), get[D](s))
	}
}

func use5[A part[A], B part[B], C part[C], D part[D], E part[E]](
	f func(context.Context, A, B, C, D, E) (flow.Outcome, error),
) run {
	return func(ctx context.Context, s *Scope) (flow.Outcome, error) {
		return f(ctx, get[A](s), get[B](s), get[C](s), get[D](s), get[E](s))
	}
}

func use6[A part[A], B part[B], C part[C], D part[D], E part[E], F part[F]](
	f func(context.Context, A, B, C, D, E, F) (flow.Outcome, error),
) run {
	return func(ctx context.Context, s *Scope) (flow.Outcome, error) {
		return f(ctx, get[A](s), get[B](s), get[C](s), get[D](s), get[E](s), get[F](s))
	}
}

// when makes the rule of a step by which it is skipped: any of these is a reason.
func when(rules ...func(*Values) string) func(*Scope) string {
	return func(s *Scope) string {
		for _, r := range rules {
			if reason := r(&s.Values); reason != "" {
				return reason
			}
		}
		return ""
	}
}

// reasonIf returns the reason to skip a step if the condition holds.
func reasonIf(condition bool, reason string) string {
	if condition {
		return reason
	}
	return ""
}

func workerless(s *Values) string { return reasonIf(s.Workerless(), "workerless") }

func asleep(s *Values) string { return reasonIf(s.Asleep(), "hibernated") }

func skipReadiness(s *Values) string { return reasonIf(s.SkipReadiness(), "skip-readiness") }

// leaving: a Shoot that is deleted as soon as everything of it is known here need not work.
func leaving(s *Values) string { return reasonIf(s.Shoot.DeletionTimestamp != nil, "to be deleted") }

// Connector hands out clients of Shoots' APIs.
type Connector interface {
	// Connect returns an uncached client, made from a kubeconfig; it does not try the connection.
	Connect(kubeconfig []byte) (client.Client, error)
	// Healthy asks the API server for its readiness.
	Healthy(ctx context.Context, kubeconfig []byte) error
	// TunnelWorks asks a kubelet of the Shoot, through the API server and so through the tunnel.
	TunnelWorks(ctx context.Context, kubeconfig []byte) error
}

// EtcdConnector talks to the processes that run etcd, and to etcd.
type EtcdConnector interface {
	// Stored visits what etcd holds under a prefix, in the order of the keys, until visit returns false.
	Stored(ctx context.Context, access EtcdAccess, prefix string, visit func(key string, value []byte) bool) error
	// SaveBackup waits until everything that etcd holds is in the backups, and returns the last revision in them.
	SaveBackup(ctx context.Context, access EtcdAccess) (revision int64, err error)
	// EtcdStatus asks the process that runs an etcd. The endpoint is that of its service.
	EtcdStatus(ctx context.Context, access EtcdAccess) (etcdbackup.Status, error)
	// ActivateEtcd lets an etcd that stands by start, for the owner of the control plane. It does not wait for that.
	ActivateEtcd(ctx context.Context, access EtcdAccess, epoch int64, holder string) error
}
