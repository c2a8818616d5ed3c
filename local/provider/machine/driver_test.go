package machine

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/status"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/cloudtest"
	"hortus.dev/hortus/local/provider/credentials"
	"hortus.dev/hortus/local/provider/csi"
	"hortus.dev/hortus/local/provider/v1alpha1"
)

func codeOf(err error) codes.Code {
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}
	return codes.OK
}

// dataOf is the content of the Secret of a MachineClass.
func dataOf(c *cloudtest.Cloud) map[string][]byte {
	return map[string][]byte{
		credentials.KeyEndpoint: []byte(c.Config.Endpoint), credentials.KeyAccessKey: []byte(c.Config.AccessKey),
		credentials.KeySecretKey: []byte(c.Config.SecretKey), credentials.KeyCA: []byte(c.Config.CA),
		keyUserData: []byte("data"),
	}
}

func TestDriver(t *testing.T) {
	ctx := context.Background()
	c := cloudtest.Start(t, cloudtest.Options{})
	used := 0
	d := &Driver{Clock: clock.RealClock{}, Cloud: CloudFor(&credentials.Clients{}, func(*cloud.Client) { used++ })}
	raw, err := json.Marshal(v1alpha1.MachineSpec{
		MachineType: "small", Image: "hortus.dev/machine:1.0.0", NetworkID: c.Network(t, "n", "10.9.0.0/24"),
		Tags: map[string]string{v1alpha1.TagCluster: "shoot--dev--a", v1alpha1.TagRole: v1alpha1.RoleNode},
	})
	if err != nil {
		t.Fatal(err)
	}
	class := &machinev1alpha1.MachineClass{Provider: "local", ProviderSpec: runtime.RawExtension{Raw: raw}}
	secret := &corev1.Secret{Data: dataOf(c)}
	m := &machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m1"}}

	if _, err := d.GetMachineStatus(ctx,
		&driver.GetMachineStatusRequest{Machine: m, MachineClass: class, Secret: secret}); codeOf(err) != codes.NotFound {
		t.Errorf("status of a machine that does not exist: %v, want code NotFound", err)
	}
	first, err := d.CreateMachine(ctx, &driver.CreateMachineRequest{Machine: m, MachineClass: class, Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	again, err := d.CreateMachine(ctx, &driver.CreateMachineRequest{Machine: m, MachineClass: class, Secret: secret})
	if err != nil || again.ProviderID != first.ProviderID {
		t.Errorf("a second call returned %+v, %v, want the same instance %s", again, err, first.ProviderID)
	}
	if first.NodeName != "m1" {
		t.Errorf("node is named %q, want m1", first.NodeName)
	}
	got, err := d.GetMachineStatus(ctx, &driver.GetMachineStatusRequest{Machine: m, MachineClass: class, Secret: secret})
	if err != nil || got.ProviderID != first.ProviderID {
		t.Errorf("status is %+v, %v", got, err)
	}
	list, err := d.ListMachines(ctx, &driver.ListMachinesRequest{MachineClass: class, Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{first.ProviderID: "m1"}, list.MachineList); diff != "" {
		t.Errorf("machines mismatch (-want +got):\n%s", diff)
	}
	for range 2 { // The second call finds nothing, which is not an error.
		if _, err := d.DeleteMachine(ctx,
			&driver.DeleteMachineRequest{Machine: m, MachineClass: class, Secret: secret}); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := c.Client.ListInstances(ctx, cloud.Filter{}); err != nil || len(found) != 0 {
		t.Errorf("instances after deletion are %v, %v, want none", found, err)
	}
	if used == 0 {
		t.Error("the client was not announced")
	}
}

// TestMachinesHaveDataVolumes: they are created before the instance, found again by a second call, and deleted after
// it, also if the instance was never created, or the class does not have them any more. Other volumes stay.
func TestMachinesHaveDataVolumes(t *testing.T) {
	ctx := t.Context()
	c := cloudtest.Start(t, cloudtest.Options{})
	d := &Driver{Clock: clock.RealClock{}, Cloud: CloudFor(&credentials.Clients{}, func(*cloud.Client) {})}
	class := func(networkID string, volumes ...v1alpha1.MachineVolume) *machinev1alpha1.MachineClass {
		raw, err := json.Marshal(v1alpha1.MachineSpec{
			MachineType: "small", Image: "hortus.dev/machine:1.0.0", NetworkID: networkID, Volumes: volumes,
			Tags: map[string]string{v1alpha1.TagCluster: "shoot--dev--a", v1alpha1.TagRole: v1alpha1.RoleNode},
		})
		if err != nil {
			t.Fatal(err)
		}
		return &machinev1alpha1.MachineClass{Provider: "local", ProviderSpec: runtime.RawExtension{Raw: raw}}
	}
	secret := &corev1.Secret{Data: dataOf(c)}
	kubelet := v1alpha1.MachineVolume{Name: "kubelet", SizeBytes: 1 << 30, Path: "/var/lib/kubelet"}
	scratch := v1alpha1.MachineVolume{Name: "scratch", SizeBytes: 2 << 30, Path: "/mnt/data/scratch"}
	network := c.Network(t, "n", "10.9.0.0/24")
	_, err := c.Client.CreateVolume(ctx, cloud.CreateVolume{
		Name: "of-a-claim", SizeBytes: 1, Tags: map[string]string{v1alpha1.TagCluster: "shoot--dev--a"},
	})
	if err != nil {
		t.Fatal(err)
	}
	volumes := func(want ...string) {
		t.Helper()
		var got []string
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			found, err := c.Client.ListVolumes(ctx, cloud.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			got = nil
			for _, v := range found {
				got = append(got, v.Name)
			}
			if slices.Sort(got); slices.Equal(got, want) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("volumes of the cloud are %q, want %q", got, want)
			}
		}
	}
	of := func(name string) *machinev1alpha1.Machine {
		return &machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	create := func(name string, class *machinev1alpha1.MachineClass) error {
		_, err := d.CreateMachine(ctx, &driver.CreateMachineRequest{Machine: of(name), MachineClass: class, Secret: secret})
		return err
	}
	remove := func(name string, class *machinev1alpha1.MachineClass) {
		t.Helper()
		if _, err := d.DeleteMachine(ctx,
			&driver.DeleteMachineRequest{Machine: of(name), MachineClass: class, Secret: secret}); err != nil {
			t.Fatal(err)
		}
	}

	for range 2 {
		if err := create("m1", class(network, kubelet, scratch)); err != nil {
			t.Fatal(err)
		}
		volumes("m1-kubelet", "m1-scratch", "of-a-claim")
	}
	instances, err := c.Client.ListInstances(ctx, cloud.Filter{Name: "m1"})
	if err != nil || len(instances) != 1 {
		t.Fatalf("instances are %v, %v", instances, err)
	}
	var paths []string
	for _, v := range instances[0].Volumes {
		paths = append(paths, v.Path)
	}
	if want := []string{kubelet.Path, scratch.Path}; !slices.Equal(paths, want) {
		t.Errorf("volumes are mounted at %q, want %q", paths, want)
	}

	if err := create("m2", class("net-that-does-not-exist", scratch)); err == nil {
		t.Error("a machine without network was created")
	}
	volumes("m1-kubelet", "m1-scratch", "m2-scratch", "of-a-claim")
	remove("m2", class("net-that-does-not-exist", scratch))
	volumes("m1-kubelet", "m1-scratch", "of-a-claim")
	remove("m1", class(network))
	volumes("of-a-claim")
}

func TestDriverRefuses(t *testing.T) {
	ctx := context.Background()
	c := cloudtest.Start(t, cloudtest.Options{})
	d := &Driver{Clock: clock.RealClock{}, Cloud: CloudFor(&credentials.Clients{}, func(*cloud.Client) {})}
	for name, tc := range map[string]struct {
		provider, spec string
		data           map[string][]byte
		want           codes.Code
	}{
		"a class of another provider":         {provider: "other", spec: "{}", data: dataOf(c), want: codes.InvalidArgument},
		"a specification that does not parse": {provider: "local", spec: "x", data: dataOf(c), want: codes.InvalidArgument},
		"incomplete credentials": {
			provider: "local", spec: "{}", data: map[string][]byte{}, want: codes.Unauthenticated,
		},
		"a class without tags": {provider: "local", spec: "{}", data: dataOf(c), want: codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := d.ListMachines(ctx, &driver.ListMachinesRequest{
				MachineClass: &machinev1alpha1.MachineClass{
					Provider: tc.provider, ProviderSpec: runtime.RawExtension{Raw: []byte(tc.spec)},
				},
				Secret: &corev1.Secret{Data: tc.data},
			})
			if codeOf(err) != tc.want {
				t.Errorf("ListMachines() error is %v, want code %s", err, tc.want)
			}
		})
	}
}

func TestStatusError(t *testing.T) {
	for c, want := range map[cloud.Code]codes.Code{
		cloud.CodeAuthFailure: codes.Unauthenticated, cloud.CodeUnauthorized: codes.PermissionDenied,
		cloud.CodeQuotaExceeded: codes.ResourceExhausted, cloud.CodeDepleted: codes.ResourceExhausted,
		cloud.CodeRateLimited: codes.Unavailable, cloud.CodeUnavailable: codes.Unavailable,
		cloud.CodeBusy: codes.Unavailable, cloud.CodeInternal: codes.Internal,
		cloud.CodeDependency: codes.FailedPrecondition, cloud.CodeInvalid: codes.InvalidArgument,
		cloud.CodeNotFound: codes.NotFound, cloud.CodeAlreadyExists: codes.AlreadyExists,
	} {
		if got := codeOf(statusError(cloud.Errorf(c, "x"))); got != want {
			t.Errorf("code of %s is %s, want %s", c, got, want)
		}
	}
	if got := codeOf(statusError(errors.New("broken connection"))); got != codes.Unknown {
		t.Errorf("code of a broken connection is %s, want Unknown", got)
	}
	if statusError(nil) != nil {
		t.Error("no error became one")
	}
}

func TestStepFinished(t *testing.T) {
	now := metav1.Now()
	step := func(description string, state machinev1alpha1.MachineState) *machinev1alpha1.Machine {
		m := &machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}
		m.Status.LastOperation = machinev1alpha1.LastOperation{
			Type: machinev1alpha1.MachineOperationDelete, State: state, Description: description,
		}
		return m
	}
	for name, tc := range map[string]struct {
		before, after *machinev1alpha1.Machine
		want          bool
	}{
		"the next step": {
			step("a", machinev1alpha1.MachineStateProcessing), step("b", machinev1alpha1.MachineStateProcessing), true,
		},
		"the same step": {
			step("a", machinev1alpha1.MachineStateProcessing), step("a", machinev1alpha1.MachineStateProcessing), false,
		},
		"an error is reported after its delay": {
			step("a", machinev1alpha1.MachineStateProcessing), step("b", machinev1alpha1.MachineStateFailed), false,
		},
		"a machine that stays": {&machinev1alpha1.Machine{}, &machinev1alpha1.Machine{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := stepFinished(tc.before, tc.after); got != tc.want {
				t.Errorf("stepFinished() = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestVolumesThatADrainWaitsFor(t *testing.T) {
	of := func(driverName, handle string) *corev1.PersistentVolumeSpec {
		return &corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: handle},
		}}
	}
	directory := &corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: "/v"},
	}}
	got, err := (&Driver{}).GetVolumeIDs(t.Context(), &driver.GetVolumeIDsRequest{
		PVSpecs: []*corev1.PersistentVolumeSpec{
			of(csi.Driver, "vol-1"), of("other", "x"), directory, of(csi.Driver, "vol-2"),
		},
	})
	if err != nil || !slices.Equal(got.VolumeIDs, []string{"vol-1", "vol-2"}) {
		t.Errorf("GetVolumeIDs() = %v, %v, want those of the cloud", got, err)
	}
}
