package volume

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func testClass() *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Provisioner: Provisioner}
}

func testClaim(mutate func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "data", UID: "1234", Annotations: map[string]string{annotationSelectedNode: "n1"},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To("default"),
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}
	if mutate != nil {
		mutate(claim)
	}
	return claim
}

func TestServesAndUnsupported(t *testing.T) {
	other := testClass()
	other.Provisioner = "other"
	for name, tc := range map[string]struct {
		claim       *corev1.PersistentVolumeClaim
		class       *storagev1.StorageClass
		serves      bool
		unsupported bool
	}{
		"a claim placed on this node":    {claim: testClaim(nil), class: testClass(), serves: true},
		"a class of another provisioner": {claim: testClaim(nil), class: other},
		"a claim placed on another node": {
			claim: testClaim(func(c *corev1.PersistentVolumeClaim) { c.Annotations[annotationSelectedNode] = "n2" }),
			class: testClass(),
		},
		"a bound claim": {
			claim: testClaim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" }), class: testClass(),
		},
		"a claim for a raw device": {
			claim: testClaim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }),
			class: testClass(), serves: true, unsupported: true,
		},
		"a claim shared by nodes": {
			claim: testClaim(func(c *corev1.PersistentVolumeClaim) {
				c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
			}),
			class: testClass(), serves: true, unsupported: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := serves(tc.claim, tc.class, "n1"); got != tc.serves {
				t.Errorf("serves() = %v, want %v", got, tc.serves)
			}
			if got := unsupported(tc.claim) != ""; got != tc.unsupported {
				t.Errorf("unsupported() is set: %v, want %v", got, tc.unsupported)
			}
		})
	}
}

func TestVolumeLifecycle(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	claim := testClaim(nil)
	c := fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(testClass(),
		claim).WithStatusSubresource(&corev1.PersistentVolume{}).Build()
	node := Node{
		Client: c, Recorder: events.NewFakeRecorder(10), NodeName: "n1", Hostname: "n1", Root: "/var/lib/volumes", Dir: dir,
	}

	if _, err := (&Claims{node}).Reconcile(ctx, claim); err != nil {
		t.Fatal(err)
	}
	pv := &corev1.PersistentVolume{}
	if err := c.Get(ctx, client.ObjectKey{Name: "pvc-1234"}, pv); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("/var/lib/volumes/pvc-1234", pv.Spec.HostPath.Path); diff != "" {
		t.Errorf("path mismatch (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(dir, "pvc-1234")); err != nil {
		t.Errorf("directory of the volume: %v", err)
	}

	pv.Status.Phase = corev1.VolumeReleased
	if err := c.Status().Update(ctx, pv); err != nil {
		t.Fatal(err)
	}
	for range 2 { // First the deletion, then the removal of the directory.
		if err := c.Get(ctx, client.ObjectKeyFromObject(pv), pv); err != nil {
			t.Fatal(err)
		}
		if _, err := (&Volumes{node}).Reconcile(ctx, pv); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(pv), pv); !apierrors.IsNotFound(err) {
		t.Errorf("volume is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "pvc-1234")); !os.IsNotExist(err) {
		t.Errorf("directory is still there: %v", err)
	}
}

func TestOtherNodesVolumesAreLeftAlone(t *testing.T) {
	pv := desiredVolume(testClaim(nil), testClass(), "/v", "n2")
	pv.Status.Phase = corev1.VolumeReleased
	if removable(pv, "n1") {
		t.Error("removable() is true on another node")
	}
	if !removable(pv, "n2") {
		t.Error("removable() is false on the volume's node")
	}
}
