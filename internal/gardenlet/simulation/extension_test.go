// Package simulation simulates the controllers of the gardenlet, and the extension contract between the gardenlet and
// extensions, see test/sim.
package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/test/sim"
)

const (
	controlPlane = "shoot--dev--s"
	finalizer    = extensionsv1alpha1.FinalizerPrefix + "infrastructure"
	// foreignFinalizer and foreignAnnotation belong to neither side.
	foreignFinalizer  = "example.com/foreign"
	foreignAnnotation = "example.com/foreign"
	// requests is the number of requests of a run. More find nothing else, but take longer.
	requests = 15
)

// infrastructure is the kind that stands for all.
type infrastructure = *extensionsv1alpha1.Infrastructure

// outside is what an extension has created: one object per Infrastructure, in a cluster that stands for a cloud.
func outside() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "outside", Name: "s"}}
}

// call is a call of the Actuator.
type call struct {
	uid        types.UID
	generation int64
	timestamp  string // Of the request.
	done       bool
}

// contract is a run: the objects of both sides, and what has happened.
type contract struct {
	*sim.World
	seed, cloud *sim.Cluster
	now         ticking

	calls    []call
	migrated bool  // What exists outside belongs to another seed.
	problem  error // Of a call that must not have happened, or of the owner.
	faulty   bool  // The extension fails at times.
	random   *rand.Rand
}

// actuator records its calls, and fails and waits at times.
type actuator struct {
	*contract
	cloud client.Client
}

// act is one call. It fails before or after it has made its change outside, or waits.
func (a *actuator) act(obj infrastructure, change func() error) (extension.Result, error) {
	one := call{obj.UID, obj.Generation, obj.Annotations[extensionsv1alpha1.AnnotationTimestamp], false}
	outcome := 0
	if a.faulty {
		outcome = a.random.IntN(6)
	}
	defer func() { a.calls = append(a.calls, one) }()
	if a.faulty && a.random.IntN(4) == 0 { // The call takes long enough for the next request.
		if err := a.next(); err != nil {
			a.problem = err
		}
	}
	if outcome == 1 {
		return extension.Result{}, errors.New("the cloud refuses")
	}
	if err := change(); err != nil {
		return extension.Result{}, err
	}
	obj.Status.NodesCIDR = new(strconv.FormatInt(obj.Generation, 10)) // Any field that only the extension writes.
	switch outcome {
	case 2:
		return extension.Result{}, errors.New("the cloud has a problem")
	case 3:
		return extension.Waiting("the cloud is busy", time.Duration(a.random.IntN(5))*time.Second), nil
	}
	one.done = true
	return extension.Done(), nil
}

// released fails a call for an object that the extension has released.
func (a *actuator) released(what string, obj infrastructure) {
	current := newInfrastructure()
	if a.seed.Exists(current) && current.UID == obj.UID && isMigrated(current) &&
		operation(current) != extensionsv1alpha1.OperationRestore {
		a.problem = fmt.Errorf("%s of a migrated object", what)
	}
}

func (a *actuator) create(ctx context.Context, obj infrastructure) error {
	current := outside()
	err := a.cloud.Get(ctx, client.ObjectKeyFromObject(current), current)
	data := map[string]string{"generation": strconv.FormatInt(obj.Generation, 10)}
	if apierrors.IsNotFound(err) {
		current.Data = data
		return a.cloud.Create(ctx, current)
	}
	if err != nil {
		return err
	}
	current.Data = data
	return a.cloud.Update(ctx, current)
}

func (a *actuator) Reconcile(
	ctx context.Context, obj infrastructure, _ *extension.Cluster,
) (extension.Result, error) {
	a.released("Reconcile", obj)
	return a.act(obj, func() error { return a.create(ctx, obj) })
}

func (a *actuator) Restore(ctx context.Context, obj infrastructure, _ *extension.Cluster) (extension.Result, error) {
	a.released("Restore", obj)
	return a.act(obj, func() error {
		a.migrated = false
		return a.create(ctx, obj)
	})
}

