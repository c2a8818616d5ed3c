package simulation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/internal/chart/oci"
	"hortus.dev/hortus/internal/gardenlet/selfupdate"
	"hortus.dev/hortus/test/sim"
)

// chartRegistry has the chart of gardenlets, except for tags that do not exist, and answers only sometimes. What the
// tag stale names has been pulled before, and cannot be pulled again.
type chartRegistry struct {
	world   *sim.World
	archive []byte
}

func (r *chartRegistry) Pull(_ context.Context, _ string, source oci.Source) (oci.Chart, error) {
	if strings.HasSuffix(source.Reference, ":missing") {
		return oci.Chart{}, errors.New("the tag does not exist")
	}
	if strings.HasSuffix(source.Reference, ":stale") {
		return oci.Chart{Archive: r.archive, Stale: errors.New("the registry is away")}, nil
	}
	if r.world.Random.IntN(4) == 0 {
		return oci.Chart{}, errors.New("the registry does not answer")
	}
	return oci.Chart{Archive: r.archive}, nil
}

func (*chartRegistry) Forget(string) {}

// selfRun is a garden with the Seed a, whose gardenlet changes itself.
type selfRun struct {
	*sim.World
	garden, seed *sim.Cluster
	installed    *corev1.ConfigMap // What the resource-manager of the seed has applied.
}

func newSelfRun(w *sim.World, archive []byte) *selfRun {
	r := &selfRun{
		World: w, garden: w.Cluster("garden", sim.Scheme()), seed: w.Cluster("seed", sim.Scheme()),
		installed: named[corev1.ConfigMap]("garden", "installed"),
	}
	r.garden.AddNamespaces("garden")
	r.seed.AddNamespaces("garden")
	access := named[corev1.Secret]("garden", "gardenlet-kubeconfig-bootstrap")
	access.Data = map[string][]byte{"kubeconfig": []byte("the first access")}
	r.seed.Add(access)
	w.Process("gardenlet", r.garden, func(p *sim.Process) error {
		return (&selfupdate.Reconciler{
			Garden: p.In(r.garden).Direct(), Seed: p.In(r.seed).Direct(), Clock: w.Clock(), SeedName: "a",
			Charts:       &chartRegistry{w, archive},
			Capabilities: func(context.Context) (chart.Capabilities, error) { return chart.Capabilities{}, nil },
		}).AddToManager(p, p.In(r.seed))
	})
	w.Actor("the resource-manager works", r.seed, func(ctx context.Context, c client.Client) error {
		return manage(ctx, r.seed, c, resourceIn("garden"), secretIn("garden"), r.installed)
	})
	return r
}

// wanted is a Gardenlet whose Seed has a label with the version.
func wanted(tag string, version int) *seedmanagementv1alpha1.Gardenlet {
	g := named[seedmanagementv1alpha1.Gardenlet]("garden", "a")
	g.Spec.Deployment.Helm.OCIRepository.Ref = new("registry.invalid/charts/gardenlet:" + tag)
	g.Spec.Config = &runtime.RawExtension{Raw: fmt.Appendf(nil,
		`{"seedConfig":{"metadata":{"labels":{"example.com/version":"version-%d"}},"spec":{"provider":{"type":"local"}}}}`,
		version)}
	seedmanagementv1alpha1.SetDefaultsGardenlet(g)
	return g
}

func (r *selfRun) change(tag string, version int) change {
	return func(context.Context, client.Client) error {
		g := wanted(tag, 0)
		return r.garden.Edit(g, func() { g.Spec = wanted(tag, version).Spec })
	}
}

// installs fails unless the gardenlet of the version is installed, with the access that it had before.
func (r *selfRun) installs(version int) error {
	current := r.installed.DeepCopy()
	if !r.seed.Exists(current) {
		return errors.New("nothing is installed")
	}
	objects := string(current.BinaryData["objects"])
	return is(strings.Contains(objects, fmt.Sprintf("version-%d", version)) &&
		strings.Contains(objects, "kubeconfig: the first access"), "installed:\n%s", objects)
}

