package simulation

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/internal/gardenlet/bastion"
	"hortus.dev/hortus/test/sim"
)

const (
	kindBastion           = extensionsv1alpha1.BastionKind
	labelBastionNamespace = "hortus.dev/bastion-namespace" // It is stored, and must not change.
)

// sshKey returns the public key of a user.
func sshKey(t *testing.T, user byte) string {
	t.Helper()
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{user}, ed25519.SeedSize))
	key, err := ssh.NewPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

// addBastions makes an extension whose machines have addresses that depend on who may connect.
func (o *provider) addBastions(w *sim.World, cluster *sim.Cluster) {
	w.Process("provider", cluster, func(p *sim.Process) error {
		k := keeper[*extensionsv1alpha1.Bastion]{
			provider: o, cloud: p.In(o.cloud).Direct(), kind: kindBastion,
			content: func(_ context.Context, b *extensionsv1alpha1.Bastion) (string, error) {
				from := b.Spec.Ingress[0].IPBlock.CIDR
				b.Status.Ingress = &corev1.LoadBalancerIngress{Hostname: "for-" + from}
				return string(b.Spec.UserData) + from, nil
			},
		}
		return k.add(p, &extensionsv1alpha1.Bastion{}, func(*extension.Reconciler[*extensionsv1alpha1.Bastion]) {})
	})
}

// bastionRun is a garden with the Shoots s and t, whose Bastions are b and neighbor.
type bastionRun struct {
	*sim.World
	garden, seed *sim.Cluster
	cloud        *provider
	others       map[client.Object]*sim.Cluster // As they were created.

	keptFinalizer bool // Somebody has added a finalizer to b.
}

func newBastionRun(w *sim.World) *bastionRun {
	r := &bastionRun{
		World: w, garden: w.Cluster("garden", sim.Scheme()), seed: w.Cluster("seed", sim.Scheme()),
		cloud: newProvider(w), others: map[client.Object]*sim.Cluster{},
	}
	r.garden.AddNamespaces("garden-dev")
	now := newTicking(w)
	r.cloud.now = now // Successes that seem older than the request would be requested again, at the same part of a second.
	w.Process("gardenlet", r.garden, func(p *sim.Process) error {
		return (&bastion.Reconciler{
			Garden: p.In(r.garden).Direct(), Cache: p.GetClient(), Seed: p.In(r.seed).Direct(), Clock: now, SeedName: "a",
		}).AddToManager(p, p.In(r.seed))
	})
	r.cloud.addBastions(w, r.seed)
	for _, name := range []string{"s", "t"} {
		shoot := named[corev1beta1.Shoot]("garden-dev", name)
		shoot.Finalizers = []string{corev1beta1.FinalizerName} // Of the controller of Shoots.
		shoot.Spec.SeedName, shoot.Spec.Provider.Workers = new("a"), make([]corev1beta1.Worker, 1)
		shoot.Status.SeedName, shoot.Status.TechnicalID = new("a"), "shoot--dev--"+name
		shoot.Status.LastOperation = &corev1beta1.LastOperation{Type: corev1beta1.LastOperationTypeReconcile}
		of := named[extensionsv1alpha1.Cluster]("", shoot.Status.TechnicalID)
		of.Spec.Shoot = runtime.RawExtension{Raw: []byte(`{}`)}
		r.garden.Add(shoot)
		r.seed.AddNamespaces(shoot.Status.TechnicalID)
		r.seed.Add(of)
	}
	return r
}

// bastion is a Bastion of the Shoot t, or s if it is b.
func (r *bastionRun) bastion(name string) *operationsv1alpha1.Bastion {
	b := named[operationsv1alpha1.Bastion]("garden-dev", name)
	b.Spec.ShootRef.Name = "t"
	if name == "b" {
		b.Spec.ShootRef.Name = "s"
	}
	b.Spec.SeedName, b.Spec.ProviderType, b.Spec.SSHPublicKey = new("a"), new("simulated"), sshKey(r.T, 0)
	allow(b, "192.0.2.0/32")
	return b
}

func allow(b *operationsv1alpha1.Bastion, from string) {
	b.Spec.Ingress = []operationsv1alpha1.BastionIngressPolicy{{IPBlock: networkingv1.IPBlock{CIDR: from}}}
}

// inSeed is the extension Bastion of b.
func inSeed() *extensionsv1alpha1.Bastion {
	return named[extensionsv1alpha1.Bastion](controlPlane, "b")
}

