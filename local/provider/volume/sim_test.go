package volume

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/test/sim"
)

// bind acts as Kubernetes' own controller: it binds volumes to their claims, and releases them when these are gone.
func bind(ctx context.Context, c client.Client) error {
	volumes := &corev1.PersistentVolumeList{}
	if err := c.List(ctx, volumes); err != nil {
		return err
	}
	for i := range volumes.Items {
		pv := &volumes.Items[i]
		claim := &corev1.PersistentVolumeClaim{}
		key := client.ObjectKey{Namespace: pv.Spec.ClaimRef.Namespace, Name: pv.Spec.ClaimRef.Name}
		err := c.Get(ctx, key, claim)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if err != nil || claim.UID != pv.Spec.ClaimRef.UID {
			if pv.Status.Phase != corev1.VolumeReleased {
				pv.Status.Phase = corev1.VolumeReleased
				return c.Status().Update(ctx, pv)
			}
			continue
		}
		if claim.Spec.VolumeName == "" && pv.DeletionTimestamp.IsZero() {
			claim.Spec.VolumeName = pv.Name
			return c.Update(ctx, claim)
		}
	}
	return nil
}

// A claim gets one volume, whose data stay as long as the claim, and are removed with it. A new claim of the same name
// does not see them.
func TestSimulateVolumes(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		seed := w.Cluster("seed", sim.Scheme())
		seed.AddNamespaces("ns")
		root := t.TempDir()
		w.Process("volume-provisioner", seed, func(p *sim.Process) error {
			return SetupWithManager(p, Node{
				Client: p.GetClient(), Recorder: p.GetEventRecorder("volume"), NodeName: "n1", Hostname: "n1",
				Root: root, Dir: root,
			})
		})
		seed.Add(testClass())
		w.Actor("volumes are bound", seed, bind)
		claim := func() *corev1.PersistentVolumeClaim {
			return testClaim(func(c *corev1.PersistentVolumeClaim) { c.UID = "" })
		}
		note := func(volume string) string { return filepath.Join(root, volume, "note") }
		w.Actor("a pod takes notes", seed, func(ctx context.Context, c client.Client) error {
			o := claim()
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil || o.Spec.VolumeName == "" {
				return client.IgnoreNotFound(err)
			}
			pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: o.Spec.VolumeName}}
			if !seed.Exists(pv) {
				return nil
			}
			return os.WriteFile(note(pv.Name), []byte(o.UID), 0o600)
		})
		kept := map[string]bool{} // Volumes with a note.
		w.Always("the data stay as long as the claim", func() error {
			o := claim()
			if !seed.Exists(o) || o.Spec.VolumeName == "" {
				return nil
			}
			data, err := os.ReadFile(note(o.Spec.VolumeName))
			if err == nil {
				kept[o.Spec.VolumeName] = true
				if string(data) != string(o.UID) {
					return fmt.Errorf("claim %s has the data of %s", o.UID, data)
				}
			} else if kept[o.Spec.VolumeName] {
				return fmt.Errorf("the data of claim %s are gone: %w", o.UID, err)
			}
			return nil
		})
		create := func(ctx context.Context, c client.Client) error { return c.Create(ctx, claim()) }
		remove := func(ctx context.Context, c client.Client) error {
			return client.IgnoreNotFound(c.Delete(ctx, claim()))
		}
		w.Change("a claim comes", seed, create)
		w.Change("it goes", seed, remove)
		w.Change("it comes again", seed, create)
		w.Change("a user touches it", seed, func(context.Context, client.Client) error {
			o := claim()
			return seed.Edit(o, func() { o.Labels = map[string]string{"touched": "yes"} })
		})
		w.Overlap()
		w.Faults(60)
		w.Eventually(40, "the claim has the only volume", func() error {
			o, volumes := claim(), &corev1.PersistentVolumeList{}
			if err := seed.List(t.Context(), volumes); err != nil {
				return err
			}
			if !seed.Exists(o) || len(volumes.Items) != 1 || o.Spec.VolumeName != volumes.Items[0].Name {
				return fmt.Errorf("the claim has volume %q of %d", o.Spec.VolumeName, len(volumes.Items))
			}
			return nil
		})
		w.Change("the claim goes", seed, remove)
		w.Faults(30)
		w.Eventually(40, "no volume and no data are left", func() error {
			volumes := &corev1.PersistentVolumeList{}
			if err := seed.List(t.Context(), volumes); err != nil {
				return err
			}
			notes, err := filepath.Glob(note("*"))
			if err != nil || len(notes)+len(volumes.Items) > 0 {
				return fmt.Errorf("%d volumes, notes %v, %w", len(volumes.Items), notes, err)
			}
			return nil
		})
	})
}
