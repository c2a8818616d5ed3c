package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension/worker"
	"hortus.dev/hortus/internal/gardenlet/shootstate"
	"hortus.dev/hortus/internal/maintenance"
	"hortus.dev/hortus/test/sim"
)

// stateSync is the period of comparisons without an event.
const stateSync = time.Hour

// stateRun is a Shoot whose control plane is on one of the seeds a and b.
type stateRun struct {
	*sim.World
	garden *sim.Cluster
	seeds  map[string]*sim.Cluster
	// truth has what must not be lost: the parts of the control plane, each with the number of its last change.
	truth map[string]int
	// saved is the ShootState at its version seen; sealed its spec after the state had been sealed, until it is restored.
	saved        map[string]int
	seen, sealed string
	lost         bool // Seed a was given up.
	problem      error
}

// The parts of a control plane besides its machines, see truth.
const (
	partCA, partSSH = "ca", "ssh"       // Secrets.
	partInfra       = "infra"           // The state of the Infrastructure.
	partLate        = "late"            // The state of an Extension that is migrated last.
	partReferenced  = "terraform"       // A ConfigMap to which the Infrastructure's state refers.
	machinePrefix   = "machine-"        // Of the names of machines.
	pool            = "pool"            // The MachineDeployment of all machines.
	frozen          = "example.com/off" // Annotation of an object whose extension has been migrated.
)

func newStateRun(w *sim.World) *stateRun {
	r := &stateRun{World: w, truth: map[string]int{}, seeds: map[string]*sim.Cluster{}}
	scheme := sim.Scheme()
	if err := machinev1alpha1.AddToScheme(scheme); err != nil {
		w.T.Fatal(err)
	}
	r.garden = w.Cluster("garden", sim.Scheme())
	r.garden.AddNamespaces("garden-dev")
	for _, name := range []string{"a", "b"} {
		seed := w.Cluster("seed-"+name, scheme)
		seed.AddNamespaces(controlPlane)
		r.seeds[name] = seed
	}
	for _, name := range []string{"a", "b"} {
		w.Process("gardenlet-"+name, r.garden, func(p *sim.Process) error { return r.gardenlet(p, name) })
	}
	w.Actor("what is left of the control plane is removed", r.garden, r.removeLeftovers)
	return r
}

// gardenlet saves ShootStates, and moves control planes.
func (r *stateRun) gardenlet(p *sim.Process, name string) error {
	seed, garden := p.In(r.seeds[name]), p.In(r.garden).Direct()
	states := &shootstate.States{Garden: garden, Seed: seed.Direct(), Clock: r.Clock(), SeedName: name}
	saver := &shootstate.Reconciler{
		Garden: garden, Shoots: p.GetClient(), Clock: r.Clock(), Events: p.GetEventRecorder("gardenlet"), States: states,
		SyncPeriod: stateSync, Jitter: maintenance.HashJitter(0),
	}
	m := &mover{stateRun: r, name: name, garden: garden, seed: seed.Direct(), states: states}
	return errors.Join(m.addToManager(p),
		saver.AddToManager(p, seed.NewCache(shootstate.CacheOptions(r.seeds[name].Scheme())), 1))
}

func movedShoot() *corev1beta1.Shoot {
	s := named[corev1beta1.Shoot]("garden-dev", "s")
	s.Finalizers = []string{corev1beta1.FinalizerName}
	s.Spec.SeedName, s.Status.SeedName, s.Status.TechnicalID = ptr.To("a"), ptr.To("a"), controlPlane
	s.Status.LastOperation = &corev1beta1.LastOperation{
		Type: corev1beta1.LastOperationTypeCreate, State: corev1beta1.LastOperationStateProcessing,
	}
	return s
}

func stateOfMoved() *corev1beta1.ShootState { return named[corev1beta1.ShootState]("garden-dev", "s") }

// lastOperationIs reports whether the last operation is of the type, and whether it has succeeded.
func lastOperationIs(s *corev1beta1.Shoot, t corev1beta1.LastOperationType) (is, succeeded bool) {
	op := s.Status.LastOperation
	is = op != nil && op.Type == t
	return is, is && op.State == corev1beta1.LastOperationStateSucceeded
}

// arriving: the control plane has to be restored on the seed in the status.
func arriving(s *corev1beta1.Shoot) bool {
	restore, restored := lastOperationIs(s, corev1beta1.LastOperationTypeRestore)
	_, migrated := lastOperationIs(s, corev1beta1.LastOperationTypeMigrate)
	return restore && !restored || migrated
}