// addOthers creates objects that the gardenlet must not touch: it has a reason for none of them.
func (r *bastionRun) addOthers() {
	ofUser := inSeed()
	ofUser.Name = "user" // In the same namespace, by hand.
	otherProject := inSeed()
	otherProject.Namespace = "shoot--prod--s" // The same name in another project.
	otherProject.Labels = map[string]string{labelBastionNamespace: "garden-prod"}
	r.seed.AddNamespaces(otherProject.Namespace)
	for _, b := range []*extensionsv1alpha1.Bastion{ofUser, otherProject} {
		b.Spec.Type = "others"
		r.seed.Add(b)
		r.others[b] = r.seed
	}
	otherSeed := r.bastion("elsewhere")
	otherSeed.Spec.SeedName = new("red")
	r.garden.Add(otherSeed)
	r.others[otherSeed] = r.garden
}

// rules hold after each write.
func (r *bastionRun) rules() {
	inCloud := func(name string) *corev1.ConfigMap { return inCloud(kindBastion, name) }
	r.Always("the finalizer stays while something of the Bastion exists", func() error {
		b := r.bastion("b")
		released := !r.garden.Exists(b) || !controllerutil.ContainsFinalizer(b, corev1beta1.FinalizerName)
		return is(!released || !r.seed.Exists(inSeed()) && !r.cloud.cloud.Exists(inCloud("b")),
			"finalizers %v", b.Finalizers)
	})
	r.Always("a machine accepts the key of its Bastion only", func() error {
		b, machine := r.bastion("b"), inCloud("b")
		return is(!r.garden.Exists(b) || !r.cloud.cloud.Exists(machine) ||
			strings.Contains(machine.Data["content"], b.Spec.SSHPublicKey), "%s", machine.Data["content"])
	})
	exists := false
	r.Always("the machine of another Bastion stays", func() error {
		now := r.cloud.cloud.Exists(inCloud("neighbor"))
		exists = exists || now
		return is(now || !exists, "it is gone")
	})
	r.Always("objects of others stay as they are", func() error {
		for o, cluster := range r.others {
			now := o.DeepCopyObject().(client.Object)
			if !cluster.Exists(now) || now.GetResourceVersion() != o.GetResourceVersion() {
				return is(false, "%T %s is %+v", o, o.GetName(), now)
			}
		}
		return nil
	})
	r.Always("the finalizer of somebody else stays", func() error {
		b := r.bastion("b")
		return is(!r.keptFinalizer || r.garden.Exists(b) && controllerutil.ContainsFinalizer(b, foreignFinalizer),
			"finalizers %v", b.Finalizers)
	})
}

// edit changes b, if it exists.
func (r *bastionRun) edit(change func(*operationsv1alpha1.Bastion)) change {
	return func(context.Context, client.Client) error {
		b := r.bastion("b")
		if !r.garden.Exists(b) {
			return nil
		}
		return r.garden.Edit(b, func() { change(b) })
	}
}

// allow changes who may connect to b.
func (r *bastionRun) allow(from string) change {
	return r.edit(func(b *operationsv1alpha1.Bastion) { allow(b, from) })
}

// hibernate changes whether the Shoot s has nodes.
func (r *bastionRun) hibernate(on bool) change {
	return func(context.Context, client.Client) error {
		s := named[corev1beta1.Shoot]("garden-dev", "s")
		return r.garden.Edit(s, func() { s.Spec.Hibernation = &corev1beta1.Hibernation{Enabled: new(on)} })
	}
}

// reports fails unless the Bastion has the condition.
func (r *bastionRun) reports(b *operationsv1alpha1.Bastion, status corev1beta1.ConditionStatus, reason string) error {
	if !r.garden.Exists(b) {
		return is(false, "Bastion %s does not exist", b.Name)
	}
	c := corev1beta1.FindCondition(b.Status.Conditions, operationsv1alpha1.BastionReady)
	return is(c != nil && c.Status == status && c.Reason == reason, "Bastion %s reports %+v", b.Name, b.Status)
}

// ready fails unless b has a machine for its key and the range, and reports what the extension reports.
func (r *bastionRun) ready(from string) error {
	b, of, machine := r.bastion("b"), inSeed(), inCloud(kindBastion, "b")
	if err := r.reports(b, corev1beta1.ConditionTrue, "BastionReady"); err != nil {
		return err
	}
	content := ""
	if r.cloud.cloud.Exists(machine) {
		content = machine.Data["content"]
	}
	return is(r.seed.Exists(of) && of.Status.Ingress != nil && b.Status.Address() == of.Status.Ingress.Hostname &&
		b.Status.Address() == "for-"+from && strings.Contains(content, b.Spec.SSHPublicKey) &&
		strings.HasSuffix(content, from) && ptr.Deref(b.Status.ObservedGeneration, 0) == b.Generation,
		"generation %d, status %+v; in the seed %+v; machine %s", b.Generation, b.Status, of.Status, content)
}

// without fails unless there is no machine, and the Bastion says why.
func (r *bastionRun) without(reason string) error {
	b := r.bastion("b")
	if err := r.reports(b, corev1beta1.ConditionFalse, reason); err != nil {
		return err
	}
	if b.Status.Ingress != nil {
		return is(false, "address %s", b.Status.Address())
	}
	return r.removed()
}

