package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"text/tabwriter"
	"time"
)

const (
	// quietPeriod is the pause between two requests of the quiet tenant, which should not cause the load itself.
	quietPeriod = 20 * time.Millisecond
	// warmUp is the time until the noise has reached its full rate.
	warmUp     = 3 * time.Second
	configMaps = "/api/v1/namespaces/default/configmaps"
	quietName  = "bench-quiet"
)

// tenants are Shoots without machines on one seed.
type tenants interface {
	CreateTenant(ctx context.Context, name string) error
	AwaitSucceeded(ctx context.Context, name string) error
	Client(ctx context.Context, name string) (*jsonClient, error)
	// MakeNoise makes noise of a kind with the clients of some Shoots, until the function that it returns is called.
	// That function returns the number of requests.
	MakeNoise(ctx context.Context, kind string, names []string) (func() (int, error), error)
	DeleteShoot(ctx context.Context, name string) error
}

// NeighboursOptions are the options of the bench of neighbours.
type NeighboursOptions struct {
	// Noisy is the number of tenants that make noise, 1 to 19.
	Noisy int
	// Period is how long each kind of noise lasts.
	Period   time.Duration
	Progress func(format string, args ...any)
	now      func() time.Time
	sleep    func(context.Context, time.Duration) error
}

// Quiet holds the latencies of a quiet tenant while its neighbours made noise of one kind.
type Quiet struct {
	Noise  string  `json:"noise"`
	Reads  Latency `json:"reads"`
	Writes Latency `json:"writes"`
	// PerSecond is the amount of noise, in requests per second of all noisy tenants.
	PerSecond float64 `json:"noisePerSecond"`
}

// NeighboursReport is the result of the bench of neighbours.
type NeighboursReport struct {
	Host  Host    `json:"host"`
	Noisy int     `json:"noisyTenants"`
	Quiet []Quiet `json:"quietTenant"`
}

// Neighbours measures the effect of noisy tenants on a quiet one on the same seed. Leftovers of an earlier run are
// removed first, the objects of this one in the end.
func Neighbours(ctx context.Context, site tenants, o NeighboursOptions) (report *NeighboursReport, err error) {
	if o.Noisy < 1 || o.Noisy >= maxClusters {
		return nil, fmt.Errorf("--noisy: invalid value: %d (1 to %d)", o.Noisy, maxClusters-1)
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
	quiet, err := site.Client(ctx, quietName)
	if err != nil {
		return nil, err
	}
	loud := names[1:]
	for _, name := range loud {
		client, err := site.Client(ctx, name)
		if err != nil {
			return nil, err
		}
		if err := fill(ctx, client); err != nil {
			return nil, fmt.Errorf("fill Shoot %s: %w", name, err)
		}
	}
	report = &NeighboursReport{Host: describeHost(o.now()), Noisy: o.Noisy}
	silence := func() (func() (int, error), error) { return func() (int, error) { return 0, nil }, nil }
	measure := func(name string, start func() (func() (int, error), error)) error {
		o.Progress("measuring alongside %s for %s", name, o.Period)
		seen, err := alongsideNoise(ctx, quiet, start, o)
		if err != nil {
			return fmt.Errorf("alongside %s: %w", name, err)
		}
		seen.Noise = name
		report.Quiet = append(report.Quiet, seen)
		return nil
	}
	if err := measure("nothing", silence); err != nil {
		return nil, err
	}
	for _, n := range noises {
		if err := measure(n.name, func() (func() (int, error),
			error) {
			return site.MakeNoise(ctx, n.name, loud)
		}); err != nil {
			return nil, err
		}
	}
	report.Host.LoadAfter = load1()
	return report, nil
}

// each calls do for all names concurrently.
func each(names []string, do func(string) error) error {
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { errs[i] = do(name) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// alongsideNoise measures reads and writes of a quiet tenant while the others make noise.
func alongsideNoise(
	ctx context.Context, quiet *jsonClient, start func() (func() (int, error), error), o NeighboursOptions,
) (seen Quiet, err error) {
	stop, err := start()
	if err != nil {
		return Quiet{}, err
	}
	begin := o.now()
	defer func() {
		made, stopErr := stop()
		err = errors.Join(err, stopErr)
		seen.PerSecond = perSecond(made, o.now().Sub(begin))
	}()
	if err := o.sleep(ctx, warmUp); err != nil {
		return Quiet{}, err
	}
	var reads, writes []time.Duration
	warm := o.now()
	for i := 0; o.now().Sub(warm) < o.Period; i++ {
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
	return Quiet{Reads: latencyOf(reads), Writes: latencyOf(writes)}, nil
}

func (r *NeighboursReport) table(w *tabwriter.Writer) {
	fmt.Fprintf(w, "Machine: %s\n%d noisy tenants with %d clients each\n\n", r.Host, r.Noisy, noiseClients)
	fmt.Fprintln(w, "ALONGSIDE\tNOISE PER SECOND\tREAD P50 ms\tP99 ms\tMAX ms\tWRITE P50 ms\tP99 ms\tMAX ms")
	for _, q := range r.Quiet {
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\n", q.Noise, q.PerSecond,
			q.Reads.P50, q.Reads.P99, q.Reads.Max, q.Writes.P50, q.Writes.P99, q.Writes.Max)
	}
}

// CreateTenant makes a Shoot without machines on the first seed.
func (s *localSite) CreateTenant(ctx context.Context, name string) error {
	return s.create(ctx, "landscape-tenant.yaml", name)
}

// Client makes a client for the administrator of a Shoot.
func (s *localSite) Client(ctx context.Context, name string) (*jsonClient, error) {
	c, err := s.client("garden")
	if err != nil {
		return nil, err
	}
	config, err := shootConfig(ctx, c, name)
	if err != nil {
		return nil, err
	}
	return newJSONClient(config)
}

// MakeNoise starts a process that makes it.
func (s *localSite) MakeNoise(ctx context.Context, kind string, names []string) (func() (int, error), error) {
	c, err := s.client("garden")
	if err != nil {
		return nil, err
	}
	order := noiseOrder{Noise: kind}
	for _, name := range names {
		kubeconfig, err := shootKubeconfig(ctx, c, name)
		if err != nil {
			return nil, err
		}
		order.Kubeconfigs = append(order.Kubeconfigs, kubeconfig)
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startNoise(ctx, program, order)
}
