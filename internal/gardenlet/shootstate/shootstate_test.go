package shootstate

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension/worker"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
)

func TestDecide(t *testing.T) {
	operation := func(kind corev1beta1.LastOperationType, state corev1beta1.LastOperationState) func(*corev1beta1.Shoot) {
		return func(s *corev1beta1.Shoot) {
			s.Status.LastOperation = &corev1beta1.LastOperation{Type: kind, State: state}
		}
	}
	for name, tc := range map[string]struct {
		change func(*corev1beta1.Shoot)
		want   bool
	}{
		"a healthy Shoot":                       {operation("Reconcile", "Succeeded"), true},
		"a Shoot that is being created":         {operation("Create", "Processing"), true},
		"a Shoot whose reconciliation fails":    {operation("Reconcile", "Failed"), true},
		"a Shoot without operation":             {func(*corev1beta1.Shoot) {}, true},
		"a Shoot on another seed":               {func(s *corev1beta1.Shoot) { s.Status.SeedName = ptr.To("b") }, false},
		"a Shoot without a seed":                {func(s *corev1beta1.Shoot) { s.Status.SeedName = nil }, false},
		"a Shoot without namespace":             {func(s *corev1beta1.Shoot) { s.Status.TechnicalID = "" }, false},
		"a Shoot that is being deleted":         {func(s *corev1beta1.Shoot) { s.DeletionTimestamp = &metav1.Time{} }, false},
		"a Shoot that is leaving the seed":      {operation("Migrate", "Processing"), true},
		"a Shoot whose migration fails":         {operation("Migrate", "Error"), true},
		"a Shoot that arrives":                  {operation("Migrate", "Succeeded"), false},
		"a Shoot whose migration was cancelled": {operation("Migrate", "Aborted"), false},
		"a Shoot that is being restored":        {operation("Restore", "Processing"), false},
		"a Shoot whose restore fails":           {operation("Restore", "Failed"), false},
		"a Shoot that has been restored":        {operation("Restore", "Succeeded"), true},
		"a Shoot to be moved, not yet migrated": {func(s *corev1beta1.Shoot) { s.Spec.SeedName = ptr.To("b") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &corev1beta1.Shoot{Status: corev1beta1.ShootStatus{SeedName: ptr.To("a"), TechnicalID: "shoot--p--s"}}
			tc.change(s)
			reason, got := Decide(s, "a")
			if got != tc.want || (reason == "") != got {
				t.Errorf("Decide() = %q, %t, want %t", reason, got, tc.want)
			}
		})
	}
}

