package test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/cli/move"
	"hortus.dev/hortus/test/env"
)

// movable is a garden with Seeds that can take over control planes. The test writes the reports of gardenlets.
type movable struct {
	*garden
	kubeconfig string
	seeds      [3]*corev1beta1.Seed
}

func newMovable(t *testing.T) *movable {
	t.Helper()
	g := newGarden(t)
	m := &movable{garden: g, kubeconfig: g.writeKubeconfig("")}
	for i := range m.seeds {
		m.seeds[i] = newSeed()
		m.Create(t, m.seeds[i])
		for _, kind := range []corev1beta1.ConditionType{corev1beta1.SeedGardenletReady, corev1beta1.SeedBackupBucketsReady} {
			m.seeds[i].Status.Conditions = append(m.seeds[i].Status.Conditions, corev1beta1.Condition{
				Type: kind, Status: corev1beta1.ConditionTrue, Reason: "Ready", Message: "It is.", LastTransitionTime: metav1.Now(),
				LastUpdateTime: metav1.Now(),
			})
		}
		m.seeds[i].Status.LastOperation = &corev1beta1.LastOperation{
			Type: corev1beta1.LastOperationTypeReconcile, State: corev1beta1.LastOperationStateSucceeded,
			LastUpdateTime: metav1.Now(),
		}
		if err := m.Client.Status().Update(m.ctx, m.seeds[i]); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// on creates a Shoot that runs on a Seed.
func (m *movable) on(seed *corev1beta1.Seed) *corev1beta1.Shoot {
	m.t.Helper()
	s := m.newShoot()
	m.Create(m.t, s)
	m.mustPatch(s, bind(seed.Name), "binding")
	m.report(s, seed.Name, corev1beta1.LastOperationTypeReconcile, corev1beta1.LastOperationStateSucceeded)
	return s
}

// report writes the status as the responsible gardenlet does.
func (m *movable) report(
	s *corev1beta1.Shoot, seed string, kind corev1beta1.LastOperationType, state corev1beta1.LastOperationState,
) {
	m.t.Helper()
	if err := m.write(m.ctx, s, seed, kind, state); err != nil {
		m.t.Fatal(err)
	}
}

func (m *movable) write(
	ctx context.Context, s *corev1beta1.Shoot, seed string, kind corev1beta1.LastOperationType,
	state corev1beta1.LastOperationState,
) error {
	patch := fmt.Sprintf(`{"status":{"seedName":%q,"observedGeneration":%d,"lastOperation":{"type":%q,"state":%q,"progress":50,"description":"As planned.","lastUpdateTime":%q}}}`,
		seed, s.Generation, kind, state, time.Now().UTC().Format(time.RFC3339))
	return m.Client.Status().Patch(ctx, s, client.RawPatch("application/merge-patch+json", []byte(patch)))
}

// gardenlets moves all Shoots of the project that are bound to another Seed, one step at a time, until stop is called.
// The restore of those selected by fails fails. stop returns the maximum number of concurrent moves.
func (m *movable) gardenlets(fails func(name string) bool) (stop func() (most int)) {
	ctx, cancel := context.WithCancel(m.ctx)
	var done sync.WaitGroup
	most := 0
	done.Go(func() {
		for ctx.Err() == nil {
			shoots := &corev1beta1.ShootList{}
			if err := m.Client.List(ctx, shoots, client.InNamespace(m.namespace)); err != nil {
				continue
			}
			moving := 0
			for i := range shoots.Items {
				s := &shoots.Items[i]
				kind, state, seed := nextStep(s, fails(s.Name))
				if kind == "" {
					continue
				}
				moving++
				if err := m.write(ctx, s, seed, kind, state); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) {
					m.t.Errorf("play the gardenlet: %v", err)
				}
			}
			most = max(most, moving)
		}
	})
	return func() int {
		cancel()
		done.Wait()
		return most
	}
}

// nextStep returns the next status of a moving Shoot, nothing if it does not move.
func nextStep(
	s *corev1beta1.Shoot, fails bool,
) (corev1beta1.LastOperationType, corev1beta1.LastOperationState, string) {
	bound, on, op := ptr.Deref(s.Spec.SeedName, ""), ptr.Deref(s.Status.SeedName, ""), s.Status.LastOperation
	switch {
	case op == nil || on == "":
	case bound != on && op.Type != corev1beta1.LastOperationTypeMigrate:
		return corev1beta1.LastOperationTypeMigrate, corev1beta1.LastOperationStateProcessing, on
	case bound != on:
		return corev1beta1.LastOperationTypeMigrate, corev1beta1.LastOperationStateSucceeded, bound
	case op.Type == corev1beta1.LastOperationTypeMigrate:
		return corev1beta1.LastOperationTypeRestore, corev1beta1.LastOperationStateProcessing, on
	case op.Type == corev1beta1.LastOperationTypeRestore && op.State == corev1beta1.LastOperationStateProcessing && fails:
		return corev1beta1.LastOperationTypeRestore, corev1beta1.LastOperationStateFailed, on
	case op.Type == corev1beta1.LastOperationTypeRestore && op.State == corev1beta1.LastOperationStateProcessing:
		return corev1beta1.LastOperationTypeRestore, corev1beta1.LastOperationStateSucceeded, on
	}
	return "", "", ""
}

func nobody(string) bool { return false }

// runTo executes `hortus move` or `hortus drain`, without input.
func (m *movable) runTo(ctx context.Context, cmd *cobra.Command, stdout, stderr io.Writer, args ...string) error {
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	cmd.SetIn(strings.NewReader(""))
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(append(args, "--kubeconfig", m.kubeconfig))
	return cmd.ExecuteContext(ctx)
}

func (m *movable) run(cmd *cobra.Command, args ...string) (out, log string, err error) {
	var stdout, stderr bytes.Buffer
	err = m.runTo(m.ctx, cmd, &stdout, &stderr, args...)
	return stdout.String(), stderr.String(), err
}

func (m *movable) move(s *corev1beta1.Shoot, to string, args ...string) (out, log string, err error) {
	return m.run(move.NewMoveCommand(), append([]string{"shoot", s.Name, "-n", m.namespace, "--to", to}, args...)...)
}

func (m *movable) drain(
	seed *corev1beta1.Seed, args ...string,
) (results map[string]move.Result, log string, err error) {
	m.t.Helper()
	out, log, err := m.run(move.NewDrainCommand(), append([]string{"seed", seed.Name, "-o", "json"}, args...)...)
	var list []move.Result
	if jsonErr := json.Unmarshal([]byte(out), &list); jsonErr != nil && err == nil {
		m.t.Errorf("the output is no JSON: %v\n%s", jsonErr, out)
	}
	results = map[string]move.Result{}
	for _, r := range list {
		results[r.Name] = r
	}
	return results, log, err
}

func TestShootMovesByCommand(t *testing.T) {
	m := newMovable(t)
	here, there := m.seeds[0], m.seeds[1]
	s := m.on(here)
	if out, log, err := m.move(s, here.Name); err != nil || !strings.Contains(log, "is on Seed "+here.Name+" already") ||
		!strings.Contains(out, "Moved") {
		t.Errorf("to its present Seed: %v\n%s%s", err, log, out)
	}
	stop := m.gardenlets(nobody)
	out, log, err := m.move(s, there.Name)
	stop()
	m.get(s)
	if err != nil || *s.Status.SeedName != there.Name || !strings.Contains(log, "moved to "+there.Name) ||
		!strings.Contains(out, "Moved") {
		t.Errorf("to another Seed: %v\n%s%s", err, log, out)
	}

	// Errors of the API server are passed on.
	bare := newSeed()
	bare.Spec.Backup = nil
	m.Create(t, bare)
	if _, log, err := m.move(s, bare.Name); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "both have spec.backup") {
		t.Errorf("to a Seed without backups: %v\n%s", err, log)
	}
	if _, _, err := m.move(s, "nowhere"); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("to a Seed that is not there: %v", err)
	}
	if _, _, err := m.move(&corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Name: "none"}},
		here.Name); !apierrors.IsNotFound(err) {
		t.Errorf("a Shoot that is not there: %v", err)
	}

	// The command waits for an earlier move. If the move fails, the command prints the next step.
	m.mustPatch(s, bind(here.Name), "binding")
	stop = m.gardenlets(func(string) bool { return true })
	out, log, err = m.move(s, here.Name, "-o", "yaml")
	stop()
	if err == nil || !strings.Contains(log, "is bound to Seed "+here.Name+" already") ||
		!strings.Contains(out, "state: Failed") || !strings.Contains(log, "can move to another Seed") {
		t.Errorf("a move that fails: %v\n%s%s", err, log, out)
	}
	stop = m.gardenlets(nobody)
	out, log, err = m.move(s, there.Name) // As the message says.
	stop()
	if err != nil {
		t.Errorf("back: %v\n%s%s", err, log, out)
	}
}

