package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

const (
	// quietPeriod is the pause between two requests of the quiet tenant: it shall not be what makes the load.
	quietPeriod = 20 * time.Millisecond
	// noiseObjects and noiseBytes are what lists of noisy tenants consist of, 4 MB each.
	noiseObjects = 500
	noiseBytes   = 8 << 10
	// noiseClients is how many clients each noisy tenant has.
	noiseClients = 4
	// warmUp is the time after which noise is loud.
	warmUp     = 3 * time.Second
	configMaps = "/api/v1/namespaces/default/configmaps"
	quietName  = "bench-quiet"
)

// tenants are Shoots without machines on one seed.
type tenants interface {
	CreateTenant(ctx context.Context, name string) error
	AwaitSucceeded(ctx context.Context, name string) error
	Clients(ctx context.Context, name string, n int) ([]*jsonClient, error)
	DeleteShoot(ctx context.Context, name string) error
}

// NeighboursOptions say what is measured.
type NeighboursOptions struct {
	// Noisy is the number of tenants that make noise, 1 to 19.
	Noisy int
	// Period is how long each kind of noise lasts.
	Period   time.Duration
	Progress func(format string, args ...any)
	now      func() time.Time
	sleep    func(context.Context, time.Duration) error
}

// Quiet is what a quiet tenant saw while its neighbours did something.
type Quiet struct {
	Noise  string  `json:"noise"`
	Reads  Latency `json:"reads"`
	Writes Latency `json:"writes"`
	// PerSecond is how much noise there was, in requests of all noisy tenants.
	PerSecond float64 `json:"noisePerSecond"`
}

// NeighboursReport is the result of the bench of neighbours.
type NeighboursReport struct {
	Host  Host    `json:"host"`
	Noisy int     `json:"noisyTenants"`
	Quiet []Quiet `json:"quietTenant"`
}

// noise is something that a tenant does as often as it can.
type noise struct {
	name string
	make func(ctx context.Context, c *jsonClient, i int) (int64, error)
}

// noises are ways to keep an API server busy.
var noises = []noise{
	{"lists of 4 MB", func(ctx context.Context, c *jsonClient, _ int) (int64, error) {
		return c.send(ctx, http.MethodGet, configMaps, "", nil)
	}},
	{"watches with 4 MB each at their beginning", func(ctx context.Context, c *jsonClient, _ int) (int64, error) {
		const initial = "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
		return c.send(ctx, http.MethodGet, configMaps+initial, "", nil)
	}},
	{"writes of 8 KB", func(ctx context.Context, c *jsonClient, i int) (int64, error) {
		path := fmt.Sprintf("%s/noise-%d", configMaps, i%noiseObjects)
		return c.send(ctx, http.MethodPatch, path, mergePatch, fmt.Appendf(nil, `{"data":{"turn":"%d"}}`, i))
	}},
}

// Neighbours measures what a quiet tenant notices of noisy ones on the same seed. What an earlier run has left is removed first,
// what this one makes in the end.
func Neighbours(ctx context.Context, site tenants, o NeighboursOptions) (report *NeighboursReport, err error) {
	if o.Noisy < 1 || o.Noisy >= maxClusters {
		return nil, fmt.Errorf("%d noisy tenants asked for, 1 to %d are possible", o.Noisy, maxClusters-1)
	}
	names := []string{quietName}
	for i := range o.Noisy {
		names = append(names, fmt.Sprintf("bench-noisy-%d", i+1))
	}
	remove := func(ctx context.Context) error {
		return each(names, func(name string) error { return site.DeleteShoot(ctx, name) })
	}
	if err := remove(ctx); err != nil {
		return nil, fmt.Errorf("remove what an earlier bench has left: %w", err)
	}
	defer cleanUp(ctx, &err, remove)
	o.Progress("creating %d Shoots", len(names))
	if err := each(names, func(name string) error {
		return errors.Join(site.CreateTenant(ctx, name), site.AwaitSucceeded(ctx, name))
	}); err != nil {
		return nil, err
	}
	quiet, err := site.Clients(ctx, quietName, 1)
	if err != nil {
		return nil, err
	}
	var loud []*jsonClient
	for _, name := range names[1:] {
		clients, err := site.Clients(ctx, name, noiseClients)
		if err != nil {
			return nil, err
		}
		if err := fill(ctx, clients[0]); err != nil {
			return nil, fmt.Errorf("fill Shoot %s: %w", name, err)
		}
		loud = append(loud, clients...)
	}
	report = &NeighboursReport{Host: describeHost(o.now()), Noisy: o.Noisy}
	for _, n := range append([]noise{{name: "nothing"}}, noises...) {
		o.Progress("measuring beside %s for %s", n.name, o.Period)
		seen, err := besideNoise(ctx, quiet[0], loud, n, o)
		if err != nil {
			return nil, fmt.Errorf("beside %s: %w", n.name, err)
		}
		report.Quiet = append(report.Quiet, seen)
	}
	report.Host.LoadAfter = load1()
	return report, nil
}

