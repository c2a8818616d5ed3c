package test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/controllermanager/project"
	"hortus.dev/hortus/test/sim"
)

// A project gets its namespace, loses it only when it has no Shoots, and never takes that of another.
func TestSimulateProjects(t *testing.T) {
	simulate(t, func(p *sim.Process) error {
		r := &project.Reconciler{Garden: p.GetClient(), Live: p.GetAPIReader(), Recorder: p.GetEventRecorder("")}
		return r.SetupWithManager(p)
	}, func(w *sim.World, garden *sim.Cluster) {
		projectNamed := named[corev1beta1.Project]
		member := corev1beta1.ProjectMember{
			Subject: rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "ada"}, Role: "admin",
			Roles: []string{"extension:net"},
		}
		w.Change("make project a", garden, func(ctx context.Context, c client.Client) error {
			p := projectNamed("", "a")
			p.Spec.Namespace = new("garden-a")
			p.Spec.Members = []corev1beta1.ProjectMember{member}
			return c.Create(ctx, p)
		})
		w.Change("make project b", garden, func(ctx context.Context, c client.Client) error {
			return c.Create(ctx, projectNamed("", "b"))
		})
		shoot := named[corev1beta1.Shoot]("garden-a", "s")
		hadShoot := false
		w.Change("make a Shoot", garden, func(ctx context.Context, c client.Client) error {
			err := c.Create(ctx, shoot.DeepCopy())
			hadShoot = err == nil
			if apierrors.IsNotFound(err) { // The namespace does not exist yet.
				return nil
			}
			return err
		})
		w.Change("take the member out", garden, func(ctx context.Context, c client.Client) error {
			p := projectNamed("", "a")
			if err := c.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
				return err
			}
			p.Spec.Members[0].Roles = nil
			return c.Update(ctx, p)
		})
		w.Change("delete project a", garden, func(ctx context.Context, c client.Client) error {
			return c.Delete(ctx, projectNamed("", "a"))
		})
		w.Always("a namespace with Shoots stays", func() error {
			ns := &corev1.Namespace{}
			if !hadShoot || garden.Get(ctx, client.ObjectKeyFromObject(shoot), &corev1beta1.Shoot{}) != nil {
				return nil
			}
			if err := garden.Get(ctx, client.ObjectKey{Name: "garden-a"}, ns); err != nil || ns.DeletionTimestamp != nil {
				return fmt.Errorf("namespace garden-a is being deleted: %v", err)
			}
			return nil
		})
		w.Faults(150)
		w.Eventually(200, "project b is ready, the member of a is removed", func() error {
			b := projectNamed("", "b")
			if err := garden.Get(ctx, client.ObjectKeyFromObject(b), b); err != nil {
				return err
			}
			ns := &corev1.Namespace{}
			if b.Status.Phase != corev1beta1.ProjectReady || b.Spec.Namespace == nil {
				return fmt.Errorf("project b: %+v", b.Status)
			}
			return garden.Get(ctx, client.ObjectKey{Name: *b.Spec.Namespace}, ns)
		})
		if hadShoot {
			if err := client.IgnoreNotFound(garden.Delete(ctx, shoot.DeepCopy())); err != nil {
				w.T.Fatal(err)
			}
		}
		w.Eventually(200, "project a and its namespace are gone", func() error {
			return garden.Gone(projectNamed("", "a"), named[corev1.Namespace]("", "garden-a"))
		})
	})
}