func TestInterruptedMoveContinues(t *testing.T) {
	m := newMovable(t)
	here, there := m.seeds[0], m.seeds[1]
	s := m.on(here)
	ctx, interrupt := context.WithCancel(m.ctx)
	done := make(chan error, 1)
	wait := func(ctx context.Context) *safeBuffer {
		log := &safeBuffer{}
		go func() {
			done <- m.runTo(ctx, move.NewMoveCommand(), io.Discard, log, "shoot", s.Name, "-n", m.namespace, "--to", there.Name)
		}()
		env.Eventually(t, "the command waits", func() (bool, error) {
			return strings.Contains(log.String(), "moving to "+there.Name), nil
		})
		return log
	}
	wait(ctx)
	interrupt()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "continues without this command") {
		t.Errorf("interrupted: %v", err)
	}
	if m.get(s); *s.Spec.SeedName != there.Name {
		t.Errorf("the Shoot is bound to %s", *s.Spec.SeedName)
	}

	// Cancelling it is a move, too; a command that waits for the cancelled move reports that.
	log := wait(m.ctx)
	if out, log, err := m.move(s, here.Name); err != nil || !strings.Contains(out, "Moved") {
		t.Errorf("cancel it: %v\n%s%s", err, log, out)
	}
	if err := <-done; err == nil || !strings.Contains(log.String(), "has been bound to Seed "+here.Name) {
		t.Errorf("a move that is cancelled: %v\n%s", err, log)
	}
}

