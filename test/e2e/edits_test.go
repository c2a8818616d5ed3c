//go:build landscape

package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Each random choice of a test depends on its seed alone.
const (
	envSeed  = "HORTUS_TEST_SEED"  // The one seed to run.
	envSeeds = "HORTUS_TEST_SEEDS" // How many seeds to run.
)

// numberIn returns the number in an environment variable.
func numberIn(t *testing.T, env string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(env)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: invalid value: %q (a number)", env, text)
	}
	return n
}

// kubeletEdit changes the configuration of kubelets, of all pools without their own or of one pool.
type kubeletEdit struct {
	name   string
	change func(*rand.Rand, *corev1beta1.KubeletConfig)
}

// kubeletTriggers replace machines according to the documents; kubeletEdits do not.
var (
	kubeletTriggers = []kubeletEdit{
		{"more reserved for the kubelet", func(r *rand.Rand, k *corev1beta1.KubeletConfig) {
			k.KubeReserved.CPU.Add(*milli(1 + r.Int64N(20)))
		}},
		{"more reserved for the system", func(r *rand.Rand, k *corev1beta1.KubeletConfig) {
			k.SystemReserved.Memory.Add(*mebi(1 + r.Int64N(20)))
		}},
		{"hard eviction", func(r *rand.Rand, k *corev1beta1.KubeletConfig) {
			if k.EvictionHard == nil {
				k.EvictionHard = &corev1beta1.KubeletConfigEviction{}
			}
			k.EvictionHard.MemoryAvailable = another(r, k.EvictionHard.MemoryAvailable, 60, "Mi")
		}},
		{"CPU manager", func(_ *rand.Rand, k *corev1beta1.KubeletConfig) {
			if ptr.Deref(k.CPUManagerPolicy, "none") == "none" {
				k.CPUManagerPolicy = ptr.To("static")
			} else {
				k.CPUManagerPolicy = ptr.To("none")
			}
		}},
	}
	kubeletEdits = []kubeletEdit{
		{"reserved CPU moves to the system", func(r *rand.Rand, k *corev1beta1.KubeletConfig) {
			part := milli(r.Int64N(k.KubeReserved.CPU.MilliValue() + 1))
			k.KubeReserved.CPU.Sub(*part)
			k.SystemReserved.CPU.Add(*part)
		}},
		{"reserved memory moves to the kubelet", func(r *rand.Rand, k *corev1beta1.KubeletConfig) {
			part := mebi(r.Int64N(k.SystemReserved.Memory.Value()>>20 + 1))
			k.SystemReserved.Memory.Sub(*part)
			k.KubeReserved.Memory.Add(*part)
		}},
		{"number of pods", func(r *rand.Rand, k *corev1beta1.KubeletConfig) { k.MaxPods = ptr.To(70 + r.Int32N(40)) }},
		{"clean-up of images", func(r *rand.Rand, k *corev1beta1.KubeletConfig) {
			k.ImageGCHighThresholdPercent = ptr.To(60 + r.Int32N(30))
		}},
		{"soft eviction", func(r *rand.Rand, k *corev1beta1.KubeletConfig) {
			k.EvictionSoft = &corev1beta1.KubeletConfigEviction{MemoryAvailable: another(r, nil, 150, "Mi")}
			k.EvictionSoftGracePeriod = &corev1beta1.KubeletConfigEvictionSoftGracePeriod{
				MemoryAvailable: &metav1.Duration{Duration: time.Minute},
			}
		}},
	}
)

// poolEdit changes a pool.
type poolEdit struct {
	name   string
	change func(*rand.Rand, *corev1beta1.Worker)
}

