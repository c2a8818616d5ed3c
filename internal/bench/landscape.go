package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

const (
	// landscapeNamespace is the namespace of the project that 'hortus up' makes.
	landscapeNamespace = "garden-dev"
	maxClusters        = 20
	// upTimeout, shootTimeout and goneTimeout are many times the duration of the steps.
	upTimeout    = 30 * time.Minute
	shootTimeout = 10 * time.Minute
	goneTimeout  = 10 * time.Minute
)

// site is a landscape as the bench sees it.
type site interface {
	Up(ctx context.Context, out io.Writer) error
	Down(ctx context.Context, out io.Writer) error
	CreateShoot(ctx context.Context, name string) error
	// AwaitSucceeded waits for the end of the Shoot's last operation, AwaitNode until it has a Node that is ready.
	AwaitSucceeded(ctx context.Context, name string) error
	AwaitNode(ctx context.Context, name string) error
	// PatchShoot changes a Shoot by a merge patch.
	PatchShoot(ctx context.Context, name, patch string) error
	// Move moves the control plane of a Shoot to the other seed while a client writes.
	Move(ctx context.Context, name string) (MoveTimes, error)
	// DeleteShoot deletes a Shoot, if there is one, and waits until it is gone.
	DeleteShoot(ctx context.Context, name string) error
	// Look reads all processes and the data to classify them.
	Look(ctx context.Context) (*ground, []process, error)
}

// LandscapeOptions are the options of the bench of a landscape.
type LandscapeOptions struct {
	// Fresh removes the landscape first, so that 'hortus up' creates everything.
	Fresh bool
	// Shoots are created one after the other, 1 to 20.
	Shoots int
	// Settle is the pause before memory is measured, so that all components have started.
	Settle time.Duration
	// Period is how long CPU time is measured without any requests.
	Period   time.Duration
	Progress func(format string, args ...any)

	now   func() time.Time
	sleep func(context.Context, time.Duration) error
}

// Step is one line of the output of 'hortus up'.
type Step struct {
	Step    string  `json:"step"`
	Seconds float64 `json:"seconds"`
}

// ShootTimes are the times of one Shoot, in seconds since it was applied, or since its deletion was requested.
type ShootTimes struct {
	Name             string  `json:"name"`
	NodeReadySeconds float64 `json:"nodeReadySeconds"`
	SucceededSeconds float64 `json:"succeededSeconds"`
	DeletedSeconds   float64 `json:"deletedSeconds"`
}

// MoveTimes are the times of one move of a control plane.
type MoveTimes struct {
	Shoot string `json:"shoot"`
	From  string `json:"from"`
	To    string `json:"to"`
	// Seconds until the control plane is restored, and the longest time in which no write was acknowledged to a client
	// that writes every 50 ms over a new connection.
	Seconds    float64 `json:"seconds"`
	GapSeconds float64 `json:"gapSeconds"`
	// Writes that were acknowledged to the client, and how many of them were not there afterwards.
	Writes int `json:"writes"`
	Lost   int `json:"lost"`
}

// ChangeTimes is how long it takes until a change of a Shoot has succeeded.
type ChangeTimes struct {
	Change  string  `json:"change"`
	Seconds float64 `json:"seconds"`
}

// ClassUse is the resource usage of a class of processes.
type ClassUse struct {
	Class Class `json:"class"`
	// WithoutShoots and WithShoots are bytes, PerShoot their difference divided by the number of Shoots.
	WithoutShoots int64 `json:"withoutShootsBytes"`
	WithShoots    int64 `json:"withShootsBytes"`
	PerShoot      int64 `json:"perShootBytes"`
	// IdleMilliCPUWithout, IdleMilliCPUWith and IdleMilliCPUShoot are the CPU used without any requests, in thousandths
	// of a core: without Shoots, with Shoots, and per Shoot.
	IdleMilliCPUWithout float64 `json:"idleMilliCPUWithoutShoots"`
	IdleMilliCPUWith    float64 `json:"idleMilliCPUWithShoots"`
	IdleMilliCPUShoot   float64 `json:"idleMilliCPUPerShoot"`
	// IdleWrittenShoot is the number of bytes that a Shoot causes to be written to disks in an hour without any
	// requests.
	IdleWrittenShoot int64 `json:"idleWrittenBytesPerShootAndHour"`
}

// ProgramUse is the resource usage of a program of control planes, per Shoot.
type ProgramUse struct {
	Program string `json:"program"`
	// Processes that run it, Bytes of memory, and CPU without any requests, in thousandths of a core.
	Processes    float64 `json:"processesPerShoot"`
	Bytes        int64   `json:"perShootBytes"`
	IdleMilliCPU float64 `json:"idleMilliCPUPerShoot"`
}