func (a *actuator) Migrate(_ context.Context, obj infrastructure, _ *extension.Cluster) (extension.Result, error) {
	return a.act(obj, func() error {
		a.migrated = a.cloudHas()
		return nil
	})
}

func (a *actuator) Delete(ctx context.Context, obj infrastructure, _ *extension.Cluster) (extension.Result, error) {
	a.released("Delete", obj)
	return a.act(obj, func() error { return client.IgnoreNotFound(a.cloud.Delete(ctx, outside())) })
}

func (a *actuator) ForceDelete(context.Context, infrastructure, *extension.Cluster) (extension.Result, error) {
	a.problem = errors.New("nobody has forced a deletion")
	return extension.Done(), nil
}

func newInfrastructure() infrastructure {
	i := &extensionsv1alpha1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Namespace: controlPlane, Name: "s"}}
	i.Spec.Type, i.Spec.Region = "simulated", "r"
	i.Spec.SecretRef = corev1.SecretReference{Namespace: controlPlane, Name: "cloudprovider"}
	return i
}

func credentials() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: controlPlane, Name: "cloudprovider"}}
}

func operation(i infrastructure) string { return i.Annotations[extensionsv1alpha1.AnnotationOperation] }

func last(i infrastructure, t corev1beta1.LastOperationType) (is, succeeded bool) {
	op := i.Status.LastOperation
	is = op != nil && op.Type == t
	return is, is && op.State == corev1beta1.LastOperationStateSucceeded
}

func isMigrated(i infrastructure) bool {
	_, succeeded := last(i, corev1beta1.LastOperationTypeMigrate)
	return succeeded
}

// answered is the ready test of the contract, as the gardenlet makes it.
func answered(i infrastructure) error {
	op := i.Status.LastOperation
	at, err := time.Parse(time.RFC3339Nano, i.Annotations[extensionsv1alpha1.AnnotationTimestamp])
	switch {
	case err != nil:
		return err
	case operation(i) != "":
		return fmt.Errorf("the request is pending: %s", operation(i))
	case op == nil || op.State != corev1beta1.LastOperationStateSucceeded || i.Status.LastError != nil:
		return fmt.Errorf("operation %+v, error %+v", op, i.Status.LastError)
	case i.Status.ObservedGeneration != i.Generation:
		return fmt.Errorf("observed generation %d of %d", i.Status.ObservedGeneration, i.Generation)
	case at.Truncate(time.Second).After(op.LastUpdateTime.Time):
		return fmt.Errorf("the success of %s is older than the request of %s", op.LastUpdateTime, at)
	}
	return nil
}

// request requests an operation.
func (c *contract) request(i infrastructure, operation string) {
	metav1.SetMetaDataAnnotation(&i.ObjectMeta, extensionsv1alpha1.AnnotationOperation, operation)
	metav1.SetMetaDataAnnotation(&i.ObjectMeta, extensionsv1alpha1.AnnotationTimestamp,
		c.now.Now().UTC().Format(time.RFC3339Nano))
}

func (c *contract) cloudHas() bool { return c.cloud.Exists(outside()) }