func TestDesired(t *testing.T) {
	machine := func(name string, m machinev1alpha1.Machine) machinev1alpha1.Machine {
		m.Name, m.Labels = name, map[string]string{"name": "pool"}
		return m
	}
	machines, err := worker.EncodeState(worker.State{"pool": {Replicas: 1}})
	if err != nil {
		t.Fatal(err)
	}
	resources := []extensionsv1alpha1.NamedResourceReference{
		{Name: "r", ResourceRef: autoscalingv1.CrossVersionObjectReference{
			APIVersion: "v1", Kind: "ConfigMap", Name: "there",
		}},
		{Name: "l", ResourceRef: autoscalingv1.CrossVersionObjectReference{
			APIVersion: "v1", Kind: "ConfigMap", Name: "lost",
		}},
	}
	status := func(state string) extensionsv1alpha1.DefaultStatus {
		return extensionsv1alpha1.DefaultStatus{State: &runtime.RawExtension{Raw: []byte(state)}}
	}
	infra := &extensionsv1alpha1.Infrastructure{
		ObjectMeta: metav1.ObjectMeta{Name: "i"},
		Status:     extensionsv1alpha1.InfrastructureStatus{DefaultStatus: status(`{"a":1}`)},
	}
	infra.Status.Resources = resources
	none := &extensionsv1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: extensionsv1alpha1.NetworkStatus{DefaultStatus: status(`null`)},
	}
	leaving := &extensionsv1alpha1.Extension{
		ObjectMeta: metav1.ObjectMeta{Name: "e", DeletionTimestamp: &metav1.Time{}},
		Status:     extensionsv1alpha1.ExtensionStatus{DefaultStatus: status(`{}`)},
	}
	exposure := &extensionsv1alpha1.ControlPlane{
		ObjectMeta: metav1.ObjectMeta{Name: "c"}, Status: extensionsv1alpha1.ControlPlaneStatus{DefaultStatus: status(`{}`)},
	}
	exposure.Spec.Purpose = ptr.To(extensionsv1alpha1.ControlPlanePurposeExposure)
	restored := &extensionsv1alpha1.Worker{ObjectMeta: metav1.ObjectMeta{Name: "w"}}
	restored.Status.State = machines
	there := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"k": "v"}, "status": map[string]any{},
		"metadata": map[string]any{
			"name": "there", "namespace": "ns", "resourceVersion": "7", "uid": "u", "labels": map[string]any{"l": "1"},
		},
	}}
	spec, missing, err := Desired(&Observed{
		Secrets: []corev1.Secret{
			{ObjectMeta: metav1.ObjectMeta{Name: "ca", Labels: map[string]string{"persist": "true"}},
				Data: map[string][]byte{"ca.crt": []byte("x")}},
			{ObjectMeta: metav1.ObjectMeta{Name: "gone", DeletionTimestamp: &metav1.Time{}}},
		},
		Extensions: []extensionsv1alpha1.Object{infra, none, leaving, exposure, restored},
		Deployments: []machinev1alpha1.MachineDeployment{{
			ObjectMeta: metav1.ObjectMeta{Name: "pool"}, Spec: machinev1alpha1.MachineDeploymentSpec{Replicas: 2},
		}},
		Machines: []machinev1alpha1.Machine{
			machine("m1", machinev1alpha1.Machine{Spec: machinev1alpha1.MachineSpec{ProviderID: "id"}}),
			machine("m2", machinev1alpha1.Machine{}),
		},
		Referenced: map[Reference]*unstructured.Unstructured{{"v1", "ConfigMap", "there"}: there},
	})
	if err != nil {
		t.Fatal(err)
	}
	state, err := worker.DecodeState(&spec.Gardener[1].Data)
	if err != nil {
		t.Fatal(err)
	}
	if pool := state["pool"]; pool.Replicas != 2 || len(pool.Machines) != 1 || pool.Machines[0].Name != "m1" {
		t.Errorf("machine state is %+v, want m1 of 2", pool)
	}
	spec.Gardener[1].Data.Raw = nil
	want := corev1beta1.ShootStateSpec{
		Gardener: []corev1beta1.GardenerResourceData{
			{Name: "ca", Type: "secret", Labels: map[string]string{"persist": "true"},
				Data: runtime.RawExtension{Raw: []byte(`{"ca.crt":"eA=="}`)}},
			{Name: "machine-state", Type: "machine-state"},
		},
		Extensions: []corev1beta1.ExtensionResourceState{
			{Kind: "Infrastructure", Name: ptr.To("i"), State: &runtime.RawExtension{Raw: []byte(`{"a":1}`)},
				Resources: []corev1beta1.NamedResourceReference{
					{Name: "r", ResourceRef: resources[0].ResourceRef}, {Name: "l", ResourceRef: resources[1].ResourceRef},
				}},
			{Kind: "ControlPlane", Name: ptr.To("c"), Purpose: ptr.To("exposure"),
				State: &runtime.RawExtension{Raw: []byte(`{}`)}},
		},
		Resources: []corev1beta1.ResourceData{{
			CrossVersionObjectReference: resources[0].ResourceRef,
			Data: runtime.RawExtension{
				Raw: []byte(`{"apiVersion":"v1","data":{"k":"v"},"kind":"ConfigMap","metadata":{"labels":{"l":"1"},"name":"there","namespace":"ns"}}`),
			},
		}},
	}
	if diff := cmp.Diff(want, spec); diff != "" {
		t.Errorf("Desired() mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Reference{{"v1", "ConfigMap", "lost"}}, missing); diff != "" {
		t.Errorf("missing references mismatch (-want +got):\n%s", diff)
	}
}