// LandscapeReport is the result of the bench of a landscape.
type LandscapeReport struct {
	Host Host `json:"host"`
	// Fresh says whether the landscape was newly created; otherwise UpSeconds is the time of a run without changes.
	Fresh     bool         `json:"fresh"`
	UpSeconds float64      `json:"upSeconds"`
	UpSteps   []Step       `json:"upSteps"`
	Shoots    []ShootTimes `json:"shoots"`
	Moves     []MoveTimes  `json:"moves"`
	// Changes of the first Shoot, one after the other.
	Changes []ChangeTimes `json:"changes"`
	Classes []ClassUse    `json:"classes"`
	// Programs of the Shoots' control planes, those that take most memory first.
	Programs []ProgramUse `json:"programs"`
	// TotalWithoutShoots is the memory of the whole landscape.
	TotalWithoutShoots int64   `json:"totalWithoutShootsBytes"`
	TotalWithShoots    int64   `json:"totalWithShootsBytes"`
	PeriodSeconds      float64 `json:"idlePeriodSeconds"`
}

// Landscape measures a landscape from its start to the end of its last Shoot. Leftovers of an earlier run are removed
// first, the objects of this one in the end.
func Landscape(ctx context.Context, s site, o LandscapeOptions) (report *LandscapeReport, err error) {
	if o.Shoots < 1 || o.Shoots > maxClusters {
		return nil, fmt.Errorf("--shoots: invalid value: %d (1 to %d)", o.Shoots, maxClusters)
	}
	b := &landscapeBench{
		LandscapeOptions: o, site: s, report: &LandscapeReport{Host: describeHost(o.now()), Fresh: o.Fresh},
	}
	if err := b.up(ctx); err != nil {
		return nil, err
	}
	remove := func(ctx context.Context) error {
		var errs []error
		for i := range o.Shoots {
			errs = append(errs, s.DeleteShoot(ctx, clusterName(i)))
		}
		return errors.Join(errs...)
	}
	if err := remove(ctx); err != nil {
		return nil, fmt.Errorf("remove what an earlier bench has left: %w", err)
	}
	defer cleanUp(ctx, &err, remove)

	without, err := b.rest(ctx, "without Shoots")
	if err != nil {
		return nil, err
	}
	for i := range o.Shoots {
		if err := b.createShoot(ctx, clusterName(i)); err != nil {
			return nil, err
		}
	}
	with, err := b.rest(ctx, "with Shoots")
	if err != nil {
		return nil, err
	}
	b.compare(without, with)
	for range 2 { // To the other seed and back.
		b.Progress("moving Shoot %s", clusterName(0))
		times, err := s.Move(ctx, clusterName(0))
		if err != nil {
			return nil, fmt.Errorf("move Shoot %s: %w", clusterName(0), err)
		}
		b.report.Moves = append(b.report.Moves, times)
	}
	for _, c := range changes {
		if err := b.change(ctx, c.what, c.patch); err != nil {
			return nil, err
		}
	}
	for i := range o.Shoots {
		if err := b.deleteShoot(ctx, i); err != nil {
			return nil, err
		}
	}
	b.report.Host.LoadAfter = load1()
	return b.report, nil
}

func clusterName(i int) string { return fmt.Sprintf("bench-%d", i+1) }

type landscapeBench struct {
	LandscapeOptions
	site   site
	report *LandscapeReport
}

func (b *landscapeBench) up(ctx context.Context) error {
	if b.Fresh {
		b.Progress("taking the landscape down")
		var out bytes.Buffer
		if err := b.site.Down(ctx, &out); err != nil {
			return fmt.Errorf("take the landscape down: %w\n%s", err, out.String())
		}
	}
	b.Progress("bringing the landscape up")
	ctx, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	var out bytes.Buffer
	start := b.now()
	if err := b.site.Up(ctx, &out); err != nil {
		return fmt.Errorf("bring the landscape up: %w\n%s", err, out.String())
	}
	b.report.UpSeconds = b.now().Sub(start).Seconds()
	b.report.UpSteps = parseSteps(out.String())
	return nil
}

var stepPattern = regexp.MustCompile(`^  done: (.*) \(([0-9.a-zµ]+)\)$`)

// parseSteps reads the steps out of the output of 'hortus up'.
func parseSteps(out string) []Step {
	var steps []Step
	for line := range strings.Lines(out) {
		match := stepPattern.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if match == nil {
			continue
		}
		if took, err := time.ParseDuration(match[2]); err == nil {
			steps = append(steps, Step{match[1], took.Seconds()})
		}
	}
	return steps
}

