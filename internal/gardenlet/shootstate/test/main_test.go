// Package test runs the controller of ShootStates against a real API server that stands for garden and seed. The
// gardenlet is confined to its seed as in production.
package test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/crds"
	"hortus.dev/hortus/internal/gardenlet/shootstate"
	"hortus.dev/hortus/internal/maintenance"
	"hortus.dev/hortus/test/env"
)

func TestMain(m *testing.M) {
	env.Main(m, env.WithSeedAuthorizer(), env.WithSeedsAuthorizedOnce(), env.WithCRDs(crds.Seed()...),
		env.WithScheme(extensionsv1alpha1.AddToScheme, machinev1alpha1.AddToScheme))
}

const syncPeriod = time.Hour

// world is a Shoot on a seed.
type world struct {
	*env.Environment
	t     *testing.T
	ctx   context.Context
	clock *clocktesting.FakeClock
	seed  *corev1beta1.Seed
	shoot *corev1beta1.Shoot
	// garden is the access of the gardenlet.
	garden client.Client
	events *events.FakeRecorder
	r      *shootstate.Reconciler
}

func newWorld(t *testing.T) *world {
	t.Helper()
	e := env.Shared(t)
	e.GardenRoles(t)
	w := &world{Environment: e, t: t, ctx: t.Context(), clock: clocktesting.NewFakeClock(time.Now().Truncate(time.Second))}
	w.seed = w.newSeed()
	w.shoot = w.newShoot(w.seed.Name)
	w.garden = w.ClientAs(t, corev1beta1.SeedUserPrefix+w.seed.Name, corev1beta1.SeedsGroup)
	w.restart()
	return w
}

// restart drops the gardenlet's state in memory.
func (w *world) restart() {
	w.events = events.NewFakeRecorder(100)
	w.r = &shootstate.Reconciler{
		Garden: w.garden, Shoots: w.Client, Clock: w.clock, Events: w.events,
		SyncPeriod: syncPeriod, Jitter: maintenance.HashJitter(0),
		States: &shootstate.States{Garden: w.garden, Seed: w.Client, Clock: w.clock, SeedName: w.seed.Name},
	}
}

func (w *world) newSeed() *corev1beta1.Seed {
	w.t.Helper()
	ref := corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "garden", Name: "dns"}
	seed := &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: env.Name("seed-")}, Spec: corev1beta1.SeedSpec{
		Provider: corev1beta1.SeedProvider{Type: "local", Region: "local"},
		Networks: corev1beta1.SeedNetworks{Pods: "10.244.0.0/16", Services: "10.0.0.0/24"},
		Ingress: &corev1beta1.Ingress{
			Domain: "ingress.local.hortus.dev", Controller: corev1beta1.IngressController{Kind: "nginx"},
		},
		DNS: corev1beta1.SeedDNS{
			Provider: &corev1beta1.SeedDNSProvider{Type: "local", CredentialsRef: &ref},
			Internal: &corev1beta1.SeedDNSProviderConfig{
				Type: "local", Domain: "internal.local.hortus.dev", CredentialsRef: ref,
			},
			Defaults: []corev1beta1.SeedDNSProviderConfig{{Type: "local", Domain: "local.hortus.dev", CredentialsRef: ref}},
		},
	}}
	err := w.Client.Create(w.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "garden"}})
	if client.IgnoreAlreadyExists(err) != nil {
		w.t.Fatal(err)
	}
	err = w.Client.Create(w.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "dns"}})
	if client.IgnoreAlreadyExists(err) != nil {
		w.t.Fatal(err)
	}
	w.Create(w.t, seed)
	return seed
}

// newShoot creates a Shoot with a control plane namespace on the seed.
func (w *world) newShoot(seed string) *corev1beta1.Shoot {
	w.t.Helper()
	profile := &corev1beta1.CloudProfile{ObjectMeta: metav1.ObjectMeta{Name: env.Name("profile-")},
		Spec: corev1beta1.CloudProfileSpec{
			Type:       "local",
			Kubernetes: corev1beta1.KubernetesSettings{Versions: []corev1beta1.ExpirableVersion{{Version: "1.36.3"}}},
			MachineImages: []corev1beta1.MachineImage{{
				Name: "hortus-machine", Versions: []corev1beta1.MachineImageVersion{
					{ExpirableVersion: corev1beta1.ExpirableVersion{Version: "1.0.0"}},
				},
			}},
			MachineTypes: []corev1beta1.MachineType{{
				Name: "small", CPU: resource.MustParse("1"), GPU: resource.MustParse("0"), Memory: resource.MustParse("2Gi"),
			}},
			Regions: []corev1beta1.Region{{Name: "local"}},
		}}
	w.Create(w.t, profile)
	s := &corev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: *w.Project(w.t).Spec.Namespace, Name: env.Name("s")},
		Spec: corev1beta1.ShootSpec{
			CloudProfile: &corev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: profile.Name},
			Region:       "local", Kubernetes: corev1beta1.Kubernetes{Version: "1.36.3"},
			Provider: corev1beta1.Provider{Type: "local"}, SeedName: ptr.To(seed),
			Networking: &corev1beta1.Networking{Services: ptr.To("100.64.0.0/16")},
		},
	}
	w.Create(w.t, s)
	before := s.DeepCopy()
	s.Status.SeedName, s.Status.UID = ptr.To(seed), s.UID
	s.Status.TechnicalID = corev1beta1.TechnicalIDPrefix + s.Namespace[len(corev1beta1.ProjectNamespacePrefix):] + "--" +
		s.Name
	w.must(w.Client.Status().Patch(w.ctx, s, client.MergeFrom(before)))
	w.must(w.Client.Create(w.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Status.TechnicalID}}))
	return s
}