// safeBuffer supports reads during writes.
type safeBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func TestDeadSourceIsConfirmed(t *testing.T) {
	m := newMovable(t)
	here, there := m.seeds[0], m.seeds[1]
	s := m.on(here)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: corev1beta1.SeedLeaseNamespace}}
	if err := m.Client.Create(m.ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	_, log, err := m.move(s, there.Name, "--source-is-dead")
	if err == nil || !strings.Contains(err.Error(), "nothing is moved") || !strings.Contains(log, "no Lease") ||
		strings.Contains(log, "WARNING") {
		t.Errorf("a Seed that was never seen: %v\n%s", err, log)
	}
	renewed := metav1.NowMicro()
	m.Create(t, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: here.Name},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &renewed},
	})
	for _, run := range []func() (string, error){
		func() (string, error) { _, log, err := m.move(s, there.Name, "--source-is-dead"); return log, err },
		func() (string, error) {
			_, log, err := m.drain(here, "--to", there.Name, "--source-is-dead")
			return log, err
		},
	} {
		log, err := run()
		if err == nil || !strings.Contains(err.Error(), "nothing is moved") || !strings.Contains(log, "seems to be alive") ||
			!strings.Contains(log, "GardenletReady is True: It is.") ||
			!strings.Contains(log, "What is not in the last delta of the backups is lost") {
			t.Errorf("a Seed that is alive: %v\n%s", err, log)
		}
	}
	if _, _, err := m.move(s, here.Name, "--source-is-dead", "--yes"); err != nil {
		t.Errorf("to where it is: %v", err)
	}
	m.get(s)
	if *s.Spec.SeedName != here.Name || len(s.Annotations[corev1beta1.AnnotationSourceIsDead]) > 0 {
		t.Errorf("the Shoot was changed without a confirmation: %s %v", *s.Spec.SeedName, s.Annotations)
	}
}