// The patch turns every existing state into every desired one, and into the recorded one.
func TestPatchesLeadToWhatIsWanted(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	some := func() *corev1beta1.ShootStateSpec {
		spec := &corev1beta1.ShootStateSpec{}
		for i := range 6 {
			raw := fmt.Appendf(nil, `{"v":%d}`, random.IntN(3))
			if random.IntN(2) == 0 {
				spec.Gardener = append(spec.Gardener,
					corev1beta1.GardenerResourceData{Name: fmt.Sprint("s", i), Type: "secret", Data: runtime.RawExtension{Raw: raw}})
			}
			if random.IntN(2) == 0 {
				spec.Extensions = append(spec.Extensions, corev1beta1.ExtensionResourceState{
					Kind: "Extension", Name: ptr.To(fmt.Sprint("e", i)), State: &runtime.RawExtension{Raw: raw},
				})
			}
			if random.IntN(8) == 0 {
				spec.Resources = append(spec.Resources, corev1beta1.ResourceData{
					CrossVersionObjectReference: autoscalingv1.CrossVersionObjectReference{
						APIVersion: "v1", Kind: "Secret", Name: fmt.Sprint("r", i),
					}, Data: runtime.RawExtension{Raw: raw},
				})
			}
		}
		random.Shuffle(len(spec.Gardener),
			func(i, j int) { spec.Gardener[i], spec.Gardener[j] = spec.Gardener[j], spec.Gardener[i] })
		return spec
	}
	for range 500 {
		from, to := some(), some()
		have, err := contentOf(from)
		if err != nil {
			t.Fatal(err)
		}
		want, err := contentOf(to)
		if err != nil {
			t.Fatal(err)
		}
		operations, after := diff(have, want, nil)
		document, err := json.Marshal(&corev1beta1.ShootState{Spec: *from})
		if err != nil {
			t.Fatal(err)
		}
		if len(operations) > 0 {
			patch, err := jsonpatch.DecodePatch(mustJSON(operations))
			if err != nil {
				t.Fatal(err)
			}
			if document, err = patch.Apply(document); err != nil {
				t.Fatalf("apply %s: %v", mustJSON(operations), err)
			}
		}
		result := &corev1beta1.ShootState{}
		if err := json.Unmarshal(document, result); err != nil {
			t.Fatal(err)
		}
		got, err := contentOf(&result.Spec)
		if err != nil {
			t.Fatal(err)
		}
		for _, list := range lists {
			if diff := cmp.Diff(sums(want[list], true), sums(got[list], true)); diff != "" {
				t.Fatalf("%s after the patch mismatch (-want +got):\n%s", list, diff)
			}
			if diff := cmp.Diff(sums(after[list], false), sums(got[list], false)); diff != "" {
				t.Fatalf("record of %s mismatch (-want +got):\n%s", list, diff)
			}
		}
		if again, _ := diff(after, want, nil); len(again) > 0 {
			t.Fatalf("the second patch is %s, want none", mustJSON(again))
		}
	}
}

// sums by key, or in order.
func sums(entries []entry, sorted bool) map[string]sum {
	out := map[string]sum{}
	for i, e := range entries {
		key := e.key
		if !sorted {
			key = fmt.Sprint(i, " ", key)
		}
		out[key] = e.sum
	}
	return out
}

func TestWhatIsMissingIsKept(t *testing.T) {
	have := content{"resources": {{key: "v1 Secret a"}, {key: "v1 Secret b"}}}
	operations, after := diff(have, content{}, map[string]bool{"v1 Secret a": true})
	if diff := cmp.Diff([]operation{{Op: "remove", Path: "/spec/resources/1"}}, operations); diff != "" {
		t.Errorf("operations mismatch (-want +got):\n%s", diff)
	}
	if len(after["resources"]) != 1 {
		t.Errorf("the record has %d resources, want 1", len(after["resources"]))
	}
}