// next does what a gardenlet might do next.
func (c *contract) next() error {
	i := newInfrastructure()
	if !c.seed.Exists(i) {
		metav1.SetMetaDataAnnotation(&i.ObjectMeta, foreignAnnotation, "kept")
		c.request(i, extensionsv1alpha1.OperationReconcile)
		if c.migrated {
			c.request(i, extensionsv1alpha1.OperationWaitForState)
		}
		return c.seed.Create(context.Background(), i)
	}
	migrating, migrated := last(i, corev1beta1.LastOperationTypeMigrate)
	restoring, restored := last(i, corev1beta1.LastOperationTypeRestore)
	edit := func(op string, changes ...func()) error {
		return c.seed.Edit(i, func() {
			c.request(i, op)
			for _, change := range changes {
				change()
			}
		})
	}
	spec := func() { i.Spec.SSHPublicKey = append(i.Spec.SSHPublicKey, 'x') }
	finalizer := func() { controllerutil.AddFinalizer(i, foreignFinalizer) }
	switch op := operation(i); {
	case i.DeletionTimestamp != nil:
		return c.seed.Edit(i, func() {
			metav1.SetMetaDataAnnotation(&i.ObjectMeta, extensionsv1alpha1.AnnotationTimestamp,
				c.now.Now().UTC().Format(time.RFC3339Nano))
		})
	case op == extensionsv1alpha1.OperationWaitForState:
		return edit(extensionsv1alpha1.OperationRestore)
	case migrated && op == "":
		if c.random.IntN(2) == 0 {
			return edit(extensionsv1alpha1.OperationRestore, spec)
		}
		return c.seed.Delete(context.Background(), i)
	case migrating && op != extensionsv1alpha1.OperationRestore, op == extensionsv1alpha1.OperationMigrate:
		return edit(extensionsv1alpha1.OperationMigrate)
	case restoring && !restored, op == extensionsv1alpha1.OperationRestore:
		return edit(extensionsv1alpha1.OperationRestore, spec)
	}
	switch c.random.IntN(8) {
	case 0:
		return edit(extensionsv1alpha1.OperationMigrate)
	case 1:
		return c.seed.Delete(context.Background(), i)
	case 2:
		return edit(extensionsv1alpha1.OperationReconcile, spec)
	case 3:
		return edit(extensionsv1alpha1.OperationReconcile, finalizer)
	case 4:
		return c.seed.Edit(i, spec) // It requests nothing.
	}
	return edit(extensionsv1alpha1.OperationReconcile)
}

// saw reports whether there was such a call for the object.
func (c *contract) saw(i infrastructure, ok func(call) bool) bool {
	return slices.ContainsFunc(c.calls, func(one call) bool { return one.uid == i.UID && ok(one) })
}

// rules are what both sides rely on, after every write of anybody.
func (c *contract) rules() {
	c.Always("an object that was migrated is left alone", func() error { return c.problem })
	c.Always("what is reported has happened", func() error {
		i := newInfrastructure()
		if !c.seed.Exists(i) {
			return nil
		}
		if observed := i.Status.ObservedGeneration; observed > 0 &&
			!c.saw(i, func(one call) bool { return one.generation >= observed }) {
			return fmt.Errorf("no call has seen generation %d", observed)
		}
		requested := i.Annotations[extensionsv1alpha1.AnnotationTimestamp]
		again := isMigrated(i) // Nothing is left to do if that is requested again.
		if i.DeletionTimestamp == nil && answered(i) == nil && !c.saw(i, func(one call) bool {
			return one.done && one.generation == i.Generation && (again || one.timestamp == requested)
		}) {
			return fmt.Errorf("the request of %s counts as answered, but no call has seen it: %+v", requested, c.calls)
		}
		return nil
	})
	c.Always("finalizers stay while something exists outside", func() error {
		if !c.cloudHas() || c.migrated {
			return nil
		}
		i, s := newInfrastructure(), credentials()
		if !c.seed.Exists(i) || !controllerutil.ContainsFinalizer(i, finalizer) {
			return fmt.Errorf("object with finalizers %v", i.Finalizers)
		}
		if !c.seed.Exists(s) || !controllerutil.ContainsFinalizer(s, finalizer) {
			return fmt.Errorf("secret with finalizers %v", s.Finalizers)
		}
		return nil
	})
	foreign := types.UID("")
	c.Always("what belongs to others stays", func() error {
		i := newInfrastructure()
		if !c.seed.Exists(i) {
			return nil
		}
		if i.Annotations[foreignAnnotation] != "kept" {
			return fmt.Errorf("annotations %v", i.Annotations)
		}
		if controllerutil.ContainsFinalizer(i, foreignFinalizer) {
			foreign = i.UID
		} else if foreign == i.UID {
			return fmt.Errorf("finalizers %v", i.Finalizers)
		}
		return nil
	})
	c.Actor("the foreign finalizer is removed last", c.seed, func(context.Context, client.Client) error {
		i := newInfrastructure()
		if c.seed.Exists(i) && i.DeletionTimestamp != nil && slices.Equal(i.Finalizers, []string{foreignFinalizer}) {
			foreign = ""
			return c.seed.Edit(i, func() { i.Finalizers = nil })
		}
		return nil
	})
}

