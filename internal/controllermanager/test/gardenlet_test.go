package test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/internal/chart/oci"
	"hortus.dev/hortus/internal/controllermanager/gardenlet"
	"hortus.dev/hortus/internal/garden/bootstraptoken"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/test/sim"
)

// unsteadyRegistry has one chart, and answers only sometimes.
type unsteadyRegistry struct {
	world   *sim.World
	archive []byte
}

func (r *unsteadyRegistry) Pull(context.Context, string, oci.Source) (oci.Chart, error) {
	if r.world.Random.IntN(4) == 0 {
		return oci.Chart{}, errors.New("the registry does not answer")
	}
	return oci.Chart{Archive: r.archive}, nil
}

func (*unsteadyRegistry) Forget(string) {}

// firstRun is a garden with a Gardenlet, and the cluster in which its gardenlet is to be installed.
type firstRun struct {
	*sim.World
	garden, cluster *sim.Cluster
	created         int    // Tokens.
	certificate     []byte // Kubeconfig with the certificate of the gardenlet.
}

// newToken returns the same tokens in each run with the same seed.
func (r *firstRun) newToken(seed string, end time.Time) (string, *corev1.Secret) {
	_, secret := bootstraptoken.New(seed, end)
	id := fmt.Sprintf("token%d", r.created%10)
	r.created++
	secret.Name, secret.Data["token-id"] = "bootstrap-token-"+id, []byte(id)
	secret.Data["token-secret"] = []byte("0123456789abcdef")
	return id + ".0123456789abcdef", secret
}

func newFirstRun(w *sim.World, archive []byte) *firstRun {
	r := &firstRun{
		World: w, garden: w.Cluster("garden", sim.Scheme()).Uncached(&corev1.Secret{}, &corev1.ConfigMap{}),
		cluster: w.Cluster("cluster", sim.Scheme()),
	}
	r.garden.AddNamespaces("garden", "kube-system")
	r.cluster.AddNamespaces("garden")
	w.Process("controller-manager", r.garden, func(p *sim.Process) error {
		return (&gardenlet.Reconciler{
			Garden: p.GetClient(), Live: p.GetAPIReader(), Clock: clockOf(p), Charts: &unsteadyRegistry{w, archive},
			CABundle: func() ([]byte, error) { return []byte("the CA bundle of the garden"), nil },
			NewToken: r.newToken,
			Connect: func(kubeconfig []byte) (gardenlet.Cluster, error) {
				if string(kubeconfig) != "of the cluster" {
					return gardenlet.Cluster{}, errors.New("the cluster does not exist")
				}
				return gardenlet.Cluster{
					Client:       p.In(r.cluster).Direct(),
					Capabilities: func(context.Context) (chart.Capabilities, error) { return chart.Capabilities{}, nil },
				}, nil
			},
		}).AddToManager(p)
	})
	w.Actor("the gardenlet joins", r.cluster, r.join)
	return r
}

// join is what a gardenlet does with its token, once.
func (r *firstRun) join(context.Context, client.Client) error {
	first, joined := r.bootstrap(), named[corev1.Secret]("garden", "gardenlet-kubeconfig")
	if !r.cluster.Exists(named[appsv1.Deployment]("garden", "gardenlet")) || !r.cluster.Exists(first) ||
		r.cluster.Exists(joined) {
		return nil
	}
	for _, token := range r.tokens() {
		if !bootstraptoken.Usable(token, "a", r.Clock().Now()) ||
			!strings.Contains(string(first.Data["kubeconfig"]), bootstraptoken.Text(token)) {
			continue
		}
		if err := r.garden.Edit(token, func() { bootstraptoken.Claim(token, "request", r.Clock().Now()) }); err != nil {
			return err
		}
		joined.Data = map[string][]byte{"kubeconfig": r.certificate}
		r.cluster.Add(joined)
		return nil
	}
	return nil
}

func (r *firstRun) bootstrap() *corev1.Secret {
	return named[corev1.Secret]("garden", "gardenlet-kubeconfig-bootstrap")
}

// tokens are all in the garden.
func (r *firstRun) tokens() (out []*corev1.Secret) {
	list := &corev1.SecretList{}
	if err := r.garden.Client.List(ctx, list, client.InNamespace("kube-system")); err != nil {
		r.T.Fatal(err)
	}
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out
}

func (r *firstRun) unused() (n int) {
	for _, token := range r.tokens() {
		if bootstraptoken.Usable(token, "a", r.Clock().Now()) {
			n++
		}
	}
	return n
}