func (w *world) namespace() string { return w.shoot.Status.TechnicalID }

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// pass advances the clock and makes one pass of the controller.
func (w *world) pass() {
	w.t.Helper()
	w.clock.Step(2 * time.Minute)
	err := w.tryPass()
	for apierrors.IsTimeout(err) { // A busy server gives up large requests, and a controller tries again.
		err = w.tryPass()
	}
	w.must(err)
}

func (w *world) tryPass() error {
	_, err := w.r.Reconcile(w.ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.shoot)})
	return err
}

// state reads the ShootState; nil if there is none.
func (w *world) state() *corev1beta1.ShootState {
	w.t.Helper()
	state := &corev1beta1.ShootState{}
	if err := w.Client.Get(w.ctx, client.ObjectKeyFromObject(w.shoot), state); err != nil {
		w.must(client.IgnoreNotFound(err))
		return nil
	}
	return state
}

// unchanged runs a function and fails if the ShootState is written meanwhile.
func (w *world) unchanged(what string, f func()) {
	w.t.Helper()
	before := w.state()
	f()
	if after := w.state(); after.ResourceVersion != before.ResourceVersion {
		w.t.Fatalf("%s: the ShootState was written", what)
	}
}

// operation sets the Shoot's last operation.
func (w *world) operation(kind corev1beta1.LastOperationType, state corev1beta1.LastOperationState) {
	w.t.Helper()
	w.setStatus(func(s *corev1beta1.ShootStatus) {
		s.LastOperation = &corev1beta1.LastOperation{
			Type: kind, State: state, LastUpdateTime: metav1.Time{Time: w.clock.Now()},
		}
	})
}

func (w *world) setStatus(change func(*corev1beta1.ShootStatus)) {
	w.t.Helper()
	w.must(w.Client.Get(w.ctx, client.ObjectKeyFromObject(w.shoot), w.shoot))
	before := w.shoot.DeepCopy()
	change(&w.shoot.Status)
	w.must(w.Client.Status().Patch(w.ctx, w.shoot, client.MergeFrom(before)))
}

// persist creates a Secret that has to survive.
func (w *world) persist(name, data string) *corev1.Secret {
	w.t.Helper()
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace(), Name: name, Labels: map[string]string{"persist": "true", "name": name},
		},
		Data: map[string][]byte{"key": []byte(data)},
	}
	w.must(w.Client.Create(w.ctx, s))
	return s
}

// infrastructure creates one with a state.
func (w *world) infrastructure(
	state string, refs ...extensionsv1alpha1.NamedResourceReference,
) *extensionsv1alpha1.Infrastructure {
	w.t.Helper()
	o := &extensionsv1alpha1.Infrastructure{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace(), Name: w.shoot.Name},
		Spec: extensionsv1alpha1.InfrastructureSpec{
			DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "local"}, Region: "local",
			SecretRef: corev1.SecretReference{Namespace: w.namespace(), Name: "cloudprovider"},
		},
	}
	w.must(w.Client.Create(w.ctx, o))
	w.setState(o, state, refs...)
	return o
}

// setState writes the state of an extension object. Nothing removes it.
func (w *world) setState(o extensionsv1alpha1.Object, state string, refs ...extensionsv1alpha1.NamedResourceReference) {
	w.t.Helper()
	status := map[string]any{"state": nil, "resources": refs}
	if state != "" {
		status["state"] = runtime.RawExtension{Raw: []byte(state)}
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	w.must(err)
	w.must(w.Client.Status().Patch(w.ctx, o, client.RawPatch(types.MergePatchType, patch)))
}

// machines creates a pool with running machines.
func (w *world) machines(n int) {
	w.t.Helper()
	labels := map[string]string{"name": "pool"}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: w.namespace(), Name: name, Labels: labels}
	}
	template := machinev1alpha1.MachineTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: machinev1alpha1.MachineSpec{
			Class: machinev1alpha1.ClassSpec{Kind: "MachineClass", Name: "class"},
		}}
	w.must(w.Client.Create(w.ctx, &machinev1alpha1.MachineDeployment{ObjectMeta: meta("pool"),
		Spec: machinev1alpha1.MachineDeploymentSpec{
			Replicas: int32(n), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
		}}))
	w.must(w.Client.Create(w.ctx, &machinev1alpha1.MachineSet{ObjectMeta: meta("pool-1"),
		Spec: machinev1alpha1.MachineSetSpec{
			Replicas: int32(n), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
		}}))
	for i := range n {
		m := &machinev1alpha1.Machine{ObjectMeta: meta(fmt.Sprintf("pool-1-%d", i)), Spec: machinev1alpha1.MachineSpec{
			Class: machinev1alpha1.ClassSpec{Kind: "MachineClass", Name: "class"}, ProviderID: fmt.Sprintf("local:///%d", i),
		}}
		m.Labels = map[string]string{"name": "pool", machinev1alpha1.NodeLabelKey: fmt.Sprintf("node-%d", i)}
		w.must(w.Client.Create(w.ctx, m))
	}
}

// entries lists the contents of a ShootState.
func entries(s *corev1beta1.ShootState) []string {
	var out []string
	for _, g := range s.Spec.Gardener {
		out = append(out, g.Type+" "+g.Name)
	}
	for _, e := range s.Spec.Extensions {
		out = append(out, e.Kind+" "+string(e.State.Raw))
	}
	for _, r := range s.Spec.Resources {
		out = append(out, r.Kind+" "+r.Name)
	}
	return out
}
