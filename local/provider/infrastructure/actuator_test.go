package infrastructure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/cloudtest"
	"hortus.dev/hortus/local/provider/v1alpha1"
)

func newInfrastructure() *extensionsv1alpha1.Infrastructure {
	return &extensionsv1alpha1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot--dev--a", Name: "a"}}
}

// TestDeletionTakesVolumesAlong deletes an Infrastructure while the cloud has volumes of the Shoot, one of them
// attached, and a volume of another Shoot.
func TestDeletionTakesVolumesAlong(t *testing.T) {
	type act func(*Actuator, context.Context, *extensionsv1alpha1.Infrastructure, *extension.Cluster) (extension.Result,
		error)
	for name, remove := range map[string]act{"Delete": (*Actuator).Delete, "ForceDelete": (*Actuator).ForceDelete} {
		t.Run(name, func(t *testing.T) {
			c := cloudtest.Start(t, cloudtest.Options{})
			ctx, infra := t.Context(), newInfrastructure()
			instance, err := c.Client.CreateInstance(ctx, cloud.CreateInstance{
				Name: "i", MachineType: "small", Image: "hortus.dev/machine:1.0.0", NetworkID: c.Network(t, "n", "10.9.0.0/24"),
			})
			if err != nil {
				t.Fatal(err)
			}
			for volume, cluster := range map[string]string{
				"free": infra.Namespace, "attached": infra.Namespace, "other": "shoot--dev--b",
			} {
				v, err := c.Client.CreateVolume(ctx, cloud.CreateVolume{
					Name: volume, SizeBytes: 1, Tags: map[string]string{v1alpha1.TagCluster: cluster},
				})
				if err != nil {
					t.Fatal(err)
				}
				if volume == "attached" {
					if _, err := c.Client.AttachVolume(ctx, v.ID, instance.ID); err != nil {
						t.Fatal(err)
					}
				}
			}
			a := &Actuator{Cloud: func(context.Context, client.Reader, corev1.SecretReference) (Cloud, error) {
				return c.Client, nil
			}}
			if result, err := remove(a, ctx, infra, nil); err != nil || result.IsDone() {
				t.Errorf("the first attempt ends with %v, %v, want to wait", result, err)
			}
			c.Eventually(t, "the deletion is done", func() bool {
				result, err := remove(a, ctx, infra, nil)
				if err != nil {
					t.Fatal(err)
				}
				return result.IsDone()
			})
			left, err := c.Client.ListVolumes(ctx, cloud.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			if len(left) != 1 || !slices.ContainsFunc(left, func(v cloud.Volume) bool { return v.Name == "other" }) {
				t.Errorf("volumes are %+v, want the other Shoot's", left)
			}
		})
	}
}

// TestDeletionTakesBastionsAlong deletes an Infrastructure while the cloud has a bastion of the Shoot that a dead seed
// has left, and a bastion of another Shoot.
func TestDeletionTakesBastionsAlong(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	ctx, infra := t.Context(), newInfrastructure()
	for i, namespace := range []string{infra.Namespace, "shoot--dev--b"} {
		tags := map[string]string{v1alpha1.TagCluster: namespace, v1alpha1.TagRole: v1alpha1.RoleBastion}
		instance, err := c.Client.CreateInstance(ctx, cloud.CreateInstance{
			Name: "bastion-" + namespace, MachineType: "small", Image: "hortus.dev/machine:1.0.0", Tags: tags,
			NetworkID: c.Network(t, namespace, fmt.Sprintf("10.%d.0.0/24", i)),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Client.CreateLoadBalancer(ctx, cloud.CreateLoadBalancer{
			Name: "bastion-" + namespace, Tags: tags, AllowedCIDRs: []string{"192.0.2.7/32"},
			Listeners: []cloud.Listener{{Port: 22, Targets: []cloud.Target{{InstanceID: instance.ID, Port: 22}}}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	a := &Actuator{Cloud: func(context.Context, client.Reader, corev1.SecretReference) (Cloud, error) {
		return c.Client, nil
	}}
	c.Eventually(t, "the deletion is done", func() bool {
		result, err := a.Delete(ctx, infra, nil)
		if err != nil {
			t.Fatal(err)
		}
		return result.IsDone()
	})
	var left []string
	instances, err := c.Client.ListInstances(ctx, cloud.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, instance := range instances {
		left = append(left, instance.Name)
	}
	balancers, err := c.Client.ListLoadBalancers(ctx, cloud.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, balancer := range balancers {
		left = append(left, balancer.Name)
	}
	if want := []string{"bastion-shoot--dev--b", "bastion-shoot--dev--b"}; !slices.Equal(left, want) {
		t.Errorf("instances and load balancers are %v, want the other Shoot's", left)
	}
}

func TestForcedDeletionWithoutCloud(t *testing.T) {
	a := &Actuator{Cloud: func(context.Context, client.Reader, corev1.SecretReference) (Cloud, error) {
		return nil, errors.New("there is no Secret")
	}}
	if result, err := a.ForceDelete(t.Context(), newInfrastructure(), nil); err != nil || !result.IsDone() {
		t.Errorf("ForceDelete() = %v, %v, want it done", result, err)
	}
	if _, err := a.Delete(t.Context(), newInfrastructure(), nil); err == nil {
		t.Error("Delete() succeeds without a cloud")
	}
}