// poolTriggers replace machines according to the documents; poolEdits do not.
var (
	poolTriggers = []poolEdit{
		{"machine type", func(_ *rand.Rand, w *corev1beta1.Worker) {
			if w.Machine.Type == "small" {
				w.Machine.Type = "medium"
			} else {
				w.Machine.Type = "small"
			}
		}},
		{"size of the volume", func(r *rand.Rand, w *corev1beta1.Worker) {
			w.Volume.VolumeSize = *another(r, &w.Volume.VolumeSize, 20, "Gi")
		}},
	}
	poolEdits = []poolEdit{
		{"label", func(r *rand.Rand, w *corev1beta1.Worker) {
			w.Labels = map[string]string{"example.com/label": *another(r, nil, 0, "")}
		}},
		{"annotation", func(r *rand.Rand, w *corev1beta1.Worker) {
			w.Annotations = map[string]string{"example.com/annotation": *another(r, nil, 0, "")}
		}},
		{"taint", func(r *rand.Rand, w *corev1beta1.Worker) {
			w.Taints = []corev1.Taint{{
				Key: "example.com/taint", Value: *another(r, nil, 0, ""), Effect: corev1.TaintEffectPreferNoSchedule,
			}}
		}},
		{"maximum", func(r *rand.Rand, w *corev1beta1.Worker) { w.Maximum = 1 + r.Int32N(3) }},
		{"surge", func(r *rand.Rand, w *corev1beta1.Worker) { w.MaxSurge = ptr.To(intstr.FromInt32(1 + r.Int32N(2))) }},
		{"priority", func(r *rand.Rand, w *corev1beta1.Worker) { w.Priority = ptr.To(r.Int32N(10)) }},
		{"timeouts", func(r *rand.Rand, w *corev1beta1.Worker) {
			w.MachineControllerManagerSettings = &corev1beta1.MachineControllerManagerSettings{
				MachineDrainTimeout:  &metav1.Duration{Duration: time.Duration(10+r.IntN(50)) * time.Minute},
				MachineHealthTimeout: &metav1.Duration{Duration: time.Duration(10+r.IntN(50)) * time.Minute},
				MaxEvictRetries:      ptr.To(5 + r.Int32N(10)), NodeConditions: []string{"Rusty"},
			}
		}},
		{"configuration of the provider", func(r *rand.Rand, w *corev1beta1.Worker) {
			w.ProviderConfig = &runtime.RawExtension{Raw: fmt.Appendf(nil,
				`{"apiVersion":"local.provider.hortus.dev/v1alpha1","kind":"WorkerConfig","tags":{"example.com/tag":%q}}`,
				*another(r, nil, 0, ""))}
		}},
		{"data volume", func(r *rand.Rand, w *corev1beta1.Worker) {
			w.DataVolumes = []corev1beta1.DataVolume{{Name: "data", VolumeSize: *another(r, nil, 10, "Gi")}}
		}},
		{"kernel parameter", func(r *rand.Rand, w *corev1beta1.Worker) {
			w.Sysctls = map[string]string{"net.core.somaxconn": *another(r, nil, 1000, "")}
		}},
	}
)

// editsOfShoot are changes outside pools that replace no machine.
var editsOfShoot = []struct {
	name   string
	change func(*rand.Rand, *corev1beta1.Shoot)
}{
	{"grace period of nodes", func(r *rand.Rand, s *corev1beta1.Shoot) {
		k := ptr.To(ptr.Deref(s.Spec.Kubernetes.KubeControllerManager, corev1beta1.KubeControllerManagerConfig{}))
		k.NodeMonitorGracePeriod = &metav1.Duration{Duration: time.Duration(40+r.IntN(40)) * time.Second}
		s.Spec.Kubernetes.KubeControllerManager = k
	}},
	// It counts up to Kubernetes 1.33, and with IPVS.
	{"DNS cache", func(r *rand.Rand, s *corev1beta1.Shoot) {
		c := ptr.To(ptr.Deref(s.Spec.SystemComponents, corev1beta1.SystemComponents{}))
		c.NodeLocalDNS = &corev1beta1.NodeLocalDNS{Enabled: r.IntN(2) == 0}
		s.Spec.SystemComponents = c
	}},
}

// another returns a text with a number that differs from the present one.
func another(r *rand.Rand, now *string, least int, unit string) *string {
	for {
		if text := strconv.Itoa(least+r.IntN(30)) + unit; now == nil || text != *now {
			return &text
		}
	}
}

func milli(n int64) *resource.Quantity { return resource.NewMilliQuantity(n, resource.DecimalSI) }

func mebi(n int64) *resource.Quantity { return resource.NewQuantity(n<<20, resource.BinarySI) }

// edited is a Shoot after random changes.
type edited struct {
	shoot *corev1beta1.Shoot
	// changes are the names of the changes, each after its pool.
	changes []string
	// triggered are the pools whose machines are replaced according to the documents, sorted; requested is a pool for
	// which new machines are requested, which is no change of the specification, or "".
	triggered []string
	requested string
}

// rolled are the pools with new machines, sorted.
func (e *edited) rolled() []string {
	rolled := slices.Clone(e.triggered)
	if e.requested != "" {
		rolled = append(rolled, e.requested)
	}
	slices.Sort(rolled)
	return slices.Compact(rolled)
}

