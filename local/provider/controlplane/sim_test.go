package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/local/provider/cloudcontroller"
	"hortus.dev/hortus/local/provider/v1alpha1"
	"hortus.dev/hortus/test/sim"
)

const (
	finalizer        = extensionsv1alpha1.FinalizerPrefix + "controlplane"
	finalizerManager = "resources.gardener.cloud/gardener-resource-manager"
)

// plane is a run: the control plane of a Shoot in a seed.
type plane struct {
	*sim.World
	seed     *sim.Cluster
	requests int
	last     time.Time // Of the requests.
}

func newPlane(w *sim.World) *plane {
	p := &plane{World: w, seed: w.Cluster("seed", sim.Scheme()).Uncached(&corev1.Secret{}, &corev1.Namespace{},
		&coordinationv1.Lease{}, &extensionsv1alpha1.Cluster{}, &resourcesv1alpha1.ManagedResource{})}
	p.seed.AddNamespaces(newControlPlane().Namespace)
	p.seed.Add(clusterObject(false), apiServerOf(1))
	w.Process("provider-local", p.seed, func(m *sim.Process) error {
		a := &Actuator{Client: m.GetClient(), Image: "image"}
		r := &extension.Reconciler[*extensionsv1alpha1.ControlPlane]{
			Client: m.GetClient(), Clock: w.Clock(), Prototype: &extensionsv1alpha1.ControlPlane{},
			Kind: extensionsv1alpha1.ControlPlaneKind, Type: v1alpha1.Type, Actuator: a,
		}
		if err := r.SetupWithManager(m, a.Watch); err != nil {
			return err
		}
		return (&Health{Client: m.GetClient(), Clock: w.Clock()}).SetupWithManager(m)
	})
	w.Actor("Deployments are carried out", p.seed, p.deploy)
	w.Actor("the resource-manager works", p.seed, p.manage)
	return p
}

func clusterObject(hibernated bool) *extensionsv1alpha1.Cluster {
	c := newCluster(hibernated)
	raw, err := json.Marshal(c.Shoot)
	if err != nil {
		panic(err)
	}
	c.Object.Name, c.Object.Spec.Shoot = newControlPlane().Namespace, runtime.RawExtension{Raw: raw}
	return c.Object
}

func inNamespace[T any, P interface {
	*T
	client.Object
}](name string) P {
	o := P(new(T))
	o.SetNamespace(newControlPlane().Namespace)
	o.SetName(name)
	return o
}

func apiServerOf(replicas int32) *appsv1.Deployment {
	d := inNamespace[appsv1.Deployment](apiServer)
	d.Spec.Replicas = &replicas
	return d
}

func controller() *appsv1.Deployment { return inNamespace[appsv1.Deployment](deployment) }

func access() *corev1.Secret { return inNamespace[corev1.Secret](cloudcontroller.AccessSecret) }

func managed(name string) *resourcesv1alpha1.ManagedResource {
	return inNamespace[resourcesv1alpha1.ManagedResource](name)
}

func managedSecret(name string) *corev1.Secret {
	return inNamespace[corev1.Secret]("managedresource-" + name)
}

// deploy acts as the controller of Deployments.
func (p *plane) deploy(context.Context, client.Client) error {
	for _, name := range []string{apiServer, deployment} {
		d := inNamespace[appsv1.Deployment](name)
		if !p.seed.Exists(d) || d.Status.ObservedGeneration == d.Generation {
			continue
		}
		n := ptr.Deref(d.Spec.Replicas, 1)
		return p.seed.EditStatus(d, func() {
			d.Status = appsv1.DeploymentStatus{
				ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, AvailableReplicas: n,
			}
		})
	}
	return nil
}

// manage acts as the resource-manager, which runs with the API server.
func (p *plane) manage(context.Context, client.Client) error {
	if server := apiServerOf(0); !p.seed.Exists(server) || *server.Spec.Replicas == 0 {
		return nil
	}
	for _, name := range []string{managedResourceShoot, managedResourceStorage} {
		mr := managed(name)
		if !p.seed.Exists(mr) {
			continue
		}
		change := controllerutil.AddFinalizer
		if !mr.DeletionTimestamp.IsZero() {
			change = controllerutil.RemoveFinalizer
		}
		if err := p.seed.Edit(mr, func() { change(mr, finalizerManager) }); err != nil {
			return err
		}
	}
	return nil
}