// home is the seed whose control plane may change a part now; nil if none may.
func (r *stateRun) home(part string) *sim.Cluster {
	s := movedShoot()
	if !r.garden.Exists(s) || s.DeletionTimestamp != nil || arriving(s) {
		return nil
	}
	seed := r.seeds[*s.Status.SeedName]
	moving, _ := lastOperationIs(s, corev1beta1.LastOperationTypeMigrate)
	switch o := extensionWith(part); {
	case !moving:
	case o == nil, !seed.Exists(o), o.GetAnnotations()[frozen] != "": // Nothing else changes during a move.
		return nil
	}
	return seed
}

// extensionWith is the extension object whose state is the part; nil if it is another part.
func extensionWith(part string) extensionsv1alpha1.Object {
	switch part {
	case partInfra:
		return named[extensionsv1alpha1.Infrastructure](controlPlane, "s")
	case partLate:
		return named[extensionsv1alpha1.Extension](controlPlane, "late")
	}
	return nil
}

// put gives a part of the control plane a value.
func (r *stateRun) put(seed client.Client, part string, value int) error {
	ctx := context.Background()
	if o := extensionWith(part); o != nil {
		if err := client.IgnoreAlreadyExists(seed.Create(ctx, o)); err != nil {
			return err
		}
		return writeState(ctx, seed, o, &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"value":%d}`, value)}, part)
	}
	var o client.Object
	switch {
	case part == partReferenced:
		c := named[corev1.ConfigMap](controlPlane, part)
		c.Data = map[string]string{"value": fmt.Sprint(value)}
		o = c
	case part == pool:
		o = named[machinev1alpha1.MachineDeployment](controlPlane, pool)
	case strings.HasPrefix(part, machinePrefix):
		m := named[machinev1alpha1.Machine](controlPlane, part)
		m.Labels, m.Spec.ProviderID = map[string]string{"name": pool}, part
		o = m
	default:
		s := named[corev1.Secret](controlPlane, part)
		s.Labels = map[string]string{"persist": "true", "name": part}
		s.Data = map[string][]byte{"value": []byte(fmt.Sprint(value))}
		o = s
	}
	err := seed.Create(ctx, o.DeepCopyObject().(client.Object))
	if client.IgnoreAlreadyExists(err) == nil && err != nil {
		return seed.Update(ctx, o)
	}
	return err
}

// writeState does what an extension does. The state of the Infrastructure refers to a ConfigMap.
func writeState(
	ctx context.Context, seed client.Client, o extensionsv1alpha1.Object, state *runtime.RawExtension, part string,
) error {
	if err := seed.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		return err
	}
	status := o.GetDefaultStatus()
	status.State = state
	if part == partInfra {
		ref := extensionsv1alpha1.NamedResourceReference{Name: partReferenced}
		ref.ResourceRef.APIVersion, ref.ResourceRef.Kind, ref.ResourceRef.Name = "v1", "ConfigMap", partReferenced
		status.Resources = []extensionsv1alpha1.NamedResourceReference{ref}
	}
	return seed.Status().Update(ctx, o)
}

// valueOf reads a state.
func valueOf(state *runtime.RawExtension) (value int, ok bool) {
	var v struct{ Value int }
	ok = state != nil && json.Unmarshal(state.Raw, &v) == nil
	return v.Value, ok
}

// contents are the parts of the control plane that a seed has.
func (r *stateRun) contents(seed *sim.Cluster) map[string]int {
	out := map[string]int{}
	for _, part := range []string{partInfra, partLate} {
		if o := extensionWith(part); seed.Exists(o) {
			out[part], _ = valueOf(o.GetDefaultStatus().State)
		}
	}
	for _, part := range []string{partCA, partSSH} {
		if s := named[corev1.Secret](controlPlane, part); seed.Exists(s) {
			out[part] = number(string(s.Data["value"]))
		}
	}
	if c := named[corev1.ConfigMap](controlPlane, partReferenced); seed.Exists(c) {
		out[partReferenced] = number(c.Data["value"])
	}
	machines := &machinev1alpha1.MachineList{}
	if err := seed.List(context.Background(), machines); err != nil {
		r.problem = err
	}
	for i := range machines.Items {
		out[machines.Items[i].Name] = 1
	}
	return out
}

func number(text string) (n int) {
	_, _ = fmt.Sscan(text, &n)
	return n
}

// decode returns the parts that a ShootState has.
func decode(state *corev1beta1.ShootState) (map[string]int, error) {
	out, saved := map[string]int{}, shootstate.New(state)
	secrets, err := saved.Secrets(controlPlane)
	if err != nil {
		return nil, err
	}
	for _, s := range secrets {
		out[s.Name] = number(string(s.Data["value"]))
	}
	for _, part := range []string{partInfra, partLate} {
		state, _ := saved.StateOfObject(extensionWith(part))
		if value, ok := valueOf(state); ok {
			out[part] = value
		}
	}
	resources, err := saved.Resources(controlPlane)
	if err != nil {
		return nil, err
	}
	for _, u := range resources {
		data, _ := u.Object["data"].(map[string]any)
		out[u.GetName()] = number(fmt.Sprint(data["value"]))
	}
	machines, err := worker.DecodeState(saved.Machines())
	for _, m := range machines[pool].Machines {
		out[m.Name] = 1
	}
	return out, err
}

// rules hold after each write.
func (r *stateRun) rules() {
	r.Always("a control plane is restored as it was", func() error { return r.problem })
	r.Always("what is saved is of the control plane, and is not lost while it lives", func() error {
		state, shoot := stateOfMoved(), movedShoot()
		if !r.garden.Exists(state) {
			return is(len(r.saved) == 0 || !r.garden.Exists(shoot), "the ShootState is gone")
		}
		if state.ResourceVersion == r.seen {
			return nil
		}
		now, err := decode(state)
		if err != nil {
			return err
		}
		before := r.saved
		r.saved, r.seen = now, state.ResourceVersion
		for part, value := range before {
			if _, lives := r.truth[part]; lives && now[part] < value {
				return fmt.Errorf("part %s was saved with value %d, and is %d", part, value, now[part])
			}
		}
		for part, value := range now {
			if newest, lives := r.truth[part]; lives && value > newest {
				return fmt.Errorf("part %s is saved with value %d, and has %d", part, value, newest)
			}
		}
		return nil
	})
	r.Always("a sealed state stays until it is restored", func() error {
		if r.sealed == "" {
			return nil
		}
		now := stateOfMoved()
		return is(r.garden.Exists(now) && specOf(now) == r.sealed, "sealed was %s, now there is %s", r.sealed, specOf(now))
	})
}

func specOf(state *corev1beta1.ShootState) string {
	raw, err := json.Marshal(state.Spec)
	return fmt.Sprint(string(raw), err)
}

// change changes a part of the control plane where it is.
func (r *stateRun) change(part string) {
	r.Change("change "+part, r.garden, func(context.Context, client.Client) error {
		seed := r.home(part)
		if _, lives := r.truth[part]; seed == nil || !lives || r.truth[part] > 0 && r.contents(seed)[part] == 0 {
			return nil
		}
		r.truth[part]++
		return r.put(seed, part, r.truth[part])
	})
}

// replaceMachine creates a machine and deletes the one before.
func (r *stateRun) replaceMachine(n int) {
	now := fmt.Sprint(machinePrefix, n)
	r.Change("create "+now, r.garden, func(ctx context.Context, _ client.Client) error {
		seed, old := r.home(now), ""
		if seed == nil {
			return nil
		}
		for part := range r.truth {
			if strings.HasPrefix(part, machinePrefix) {
				old = part
			}
		}
		delete(r.truth, old)
		r.truth[now] = 1
		return errors.Join(remove(named[machinev1alpha1.Machine](controlPlane, old))(ctx, seed), r.put(seed, now, 1))
	})
}

// bind records that the control plane is to run on a seed, unless nothing of it has ever been saved.
func (r *stateRun) bind(name string) {
	r.Change("bind to seed "+name, r.garden, func(context.Context, client.Client) error {
		s := movedShoot()
		if len(r.saved) == 0 || r.lost {
			return nil
		}
		return r.garden.Edit(s, func() { s.Spec.SeedName = ptr.To(name) })
	})
}

// operate is what happens to the Shoot besides moves.
func (r *stateRun) operate(state corev1beta1.LastOperationState) {
	r.Change("reconciliation: "+string(state), r.garden, func(context.Context, client.Client) error {
		s := movedShoot()
		if r.home("") == nil {
			return nil
		}
		return r.garden.EditStatus(s, func() {
			s.Status.LastOperation = &corev1beta1.LastOperation{Type: corev1beta1.LastOperationTypeReconcile, State: state}
		})
	})
}

// loseSecrets deletes all Secrets by mistake, and with them what the referenced ConfigMap holds.
func (r *stateRun) loseSecrets(context.Context, client.Client) error {
	seed := r.home("")
	if seed == nil || r.saved[partCA] != r.truth[partCA] || r.saved[partSSH] != r.truth[partSSH] {
		return nil
	}
	ctx := context.Background()
	objects := []client.Object{named[corev1.Secret](controlPlane, partCA), named[corev1.Secret](controlPlane, partSSH)}
	if r.saved[partReferenced] == r.truth[partReferenced] {
		objects = append(objects, named[corev1.ConfigMap](controlPlane, partReferenced))
	}
	var errs []error
	for _, o := range objects {
		errs = append(errs, remove(o)(ctx, seed))
	}
	return errors.Join(errs...)
}

// repair creates again what was lost by mistake, from what is saved.
func (r *stateRun) repair(context.Context, client.Client) error {
	s := movedShoot()
	if !r.garden.Exists(s) || arriving(s) || r.sealed != "" {
		return nil
	}
	seed := r.seeds[*s.Status.SeedName]
	have := r.contents(seed)
	var errs []error
	for _, part := range []string{partCA, partSSH, partReferenced} {
		if _, ok := have[part]; !ok && r.saved[part] > 0 {
			errs = append(errs, r.put(seed, part, r.saved[part]))
		}
	}
	return errors.Join(errs...)
}

// spoil changes the ShootState by hand.
func (r *stateRun) spoil(context.Context, client.Client) error {
	state := stateOfMoved()
	if !r.garden.Exists(state) || r.sealed != "" || r.home("") == nil || len(state.Spec.Extensions) == 0 {
		return nil
	}
	if err := r.garden.Edit(state, func() { state.Spec.Extensions = state.Spec.Extensions[1:] }); err != nil {
		return err
	}
	var err error
	r.saved, err = decode(state)
	r.seen = state.ResourceVersion
	return err
}

// takeOver is all that happens when seed a cannot be reached for a while and is given up: seed b restores the control
// plane, saves its state, and changes a part. What seed a has from then on must not be saved.
func (r *stateRun) takeOver(ctx context.Context, _ client.Client) error {
	s, state := movedShoot(), stateOfMoved()
	if !r.garden.Exists(s) || *s.Status.SeedName != "a" || !r.garden.Exists(state) || len(r.saved) != len(r.truth) ||
		arriving(s) {
		return nil
	}
	r.truth, r.sealed, r.lost = maps.Clone(r.saved), "", true
	if err := empty(ctx, r.seeds["b"]); err != nil {
		return err
	}
	for _, part := range slices.Sorted(maps.Keys(r.truth)) {
		if err := r.put(r.seeds["b"], part, r.truth[part]); err != nil {
			return err
		}
	}
	for _, part := range []string{partCA, partInfra} { // What the lost seed still does.
		if _, ok := r.contents(r.seeds["a"])[part]; ok {
			if err := r.put(r.seeds["a"], part, 1000); err != nil {
				return err
			}
		}
	}
	if err := r.put(r.seeds["b"], pool, 0); err != nil {
		return err
	}
	r.truth[partCA]++
	if err := r.put(r.seeds["b"], partCA, r.truth[partCA]); err != nil {
		return err
	}
	if err := r.garden.Edit(s, func() { s.Spec.SeedName = ptr.To("b") }); err != nil {
		return err
	}
	if err := r.garden.EditStatus(s, func() {
		s.Status.SeedName = ptr.To("b")
		s.Status.LastOperation = &corev1beta1.LastOperation{
			Type: corev1beta1.LastOperationTypeRestore, State: corev1beta1.LastOperationStateSucceeded,
		}
	}); err != nil {
		return err
	}
	_, err := (&shootstate.States{Garden: r.garden, Seed: r.seeds["b"], Clock: r.Clock(), SeedName: "b"}).Save(ctx, s)
	return err
}

// removeLeftovers deletes what a former seed still has, once the control plane runs elsewhere.
func (r *stateRun) removeLeftovers(ctx context.Context, _ client.Client) error {
	s := movedShoot()
	if !r.garden.Exists(s) || arriving(s) {
		return nil
	}
	for _, name := range []string{"a", "b"} {
		seed := r.seeds[name]
		if *s.Status.SeedName != name && *s.Spec.SeedName != name {
			if err := empty(ctx, seed); err != nil {
				return err
			}
		}
	}
	return nil
}

// empty deletes everything in the control plane namespace, the objects of extensions first.
func empty(ctx context.Context, seed client.Client) error {
	for _, o := range []client.Object{
		&machinev1alpha1.MachineDeployment{}, &machinev1alpha1.Machine{}, &extensionsv1alpha1.Infrastructure{},
		&extensionsv1alpha1.Extension{}, &corev1.ConfigMap{}, &corev1.Secret{},
	} {
		if err := seed.DeleteAllOf(ctx, o, client.InNamespace(controlPlane)); err != nil {
			return err
		}
	}
	return nil
}

// allSaved: the ShootState has exactly what the control plane has.
func (r *stateRun) allSaved() error {
	s, state := movedShoot(), stateOfMoved()
	if !r.garden.Exists(s) || !r.garden.Exists(state) {
		return errors.New("there is no ShootState")
	}
	saved, err := decode(state)
	if err != nil {
		return err
	}
	have := r.contents(r.seeds[*s.Status.SeedName])
	owner := metav1.GetControllerOf(state)
	return is(!arriving(s) && ptr.Equal(s.Status.SeedName, s.Spec.SeedName) && maps.Equal(saved, r.truth) &&
		maps.Equal(have, r.truth) && owner != nil && owner.UID == s.UID && shootstate.New(state).CompleteFrom() == "",
		"operation %+v, saved %v, the seed has %v, wanted %v, annotations %v", s.Status.LastOperation, saved, have, r.truth,
		state.Annotations)
}

// rests fails if anything is written in hours in which nothing happens.
func (r *stateRun) rests() {
	before := r.garden.Writes()
	r.Idle(3 * stateSync)
	r.Eventually(5, "nothing is written without a reason", func() error {
		return is(r.garden.Writes() == before, "%d writes have become %d", before, r.garden.Writes())
	})
}

// The ShootState follows the control plane from seed to seed, has all that another seed needs whenever that may be, and
// has nothing of a seed that was given up.
func TestSimulateShootStates(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		r := newStateRun(w)
		r.garden.Add(movedShoot())
		for _, part := range []string{partCA, partSSH, partInfra, partLate, partReferenced, machinePrefix + "0"} {
			r.truth[part] = 1
		}
		parts := slices.Sorted(maps.Keys(r.truth))
		w.Change("the control plane is created", r.garden, func(context.Context, client.Client) error {
			errs := []error{r.put(r.seeds["a"], pool, 0)}
			for _, part := range parts {
				errs = append(errs, r.put(r.seeds["a"], part, 1))
			}
			return errors.Join(errs...)
		})
		r.rules()
		w.Overlap()
		r.lives()
		w.Faults(250)
		w.Change("what was lost is repaired", r.garden, r.repair)
		w.Faults(1)
		w.Eventually(300, "everything is saved", r.allSaved)
		r.rests()

		w.Change("delete the Shoot", r.garden, remove(movedShoot()))
		w.Change("the control plane is deleted", r.garden, func(ctx context.Context, _ client.Client) error {
			s := movedShoot()
			r.garden.Exists(s)
			return empty(ctx, r.seeds[*s.Status.SeedName])
		})
		w.Faults(40)
		w.Eventually(100, "a Shoot in deletion keeps its ShootState", func() error {
			return is(maps.Equal(r.saved, r.truth), "saved %v, wanted %v", r.saved, r.truth)
		})
		w.Change("the Shoot is gone", r.garden, func(context.Context, client.Client) error {
			s := movedShoot()
			return r.garden.Edit(s, func() { s.Finalizers = nil })
		})
		w.Faults(20)
		w.Eventually(100, "its ShootState is gone", func() error { return r.garden.Gone(stateOfMoved()) })
	})
}

// lives is what happens to the Shoot between its creation and its deletion.
func (r *stateRun) lives() {
	r.operate(corev1beta1.LastOperationStateProcessing)
	r.operate(corev1beta1.LastOperationStateSucceeded)
	machine, takeOver := 0, r.Random.IntN(30)
	for i := range 24 {
		if i == takeOver {
			r.Change("seed a is given up", r.garden, r.takeOver)
		}
		switch r.Random.IntN(16) {
		case 0, 1:
			r.change(partCA)
		case 2:
			r.change(partSSH)
		case 3, 4:
			r.change(partInfra)
		case 5:
			r.change(partLate)
		case 6, 7:
			r.change(partReferenced)
		case 8, 9:
			machine++
			r.replaceMachine(machine)
		case 10:
			r.operate(corev1beta1.LastOperationStateSucceeded)
		case 11:
			r.Change("Secrets are lost", r.garden, r.loseSecrets)
		case 12:
			r.Change("what was lost is repaired", r.garden, r.repair)
		case 13:
			r.Change("the ShootState is spoiled", r.garden, r.spoil)
		case 14, 15:
			r.bind([]string{"a", "b"}[r.Random.IntN(2)])
		}
	}
}
