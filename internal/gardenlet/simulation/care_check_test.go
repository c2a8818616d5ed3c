package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/gardenlet/shoot/care"
	"hortus.dev/hortus/test/sim"
)

// careCheck is a check that runs.
type careCheck struct {
	seed         string
	began        time.Time
	from         int  // The index in the history of what was true when it began.
	readFailed   bool // It could not observe everything.
	ended        bool // It has observed everything, and repairs.
	gardenFailed bool // The garden has not taken its findings.
	disturbed    bool // Somebody has changed the status while it ran.
	meddled      bool
	events       []string
	recorded     []string
}

// careRun is a run in which the gardenlets of seeds check the Shoot.
type careRun struct {
	*careWorld
	period   time.Duration
	settings care.Settings

	check     *careCheck // Nil if none runs.
	writing   string     // The seed whose care writes to the Shoot now; "" if it is somebody else.
	violation error      // Of a rule, found outside of a check of rules.

	meddling     bool // Others write while a check runs.
	dice         *rand.Rand
	afterPodList func() error // Happens between the list of pods to remove and their removal.
	beforeRepair func() error // Happens before a repair of a webhook configuration.

	history []truth
	last    *corev1beta1.Shoot                      // As it was when the rules were checked last.
	since   map[corev1beta1.ConditionType]time.Time // When the status of a condition has changed.
	// repairs are those of webhook configurations by a seed, since its process has started.
	repairs map[string]map[string][]time.Time
}

func newCareRun(w *sim.World, period time.Duration, seeds ...string) *careRun {
	r := &careRun{
		careWorld: newCareWorld(w), period: period, settings: care.Settings{
			Thresholds: map[corev1beta1.ConditionType]time.Duration{
				corev1beta1.ShootAPIServerAvailable: 90 * time.Second, corev1beta1.ShootEveryNodeReady: 3 * time.Minute,
				corev1beta1.ShootSystemComponentsHealthy: 20 * time.Second,
			},
			StaleAfter: 5 * time.Minute,
		},
		dice:  rand.New(rand.NewPCG(w.Random.Uint64(), 0)),
		since: map[corev1beta1.ConditionType]time.Time{}, repairs: map[string]map[string][]time.Time{},
	}
	if err := errors.Join(r.show(), r.judge("")); err != nil {
		w.T.Fatal(err)
	}
	for _, name := range seeds {
		w.Process("gardenlet-"+name, r.garden, func(p *sim.Process) error { return r.start(p, name) })
	}
	return r
}

// start sets up the controllers of a seed.
func (r *careRun) start(p *sim.Process, name string) error {
	r.repairs[name] = map[string][]time.Time{}
	seed := r.seeds[name]
	wrap := func(c *sim.Cluster) client.Client {
		return &careClient{Client: p.In(c).Direct(), run: r, cluster: c, seed: name}
	}
	return errors.Join(
		(&operator{careWorld: r.careWorld, client: p.In(r.garden).Direct(), seedName: name}).addTo(p),
		(&care.Reconciler{
			Garden: wrap(r.garden), Cache: p.GetClient(), Seed: wrap(seed.cluster), Clock: r.Clock(),
			Shoots: careConnector{careWorld: r.careWorld, process: p, seed: seed, user: wrap(r.user)},
			Events: careEvents{r}, SeedName: name, Period: r.period, Settings: r.settings, RemediateWebhooks: true,
		}).AddToManager(careManager{p, r, name}, 1, make(chan event.GenericEvent)))
}

// careManager observes each check.
type careManager struct {
	*sim.Process
	run  *careRun
	seed string
}

// Add implements manager.Manager.
func (m careManager) Add(r manager.Runnable) error {
	// The type of controllers is internal to controller-runtime, its fields are not.
	do := reflect.ValueOf(r).Elem().FieldByName("Do")
	do.Set(reflect.ValueOf(careObserver{do.Interface().(reconcile.Reconciler), m.run, m.seed}))
	return m.Process.Add(r)
}

type careObserver struct {
	reconcile.Reconciler
	run  *careRun
	seed string
}

// Reconcile implements reconcile.Reconciler.
func (o careObserver) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	r := o.run
	r.record()
	r.check = &careCheck{seed: o.seed, began: r.Clock().Now(), from: len(r.history) - 1}
	result, err := o.Reconciler.Reconcile(ctx, request)
	if problem := r.judgeCheck(r.check, err == nil && result.RequeueAfter == r.period); problem != nil {
		r.violation = errors.Join(r.violation, problem)
	}
	r.check = nil
	return result, err
}

// careEvents keeps the events of a check.
type careEvents struct{ run *careRun }

var _ events.EventRecorder = careEvents{}

// Eventf implements events.EventRecorder.
func (e careEvents) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	text := fmt.Sprintf(note, args...)
	subject, _, _ := strings.Cut(text, ":")
	if e.run.check != nil {
		e.run.check.recorded = append(e.run.check.recorded, kind+" "+reason+" "+subject)
	}
}

// careClient is a client of care. It notes failures, and refuses writes that care must not make.
type careClient struct {
	client.Client
	run     *careRun
	cluster *sim.Cluster
	seed    string
}

// note keeps the failure of a read in mind.
func (c *careClient) note(o any, err error) error {
	check := c.run.check
	if check == nil || client.IgnoreNotFound(err) == nil {
		return err
	}
	if _, ok := o.(*corev1beta1.Shoot); ok {
		check.gardenFailed = true
	} else if !check.ended {
		check.readFailed = true
	}
	return err
}