// each does something for all names side by side.
func each(names []string, do func(string) error) error {
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { errs[i] = do(name) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// fill makes the objects of a noisy tenant.
func fill(ctx context.Context, c *jsonClient) error {
	for i := range noiseObjects {
		body, err := configMap(fmt.Sprintf("noise-%d", i), strings.Repeat("n", noiseBytes))
		if err != nil {
			return err
		}
		if _, err := c.send(ctx, http.MethodPost, configMaps, plainJSON, body); err != nil {
			return err
		}
	}
	return nil
}

func configMap(name, text string) ([]byte, error) {
	return json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": map[string]string{"text": text},
	})
}

// besideNoise measures reads and writes of a quiet tenant while the others make noise.
func besideNoise(ctx context.Context, quiet *jsonClient, loud []*jsonClient, n noise, o NeighboursOptions) (Quiet, error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	made := make([]int, len(loud))
	if n.make != nil {
		for k, c := range loud {
			wg.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					if _, err := n.make(ctx, c, i); err == nil { // Who makes too much noise is refused some, and goes on.
						made[k]++
					}
				}
			})
		}
	}
	defer wg.Wait()
	defer cancel()
	if err := o.sleep(ctx, warmUp); err != nil {
		return Quiet{}, err
	}
	var reads, writes []time.Duration
	start := o.now()
	for i := 0; o.now().Sub(start) < o.Period; i++ {
		began := o.now()
		if _, err := quiet.send(ctx, http.MethodGet, "/api/v1/namespaces/default", "", nil); err != nil {
			return Quiet{}, err
		}
		read := o.now()
		body, err := configMap("quiet", fmt.Sprint(i))
		if err != nil {
			return Quiet{}, err
		}
		const apply = configMaps + "/quiet?fieldManager=bench&force=true"
		if _, err := quiet.send(ctx, http.MethodPatch, apply, "application/apply-patch+yaml", body); err != nil {
			return Quiet{}, err
		}
		reads, writes = append(reads, read.Sub(began)), append(writes, o.now().Sub(read))
		if err := o.sleep(ctx, quietPeriod); err != nil {
			return Quiet{}, err
		}
	}
	elapsed := o.now().Sub(start) + warmUp
	cancel()
	wg.Wait()
	total := 0
	for _, m := range made {
		total += m
	}
	return Quiet{Noise: n.name, Reads: latencyOf(reads), Writes: latencyOf(writes), PerSecond: perSecond(total, elapsed)}, nil
}

func (r *NeighboursReport) table(w *tabwriter.Writer) {
	fmt.Fprintf(w, "Machine: %s\n%d noisy tenants with %d clients each\n\n", r.Host, r.Noisy, noiseClients)
	fmt.Fprintln(w, "BESIDE\tNOISE PER SECOND\tREAD P50 ms\tP99 ms\tMAX ms\tWRITE P50 ms\tP99 ms\tMAX ms")
	for _, q := range r.Quiet {
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\n", q.Noise, q.PerSecond,
			q.Reads.P50, q.Reads.P99, q.Reads.Max, q.Writes.P50, q.Writes.P99, q.Writes.Max)
	}
}

// CreateTenant makes a Shoot without machines on the first seed.
func (s *localSite) CreateTenant(ctx context.Context, name string) error {
	return s.create(ctx, "landscape-tenant.yaml", name)
}

// Clients makes clients for the administrator of a Shoot.
func (s *localSite) Clients(ctx context.Context, name string, n int) ([]*jsonClient, error) {
	c, err := s.client("garden")
	if err != nil {
		return nil, err
	}
	config, err := shootConfig(ctx, c, name)
	if err != nil {
		return nil, err
	}
	return newJSONClients(config, n)
}
