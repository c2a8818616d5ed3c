package provider_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/cloudtest"
	"hortus.dev/hortus/local/provider/cloudcontroller"
	"hortus.dev/hortus/local/provider/csi"
	"hortus.dev/hortus/local/provider/csi/controller"
	"hortus.dev/hortus/local/provider/v1alpha1"
	"hortus.dev/hortus/test/env"
)

// TestVolumesWithTheRightsOfAShoot runs the controllers of volumes on a real API server, with exactly their permissions
// in a Shoot: a claim gets a volume, a VolumeAttachment attaches it, and it is deleted with the released
// PersistentVolume.
func TestVolumesWithTheRightsOfAShoot(t *testing.T) {
	e, c := env.Shared(t), cloudtest.Start(t, cloudtest.Options{})
	ctx, namespace := t.Context(), e.Namespace(t, nil).Name
	e.Create(t, cloudcontroller.ShootAccess()...)
	options := ctrl.Options{
		Scheme: cloudcontroller.NewScheme(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	}
	cloudcontroller.SlimCache(&options)
	mgr, err := ctrl.NewManager(e.As("system:serviceaccount:kube-system:cloud-controller-manager"), options)
	if err != nil {
		t.Fatal(err)
	}
	if err := controller.SetupWithManager(mgr, c.Client, namespace, "test"); err != nil {
		t.Fatal(err)
	}
	running, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(running) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run manager: %v", err)
		}
	})

	instance, err := c.Client.CreateInstance(ctx, cloud.CreateInstance{
		Name: "n", MachineType: "small", Image: "hortus.dev/machine:1.0.0", NetworkID: c.Network(t, "n", "10.9.0.0/24"),
		Zone: "local-b",
	})
	if err != nil {
		t.Fatal(err)
	}
	class := csi.Objects("image")[0].(*storagev1.StorageClass)
	class.Name = env.Name("class")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: env.Name("node"), Labels: map[string]string{corev1.LabelTopologyZone: instance.Zone},
	}}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "data", Annotations: map[string]string{"volume.kubernetes.io/selected-node": node.Name},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class.Name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}
	e.Create(t, class, node, claim, &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name},
		Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: csi.Driver, NodeID: instance.ID}}},
	})
	volumes := func() []cloud.Volume {
		found, err := c.Client.ListVolumes(ctx, cloud.Filter{Tags: map[string]string{v1alpha1.TagCluster: namespace}})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}

	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(claim.UID)}}
	env.Eventually(t, "the claim to have a PersistentVolume", func() (bool, error) {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(pv), pv)
		return err == nil, client.IgnoreNotFound(err)
	})
	if found := volumes(); len(found) != 1 || found[0].ID != pv.Spec.CSI.VolumeHandle || found[0].Zone != instance.Zone {
		t.Fatalf("volumes are %+v, want one of %q", found, pv.Spec.CSI.VolumeHandle)
	}
	// A controller of Kubernetes, which does not run here, binds the claim. Until then it cannot go without the volume.
	if err := e.Client.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
		t.Fatal(err)
	}
	const finalizer = "local.provider.hortus.dev/provisioning"
	if !slices.Contains(claim.Finalizers, finalizer) {
		t.Errorf("an unbound claim has finalizers %q, want %s", claim.Finalizers, finalizer)
	}
	unbound := claim.DeepCopy()
	claim.Spec.VolumeName = pv.Name
	if err := e.Client.Patch(ctx, claim, client.MergeFrom(unbound)); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, "the bound claim to be released", func() (bool, error) {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(claim), claim)
		return !slices.Contains(claim.Finalizers, finalizer), err
	})
	va := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: env.Name("va")},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: csi.Driver, NodeName: node.Name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv.Name},
		}}
	e.Create(t, va)
	env.Eventually(t, "the volume to be attached", func() (bool, error) {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(va), va)
		return va.Status.Attached, err
	})
	if found := volumes(); found[0].InstanceID != instance.ID || found[0].State != cloud.StateAttached {
		t.Errorf("the volume is %+v, want it attached to %s", found[0], instance.ID)
	}

	before := pv.DeepCopy()
	pv.Status.Phase = corev1.VolumeReleased
	if err := e.Client.Status().Patch(ctx, pv, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, "the PersistentVolume to be deleted", func() (bool, error) {
		if err := e.Client.Get(ctx, client.ObjectKeyFromObject(pv), pv); err != nil {
			return false, fmt.Errorf("an attached volume's object: %w", err)
		}
		return !pv.DeletionTimestamp.IsZero(), nil
	})
	// A controller of Kubernetes, which does not run here, removes its finalizer from volumes that no pod uses.
	before = pv.DeepCopy()
	pv.Finalizers = []string{"local.provider.hortus.dev/volume"}
	if err := e.Client.Patch(ctx, pv, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if err := e.Client.Delete(ctx, va); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, "all to be gone", func() (bool, error) {
		for _, o := range []client.Object{va, pv} {
			if err := e.Client.Get(ctx, client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
				return false, err
			}
		}
		return len(volumes()) == 0, nil
	})
}
