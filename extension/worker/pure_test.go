package worker

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension/errorcode"
)

func TestSpread(t *testing.T) {
	for name, tc := range map[string]struct {
		total int32
		zones int
		want  []int32
	}{
		"one zone has all":              {5, 1, []int32{5}},
		"equal shares":                  {4, 2, []int32{2, 2}},
		"the first zones get the rest":  {5, 3, []int32{2, 2, 1}},
		"fewer machines than zones":     {1, 3, []int32{1, 0, 0}},
		"no machines":                   {0, 3, []int32{0, 0, 0}},
		"a large number is not rounded": {1000, 3, []int32{334, 333, 333}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []int32
			var sum int32
			for z := range tc.zones {
				got = append(got, spread(tc.total, z, tc.zones))
				sum += got[z]
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("spread() mismatch (-want +got):\n%s", diff)
			}
			if sum != tc.total {
				t.Errorf("shares add up to %d, want %d", sum, tc.total)
			}
		})
	}
}

func TestSpreadIntOrPercent(t *testing.T) {
	for name, tc := range map[string]struct {
		value intstr.IntOrString
		zones int
		total int32
		want  []string
	}{
		"a number is spread":                        {intstr.FromInt32(3), 2, 10, []string{"2", "1"}},
		"a percentage of equal zones stays":         {intstr.FromString("30%"), 2, 10, []string{"30%", "30%"}},
		"a percentage of one zone stays":            {intstr.FromString("30%"), 1, 7, []string{"30%"}},
		"a percentage of unequal zones is weighted": {intstr.FromString("30%"), 2, 5, []string{"36%", "24%"}},
		"a weighted percentage is rounded up":       {intstr.FromString("10%"), 3, 4, []string{"15%", "8%", "8%"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for z := range tc.zones {
				v, err := spreadIntOrPercent(tc.value, z, tc.zones, tc.total)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, v.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("spreadIntOrPercent() mismatch (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := spreadIntOrPercent(intstr.FromString("many"), 0, 2, 3); err == nil {
		t.Error("spreadIntOrPercent() accepts a word")
	}
}

func TestReplicas(t *testing.T) {
	for name, tc := range map[string]struct {
		minimum    int32
		hibernated bool
		want       int32
	}{
		"awake":      {2, false, 2},
		"hibernated": {2, true, 0},
		"may be 0":   {0, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := replicas(tc.minimum, tc.hibernated); got != tc.want {
				t.Errorf("replicas() = %d, want %d", got, tc.want)
			}
		})
	}
}

// scene is a Worker whose single MachineDeployment is as desired in all respects.
func scene(strategy corev1beta1.MachineUpdateStrategy) (Wanted, observed) {
	w := Wanted{Name: "md", ClassName: "md-abcde", pool: &extensionsv1alpha1.WorkerPool{UpdateStrategy: &strategy}}
	md := machinev1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: "md", Generation: 2}}
	md.Spec.Replicas = 2
	md.Status = machinev1alpha1.MachineDeploymentStatus{
		ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2,
	}
	set := machinev1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "md-1"}}
	set.Spec.Template.Labels = map[string]string{"name": "md"}
	set.Spec.Template.Spec.Class.Name = "md-abcde"
	var machines []machinev1alpha1.Machine
	for i := range 2 {
		machines = append(machines, machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("m%d", i), Labels: map[string]string{"name": "md"},
			OwnerReferences: []metav1.OwnerReference{{Name: "md-1"}},
		}})
	}
	return w, observed{
		deployments: []machinev1alpha1.MachineDeployment{md}, sets: []machinev1alpha1.MachineSet{set}, machines: machines,
	}
}

