package test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/resourcemanager/machineaccess"
	"hortus.dev/hortus/test/sim"
)

// A machine has its permissions, whatever users change in them, until it and its Node are gone. A Node that somebody
// else creates under the same name does not keep them.
func TestSimulateMachineAccess(t *testing.T) {
	simulate(t, func(p *sim.Process, target *sim.Connection) error {
		return (&machineaccess.Reconciler{
			Machines: p.GetClient(), Namespace: namespace,
			Grants: machineaccess.Grants{Target: target.GetClient(), Direct: target.GetAPIReader()},
		}).AddToManager(p, target.GetCache())
	}, func(w *sim.World, seed, shoot *sim.Cluster) {
		machine := func() *machinev1alpha1.Machine {
			m := &machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m"}}
			m.Spec.NodeTemplateSpec.Labels = map[string]string{corev1beta1.LabelWorkerPool: "pool"}
			return m
		}
		node := func() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}} }
		meta := metav1.ObjectMeta{Name: "gardener.cloud:machine:m"}
		role := func() *rbacv1.ClusterRole { return &rbacv1.ClusterRole{ObjectMeta: meta} }
		binding := func() *rbacv1.ClusterRoleBinding { return &rbacv1.ClusterRoleBinding{ObjectMeta: meta} }
		create := func(o client.Object) func(context.Context, client.Client) error {
			return func(ctx context.Context, c client.Client) error { return c.Create(ctx, o) }
		}
		remove := func(o client.Object) func(context.Context, client.Client) error {
			return func(ctx context.Context, c client.Client) error { return client.IgnoreNotFound(c.Delete(ctx, o)) }
		}
		w.Change("a machine comes", seed, create(machine()))
		w.Change("it gets a node", seed, func(context.Context, client.Client) error {
			m := machine()
			return seed.Edit(m, func() { m.Labels = map[string]string{machinev1alpha1.NodeLabelKey: "n"} })
		})
		w.Change("the node comes", shoot, create(node()))
		w.Change("a user deletes the binding", shoot, remove(binding()))
		w.Change("a user changes the role", shoot, func(context.Context, client.Client) error {
			r := role()
			if !shoot.Exists(r) {
				return nil
			}
			return shoot.Edit(r, func() { r.Rules = nil })
		})
		w.Change("a user deletes the role", shoot, remove(role()))
		w.Overlap()
		right := func() error {
			r, b := role(), binding()
			if !shoot.Exists(r) || !shoot.Exists(b) {
				return fmt.Errorf("they do not exist")
			}
			mayReadNode := slices.ContainsFunc(r.Rules, func(rule rbacv1.PolicyRule) bool {
				return slices.Equal(rule.Resources, []string{"nodes"}) && slices.Equal(rule.ResourceNames, []string{"n"})
			})
			kubelet := slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool {
				return s.Name == corev1beta1.KubeletUserPrefix+"n"
			})
			return is(mayReadNode && kubelet && b.RoleRef.Name == meta.Name, "%+v, %+v", r.Rules, b)
		}
		w.Faults(150)
		w.Eventually(60, "the permissions are right", right)

		w.Change("the machine goes before its node", seed, remove(machine()))
		w.Faults(30)
		w.Eventually(60, "the permissions stay", right)

		w.Change("the node goes", shoot, remove(node()))
		w.Change("somebody creates one of the same name", shoot, create(node()))
		w.Faults(40)
		w.Eventually(60, "the permissions are gone", func() error { return shoot.Gone(role(), binding()) })
	})
}