// edit makes some random changes of all kinds, at least one. On average they replace the machines of one pool of three.
func edit(r *rand.Rand, shoot *corev1beta1.Shoot) edited {
	e := edited{shoot: shoot.DeepCopy()}
	spec, triggered := &e.shoot.Spec, map[string]bool{}
	note := func(subject, change string) { e.changes = append(e.changes, subject+": "+change) }
	for i := range spec.Provider.Workers {
		w := &spec.Provider.Workers[i]
		for range r.IntN(3) {
			change := poolEdits[r.IntN(len(poolEdits))]
			change.change(r, w)
			note(w.Name, change.name)
		}
		if r.IntN(4) == 0 {
			change := kubeletEdits[r.IntN(len(kubeletEdits))]
			change.change(r, ownKubeletOf(e.shoot, w))
			note(w.Name, change.name)
		}
		if r.IntN(4) == 0 {
			triggered[w.Name] = true
			if n := r.IntN(len(poolTriggers) + len(kubeletTriggers)); n < len(poolTriggers) {
				poolTriggers[n].change(r, w)
				note(w.Name, poolTriggers[n].name)
			} else {
				change := kubeletTriggers[n-len(poolTriggers)]
				change.change(r, ownKubeletOf(e.shoot, w))
				note(w.Name, change.name)
			}
		}
	}
	for len(e.changes) == 0 || r.IntN(3) == 0 {
		change := editsOfShoot[r.IntN(len(editsOfShoot))]
		change.change(r, e.shoot)
		note("shoot", change.name)
	}
	if r.IntN(2) == 0 {
		change := kubeletEdits[r.IntN(len(kubeletEdits))]
		change.change(r, spec.Kubernetes.Kubelet)
		note("shoot", change.name)
	}
	if r.IntN(8) == 0 {
		change := kubeletTriggers[r.IntN(len(kubeletTriggers))]
		change.change(r, spec.Kubernetes.Kubelet)
		note("shoot", change.name)
		for _, w := range spec.Provider.Workers {
			if w.Kubernetes == nil || w.Kubernetes.Kubelet == nil {
				triggered[w.Name] = true
			}
		}
	}
	for _, w := range spec.Provider.Workers {
		if triggered[w.Name] {
			e.triggered = append(e.triggered, w.Name)
		}
	}
	slices.Sort(e.triggered)
	if r.IntN(6) == 0 {
		e.requested = spec.Provider.Workers[r.IntN(len(spec.Provider.Workers))].Name
		note(e.requested, "requested")
	}
	return e
}

// ownKubeletOf is the pool's own configuration of its kubelet; it begins as that of the Shoot.
func ownKubeletOf(shoot *corev1beta1.Shoot, w *corev1beta1.Worker) *corev1beta1.KubeletConfig {
	if w.Kubernetes == nil {
		w.Kubernetes = &corev1beta1.WorkerKubernetes{}
	}
	if w.Kubernetes.Kubelet == nil {
		w.Kubernetes.Kubelet = shoot.Spec.Kubernetes.Kubelet.DeepCopy()
	}
	return w.Kubernetes.Kubelet
}

// patch is a list of operations of a JSON patch, without brackets, that makes the changes.
func (e *edited) patch(t *testing.T) string {
	t.Helper()
	var operations []string
	for path, value := range map[string]any{
		"provider/workers": e.shoot.Spec.Provider.Workers, "kubernetes": e.shoot.Spec.Kubernetes,
		"systemComponents": e.shoot.Spec.SystemComponents,
	} {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		operations = append(operations, fmt.Sprintf(`{"op":"add","path":"/spec/%s","value":%s}`, path, text))
	}
	return strings.Join(operations, ",")
}

// TestRandomEdits requires of the changes that TestRandomEditsRollAsPredicted chooses from that they are valid, that
// their documented effects agree with the hashes of the pools, and that each of them occurs.
func TestRandomEdits(t *testing.T) {
	occurred := map[string]bool{}
	for seed := range numberIn(t, envSeeds, 300) {
		r := rand.New(rand.NewPCG(seed, 0))
		var shoot corev1beta1.Shoot
		if err := yaml.UnmarshalStrict([]byte(testdata(t, "shoot-random.yaml")), &shoot); err != nil {
			t.Fatal(err)
		}
		shoot.ResourceVersion = "1" // As of a Shoot that was read.
		corev1beta1.SetDefaultsShoot(&shoot)
		for range randomRounds {
			e := edit(r, &shoot)
			if errs := corev1beta1.ValidateShootUpdate(e.shoot, &shoot); len(errs) > 0 {
				t.Fatalf("seed %d: %q are invalid: %v", seed, e.changes, errs.ToAggregate())
			}
			if diff := cmp.Diff(e.triggered, rehashed(t, newHash, &shoot, e.shoot)); diff != "" {
				t.Fatalf("seed %d: %q: pools with new machines (-documents +hashes):\n%s", seed, e.changes, diff)
			}
			for _, change := range e.changes {
				_, name, _ := strings.Cut(change, ": ")
				occurred[name] = true
			}
			shoot = *e.shoot
		}
	}
	all := len(kubeletTriggers) + len(kubeletEdits) + len(poolTriggers) + len(poolEdits) + len(editsOfShoot) + 1
	if len(occurred) != all {
		t.Errorf("%d of %d changes occurred: %v", len(occurred), all, occurred)
	}
}