func TestProgress(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	inPlaceCondition := func(reason string) []corev1.NodeCondition {
		return []corev1.NodeCondition{{Type: machinev1alpha1.NodeInPlaceUpdate, Status: corev1.ConditionTrue, Reason: reason}}
	}
	for name, tc := range map[string]struct {
		strategy   corev1beta1.MachineUpdateStrategy
		change     func(*observed)
		hibernated bool
		want       string
		codes      []corev1beta1.ErrorCode
	}{
		"all machines are there": {},
		"no deployment yet": {
			change: func(o *observed) { o.deployments = nil }, want: `MachineDeployment "md" does not exist yet`,
		},
		"the change was not seen yet": {
			change: func(o *observed) { o.deployments[0].Generation = 3 },
			want:   `MachineDeployment "md" has not been observed yet`,
		},
		"no set of the class yet": {
			change: func(o *observed) { o.sets[0].Spec.Template.Spec.Class.Name = "md-old" },
			want:   `MachineDeployment "md" has no MachineSet of class "md-abcde" yet`,
		},
		"one machine is still old": {
			change: func(o *observed) { o.deployments[0].Status.UpdatedReplicas = 1 },
			want:   `MachineDeployment "md" has 1 of 2 machines updated, 2 in total`,
		},
		"one machine too many": {
			change: func(o *observed) { o.deployments[0].Status.Replicas = 3 },
			want:   `MachineDeployment "md" has 2 of 2 machines updated, 3 in total`,
		},
		"one machine is not available": {
			change: func(o *observed) { o.deployments[0].Status.AvailableReplicas = 1 },
			want:   `MachineDeployment "md" has 1 of 2 machines available`,
		},
		"a machine has not joined": {
			change: func(o *observed) {
				o.deployments[0].Status.AvailableReplicas = 1
				o.machines[1].CreationTimestamp = at
				o.machines[1].Spec.MachineConfiguration = &machinev1alpha1.MachineConfiguration{
					MachineCreationTimeout: &metav1.Duration{Duration: time.Minute},
				}
				o.machines[1].Status.CurrentStatus.Phase = machinev1alpha1.MachinePending
			},
			want: `MachineDeployment "md" has 1 of 2 machines available: machine "m1" has not joined since its creation at 2026-03-01T12:00:00Z (replaced after 1m0s)`,
		},
		"a machine is unhealthy while an old one is being deleted": {
			change: func(o *observed) {
				o.deployments[0].Status.Replicas = 3
				o.machines[0].DeletionTimestamp = &at
				o.machines[1].Status.CurrentStatus = machinev1alpha1.CurrentStatus{
					Phase: machinev1alpha1.MachineUnknown, LastUpdateTime: at,
				}
			},
			want: `MachineDeployment "md" has 2 of 2 machines updated, 3 in total: machine "m0" has been in deletion since 2026-03-01T12:00:00Z, ` +
				`machine "m1" has been unhealthy since 2026-03-01T12:00:00Z (replaced after 10m0s)`,
		},
		"an unhealthy machine that is never replaced": {
			change: func(o *observed) {
				o.deployments[0].Status.AvailableReplicas = 1
				o.machines[1].Spec.MachineConfiguration = &machinev1alpha1.MachineConfiguration{DisableHealthTimeout: ptr.To(true)}
				o.machines[1].Status.CurrentStatus = machinev1alpha1.CurrentStatus{
					Phase: machinev1alpha1.MachineUnknown, LastUpdateTime: at,
				}
			},
			want: `MachineDeployment "md" has 1 of 2 machines available: machine "m1" has been unhealthy since 2026-03-01T12:00:00Z`,
		},
		"many machines have not joined": {
			change: func(o *observed) {
				o.deployments[0].Status.AvailableReplicas = 0
				for i := range 5 {
					m := o.machines[0]
					m.Name, m.CreationTimestamp = fmt.Sprintf("n%d", i), at
					m.Status.CurrentStatus.Phase = machinev1alpha1.MachinePending
					o.machines = append(o.machines, m)
				}
			},
			want: `MachineDeployment "md" has 0 of 2 machines available: machine "n0" has not joined since its creation at 2026-03-01T12:00:00Z (replaced after 10m0s), ` +
				`machine "n1" has not joined since its creation at 2026-03-01T12:00:00Z (replaced after 10m0s), ` +
				`machine "n2" has not joined since its creation at 2026-03-01T12:00:00Z (replaced after 10m0s), and 2 more`,
		},
		"a condition is bad": {
			change: func(o *observed) {
				o.deployments[0].Status.Conditions = []machinev1alpha1.MachineDeploymentCondition{
					{Type: machinev1alpha1.MachineDeploymentFrozen, Status: machinev1alpha1.ConditionTrue, Reason: "OverShooting"},
				}
			},
			want: `MachineDeployment "md": condition Frozen is True: OverShooting`,
		},
		"a machine failed": {
			change: func(o *observed) {
				o.machines[1].Status.LastOperation = machinev1alpha1.LastOperation{
					State: machinev1alpha1.MachineStateFailed, Description: "Cloud provider message - QuotaExceeded: Quota exceeded",
				}
			},
			want:  `machine "m1" failed: Cloud provider message - QuotaExceeded: Quota exceeded`,
			codes: []corev1beta1.ErrorCode{corev1beta1.ErrorInfraQuotaExceeded},
		},
		"a machine failed while another has not joined": {
			change: func(o *observed) {
				o.deployments[0].Status.AvailableReplicas = 0
				o.machines[0].CreationTimestamp = at
				o.machines[0].Status.CurrentStatus.Phase = machinev1alpha1.MachinePending
				o.machines[1].Status.LastOperation = machinev1alpha1.LastOperation{
					State: machinev1alpha1.MachineStateFailed, Description: "Cloud provider message - QuotaExceeded: Quota exceeded",
				}
			},
			want: `machine "m1" failed: Cloud provider message - QuotaExceeded: Quota exceeded; MachineDeployment "md" has 0 of 2 machines available: ` +
				`machine "m0" has not joined since its creation at 2026-03-01T12:00:00Z (replaced after 10m0s)`,
			codes: []corev1beta1.ErrorCode{corev1beta1.ErrorInfraQuotaExceeded},
		},
		"a hibernated Shoot waits for deletions": {hibernated: true, want: "2 machine(s) are still to be deleted"},
		"a hibernated Shoot without machines":    {hibernated: true, change: func(o *observed) { o.machines = nil }},
		"machines updated by hand may stay old": {
			strategy: corev1beta1.ManualInPlaceUpdate,
			change: func(o *observed) {
				o.machines[0].OwnerReferences[0].Name = "md-0"
				o.machines[0].Status.Conditions = inPlaceCondition("CandidateForUpdate")
				o.deployments[0].Status.UpdatedReplicas = 1
			},
		},
		"a machine selected by hand must be finished": {
			strategy: corev1beta1.ManualInPlaceUpdate,
			change: func(o *observed) {
				o.machines[0].OwnerReferences[0].Name = "md-0"
				o.machines[0].Status.Conditions = inPlaceCondition("ReadyForUpdate")
				o.deployments[0].Status.UpdatedReplicas = 1
			},
			want: `machine "m0" is being updated (ReadyForUpdate)`,
		},
		"machines updated automatically in place must all be new": {
			strategy: corev1beta1.AutoInPlaceUpdate,
			change: func(o *observed) {
				o.machines[0].OwnerReferences[0].Name = "md-0"
				o.deployments[0].Status.UpdatedReplicas = 1
			},
			want: `MachineDeployment "md" has 1 of 2 machines updated, 2 in total`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			strategy := tc.strategy
			if strategy == "" {
				strategy = corev1beta1.AutoRollingUpdate
			}
			w, have := scene(strategy)
			if tc.change != nil {
				tc.change(&have)
			}
			got, err := progress([]Wanted{w}, have, tc.hibernated)
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("progress() mismatch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.codes, errorcode.Of(err)); diff != "" {
				t.Errorf("codes mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCodesOf has the texts of machine-controller-manager.
func TestCodesOf(t *testing.T) {
	create := func(code, message string) string {
		return fmt.Sprintf("Cloud provider message - machine codes error: code = [%s] message = [%s]", code, message)
	}
	for description, want := range map[string][]corev1beta1.ErrorCode{
		create("Internal", "AuthFailure: unknown access key"): {
			corev1beta1.ErrorInfraUnauthenticated,
		},
		create("InvalidArgument", "InvalidParameterValue: [x]"): {
			corev1beta1.ErrorConfigurationProblem,
		},
		create("ResourceExhausted", "Quota 'CPUS' exceeded"): {
			corev1beta1.ErrorInfraQuotaExceeded,
		},
		create("Unavailable", "Throttling: slow down"): {
			corev1beta1.ErrorInfraRateLimitsExceeded,
		},
		"Cloud provider message - UnauthorizedOperation: no": {
			corev1beta1.ErrorInfraUnauthorized,
		},
		"Provider error: machine codes error: code = [Internal] message = [Error 403: no]. Instance initialization": {
			corev1beta1.ErrorInfraUnauthorized,
		},
		"VM deletion failed due to - machine codes error: code = [Unknown] message = [AccessDenied]. Aborting operation.": {
			corev1beta1.ErrorInfraUnauthorized,
		},
		`Drain failed due to - [error while evicting pod "p": pod disruption budget n/p is misconfigured and requires zero voluntary evictions]. ` +
			"Will retry in next sync.": {corev1beta1.ErrorRetryableConfigurationProblem},

		// The status code marks a transient error, independently of the text.
		create("Unavailable", "InternalServerError"):                                    nil,
		create("DeadlineExceeded", "timeout while waiting for state to become RUNNING"): nil,
		create("Aborted", "Conflict: the instance is being created"):                    nil,
		// The name of a status code is not a text of the cloud.
		create("NotFound", "machine is being created"): nil,
		// Errors that are not from the cloud.
		"Machine conflict-1 failed to join the cluster in 20m0s minutes.": nil,
		"Machine m health checks failing since last 10m0s minutes. Updating machine phase to Failed. Node Conditions: " +
			"[{Type:DiskPressure Status:True Reason:KubeletHasDiskPressure}]": nil,
		"Drain failed due to - Unauthorized. Will retry in next sync.":                                                       nil,
		"Drain failed due to - invalid character '<' looking for beginning of value. Will retry in next sync.":               nil,
		`Drain failed due to - error when evicting pod "p": too many requests scheduled on node n. Will retry in next sync.`: nil,
		`Deletion of Node Object "n" failed due to error: Unauthorized.`:                                                     nil,
		"VM using old node obj": nil,
	} {
		t.Run(description, func(t *testing.T) {
			if diff := cmp.Diff(want, codesOf(description), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("codesOf() mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFailuresThatPassHaveNoCode(t *testing.T) {
	w, have := scene(corev1beta1.AutoRollingUpdate)
	have.machines[0].Status.LastOperation = machinev1alpha1.LastOperation{
		State:       machinev1alpha1.MachineStateFailed,
		Description: "Drain failed due to - Unauthorized. Will retry in next sync. Initiate node drain",
	}
	err := failures([]Wanted{w}, have)
	if err == nil {
		t.Fatal("failures() = nil")
	}
	if codes := errorcode.Of(fmt.Errorf("reconcile: %w", err)); len(codes) != 0 {
		t.Errorf("codes are %v, want none", codes)
	}
}

func TestStateRoundTrip(t *testing.T) {
	_, have := scene(corev1beta1.AutoRollingUpdate)
	have.machines[0].Spec.ProviderID = "local:///r/i-1"
	state := Collect(have.deployments, have.sets, have.machines)
	if n := len(state["md"].Machines); n != 1 {
		t.Errorf("state has %d machines, want only the one with a provider ID", n)
	}
	raw, err := EncodeState(state)
	if err != nil {
		t.Fatal(err)
	}
	again, err := EncodeState(state)
	if err != nil {
		t.Fatal(err)
	}
	if string(raw.Raw) != string(again.Raw) {
		t.Error("the same state is encoded differently")
	}
	got, err := DecodeState(raw)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(state, got); diff != "" {
		t.Errorf("state mismatch (-want +got):\n%s", diff)
	}
	if got := decompress(t, raw.Raw); !strings.HasPrefix(got, `{"machineDeployments":{"md":{"replicas":`) {
		t.Errorf("the state is encoded as %.100s", got)
	}
	if raw, err := EncodeState(nil); err != nil || raw != nil {
		t.Errorf("EncodeState(nil) = %v, %v, want nothing", raw, err)
	}
	if got, err := DecodeState(nil); err != nil || got != nil {
		t.Errorf("DecodeState(nil) = %v, %v, want nothing", got, err)
	}
}

func TestUpdatedByHand(t *testing.T) {
	deployment := func(hash string, updated int32) machinev1alpha1.MachineDeployment {
		md := machinev1alpha1.MachineDeployment{}
		md.Labels = map[string]string{corev1beta1.LabelWorkerPool: "p"}
		md.Annotations = map[string]string{annotationInPlace: hash}
		md.Status.Replicas, md.Status.UpdatedReplicas = 2, updated
		return md
	}
	unobserved := deployment("new", 2)
	unobserved.Generation = 1
	for name, tc := range map[string]struct {
		strategy    corev1beta1.MachineUpdateStrategy
		deployments []machinev1alpha1.MachineDeployment
		want        bool
	}{
		"all machines are updated": {
			corev1beta1.ManualInPlaceUpdate, []machinev1alpha1.MachineDeployment{deployment("new", 2)}, true,
		},
		"one machine is old": {
			corev1beta1.ManualInPlaceUpdate, []machinev1alpha1.MachineDeployment{deployment("new", 1)}, false,
		},
		"another zone has an old machine": {
			corev1beta1.ManualInPlaceUpdate, []machinev1alpha1.MachineDeployment{
				deployment("new", 2), deployment("new", 1),
			}, false,
		},
		"the change has not been observed yet": {
			corev1beta1.ManualInPlaceUpdate, []machinev1alpha1.MachineDeployment{unobserved}, false,
		},
		"the change is recorded already": {
			corev1beta1.ManualInPlaceUpdate, []machinev1alpha1.MachineDeployment{deployment("old", 2)}, false,
		},
		"pools with automatic updates are awaited": {
			corev1beta1.AutoInPlaceUpdate, []machinev1alpha1.MachineDeployment{deployment("new", 2)}, false,
		},
		"there is nothing yet": {corev1beta1.ManualInPlaceUpdate, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := testWorker()
			w.Spec.Pools[0].UpdateStrategy = &tc.strategy
			w.Status.InPlaceUpdates = &extensionsv1alpha1.InPlaceUpdatesWorkerStatus{
				WorkerPoolToHashMap: map[string]string{"p": "old"},
			}
			if got := updatedByHand(w, tc.deployments); got != tc.want {
				t.Errorf("updatedByHand() = %t, want %t", got, tc.want)
			}
		})
	}
}

// Both forms are read: the one of other programs, which is also written, and the one that v0.1.0 wrote.
func TestStatesOfOthersAreRead(t *testing.T) {
	want := State{"shoot--a--b-pool-z1": {
		Replicas: 2,
		Machines: []machinev1alpha1.Machine{{
			ObjectMeta: metav1.ObjectMeta{Name: "m", Labels: map[string]string{"node": "n"}},
			Spec:       machinev1alpha1.MachineSpec{ProviderID: "cloud:///r/i-1"},
		}},
	}}
	const deployment = `{"replicas":2,"machines":[{"metadata":{"name":"m","creationTimestamp":null,"labels":{"node":"n"}},` +
		`"spec":{"providerID":"cloud:///r/i-1"}}]}`
	for name, plain := range map[string]string{
		"as Gardener": `{"machineDeployments":{"shoot--a--b-pool-z1":` + deployment + `}}`,
		"as v0.1.0":   `{"shoot--a--b-pool-z1":` + deployment + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := DecodeState(&runtime.RawExtension{Raw: compress(t, plain)})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("state mismatch (-want +got):\n%s", diff)
			}
		})
	}
	none := &runtime.RawExtension{Raw: compress(t, `{"machineDeployments":{}}`)}
	if got, err := DecodeState(none); err != nil || len(got) > 0 {
		t.Errorf("a state of no machines = %v, %v", got, err)
	}
}

func compress(t *testing.T, plain string) []byte {
	t.Helper()
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	_, err := io.WriteString(zip, plain)
	if err := errors.Join(err, zip.Close()); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(map[string][]byte{"state": packed.Bytes()})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func decompress(t *testing.T, raw []byte) string {
	t.Helper()
	var stored struct {
		State []byte `json:"state"`
	}
	if err := json.Unmarshal(raw, &stored); err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(stored.State))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}