// request lets the gardenlet request an operation, after it has changed the object.
func (p *plane) request(what, operation string, change func(*extensionsv1alpha1.ControlPlane)) {
	p.Change(what, p.seed, func(ctx context.Context, c client.Client) error {
		cp := newControlPlane()
		exists := p.seed.Exists(cp)
		cp.Spec.Type = v1alpha1.Type
		p.last = time.Now().Add(time.Duration(p.requests)) // No two are made at the same time.
		p.requests++
		metav1.SetMetaDataAnnotation(&cp.ObjectMeta, extensionsv1alpha1.AnnotationOperation, operation)
		metav1.SetMetaDataAnnotation(&cp.ObjectMeta, extensionsv1alpha1.AnnotationTimestamp,
			p.last.UTC().Format(time.RFC3339Nano))
		if change != nil {
			change(cp)
		}
		if !exists {
			return c.Create(ctx, cp)
		}
		return c.Update(ctx, cp)
	})
}

// scale starts or stops the API server.
func (p *plane) scale(what string, replicas int32) {
	p.Change(what, p.seed, func(context.Context, client.Client) error {
		d := apiServerOf(0)
		return p.seed.Edit(d, func() { d.Spec.Replicas = &replicas })
	})
}

func (p *plane) hibernate(what string, hibernated bool) {
	p.Change(what, p.seed, func(context.Context, client.Client) error {
		c := clusterObject(hibernated)
		spec := c.Spec
		return p.seed.Edit(c, func() { c.Spec = spec })
	})
}

func storage(disabled bool) func(*extensionsv1alpha1.ControlPlane) {
	return func(cp *extensionsv1alpha1.ControlPlane) {
		cp.Spec.ProviderConfig = &runtime.RawExtension{Raw: []byte(
			`{"apiVersion":"local.provider.hortus.dev/v1alpha1","kind":"ControlPlaneConfig","storage":{"disabled":` +
				strconv.FormatBool(disabled) + `}}`)}
	}
}

func operationOf(cp *extensionsv1alpha1.ControlPlane) string {
	return cp.Annotations[extensionsv1alpha1.AnnotationOperation]
}

func succeeded(cp *extensionsv1alpha1.ControlPlane, t corev1beta1.LastOperationType) bool {
	op := cp.Status.LastOperation
	return op != nil && op.Type == t && op.State == corev1beta1.LastOperationStateSucceeded
}

// rules hold after every write of anybody.
func (p *plane) rules() {
	p.Always("what runs has an owner", func() error {
		cp := newControlPlane()
		owned := p.seed.Exists(cp) && controllerutil.ContainsFinalizer(cp, finalizer)
		if !owned && p.seed.Exists(controller()) {
			return fmt.Errorf("the cloud controller runs for a ControlPlane with finalizers %v", cp.Finalizers)
		}
		return nil
	})
	p.Always("after a migration, no cloud controller runs", func() error {
		cp := newControlPlane()
		if p.seed.Exists(cp) && succeeded(cp, corev1beta1.LastOperationTypeMigrate) &&
			operationOf(cp) != extensionsv1alpha1.OperationRestore && (p.seed.Exists(controller()) || p.seed.Exists(access())) {
			return errors.New("it runs")
		}
		return nil
	})
	p.Always("a migration leaves the objects of the Shoot", func() error {
		cp := newControlPlane()
		if !p.seed.Exists(cp) || !cp.DeletionTimestamp.IsZero() ||
			cp.Status.LastOperation == nil || cp.Status.LastOperation.Type != corev1beta1.LastOperationTypeMigrate {
			return nil
		}
		if mr := managed(managedResourceShoot); !p.seed.Exists(mr) || !mr.DeletionTimestamp.IsZero() {
			return fmt.Errorf("ManagedResource %s is deleted", mr.Name)
		}
		return nil
	})
}