// createShoot measures until the last operation has succeeded and until a Node is ready, which may come before.
func (b *landscapeBench) createShoot(ctx context.Context, name string) error {
	b.Progress("creating Shoot %s", name)
	ctx, cancel := context.WithTimeout(ctx, shootTimeout)
	defer cancel()
	start := b.now()
	if err := b.site.CreateShoot(ctx, name); err != nil {
		return fmt.Errorf("create Shoot %s: %w", name, err)
	}
	times := ShootTimes{Name: name}
	type end struct {
		at  time.Time
		err error
	}
	node := make(chan end, 1)
	go func() {
		err := b.site.AwaitNode(ctx, name)
		node <- end{b.now(), err}
	}()
	err := b.site.AwaitSucceeded(ctx, name)
	times.SucceededSeconds = b.now().Sub(start).Seconds()
	if err != nil {
		cancel() // The wait for the Node ends.
	}
	ready := <-node
	times.NodeReadySeconds = ready.at.Sub(start).Seconds()
	if err := errors.Join(err, ready.err); err != nil {
		return fmt.Errorf("Shoot %s: %w", name, err)
	}
	b.report.Shoots = append(b.report.Shoots, times)
	return nil
}

// changes are those of the first Shoot that are measured. A pool cannot change its update strategy, so that a second
// one is updated in place.
var changes = []struct{ what, patch string }{
	{"hibernation", `{"spec":{"hibernation":{"enabled":true}}}`},
	{"wake-up", `{"spec":{"hibernation":{"enabled":false}}}`},
	{"second pool of one node", poolsWith("1.1.0")},
	{"update of the second pool's node in place", poolsWith("1.2.0")},
}

// poolsWith is a patch to the pool of the manifest and one that is updated in place, with a version of the image.
func poolsWith(version string) string {
	const pool = `{"name":%q,"minimum":1,"maximum":1,"machine":{"type":"small","image":{"name":"hortus-machine"%s}},` +
		`"zones":["local-a"]%s}`
	return `{"spec":{"provider":{"workers":[` + fmt.Sprintf(pool, "pool", "", "") + "," +
		fmt.Sprintf(pool, "steady", `,"version":"`+version+`"`, `,"updateStrategy":"AutoInPlaceUpdate"`) + `]}}}`
}

func (b *landscapeBench) change(ctx context.Context, what, patch string) error {
	name := clusterName(0)
	b.Progress("changing Shoot %s: %s", name, what)
	ctx, cancel := context.WithTimeout(ctx, shootTimeout)
	defer cancel()
	start := b.now()
	err := b.site.PatchShoot(ctx, name, patch)
	// A constraint that was False during an operation, such as HibernationPossible, is checked again after its end.
	for hasStatus(err, http.StatusForbidden) && b.sleep(ctx, time.Second) == nil {
		start = b.now()
		err = b.site.PatchShoot(ctx, name, patch)
	}
	if err == nil {
		err = b.site.AwaitSucceeded(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("Shoot %s: %s: %w", name, what, err)
	}
	b.report.Changes = append(b.report.Changes, ChangeTimes{what, b.now().Sub(start).Seconds()})
	return nil
}

func (b *landscapeBench) deleteShoot(ctx context.Context, i int) error {
	b.Progress("deleting Shoot %s", clusterName(i))
	ctx, cancel := context.WithTimeout(ctx, goneTimeout)
	defer cancel()
	start := b.now()
	if err := b.site.DeleteShoot(ctx, clusterName(i)); err != nil {
		return err
	}
	b.report.Shoots[i].DeletedSeconds = b.now().Sub(start).Seconds()
	return nil
}

// idle is the resource usage of a landscape without any requests.
type idle struct {
	weights  []Weight
	done     map[Class]work
	programs map[string]programWeight
	seconds  float64
}

// rest lets the landscape settle, and measures it twice.
func (b *landscapeBench) rest(ctx context.Context, when string) (*idle, error) {
	b.Progress("resting %s for %s", when, b.Settle+b.Period)
	if err := b.sleep(ctx, b.Settle); err != nil {
		return nil, err
	}
	_, before, err := b.site.Look(ctx)
	if err != nil {
		return nil, err
	}
	start := b.now()
	if err := b.sleep(ctx, b.Period); err != nil {
		return nil, err
	}
	g, after, err := b.site.Look(ctx)
	if err != nil {
		return nil, err
	}
	return &idle{
		g.weigh(after), g.worked(before, after), g.weighPrograms(before, after), b.now().Sub(start).Seconds(),
	}, nil
}

// compare fills in the difference that Shoots make.
func (b *landscapeBench) compare(without, with *idle) {
	shoots := float64(b.LandscapeOptions.Shoots)
	b.report.PeriodSeconds = with.seconds
	b.report.Programs = perShoot(with.programs, b.LandscapeOptions.Shoots, with.seconds)
	for i, class := range classes {
		use := ClassUse{
			Class: class, WithoutShoots: without.weights[i].Bytes, WithShoots: with.weights[i].Bytes,
			IdleMilliCPUWithout: milliCPU(without.done[class].cpu, without.seconds),
			IdleMilliCPUWith:    milliCPU(with.done[class].cpu, with.seconds),
		}
		use.IdleWrittenShoot = int64((perHour(with.done[class].written, with.seconds) - perHour(without.done[class].written,
			without.seconds)) / shoots)
		use.PerShoot = (use.WithShoots - use.WithoutShoots) / int64(b.LandscapeOptions.Shoots)
		use.IdleMilliCPUShoot = (use.IdleMilliCPUWith - use.IdleMilliCPUWithout) / shoots
		b.report.Classes = append(b.report.Classes, use)
		b.report.TotalWithoutShoots += use.WithoutShoots
		b.report.TotalWithShoots += use.WithShoots
	}
}

// perShoot divides the usage of the programs of all control planes by the number of Shoots.
func perShoot(programs map[string]programWeight, shoots int, seconds float64) []ProgramUse {
	var uses []ProgramUse
	for name, all := range programs {
		uses = append(uses, ProgramUse{
			Program: name, Processes: float64(all.processes) / float64(shoots), Bytes: all.bytes / int64(shoots),
			IdleMilliCPU: milliCPU(all.cpu, seconds) / float64(shoots),
		})
	}
	slices.SortFunc(uses, func(a, b ProgramUse) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Program, b.Program))
	})
	return uses
}