// kubeconfigOfGardenlet has a certificate of the gardenlet of a Seed that does not expire during a simulation.
func kubeconfigOfGardenlet(t *testing.T, seed string) []byte {
	t.Helper()
	ca, err := pki.NewCA("ca", clocktesting.NewFakePassiveClock(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Issue(pki.Request{CommonName: corev1beta1.SeedUserPrefix + seed, Usage: pki.Client})
	if err != nil {
		t.Fatal(err)
	}
	out, err := pki.Kubeconfig{Server: "https://garden.example.com", Client: pair}.Render()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func firstGardenlet() *seedmanagementv1alpha1.Gardenlet {
	g := named[seedmanagementv1alpha1.Gardenlet]("garden", "a")
	g.Spec.Deployment.Helm.OCIRepository.Ref = new("registry.invalid/charts/gardenlet:1")
	g.Spec.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: "cluster"}
	g.Spec.Config = &runtime.RawExtension{Raw: []byte(`{"gardenClientConnection":{"gardenClusterAddress":` +
		`"https://garden.example.com"},"seedConfig":{"spec":{"provider":{"type":"local"}}}}`)}
	seedmanagementv1alpha1.SetDefaultsGardenlet(g)
	return g
}

// reports fails unless the Gardenlet has the condition for its newest spec.
func (r *firstRun) reports(text string) error {
	g := firstGardenlet()
	if !r.garden.Exists(g) {
		return errors.New("the Gardenlet does not exist")
	}
	c := corev1beta1.FindCondition(g.Status.Conditions, seedmanagementv1alpha1.GardenletReconciled)
	return is(c != nil && c.Status == corev1beta1.ConditionFalse && strings.Contains(c.Message, text) &&
		g.Status.ObservedGeneration == g.Generation, "status is %+v", g.Status)
}

// A Gardenlet installs the first gardenlet in the cluster that it names, with one token, and another one on request
// only. The gardenlet has one access until it has joined, and does not lose it.
func TestSimulateFirstGardenlets(t *testing.T) {
	archive, err := chart.Archive(charts.FS, "gardenlet", "gardenlet")
	if err != nil {
		t.Fatal(err)
	}
	certificate := kubeconfigOfGardenlet(t, "a")
	sim.Run(t, func(w *sim.World) {
		r := newFirstRun(w, archive)
		r.certificate = certificate
		installed, access := named[appsv1.Deployment]("garden", "gardenlet"), named[corev1.Secret]("garden", "cluster")
		access.Data = map[string][]byte{"kubeconfig": []byte("of another cluster")}
		w.Always("there is one token at most", func() error { return is(r.unused() <= 1, "there are %d", r.unused()) })
		kept := ""
		w.Always("the access of a gardenlet that has joined stays", func() error {
			first := r.bootstrap()
			if !r.cluster.Exists(named[corev1.Secret]("garden", "gardenlet-kubeconfig")) || !r.cluster.Exists(first) {
				kept = ""
				return nil
			}
			now := string(first.Data["kubeconfig"])
			if kept == "" {
				kept = now
			}
			return is(now == kept, "it was\n%s\nand is\n%s", kept, now)
		})
		w.Change("make the Gardenlet", r.garden, create(firstGardenlet()))
		w.Faults(40)
		w.Eventually(100, "the missing Secret is reported", func() error {
			return r.reports("the Secret garden/cluster does not exist")
		})
		w.Change("a kubeconfig of another cluster", r.garden, create(access.DeepCopy()))
		w.Faults(40)
		w.Idle(2 * time.Minute)
		w.Eventually(100, "it is reported", func() error { return r.reports("the cluster does not exist") })
		w.Change("the kubeconfig", r.garden, func(context.Context, client.Client) error {
			return r.garden.Edit(access, func() { access.Data["kubeconfig"] = []byte("of the cluster") })
		})
		w.Faults(60)
		w.Idle(2 * time.Minute)
		w.Eventually(200, "the gardenlet is installed and joins", func() error {
			return is(r.cluster.Exists(installed) && r.cluster.Exists(named[corev1.Secret]("garden", "gardenlet-kubeconfig")),
				"it is not there; status %v", r.reports(""))
		})
		w.Change("it registers the Seed", r.garden, create(seed("a")))
		w.Faults(60)
		w.Idle(3 * time.Hour)
		w.Eventually(200, "no token is left", func() error {
			return is(len(r.tokens()) == 0, "there are %d", len(r.tokens()))
		})
		w.Change("the gardenlet is deleted", r.cluster, remove(installed.DeepCopy()))
		w.Faults(40)
		w.Idle(time.Hour)
		w.Eventually(100, "nobody installs another one", func() error { return r.cluster.Gone(installed.DeepCopy()) })
		again := w.Random.IntN(2) == 0
		if again {
			w.Change("its certificate is lost", r.cluster, remove(named[corev1.Secret]("garden", "gardenlet-kubeconfig")))
			w.Faults(10)
		}
		w.Change("install it again", r.garden, func(context.Context, client.Client) error {
			g := firstGardenlet()
			return r.garden.Edit(g, func() {
				g.Annotations = map[string]string{corev1beta1.AnnotationOperation: corev1beta1.OperationForceRedeploy}
			})
		})
		w.Faults(60)
		w.Idle(2 * time.Minute)
		w.Eventually(200, "it is installed, and the operation is done", func() error {
			g := firstGardenlet()
			return is(r.cluster.Exists(installed.DeepCopy()) && r.garden.Exists(g) &&
				r.cluster.Exists(named[corev1.Secret]("garden", "gardenlet-kubeconfig")) &&
				g.Annotations[corev1beta1.AnnotationOperation] == "", "annotations %v", g.Annotations)
		})
	})
}
