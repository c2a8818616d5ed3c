package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// maxShoots and maxClients bound the load on a server.
	maxShoots  = 20000
	maxClients = 256
	// patchesPerPhase bounds phases whose rate does not depend on how many Shoots there are.
	patchesPerPhase = 5000
	// fullLists and pagedLists are the numbers of lists; each takes up to a second.
	fullLists  = 10
	pagedLists = 5
	pageSize   = 500
	// cleanupTimeout bounds the removal after a bench, even an interrupted one.
	cleanupTimeout = 10 * time.Minute
)

// APIOptions are the options of the load on a server.
type APIOptions struct {
	// Shoots are the numbers of Shoots to measure with, one after the other, 1 to 20,000 each.
	Shoots []int
	// Clients work concurrently, each over its own connection, 1 to 256.
	Clients int
	// Watchers follow all Shoots while events are measured, 1 to 256.
	Watchers int
	// Usage reads the resource usage of the server; nil if that is not known.
	Usage usageSource
	// Suffix makes names unique.
	Suffix string
	// Progress receives messages about the progress.
	Progress func(format string, args ...any)
}

func (o APIOptions) validate() error {
	if len(o.Shoots) == 0 {
		return errors.New("--shoots: required value")
	}
	for _, n := range o.Shoots {
		if n < 1 || n > maxShoots {
			return fmt.Errorf("--shoots: invalid value: %d (1 to %d)", n, maxShoots)
		}
	}
	for what, n := range map[string]int{"clients": o.Clients, "watchers": o.Watchers} {
		if n < 1 || n > maxClients {
			return fmt.Errorf("--%s: invalid value: %d (1 to %d)", what, n, maxClients)
		}
	}
	return nil
}

// Measurement is one phase of a bench.
type Measurement struct {
	// Phase is the kind of operation, Shoots the number of Shoots.
	Phase  string `json:"phase"`
	Shoots int    `json:"shoots"`
	// Count operations took Seconds together.
	Count     int     `json:"count"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"perSecond"`
	Latency
	// BytesPerOperation is the mean size of an answer.
	BytesPerOperation int64 `json:"bytesPerOperation,omitempty"`
	// CPUMilliseconds is the CPU time of the server per operation, in milliseconds. Unlike latencies, it hardly depends
	// on other load of the machine. 0 if not known.
	CPUMilliseconds float64 `json:"serverCPUMillisecondsPerOperation,omitempty"`
}

// MemoryUse is the memory of the server with a number of Shoots.
type MemoryUse struct {
	Moment        string `json:"moment"`
	Shoots        int    `json:"shoots"`
	ResidentBytes int64  `json:"residentBytes"`
	PeakBytes     int64  `json:"peakBytes,omitempty"`
}

// APIReport is the result of the bench of a server.
type APIReport struct {
	Host         Host          `json:"host"`
	Server       string        `json:"server"`
	Clients      int           `json:"clients"`
	Watchers     int           `json:"watchers"`
	ShootBytes   int           `json:"shootBytes"`
	Measurements []Measurement `json:"measurements"`
	Memory       []MemoryUse   `json:"memory,omitempty"`
}

// apiBench is one run with one number of Shoots.
type apiBench struct {
	APIOptions
	*workspace
	clients []*jsonClient
	measure *rest.Config
	shoots  int
	body    func(i int) []byte
	report  *APIReport
}

// API loads a server and removes the objects that it has made.
func API(ctx context.Context, target *Target, o APIOptions) (*APIReport, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	report := &APIReport{
		Host: describeHost(time.Now()), Server: target.Measured.Host, Clients: o.Clients, Watchers: o.Watchers,
	}
	garden, err := newJSONClient(target.Config)
	if err != nil {
		return nil, err
	}
	clients, err := newJSONClients(target.Measured, o.Clients)
	if err != nil {
		return nil, err
	}
	for i, n := range o.Shoots {
		if err := func() (err error) {
			space, err := makeWorkspace(ctx, garden, fmt.Sprintf("%s%d", o.Suffix, i))
			defer cleanUp(ctx, &err, space.remove)
			if err != nil {
				return err
			}
			b := &apiBench{
				APIOptions: o, workspace: space, clients: clients, measure: target.Measured, shoots: n, report: report,
			}
			return b.run(ctx)
		}(); err != nil {
			return nil, fmt.Errorf("bench with %d Shoots: %w", n, err)
		}
	}
	report.Host.LoadAfter = load1()
	return report, nil
}

// cleanUp runs a removal even if the bench was interrupted, and adds its error.
func cleanUp(ctx context.Context, err *error, remove func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	*err = errors.Join(*err, remove(ctx))
}