// Objects in the cache hold no data, and their checksums change only with the relevant fields.
func TestCacheHoldsChecksums(t *testing.T) {
	worker := func(change func(*extensionsv1alpha1.Worker)) client.Object {
		w := &extensionsv1alpha1.Worker{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "w"}}
		w.Status.State = &runtime.RawExtension{Raw: []byte(`{"a":1}`)}
		change(w)
		return w
	}
	machine := func(change func(*machinev1alpha1.Machine)) client.Object {
		m := &machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}}
		m.Spec.ProviderID = "id"
		change(m)
		return m
	}
	secret := func(data string) client.Object {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Data: map[string][]byte{"k": []byte(data)},
		}
	}
	for name, tc := range map[string]struct {
		old, new client.Object
		want     bool
	}{
		"the same": {
			worker(func(*extensionsv1alpha1.Worker) {}), worker(func(*extensionsv1alpha1.Worker) {}), false,
		},
		"another state": {
			worker(func(*extensionsv1alpha1.Worker) {}),
			worker(func(w *extensionsv1alpha1.Worker) { w.Status.State.Raw = []byte(`{}`) }), true,
		},
		"no state any more": {
			worker(func(*extensionsv1alpha1.Worker) {}), worker(func(w *extensionsv1alpha1.Worker) { w.Status.State = nil }),
			true,
		},
		"another last operation": {
			worker(func(*extensionsv1alpha1.Worker) {}),
			worker(func(w *extensionsv1alpha1.Worker) { w.Status.LastOperation = &corev1beta1.LastOperation{} }), false,
		},
		"another spec": {
			worker(func(*extensionsv1alpha1.Worker) {}), worker(func(w *extensionsv1alpha1.Worker) { w.Spec.Region = "r" }),
			false,
		},
		"a machine's heartbeat": {machine(func(*machinev1alpha1.Machine) {}), machine(func(m *machinev1alpha1.Machine) {
			m.Status.CurrentStatus.LastUpdateTime = metav1.Now()
		}), false},
		"a machine's node": {
			machine(func(*machinev1alpha1.Machine) {}),
			machine(func(m *machinev1alpha1.Machine) { m.Labels = map[string]string{"node": "n"} }), true,
		},
		"a machine that does not exist yet": {machine(func(m *machinev1alpha1.Machine) { m.Spec.ProviderID = "" }),
			machine(func(m *machinev1alpha1.Machine) {
				m.Spec.ProviderID = ""
				m.Spec.Class.Name = "c"
			}), false},
		"a Secret's data": {secret("a"), secret("b"), true},
	} {
		t.Run(name, func(t *testing.T) {
			reduced := func(o client.Object) client.Object {
				out, err := reduce(o)
				if err != nil {
					t.Fatal(err)
				}
				return out.(client.Object)
			}
			if got := checksum(reduced(tc.old)) != checksum(reduced(tc.new)); got != tc.want {
				t.Errorf("the checksum changes: %t, want %t", got, tc.want)
			}
			bytes, err := json.Marshal(reduced(tc.new))
			if err != nil {
				t.Fatal(err)
			}
			if len(bytes) > 1000 {
				t.Errorf("the cache holds %s", bytes)
			}
		})
	}
	if s := reducedSecret(t, secret("a")); len(s.Data) > 0 {
		t.Error("the cache holds credentials")
	}
}

func reducedSecret(t *testing.T, o client.Object) *corev1.Secret {
	t.Helper()
	out, err := reduce(o)
	if err != nil {
		t.Fatal(err)
	}
	return out.(*corev1.Secret)
}

func TestPauses(t *testing.T) {
	for bytes, want := range map[int]time.Duration{
		0: 10 * time.Second, 100 << 10: 10 * time.Second, 20 << 20: 40 * time.Second,
	} {
		if got := pauseAfter(bytes); got != want {
			t.Errorf("pauseAfter(%d) = %s, want %s", bytes, got, want)
		}
	}
}

func TestEveryKindOfExtensionObjectsIsSaved(t *testing.T) {
	shoot := &corev1beta1.Shoot{Status: corev1beta1.ShootStatus{TechnicalID: "shoot--p--s"}}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, extensionsv1alpha1.AddToScheme, machinev1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	seed := fake.NewClientBuilder().WithScheme(scheme)
	for _, kind := range extensionobject.Kinds {
		o := kind.New()
		o.SetNamespace(shoot.Status.TechnicalID)
		o.SetName("a")
		seed.WithObjects(o)
		if _, err := reduce(o); err != nil {
			t.Errorf("%s is not watched: %v", kind.Name, err)
		}
	}
	observed, err := observe(t.Context(), seed.Build(), shoot)
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, o := range observed.Extensions {
		got = append(got, extensionobject.KindOf(o))
	}
	for _, kind := range extensionobject.Kinds {
		want = append(want, kind.Name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("observed kinds (-want +got):\n%s", diff)
	}
}
