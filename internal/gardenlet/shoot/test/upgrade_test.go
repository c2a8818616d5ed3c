package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension/poolhash"
	"hortus.dev/hortus/internal/golden"
	"hortus.dev/hortus/internal/image"
	"hortus.dev/hortus/test/upgrade"
)

// releases is the folder with the notes of releases, and what each of them writes for the example Shoots.
const releases = "../../../../docs/releases"

// TestUpgradeIsDescribed: the notes of the next release say which pods of control planes an upgrade from the last
// release replaces, and which pools it rolls. -update rewrites them.
func TestUpgradeIsDescribed(t *testing.T) {
	t.Parallel()
	now := summary(t)
	text, err := yaml.Marshal(now)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "next.workloads.yaml", string(text))
	last, err := upgrade.Last(read(t, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var before upgrade.Summary
	if err := yaml.UnmarshalStrict([]byte(read(t, last.Version+".workloads.yaml")), &before); err != nil {
		t.Fatal(err)
	}
	want, err := upgrade.Section(read(t, "next.md"), upgrade.Compare(before, now).Markdown())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "next.md", want)
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(releases, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// same compares a file with what it should be.
func same(t *testing.T, file, want string) {
	t.Helper()
	golden.Bytes(t, filepath.Join("..", releases, file), []byte(want)) // From testdata.
}

// summary is what this version writes for the example Shoots.
func summary(t *testing.T) upgrade.Summary {
	t.Helper()
	out := upgrade.Summary{}
	for name, example := range map[string]struct {
		pools  []string
		change func(*corev1beta1.Shoot)
	}{
		"workerless":   {},
		"with workers": {pools: []string{"pool"}},
		"highly available": {pools: []string{"pool"}, change: func(s *corev1beta1.Shoot) {
			s.Spec.ControlPlane = &corev1beta1.ControlPlane{HighAvailability: &corev1beta1.HighAvailability{
				FailureTolerance: corev1beta1.FailureTolerance{Type: corev1beta1.FailureToleranceTypeNode},
			}}
		}},
	} {
		w := newWorld(t)
		s := w.newShoot(example.pools...)
		if example.change != nil {
			before := s.DeepCopy()
			example.change(s)
			w.must(w.Client.Patch(w.ctx, s, client.MergeFrom(before)))
		}
		s = w.run(s, succeeded)
		out[name] = upgrade.Shoot{Workloads: w.written(s), Pools: w.poolHashes(s)}
	}
	return out
}

// written are the workloads in the control plane of the Shoot.
func (w *world) written(s *corev1beta1.Shoot) map[string]upgrade.Workload {
	w.t.Helper()
	in := client.InNamespace(s.Status.TechnicalID)
	deployments, sets := &appsv1.DeploymentList{}, &appsv1.StatefulSetList{}
	w.must(w.Client.List(w.ctx, deployments, in))
	w.must(w.Client.List(w.ctx, sets, in))
	project := strings.TrimPrefix(w.namespace, "garden-")
	// The name of the Shoot is so short that it may be a part of other words.
	names := strings.NewReplacer(s.Status.TechnicalID, "shoot--example", "."+s.Name+"."+project+".", ".example.project.",
		w.seed.Name, "seed", w.namespace, "garden-example", string(s.UID), "uid",
		advertised(w.t, deployments.Items), "240.0.0.1", image.Hortus(), "hortus.dev/hortus:version")
	out := map[string]upgrade.Workload{}
	add := func(kind, name string, template *corev1.PodTemplateSpec, imagesInPlace bool) {
		workload, err := upgrade.WorkloadOf(template, names)
		w.must(err)
		workload.ImagesInPlace = imagesInPlace
		out[kind+" `"+name+"`"] = workload
	}
	for i := range deployments.Items {
		add("Deployment", deployments.Items[i].Name, &deployments.Items[i].Spec.Template, false)
	}
	for i := range sets.Items {
		// The gardenlet changes the images of the pods of etcd, which it would otherwise have to delete.
		inPlace := sets.Items[i].Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType
		add("StatefulSet", sets.Items[i].Name, &sets.Items[i].Spec.Template, inPlace)
	}
	return out
}

// advertised is the address of the API server in its cluster, which is another one for each Shoot.
func advertised(t *testing.T, deployments []appsv1.Deployment) string {
	t.Helper()
	for i := range deployments {
		for _, argument := range deployments[i].Spec.Template.Spec.Containers[0].Args {
			if address, found := strings.CutPrefix(argument, "--advertise-address="); found {
				return address
			}
		}
	}
	t.Fatal("no API server advertises an address")
	return ""
}

// poolHashes are all hashes of the Shoot's pools: the pool decides which one counts.
func (w *world) poolHashes(s *corev1beta1.Shoot) map[string]map[string]string {
	w.t.Helper()
	out := map[string]map[string]string{}
	worker := &extensionsv1alpha1.Worker{}
	if err := w.Client.Get(w.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: s.Name}, worker); err != nil {
		w.must(client.IgnoreNotFound(err))
		return nil
	}
	for i := range worker.Spec.Pools {
		pool := &worker.Spec.Pools[i]
		inputs := poolhash.FromWorkerPool(s, pool)
		key, err := poolhash.KeyV2(inputs)
		w.must(err)
		if got := ptr.Deref(pool.NodeAgentSecretName, ""); got != "" && got != key {
			w.t.Errorf("pool %s has the key %s, want %s", pool.Name, got, key)
		}
		classic, err := poolhash.ClassV1(inputs)
		w.must(err)
		inPlace, err := poolhash.InPlace(inputs)
		w.must(err)
		out["`"+pool.Name+"`"] = map[string]string{"1": classic, "2": poolhash.ClassV2(key), "in place": inPlace}
	}
	return out
}