// TestDeadSourceIsDeclared declares the source dead together with the binding, and after a move has begun. The test
// simulates the destination's gardenlet, which takes over the control plane.
func TestDeadSourceIsDeclared(t *testing.T) {
	m := newMovable(t)
	here, there := m.seeds[0], m.seeds[1]
	fresh, stuck := m.on(here), m.on(here)
	m.mustPatch(stuck, bind(there.Name), "binding")
	m.report(stuck, here.Name, corev1beta1.LastOperationTypeMigrate, corev1beta1.LastOperationStateProcessing)
	for _, s := range []*corev1beta1.Shoot{fresh, stuck} {
		log, done := &safeBuffer{}, make(chan error, 1)
		go func() {
			done <- m.runTo(m.ctx, move.NewMoveCommand(), io.Discard, log,
				"shoot", s.Name, "-n", m.namespace, "--to", there.Name, "--source-is-dead", "--yes")
		}()
		var ended error
		env.Eventually(t, "the source is declared dead", func() (bool, error) {
			select {
			case ended = <-done:
				return true, nil
			default:
			}
			m.get(s)
			return *s.Spec.SeedName == there.Name && s.Annotations[corev1beta1.AnnotationSourceIsDead] == here.Name, nil
		})
		if ended != nil {
			t.Errorf("Shoot %s: %v\n%s", s.Name, ended, log)
			continue
		}
		m.report(s, there.Name, corev1beta1.LastOperationTypeRestore, corev1beta1.LastOperationStateSucceeded)
		if err := <-done; err != nil {
			t.Errorf("Shoot %s: %v\n%s", s.Name, err, log)
		}
	}
}

func TestSeedIsDrainedByCommand(t *testing.T) {
	m := newMovable(t)
	here, there, third := m.seeds[0], m.seeds[1], m.seeds[2]
	if results, log, err := m.drain(here); err != nil || len(results) > 0 ||
		!strings.Contains(log, "No Shoot is on Seed") {
		t.Errorf("an empty Seed: %v, %v\n%s", err, results, log)
	}
	var movers []*corev1beta1.Shoot
	for range 5 {
		movers = append(movers, m.on(here))
	}
	bound, created, fresh, other := m.on(here), m.on(here), m.newShoot(), m.on(there)
	m.mustPatch(bound, bind(third.Name), "binding")
	m.report(created, here.Name, corev1beta1.LastOperationTypeCreate, corev1beta1.LastOperationStateProcessing)
	m.Create(t, fresh)
	m.mustPatch(fresh, bind(here.Name), "binding")

	if _, log, err := m.drain(here); err == nil || !strings.Contains(err.Error(), "nothing is moved") ||
		!strings.Contains(log, "8 Shoots are on Seed") ||
		!strings.Contains(log, `kubectl patch seed `+here.Name) {
		t.Errorf("without a confirmation: %v\n%s", err, log)
	}
	var (
		results map[string]move.Result
		log     string
		err     error
		drained = make(chan struct{})
	)
	go func() {
		defer close(drained)
		results, log, err = m.drain(here, "--parallel", "2", "--yes")
	}()
	env.Eventually(t, "a Shoot is moved", func() (bool, error) {
		// From here on the drain follows the Shoot that is already bound.
		m.get(movers[0])
		return *movers[0].Spec.SeedName != here.Name, nil
	})
	stop := m.gardenlets(nobody)
	<-drained
	most := stop()
	if err != nil || most > 2 {
		t.Errorf("%d Shoots moved at once, want 2 at most; error %v\n%s", most, err, log)
	}
	on := map[string]int{}
	for _, s := range append(movers, bound) {
		m.get(s)
		r := results[s.Name]
		if *s.Status.SeedName == here.Name || r.To != *s.Status.SeedName || r.State != move.Moved || r.TookSeconds <= 0 {
			t.Errorf("Shoot %s is on %s: %+v", s.Name, *s.Status.SeedName, r)
		}
		on[*s.Status.SeedName]++
	}
	if on[there.Name] != 3 || on[third.Name] != 3 {
		// The scheduler chooses the Seed with fewer Shoots; one has a Shoot already.
		t.Errorf("the Shoots are on %v, want three on each of the others", on)
	}
	for _, s := range []*corev1beta1.Shoot{created, fresh} {
		if r := results[s.Name]; r.State != move.Left || !strings.Contains(r.Message, "being created") {
			t.Errorf("Shoot %s, which is being created: %+v", s.Name, r)
		}
	}
	if _, taken := results[other.Name]; taken || len(results) != 8 {
		t.Errorf("%d Shoots were drained, want 8: %v", len(results), results)
	}
}