func milliCPU(used time.Duration, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return 1000 * used.Seconds() / seconds
}

func perHour(n int64, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(n) / seconds * time.Hour.Seconds()
}

func (r *LandscapeReport) table(w *tabwriter.Writer) {
	kind := "again, with nothing to do"
	if r.Fresh {
		kind = "from nothing, binaries built"
	}
	fmt.Fprintf(w, "Machine: %s\n\n", r.Host)
	fmt.Fprintln(w, "LANDSCAPE UP\tSECONDS")
	for _, step := range r.UpSteps {
		fmt.Fprintf(w, "%s\t%.1f\n", step.Step, step.Seconds)
	}
	fmt.Fprintf(w, "%s\t%.1f\n", kind, r.UpSeconds)
	fmt.Fprintln(w, "\nSHOOT\tNODE READY s\tSUCCEEDED s\tDELETED s")
	for _, s := range r.Shoots {
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\n", s.Name, s.NodeReadySeconds, s.SucceededSeconds, s.DeletedSeconds)
	}
	fmt.Fprintln(w, "\nMOVE OF A CONTROL PLANE\tRESTORED s\tLONGEST TIME WITHOUT A WRITE s\tWRITES\tLOST")
	for _, m := range r.Moves {
		fmt.Fprintf(w, "%s from %s to %s\t%.1f\t%.1f\t%d\t%d\n", m.Shoot, m.From, m.To, m.Seconds, m.GapSeconds, m.Writes,
			m.Lost)
	}
	fmt.Fprintln(w, "\nCHANGE OF A SHOOT\tSUCCEEDED s")
	for _, c := range r.Changes {
		fmt.Fprintf(w, "%s\t%.1f\n", c.Change, c.Seconds)
	}
	fmt.Fprintf(w,
		"\nPROPORTIONAL MEMORY, IDLE CPU OVER %.0f s\tWITHOUT MiB\tWITH MiB\tPER SHOOT MiB\tWITHOUT mCPU\tWITH mCPU\tPER SHOOT mCPU\tWRITTEN PER SHOOT AND HOUR MiB\n", r.PeriodSeconds)
	for _, c := range r.Classes {
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\n", c.Class, mebibytes(c.WithoutShoots),
			mebibytes(c.WithShoots), mebibytes(c.PerShoot),
			c.IdleMilliCPUWithout, c.IdleMilliCPUWith, c.IdleMilliCPUShoot, mebibytes(c.IdleWrittenShoot))
	}
	fmt.Fprintf(w, "together\t%.0f\t%.0f\n", mebibytes(r.TotalWithoutShoots), mebibytes(r.TotalWithShoots))
	fmt.Fprintln(w, "\nPROGRAM OF CONTROL PLANES\tPROCESSES PER SHOOT\tMiB PER SHOOT\tIDLE mCPU PER SHOOT")
	for _, p := range r.Programs {
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\n", p.Program, p.Processes, mebibytes(p.Bytes), p.IdleMilliCPU)
	}
}