// settled: nothing that was requested is left to do.
func (c *contract) settled() error {
	i := newInfrastructure()
	switch {
	case !c.seed.Exists(i):
		if c.cloudHas() != c.migrated {
			return fmt.Errorf("exists outside: %t; belongs to another seed: %t", c.cloudHas(), c.migrated)
		}
		return nil
	case i.DeletionTimestamp != nil:
		return errors.New("it is still being deleted")
	case operation(i) == extensionsv1alpha1.OperationWaitForState:
		if c.saw(i, func(call) bool { return true }) {
			return errors.New("the extension has not waited for the state")
		}
		return nil
	case operation(i) == "" && isMigrated(i):
		if controllerutil.ContainsFinalizer(i, finalizer) {
			return errors.New("it has been migrated and still has the finalizer")
		}
		return nil
	}
	err := answered(i)
	if at := i.Annotations[extensionsv1alpha1.AnnotationTimestamp]; err != nil && operation(i) == "" &&
		i.Status.LastError == nil && i.Status.ObservedGeneration != i.Generation &&
		c.saw(i, func(one call) bool { return one.done && one.timestamp == at }) {
		return nil // The spec was changed later, and nobody has requested that.
	}
	return err
}

// Whatever the gardenlet requests, and whenever, the extension answers the last request and reports nothing else.
func TestSimulateExtensionContract(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		seed, cloud := w.Cluster("seed", sim.Scheme()), w.Cluster("cloud", sim.Scheme())
		seed.AddNamespaces(controlPlane)
		cloud.AddNamespaces("outside")
		shoot := &extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: controlPlane}}
		shoot.Spec.Shoot = runtime.RawExtension{Raw: []byte(`{}`)}
		seed.Add(shoot, credentials())
		c := &contract{
			World: w, seed: seed, cloud: cloud, now: newTicking(w), faulty: true,
			random: rand.New(rand.NewPCG(w.Random.Uint64(), 0)),
		}
		w.Process("extension", seed, func(p *sim.Process) error {
			return (&extension.Reconciler[infrastructure]{
				Client: p.GetClient(), Clock: clock.RealClock{}, // Of the bubble.
				Actuator:  &actuator{c, p.In(cloud).Direct()},
				Prototype: &extensionsv1alpha1.Infrastructure{}, Kind: extensionsv1alpha1.InfrastructureKind, Type: "simulated",
				SecretRef: func(i infrastructure) *corev1.SecretReference { return &i.Spec.SecretRef },
			}).SetupWithManager(p, nil)
		})
		c.rules()
		w.Overlap()
		for n := range requests {
			w.Change(fmt.Sprintf("request %d", n), seed, func(context.Context, client.Client) error { return c.next() })
		}
		w.Faults(200)
		c.faulty = false
		w.Eventually(200, "the last request is answered", c.settled)

		c.faulty = true
		w.Change("delete", seed, func(ctx context.Context, k client.Client) error {
			return client.IgnoreNotFound(k.Delete(ctx, newInfrastructure()))
		})
		w.Faults(40)
		c.faulty = false
		w.Eventually(200, "everything is gone", func() error {
			if s := credentials(); !seed.Exists(s) || len(s.Finalizers) > 0 {
				return fmt.Errorf("secret with finalizers %v", s.Finalizers)
			}
			if err := seed.Gone(newInfrastructure()); err != nil {
				return err
			}
			return c.settled()
		})
	})
}