func TestDrainStopsAfterFailures(t *testing.T) {
	m := newMovable(t)
	here, there, third := m.seeds[0], m.seeds[1], m.seeds[2]
	m.mustPatch(here, `{"spec":{"settings":{"scheduling":{"visible":false}}}}`)
	var movers []*corev1beta1.Shoot
	for range 6 {
		movers = append(movers, m.on(here))
	}
	stop := m.gardenlets(func(string) bool { return true })
	results, log, err := m.drain(here, "--to", there.Name, "--parallel", "2", "--failures", "2", "--yes")
	most := stop()
	count := func() map[move.State]int {
		states := map[move.State]int{}
		for _, r := range results {
			states[r.State]++
		}
		return states
	}
	if states := count(); err == nil || most > 2 || states[move.Failed] < 2 || states[move.Failed] > 3 ||
		states[move.Waiting] != 6-states[move.Failed] {
		t.Errorf("a drain that fails: %v, %v, %d at once\n%s", err, states, most, log)
	}
	if strings.Contains(log, "kubectl patch seed") {
		t.Errorf("the Seed takes no new Shoots:\n%s", log)
	}
	failed := 6 - count()[move.Waiting]

	// The same command moves the rest; Shoots whose restore has failed are no longer on the Seed.
	stop = m.gardenlets(nobody)
	results, log, err = m.drain(here, "--to", there.Name, "--yes")
	stop()
	if states := count(); err != nil || states[move.Moved] != 6-failed || len(results) != 6-failed {
		t.Errorf("the rest: %v, %v\n%s", err, states, log)
	}
	for _, s := range movers {
		if m.get(s); *s.Status.SeedName != there.Name {
			t.Errorf("Shoot %s is on %s", s.Name, *s.Status.SeedName)
		}
	}

	// An error of the API server is a failure of the Shoot, and the other moves are not started.
	refused := m.on(third)
	m.on(third)
	bare := newSeed()
	bare.Spec.Backup = nil
	m.Create(t, bare)
	results, log, err = m.drain(third, "--to", bare.Name, "--parallel", "1", "--failures", "1", "--yes")
	if states := count(); err == nil || states[move.Failed] != 1 || states[move.Waiting] != 1 ||
		!strings.Contains(log, "both have spec.backup") {
		t.Errorf("refused: %v, %v\n%s", err, states, log)
	}
	m.get(refused)
	for _, args := range [][]string{
		{"--parallel", "0"}, {"--failures", "0"}, {"--to", third.Name}, {"--strategy", "Best"}, {"-o", "xml"},
	} {
		if _, _, err := m.drain(third, args...); err == nil || !strings.Contains(err.Error(), args[0][:2]) {
			t.Errorf("%v: %v", args, err)
		}
	}
	results, log, err = m.drain(third, "--to", "nowhere", "--yes")
	if states := count(); err == nil || states[move.Failed] != 2 {
		t.Errorf("to a Seed that is not there: %v, %v\n%s", err, states, log)
	}
	if _, _, err := m.drain(&corev1beta1.Seed{
		ObjectMeta: metav1.ObjectMeta{Name: "nowhere"},
	}); !apierrors.IsNotFound(err) {
		t.Errorf("a Seed that is not there: %v", err)
	}
}
