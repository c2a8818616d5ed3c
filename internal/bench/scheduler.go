package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/scheduler"
)

const (
	// ownScheduler is the name under which the bench runs the scheduler: it places nothing but the bench's Shoots.
	ownScheduler = "hortus-bench"
	maxSeeds     = 200
	// placementTimeout bounds the wait for the next placement.
	placementTimeout = time.Minute
)

// SchedulerOptions are the options of the bench of the scheduler.
type SchedulerOptions struct {
	// Shoots are the numbers of Shoots to measure with, one after the other, 2 to 20,000 each.
	Shoots []int
	// Seeds that the Shoots are spread over, 1 to 200.
	Seeds int
	// Workers of the scheduler.
	Workers int
	// Clients create and delete the Shoots.
	Clients  int
	Suffix   string
	Progress func(format string, args ...any)
}

func (o SchedulerOptions) validate() error {
	if o.Seeds < 1 || o.Seeds > maxSeeds {
		return fmt.Errorf("--seeds: invalid value: %d (1 to %d)", o.Seeds, maxSeeds)
	}
	if o.Workers < 1 || o.Workers > maxClients {
		return fmt.Errorf("--workers: invalid value: %d (1 to %d)", o.Workers, maxClients)
	}
	for _, n := range o.Shoots {
		if n < 2 {
			return fmt.Errorf("--shoots: invalid value: %d (at least 2, for a rate)", n)
		}
	}
	return APIOptions{Shoots: o.Shoots, Clients: o.Clients, Watchers: 1}.validate()
}