// complete fails unless everything follows the ControlPlane, the Shoot and its API server.
func (p *plane) complete(replicas int32, withStorage bool) error {
	cp := newControlPlane()
	if !p.seed.Exists(cp) || operationOf(cp) != "" || cp.Status.ObservedGeneration != cp.Generation ||
		cp.Status.LastOperation == nil || cp.Status.LastOperation.State != corev1beta1.LastOperationStateSucceeded ||
		p.last.Truncate(time.Second).After(cp.Status.LastOperation.LastUpdateTime.Time) {
		return fmt.Errorf("request %q, status %+v", operationOf(cp), cp.Status.LastOperation)
	}
	d := controller()
	if !p.seed.Exists(d) || ptr.Deref(d.Spec.Replicas, 1) != replicas {
		return fmt.Errorf("the cloud controller has %d replicas", ptr.Deref(d.Spec.Replicas, -1))
	}
	if !p.seed.Exists(access()) {
		return errors.New("the cloud controller has no access")
	}
	for name, wanted := range map[string]bool{managedResourceShoot: true, managedResourceStorage: withStorage} {
		mr := managed(name)
		exists := p.seed.Exists(mr)
		if exists != wanted || !mr.DeletionTimestamp.IsZero() || p.seed.Exists(managedSecret(name)) != wanted {
			return fmt.Errorf("ManagedResource %s exists: %t, its deletion is %v", name, exists, mr.DeletionTimestamp)
		}
	}
	want := healthy(d)
	for _, got := range cp.Status.Conditions {
		if got.Type == want.Type && got.Status == want.Status && got.Reason == want.Reason {
			return nil
		}
	}
	return fmt.Errorf("conditions are %+v, want %+v", cp.Status.Conditions, want)
}

// The cloud controller follows hibernation, wake-ups and its configuration, and its ControlPlane reports its health.
func TestSimulateControlPlanes(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		p := newPlane(w)
		p.rules()
		w.Overlap()
		p.request("the ControlPlane comes", extensionsv1alpha1.OperationReconcile, nil)
		p.request("storage is disabled", extensionsv1alpha1.OperationReconcile, storage(true))
		p.request("storage is enabled", extensionsv1alpha1.OperationReconcile, storage(false))
		w.Faults(80)
		w.Eventually(100, "it is complete", func() error { return p.complete(1, true) })

		// The gardenlet does not reconcile the ControlPlane of a hibernated Shoot.
		p.hibernate("the Shoot is hibernated", true)
		p.scale("its API server is stopped", 0)
		runs, disabled := int32(w.Random.IntN(2)), w.Random.IntN(2) == 0
		for range 2 {
			p.scale("its API server is started, for the deletion of the Shoot", 1)
			p.scale("its API server is stopped", 0)
		}
		p.scale("its API server stays", runs)
		w.Faults(60)
		w.Eventually(100, "the cloud controller follows the API server", func() error { return p.complete(runs, true) })

		p.hibernate("the Shoot is woken up", false)
		p.scale("its API server runs", 1)
		p.request("it is reconciled", extensionsv1alpha1.OperationReconcile, storage(disabled))
		w.Faults(40)
		w.Eventually(100, "it is complete again", func() error { return p.complete(1, !disabled) })
	})
}

// A ControlPlane that moves stops its cloud controller and leaves the rest. One that is deleted leaves nothing.
func TestSimulateEndOfControlPlanes(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		p := newPlane(w)
		p.rules()
		w.Overlap()
		p.request("the ControlPlane comes", extensionsv1alpha1.OperationReconcile, nil)
		w.Faults(0)
		w.Eventually(100, "it is complete", func() error { return p.complete(1, true) })
		p.request("it is reconciled", extensionsv1alpha1.OperationReconcile, nil)
		moves := w.Random.IntN(2) == 0
		if moves {
			p.request("it moves", extensionsv1alpha1.OperationMigrate, nil)
			p.scale("its API server is stopped", 0)
		} else {
			w.Change("it is deleted", p.seed, func(ctx context.Context, c client.Client) error {
				return c.Delete(ctx, newControlPlane())
			})
		}
		w.Faults(60)
		if moves {
			w.Eventually(100, "it has moved away", func() error {
				cp := newControlPlane()
				if !p.seed.Exists(cp) || !succeeded(cp, corev1beta1.LastOperationTypeMigrate) || operationOf(cp) != "" {
					return fmt.Errorf("request %q, status %+v", operationOf(cp), cp.Status.LastOperation)
				}
				return p.seed.Gone(controller(), access())
			})
			p.request("it comes back", extensionsv1alpha1.OperationRestore, nil)
			p.scale("its API server runs", 1)
			w.Faults(40)
			w.Eventually(100, "it is complete again", func() error { return p.complete(1, true) })
			w.Change("it is deleted", p.seed, func(ctx context.Context, c client.Client) error {
				return c.Delete(ctx, newControlPlane())
			})
			w.Faults(40)
		}
		w.Eventually(100, "nothing is left", func() error {
			return p.seed.Gone(newControlPlane(), controller(), access(), managed(managedResourceShoot),
				managed(managedResourceStorage), managedSecret(managedResourceShoot), managedSecret(managedResourceStorage))
		})
	})
}