// reports fails unless the Gardenlet has the condition for its newest spec.
func (r *selfRun) reports(status corev1beta1.ConditionStatus, text string) error {
	g := wanted("", 0)
	if !r.garden.Exists(g) {
		return errors.New("the Gardenlet does not exist")
	}
	c := corev1beta1.FindCondition(g.Status.Conditions, seedmanagementv1alpha1.GardenletReconciled)
	return is(c != nil && c.Status == status && strings.Contains(c.Message, text) &&
		g.Status.ObservedGeneration == g.Generation, "status is %+v", g.Status)
}

// A gardenlet becomes what its Gardenlet says, and stays what it is while that cannot be had. It stays installed when
// the Gardenlet or the Seed is deleted.
func TestSimulateGardenlets(t *testing.T) {
	archive, err := chart.Archive(charts.FS, "gardenlet", "gardenlet")
	if err != nil {
		t.Fatal(err)
	}
	sim.Run(t, func(w *sim.World) {
		r := newSelfRun(w, archive)
		seed := named[corev1beta1.Seed]("", "a")
		seed.Finalizers = []string{corev1beta1.FinalizerName}
		r.garden.Add(seed.DeepCopy())
		other := wanted("2", 9)
		other.Name = "b"
		r.garden.Add(other)
		was := false
		w.Always("the gardenlet is never removed", func() error {
			now := r.seed.Exists(r.installed.DeepCopy())
			gone := was && !now
			was = was || now
			return is(!gone, "it is gone")
		})
		w.Overlap()
		w.Change("make the Gardenlet", r.garden, create(wanted("1", 1)))
		w.Change("version 2", r.garden, r.change("2", 2))
		w.Faults(80)
		w.Eventually(200, "the gardenlet is version 2", func() error {
			return errors.Join(r.installs(2), r.reports(corev1beta1.ConditionTrue, "as the spec says"))
		})
		w.Change("a chart that does not exist", r.garden, r.change("missing", 3))
		w.Faults(40)
		w.Eventually(200, "the missing chart is reported", func() error {
			return errors.Join(r.installs(2), r.reports(corev1beta1.ConditionFalse, "the tag does not exist"))
		})
		w.Change("a chart that cannot be pulled again", r.garden, r.change("stale", 3))
		w.Faults(40)
		w.Eventually(200, "the gardenlet is version 3, whose chart may be outdated", func() error {
			return errors.Join(r.installs(3), r.reports(corev1beta1.ConditionFalse, "the registry is away"))
		})
		w.Change("version 4", r.garden, r.change("4", 4))
		w.Faults(40)
		w.Eventually(200, "the gardenlet is version 4", func() error {
			return errors.Join(r.installs(4), r.reports(corev1beta1.ConditionTrue, "as the spec says"))
		})
		versions := func() string {
			mr, secret := resourceIn("garden"), secretIn("garden")
			_, _ = r.seed.Exists(mr), r.seed.Exists(secret)
			return mr.ResourceVersion + " " + secret.ResourceVersion
		}
		before := versions()
		w.Idle(3 * time.Hour)
		w.Eventually(5, "nothing is written without a reason", func() error {
			return is(versions() == before, "versions %s have become %s", before, versions())
		})
		w.Change("somebody deletes the ManagedResource", r.seed, remove(resourceIn("garden")))
		w.Change("delete the Gardenlet", r.garden, remove(wanted("", 0)))
		w.Change("make the Gardenlet again", r.garden, create(wanted("5", 5)))
		w.Faults(60)
		w.Eventually(200, "the gardenlet is version 5", func() error {
			return errors.Join(r.installs(5), r.reports(corev1beta1.ConditionTrue, "as the spec says"))
		})
		if w.Random.IntN(2) == 0 {
			w.Change("delete the Gardenlet for good", r.garden, remove(wanted("", 0)))
		} else {
			w.Change("delete the Seed", r.garden, remove(seed))
		}
		w.Faults(40)
		w.Eventually(200, "the gardenlet is released", func() error {
			return errors.Join(r.installs(5), r.seed.Gone(resourceIn("garden"), secretIn("garden")))
		})
	})
}