func (r *bastionRun) removed() error {
	if err := r.seed.Gone(inSeed()); err != nil {
		return err
	}
	return r.cloud.cloud.Gone(inCloud(kindBastion, "b"))
}

// rests fails if something is written to the Bastion in an hour in which nothing happens.
func (r *bastionRun) rests() {
	r.T.Helper()
	versions := func() (out []string) {
		b, of := r.bastion("b"), inSeed()
		if r.garden.Exists(b) {
			out = append(out, b.ResourceVersion)
		}
		if r.seed.Exists(of) {
			out = append(out, of.ResourceVersion)
		}
		return out
	}
	before := versions()
	r.Idle(time.Hour)
	after := versions()
	r.Eventually(0, "nothing is written without a reason", func() error {
		return is(slices.Equal(before, after), "versions %v have become %v", before, after)
	})
}

// A Bastion has a machine while its Shoot can have one, and reports what the extension reports. Nothing of it remains
// when it is gone, whatever becomes of the Shoot meanwhile, and a new Bastion of the same name has a new machine.
func TestSimulateBastions(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		r := newBastionRun(w)
		r.addOthers()
		r.rules()
		w.Overlap()
		settle := func(requests int, name string, check func() error) {
			t.Helper()
			r.cloud.faulty = false
			w.Eventually(requests, name, check)
			r.rests()
			r.cloud.faulty = true
		}
		w.Change("make another Bastion", r.garden, create(r.bastion("neighbor")))
		w.Change("make the Bastion", r.garden, create(r.bastion("b")))
		for n := range 3 {
			w.Change("hibernate the Shoot", r.garden, r.hibernate(true))
			w.Change("others may connect", r.garden, r.allow(fmt.Sprintf("192.0.2.%d/32", n+1)))
			w.Change("wake up the Shoot", r.garden, r.hibernate(false))
		}
		w.Change("somebody adds a finalizer", r.garden, r.edit(func(b *operationsv1alpha1.Bastion) {
			r.keptFinalizer = controllerutil.AddFinalizer(b, foreignFinalizer)
		}))
		w.Faults(200)
		settle(200, "the Bastion is ready", func() error { return r.ready("192.0.2.3/32") })
		w.Change("others may connect", r.garden, r.allow("192.0.2.4/32"))
		w.Faults(40)
		settle(100, "the Bastion is ready for others", func() error { return r.ready("192.0.2.4/32") })

		w.Change("hibernate the Shoot", r.garden, r.hibernate(true))
		w.Faults(40)
		settle(100, "a Shoot in hibernation has no Bastion", func() error { return r.without("ShootHibernated") })

		again := false
		w.Actor("make a Bastion of the same name", r.garden, func(ctx context.Context, c client.Client) error {
			next := r.bastion("b")
			if again || r.garden.Exists(next) {
				return nil
			}
			again, next.Spec.SSHPublicKey = true, sshKey(t, 1)
			return c.Create(ctx, next)
		})
		w.Change("wake up the Shoot", r.garden, r.hibernate(false))
		w.Change("delete the Bastion", r.garden, remove(r.bastion("b")))
		w.Change("the foreign finalizer is removed", r.garden, r.edit(func(b *operationsv1alpha1.Bastion) {
			r.keptFinalizer = false
			controllerutil.RemoveFinalizer(b, foreignFinalizer)
		}))
		w.Faults(80)
		settle(200, "the new Bastion is ready", func() error {
			if !again {
				return is(false, "it has not been made")
			}
			return r.ready("192.0.2.0/32")
		})

		s := named[corev1beta1.Shoot]("garden-dev", "s")
		first := w.Random.IntN(2) == 0
		if first {
			w.Change("delete the Bastion", r.garden, remove(r.bastion("b")))
		}
		w.Change("delete the Shoot", r.garden, remove(s.DeepCopy()))
		w.Change("the Shoot is gone", r.garden, func(context.Context, client.Client) error {
			return r.garden.Edit(s, func() { s.Finalizers = nil })
		})
		w.Faults(50)
		if !first {
			settle(100, "without a Shoot there is no machine", func() error { return r.without("ShootNotFound") })
			w.Change("delete the Bastion", r.garden, remove(r.bastion("b")))
			w.Faults(20)
		}
		settle(100, "nothing of the Bastion is left", func() error {
			if err := r.garden.Gone(r.bastion("b")); err != nil {
				return err
			}
			return r.removed()
		})
		w.Eventually(0, "the other Bastion is ready", func() error {
			return r.reports(r.bastion("neighbor"), corev1beta1.ConditionTrue, "BastionReady")
		})
	})
}