// Get implements client.Client.
func (c *careClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return c.note(o, c.Client.Get(ctx, key, o, opts...))
}

// List implements client.Client.
func (c *careClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := client.ListOptions{}
	if o.ApplyOptions(opts); o.FieldSelector != nil && c.run.check != nil {
		c.run.check.ended = true // It lists pods to remove.
		err := c.Client.List(ctx, list, opts...)
		if c.run.meddling && c.run.afterPodList != nil {
			c.run.violation = errors.Join(c.run.violation, c.run.afterPodList())
		}
		return err
	}
	c.run.violation = errors.Join(c.run.violation, c.run.meddle())
	if c.run.causes[seedHangs] && c.cluster == c.run.seeds[c.seed].cluster {
		<-ctx.Done()
		return c.note(list, ctx.Err())
	}
	return c.note(list, c.Client.List(ctx, list, opts...))
}

// meddle does something that others do while a check runs, at most once in a check: the next step of an operation, or a
// change of the spec. Little is read of a hibernated Shoot, so the chance of each read is greater.
func (r *careRun) meddle() error {
	s, check := r.shoot(), r.check
	if !r.meddling || check == nil || check.meddled || !r.garden.Exists(s) {
		return nil
	}
	hibernated := hibernationOf(s) && s.Status.IsHibernated
	if chance := r.dice.IntN(100); chance >= 40 || chance >= 2 && !hibernated {
		return nil
	}
	check.meddled = true
	other := &operator{careWorld: r.careWorld, client: r.garden, seedName: check.seed}
	act := func(ctx context.Context, _ client.Client) error {
		_, err := other.Reconcile(ctx, s)
		return err
	}
	switch kind := other.due(s); {
	case kind == "" && hibernated:
		act = r.hibernate(false)
	case kind == "", kind == created, kind == restored: // What it makes would be seen in parts.
		act = r.hibernate(!hibernationOf(s))
	}
	return r.by(act)(context.Background(), r.garden)
}

// forbid refuses a write.
func (c *careClient) forbid(verb string, o runtime.Object) error {
	err := fmt.Errorf("care must not %s %T", verb, o)
	c.run.violation = errors.Join(c.run.violation, err)
	return err
}

// Create implements client.Client.
func (c *careClient) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	return c.forbid("create", o)
}

// Update implements client.Client.
func (c *careClient) Update(_ context.Context, o client.Object, _ ...client.UpdateOption) error {
	return c.forbid("update", o)
}

// Delete implements client.Client.
func (c *careClient) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if _, pod := o.(*corev1.Pod); !pod || c.cluster != c.run.user {
		return c.forbid("delete", o)
	}
	return c.Client.Delete(ctx, o, opts...)
}

// Patch implements client.Client.
func (c *careClient) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	if _, ok := o.(*admissionregistrationv1.ValidatingWebhookConfiguration); !ok || c.cluster != c.run.user {
		return c.forbid("patch", o)
	}
	if o.GetName() == refusedWebhook {
		return apierrors.NewForbidden(admissionregistrationv1.Resource("validatingwebhookconfigurations"), o.GetName(),
			errors.New("a policy of the cluster denies it"))
	}
	if c.run.beforeRepair != nil {
		c.run.violation = errors.Join(c.run.violation, c.run.beforeRepair())
	}
	err := c.Client.Patch(ctx, o, p, opts...)
	if err == nil || apierrors.IsTimeout(err) { // The answer may be lost.
		c.run.violation = errors.Join(c.run.violation, c.run.repaired(c.seed, o.GetName()))
	}
	return err
}

// Status implements client.Client.
func (c *careClient) Status() client.SubResourceWriter {
	return careStatus{c.Client.Status(), c}
}

// careStatus writes the status of Shoots.
type careStatus struct {
	client.SubResourceWriter
	of *careClient
}

// Update implements client.SubResourceWriter.
func (s careStatus) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	return s.of.forbid("update a part of", o)
}

// Patch implements client.SubResourceWriter.
func (s careStatus) Patch(
	ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption,
) error {
	if _, ok := o.(*corev1beta1.Shoot); !ok || s.of.cluster != s.of.run.garden {
		return s.of.forbid("patch the status of", o)
	}
	check := s.of.run.check
	s.of.run.writing = s.of.seed
	err := s.SubResourceWriter.Patch(ctx, o, p, opts...)
	s.of.run.writing = ""
	if check != nil {
		// A request that was not sent because its time is over is not the garden's fault.
		check.gardenFailed = err != nil && !errors.Is(err, context.DeadlineExceeded)
		if err != nil {
			check.events = nil // It does not know that it has written.
		}
	}
	return err
}

// repaired fails if a webhook configuration was repaired earlier than the pause after the repairs before allows.
func (r *careRun) repaired(seed, name string) error {
	now, before := r.Clock().Now(), r.repairs[seed][name]
	const slack = 30 * time.Second // Checks take that long.
	if n := len(before); n > 0 {
		since := now.Sub(before[n-1])
		if since >= 2*time.Hour {
			before = nil
		}
		pause := min(r.period<<min(n-1, 10), time.Hour)
		if before != nil && since < pause-slack {
			return fmt.Errorf("webhook configuration %s was repaired %s after the last of %d repairs", name, since, n)
		}
	}
	r.repairs[seed][name] = append(slices.Clone(before), now)
	return nil
}

// responsibleFor reports whether the control plane of the Shoot is in the seed.
func responsibleFor(s *corev1beta1.Shoot, seed string) bool {
	return ptr.Deref(s.Status.SeedName, "") == seed
}