// Placement is the result for one number of Shoots.
type Placement struct {
	Shoots int `json:"shoots"`
	Seeds  int `json:"seeds"`
	// StartSeconds is the time from the start of the scheduler, which has to read all Shoots first, to the first
	// placement.
	StartSeconds float64 `json:"startSeconds"`
	// Seconds is the time from the first to the last placement.
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"perSecond"`
	// FirstQuarterPerSecond and LastQuarterPerSecond show whether placements slow down as their number grows.
	FirstQuarterPerSecond float64 `json:"firstQuarterPerSecond"`
	LastQuarterPerSecond  float64 `json:"lastQuarterPerSecond"`
	// Fewest and Most are the numbers of Shoots of the emptiest and the fullest Seed.
	Fewest int `json:"fewestPerSeed"`
	Most   int `json:"mostPerSeed"`
}

// SchedulerReport is the result of the bench of the scheduler.
type SchedulerReport struct {
	Host       Host        `json:"host"`
	Server     string      `json:"server"`
	Workers    int         `json:"workers"`
	Placements []Placement `json:"placements"`
}

func (r *SchedulerReport) table(w *tabwriter.Writer) {
	fmt.Fprintf(w, "Server %s, %d workers\nMachine: %s\n\n", r.Server, r.Workers, r.Host)
	fmt.Fprintln(w, "SHOOTS\tSEEDS\tSTART s\tPLACING s\tPER SECOND\tFIRST QUARTER\tLAST QUARTER\tPER SEED")
	for _, p := range r.Placements {
		fmt.Fprintf(w, "%d\t%d\t%.2f\t%.2f\t%.1f\t%.1f\t%.1f\t%d-%d\n",
			p.Shoots, p.Seeds, p.StartSeconds, p.Seconds, p.PerSecond, p.FirstQuarterPerSecond, p.LastQuarterPerSecond, p.Fewest,
			p.Most)
	}
}

// Scheduler makes Seeds without gardenlets and Shoots without Seeds, runs the real scheduler on them and only them, and
// removes everything.
func Scheduler(ctx context.Context, target *Target, o SchedulerOptions) (*SchedulerReport, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	ctrl.SetLogger(logr.Discard()) // One line per placement would be measured, too.
	report := &SchedulerReport{Host: describeHost(time.Now()), Server: target.Config.Host, Workers: o.Workers}
	clients, err := newJSONClients(target.Config, o.Clients)
	if err != nil {
		return nil, err
	}
	for i, n := range o.Shoots {
		if err := func() (err error) {
			space, err := makeWorkspace(ctx, clients[0], fmt.Sprintf("%s%d", o.Suffix, i))
			defer cleanUp(ctx, &err, space.remove)
			if err != nil {
				return err
			}
			b := &schedulerBench{SchedulerOptions: o, workspace: space, clients: clients, config: target.Config, shoots: n}
			placement, err := b.run(ctx)
			if err == nil {
				report.Placements = append(report.Placements, *placement)
			}
			return err
		}(); err != nil {
			return nil, fmt.Errorf("bench with %d Shoots: %w", n, err)
		}
	}
	report.Host.LoadAfter = load1()
	return report, nil
}

type schedulerBench struct {
	SchedulerOptions
	*workspace
	clients []*jsonClient
	config  *rest.Config
	shoots  int
}

func (b *schedulerBench) run(ctx context.Context) (placement *Placement, err error) {
	for i := range b.Seeds {
		if err := b.makeSeed(ctx, i); err != nil {
			return nil, err
		}
	}
	body, err := b.shootBodies(ownScheduler)
	if err != nil {
		return nil, err
	}
	b.Progress("%d Shoots: creating them", b.shoots)
	defer cleanUp(ctx, &err, b.deleteShoots)
	_, err = load(ctx, b.clients, b.shoots, func(ctx context.Context, c *jsonClient, i int) (int64, error) {
		return c.send(ctx, http.MethodPost, b.workspace.shoots(), plainJSON, body(i))
	})
	if err != nil {
		return nil, fmt.Errorf("create Shoots: %w", err)
	}
	b.Progress("%d Shoots: placing them", b.shoots)
	return b.place(ctx)
}

// makeSeed makes a Seed that looks as if a gardenlet had made it ready.
func (b *schedulerBench) makeSeed(ctx context.Context, i int) error {
	name := fmt.Sprintf("%s-%03d", b.Project, i)
	if err := b.create(ctx, "seed.yaml", map[string]string{"Seed": name, "Namespace": b.Namespace}); err != nil {
		return err
	}
	now := time.Now().UTC().Format(time.RFC3339)
	status := fmt.Appendf(nil,
		`{"status":{"observedGeneration":1,"lastOperation":{"type":"Reconcile","state":"Succeeded","progress":100,`+
			`"description":"","lastUpdateTime":%[1]q},"allocatable":{"shoots":"%[2]d"},"conditions":[{"type":"GardenletReady","status":"True",`+
			`"lastTransitionTime":%[1]q,"lastUpdateTime":%[1]q,"reason":"GardenletReady","message":"Made by a bench."}]}}`, now,
		maxShoots)
	if _, err := b.garden.send(ctx, http.MethodPatch, coreAPI+"/seeds/"+name+"/status", mergePatch, status); err != nil {
		return fmt.Errorf("make Seed %s ready: %w", name, err)
	}
	return nil
}

// place runs the scheduler until every Shoot has a Seed.
func (b *schedulerBench) place(ctx context.Context) (*Placement, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	version, err := b.resourceVersion(ctx)
	if err != nil {
		return nil, err
	}
	watcher, err := newJSONClient(b.config)
	if err != nil {
		return nil, err
	}
	stream, err := watcher.start(ctx, http.MethodGet, b.workspace.shoots()+"?watch=true&resourceVersion="+version, "", nil)
	if err != nil {
		return nil, fmt.Errorf("watch Shoots: %w", err)
	}
	defer stream.Close()

	events := make(chan placed, b.shoots)
	ended := make(chan error, 2)
	go func() { ended <- followPlacements(bufio.NewReaderSize(stream, 64<<10), events) }()
	start := time.Now()
	manager, err := b.newScheduler(ctx)
	if err != nil {
		return nil, err
	}
	go func() { ended <- errors.Join(errors.New("the scheduler has ended"), manager.Start(ctx)) }()

	seeds, times := map[string]string{}, []time.Time{}
	timeout := time.NewTimer(placementTimeout)
	defer timeout.Stop()
	for len(seeds) < b.shoots {
		select {
		case p := <-events:
			if seeds[p.shoot] == "" {
				times = append(times, p.at)
				timeout.Reset(placementTimeout)
			}
			seeds[p.shoot] = p.seed
		case err := <-ended:
			return nil, err
		case <-timeout.C:
			return nil, fmt.Errorf("%d of %d Shoots are placed, and none in the last %s", len(seeds), b.shoots, placementTimeout)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return summarize(start, times, seeds, b.Seeds), nil
}

// newScheduler makes the scheduler as its command does, but without servers and locks of its own.
func (b *schedulerBench) newScheduler(ctx context.Context) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), corev1beta1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	anyName := true // A process may run this more than once.
	manager, err := ctrl.NewManager(b.config, ctrl.Options{
		Scheme:     scheme,
		Logger:     logr.Discard(),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &anyName},
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{corev1beta1.GardenNamespace: {}}},
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("set up the scheduler's manager: %w", err)
	}
	if err := scheduler.AddIndexes(ctx, manager.GetFieldIndexer()); err != nil {
		return nil, fmt.Errorf("index Shoots: %w", err)
	}
	reconciler := &scheduler.Reconciler{
		Garden: manager.GetClient(), Clock: clock.RealClock{}, Recorder: manager.GetEventRecorder("hortus-bench"),
		Name: ownScheduler, Strategy: scheduler.SameRegion, Workers: b.Workers,
	}
	if err := reconciler.SetupWithManager(ctx, manager); err != nil {
		return nil, fmt.Errorf("set up the scheduler: %w", err)
	}
	return manager, nil
}

// resourceVersion returns the current resourceVersion of the collection.
func (b *schedulerBench) resourceVersion(ctx context.Context) (string, error) {
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	err := b.clients[0].read(ctx, b.workspace.shoots()+"?limit=1", &list)
	return list.Metadata.ResourceVersion, err
}

func (b *schedulerBench) deleteShoots(ctx context.Context) error {
	return deleteShoots(ctx, b.clients, b.workspace, b.shoots)
}

// deleteShoots deletes all Shoots of a bench; missing ones are no error.
func deleteShoots(ctx context.Context, clients []*jsonClient, w *workspace, n int) error {
	_, err := load(ctx, clients, n, func(ctx context.Context, c *jsonClient, i int) (int64, error) {
		size, err := c.send(ctx, http.MethodDelete, w.shoot(shootName(i)), plainJSON, nil)
		if hasStatus(err, http.StatusNotFound) {
			err = nil
		}
		return size, err
	})
	if err != nil {
		return fmt.Errorf("delete Shoots: %w", err)
	}
	return nil
}

type placed struct {
	shoot, seed string
	at          time.Time
}

// followPlacements reports Shoots whose spec has a Seed. Events of others are not decoded.
func followPlacements(stream *bufio.Reader, placements chan<- placed) error {
	for {
		line, err := readLine(stream)
		if err != nil {
			return fmt.Errorf("watch of Shoots ended: %w", err)
		}
		at := time.Now()
		if !bytes.Contains(line, []byte(`"seedName":"`)) {
			continue
		}
		var event struct {
			Object struct {
				Metadata struct {
					Name string `json:"name"`
				} `json:"metadata"`
				Spec struct {
					SeedName string `json:"seedName"`
				} `json:"spec"`
			} `json:"object"`
		}
		if err := json.Unmarshal(line, &event); err != nil {
			return fmt.Errorf("decode event: %w", err)
		}
		if event.Object.Spec.SeedName != "" {
			placements <- placed{event.Object.Metadata.Name, event.Object.Spec.SeedName, at}
		}
	}
}

// summarize turns times of placements into rates. There are at least two.
func summarize(start time.Time, times []time.Time, seeds map[string]string, seedCount int) *Placement {
	n := len(times)
	rate := func(from, to int) float64 { return perSecond(to-from, times[to].Sub(times[from])) }
	perSeed := make(map[string]int, seedCount)
	for _, seed := range seeds {
		perSeed[seed]++
	}
	counts := make([]int, 0, seedCount)
	for _, count := range perSeed {
		counts = append(counts, count)
	}
	for len(counts) < seedCount {
		counts = append(counts, 0)
	}
	quarter := max(n/4, 1)
	return &Placement{
		Shoots: n, Seeds: seedCount, StartSeconds: times[0].Sub(start).Seconds(), Seconds: times[n-1].Sub(times[0]).Seconds(),
		PerSecond: rate(0, n-1), FirstQuarterPerSecond: rate(0, quarter), LastQuarterPerSecond: rate(n-1-quarter, n-1),
		Fewest: slices.Min(counts), Most: slices.Max(counts),
	}
}