// run measures all phases. The Shoots are deleted in the end, even after an error.
func (b *apiBench) run(ctx context.Context) (err error) {
	if b.body, err = b.shootBodies(noScheduler); err != nil {
		return err
	}
	b.report.ShootBytes = len(b.body(0))
	if _, err := load(ctx, b.clients, len(b.clients), b.get("")); err != nil { // Connects.
		return err
	}
	if err := b.weigh(ctx, "before"); err != nil {
		return err
	}
	deleted := false
	defer func() {
		if !deleted {
			cleanUp(ctx, &err, b.deleteLeftovers)
		}
	}()
	patches := min(b.shoots, patchesPerPhase)
	for _, phase := range []struct {
		name      string
		count     int
		clients   int
		operation func(context.Context, *jsonClient, int) (int64, error)
	}{
		{"create", b.shoots, len(b.clients), b.create1},
		{"get", patches, len(b.clients),
			func(ctx context.Context, c *jsonClient, i int) (int64, error) { return b.get(shootName(i))(ctx, c, i) }},
		{"list", fullLists, 1, b.get("")},
		{"list in pages", pagedLists, 1, b.listPages},
		{"patch of spec", patches, len(b.clients), b.patchSpec},
		{"patch of status", patches, len(b.clients), b.patchStatus},
	} {
		if err := b.phase(ctx, phase.name, phase.count, b.clients[:phase.clients], phase.operation); err != nil {
			return err
		}
		if phase.name == "create" {
			if err := b.weigh(ctx, "after create"); err != nil {
				return err
			}
		}
	}
	if err := b.watch(ctx); err != nil {
		return err
	}
	if err := b.weigh(ctx, "after all writes"); err != nil {
		return err
	}
	if err := b.phase(ctx, "delete", b.shoots, b.clients, b.delete1); err != nil {
		return err
	}
	deleted = true
	return nil
}

// phase measures one kind of operation.
func (b *apiBench) phase(
	ctx context.Context, name string, count int, clients []*jsonClient,
	operation func(context.Context, *jsonClient, int) (int64, error),
) error {
	b.Progress("%d Shoots: %s", b.shoots, name)
	before, err := b.used(ctx)
	if err != nil {
		return err
	}
	result, err := load(ctx, clients, count, operation)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	after, err := b.used(ctx)
	if err != nil {
		return err
	}
	b.add(name, result, after.CPU-before.CPU)
	return nil
}

func (b *apiBench) add(name string, result outcome, cpu time.Duration) {
	count := len(result.durations)
	b.report.Measurements = append(b.report.Measurements, Measurement{
		Phase: name, Shoots: b.shoots, Count: count, Seconds: result.elapsed.Seconds(),
		PerSecond: perSecond(count, result.elapsed), Latency: latencyOf(result.durations),
		BytesPerOperation: result.bytes / int64(count), CPUMilliseconds: milliseconds(cpu) / float64(count),
	})
}

func (b *apiBench) used(ctx context.Context) (Usage, error) {
	if b.Usage == nil {
		return Usage{}, nil
	}
	return b.Usage(ctx)
}

// weigh records the server's memory.
func (b *apiBench) weigh(ctx context.Context, moment string) error {
	usage, err := b.used(ctx)
	if err != nil || usage.ResidentBytes == 0 {
		return err
	}
	b.report.Memory = append(b.report.Memory, MemoryUse{moment, b.shoots, usage.ResidentBytes, usage.PeakBytes})
	return nil
}

func (b *apiBench) create1(ctx context.Context, c *jsonClient, i int) (int64, error) {
	return c.send(ctx, http.MethodPost, b.workspace.shoots(), plainJSON, b.body(i))
}

func (b *apiBench) delete1(ctx context.Context, c *jsonClient, i int) (int64, error) {
	return c.send(ctx, http.MethodDelete, b.shoot(shootName(i)), plainJSON, nil)
}

// get reads one Shoot, or all of them for an empty name.
func (b *apiBench) get(name string) func(context.Context, *jsonClient, int) (int64, error) {
	path := b.workspace.shoots()
	if name != "" {
		path = b.shoot(name)
	}
	return func(ctx context.Context, c *jsonClient, _ int) (int64, error) {
		return c.send(ctx, http.MethodGet, path, "", nil)
	}
}

func (b *apiBench) listPages(ctx context.Context, c *jsonClient, _ int) (int64, error) {
	return eachPage(ctx, c, b.workspace.shoots(), func([]byte) error { return nil })
}

// patchSpec changes a number in the spec, as a user does.
func (b *apiBench) patchSpec(ctx context.Context, c *jsonClient, i int) (int64, error) {
	patch := fmt.Appendf(nil, `{"spec":{"kubernetes":{"kubeAPIServer":{"requests":{"maxMutatingInflight":%d}}}}}`,
		201+i%199)
	return c.send(ctx, http.MethodPatch, b.shoot(shootName(i)), mergePatch, patch)
}

// patchStatus reports progress, as a gardenlet does.
func (b *apiBench) patchStatus(ctx context.Context, c *jsonClient, i int) (int64, error) {
	now := time.Now().UTC().Format(time.RFC3339)
	patch := fmt.Appendf(nil,
		`{"status":{"observedGeneration":1,"lastOperation":{"type":"Reconcile","state":"Processing",`+
			`"progress":%d,"description":"Waiting until the control plane is ready","lastUpdateTime":%q},"conditions":[`+
			`{"type":"APIServerAvailable","status":"True","lastTransitionTime":%[2]q,"lastUpdateTime":%[2]q,"reason":"HealthzRequestSucceeded","message":"The API server answers."},`+
			`{"type":"ControlPlaneHealthy","status":"True","lastTransitionTime":%[2]q,"lastUpdateTime":%[2]q,"reason":"ControlPlaneRunning","message":"All components run."}]}}`,
		i%100, now)
	return c.send(ctx, http.MethodPatch, b.shoot(shootName(i))+"/status", mergePatch, patch)
}

// deleteLeftovers deletes the Shoots of a bench that has failed.
func (b *apiBench) deleteLeftovers(ctx context.Context) error {
	b.Progress("%d Shoots: removing them", b.shoots)
	return deleteShoots(ctx, b.clients, b.workspace, b.shoots)
}
