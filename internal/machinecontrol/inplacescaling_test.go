package machinecontrol

import (
	"strconv"
	"testing"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	machinefake "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned/fake"
	deploymentcontroller "github.com/gardener/machine-controller-manager/pkg/controller"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// TestScalingDuringUpdatesInPlace has a MachineDeployment of another size than its MachineSets were made for. The last
// set is the new one.
func TestScalingDuringUpdatesInPlace(t *testing.T) {
	const former = 3
	created := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		sets     []int32
		replicas int32
		surge    string // Empty: the user selects the machines.
		change   func(*machinev1alpha1.MachineDeployment)
		want     []int32
		library  bool // It does the scaling; nothing is to be changed.
	}{
		"hibernation, some machines are updated":    {sets: []int32{1, 2}, replicas: 0, want: []int32{0, 0}},
		"hibernation, by itself":                    {sets: []int32{2, 1}, surge: "0", replicas: 0, want: []int32{0, 0}},
		"hibernation, with a surge":                 {sets: []int32{3, 1}, surge: "1", replicas: 0, want: []int32{0, 0}},
		"hibernation, three versions":               {sets: []int32{1, 1, 1}, replicas: 0, want: []int32{0, 0, 0}},
		"hibernation, two versions and a third":     {sets: []int32{1, 2, 0}, replicas: 0, want: []int32{0, 0, 0}},
		"hibernation, no machine is updated":        {sets: []int32{3, 0}, replicas: 0, library: true},
		"hibernation, all machines are updated":     {sets: []int32{0, 3}, replicas: 0, library: true},
		"less: the oldest machines go first":        {sets: []int32{1, 1, 1}, replicas: 2, want: []int32{0, 1, 1}},
		"less than the new ones":                    {sets: []int32{1, 2}, replicas: 1, want: []int32{0, 1}},
		"less, with a surge":                        {sets: []int32{3, 1}, surge: "1", replicas: 2, want: []int32{2, 1}},
		"more":                                      {sets: []int32{2, 1}, replicas: 5, want: []int32{2, 3}},
		"more, the new set has none":                {sets: []int32{1, 2, 0}, replicas: 4, want: []int32{1, 2, 1}},
		"more, with a surge":                        {sets: []int32{3, 1}, surge: "1", replicas: 4, want: []int32{3, 2}},
		"more, with a surge in percent":             {sets: []int32{3, 1}, surge: "50%", replicas: 4, want: []int32{3, 3}},
		"more, with a surge that would be too much": {sets: []int32{1, 2}, surge: "3", replicas: 4, want: []int32{1, 4}},
		"as many as before":                         {sets: []int32{2, 1}, replicas: former, library: true},
		"a rolling update": {
			sets: []int32{1, 2}, replicas: 0, library: true, change: func(d *machinev1alpha1.MachineDeployment) {
				d.Spec.Strategy.Type = machinev1alpha1.RollingUpdateMachineDeploymentStrategyType
			},
		},
		"paused": {
			sets: []int32{1, 2}, replicas: 0, library: true,
			change: func(d *machinev1alpha1.MachineDeployment) { d.Spec.Paused = true },
		},
		"in deletion": {
			sets: []int32{1, 2}, replicas: 0, library: true, change: func(d *machinev1alpha1.MachineDeployment) {
				d.DeletionTimestamp, d.Finalizers = &metav1.Time{Time: created}, []string{"x"}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := &machinev1alpha1.MachineDeployment{}
			d.Namespace, d.Name, d.UID, d.Spec.Replicas = "ns", "md", "uid", tc.replicas
			d.Spec.Template.Spec.Class.Name = "class-" + strconv.Itoa(len(tc.sets)-1)
			u := &machinev1alpha1.InPlaceUpdateMachineDeployment{OrchestrationType: machinev1alpha1.OrchestrationTypeManual}
			if tc.surge != "" {
				u.OrchestrationType, u.MaxSurge = machinev1alpha1.OrchestrationTypeAuto, ptr.To(intstr.Parse(tc.surge))
			}
			d.Spec.Strategy = machinev1alpha1.MachineDeploymentStrategy{
				Type: machinev1alpha1.InPlaceUpdateMachineDeploymentStrategyType, InPlaceUpdate: u,
			}
			if tc.change != nil {
				tc.change(d)
			}
			client := machinefake.NewSimpleClientset(d)
			set := func(name, class string, owner types.UID, replicas int32) *machinev1alpha1.MachineSet {
				s := &machinev1alpha1.MachineSet{}
				s.Namespace, s.Name, s.Labels = "ns", name, map[string]string{labelDeployment: "md"}
				s.OwnerReferences = []metav1.OwnerReference{{Name: "md", UID: owner, Controller: ptr.To(true)}}
				s.Annotations = map[string]string{deploymentcontroller.DesiredReplicasAnnotation: strconv.Itoa(former)}
				s.Spec.Replicas, s.Spec.Template.Spec.Class.Name = replicas, class
				return s
			}
			objects := []*machinev1alpha1.MachineSet{set("foreign", "class-0", "other", 7)}
			for i, replicas := range tc.sets {
				s := set("set-"+strconv.Itoa(i), "class-"+strconv.Itoa(i), d.UID, replicas)
				s.CreationTimestamp = metav1.NewTime(created.Add(time.Duration(i) * time.Hour))
				objects = append(objects, s)
			}
			sets := client.MachineV1alpha1().MachineSets("ns")
			for _, s := range objects {
				if _, err := sets.Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			s := newScaling(client.MachineV1alpha1().MachineDeployments("ns"), sets)
			defer s.queue.ShutDown()
			for range 2 { // The second time, nothing is left to do.
				if err := s.reconcile(t.Context(), "md"); err != nil {
					t.Fatal(err)
				}
				want, noted := tc.want, strconv.Itoa(int(tc.replicas))
				if tc.library {
					want, noted = tc.sets, strconv.Itoa(former)
				}
				var got []int32
				for _, o := range objects {
					now, err := sets.Get(t.Context(), o.Name, metav1.GetOptions{})
					if err != nil {
						t.Fatal(err)
					}
					if o.Name == "foreign" {
						if now.Spec.Replicas != 7 {
							t.Errorf("the set of another deployment has %d replicas, want 7", now.Spec.Replicas)
						}
						continue
					}
					got = append(got, now.Spec.Replicas)
					if is := now.Annotations[deploymentcontroller.DesiredReplicasAnnotation]; is != noted {
						t.Errorf("set %s is annotated with the size %s, want %s", now.Name, is, noted)
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("sizes (-want +got):\n%s", diff)
				}
			}
		})
	}
}
