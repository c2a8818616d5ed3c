package controller

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/cloudtest"
	"hortus.dev/hortus/local/provider/csi"
	"hortus.dev/hortus/local/provider/v1alpha1"
)

const cluster = "shoot--dev--a"

// setting is a cloud with two instances that are nodes of a cluster, and the controllers.
type setting struct {
	*cloudtest.Cloud
	k           client.Client
	claims      *Claims
	volumes     *PersistentVolumes
	attachments *Attachments
	instances   map[string]string // IDs by name of the node.
}

func newSetting(t *testing.T, objects ...client.Object) *setting {
	t.Helper()
	s := &setting{Cloud: cloudtest.Start(t, cloudtest.Options{}), instances: map[string]string{}}
	network := s.Network(t, "n", "10.9.0.0/24")
	for _, name := range []string{"n1", "n2"} {
		i, err := s.Client.CreateInstance(t.Context(), cloud.CreateInstance{
			Name: name, MachineType: "small", Image: "hortus.dev/machine:1.0.0", NetworkID: network, Zone: "local-b",
		})
		if err != nil {
			t.Fatal(err)
		}
		s.instances[name] = i.ID
		objects = append(objects,
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: name, Labels: map[string]string{corev1.LabelTopologyZone: "local-b"},
			}},
			&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
					{Name: "other", NodeID: "x"}, {Name: csi.Driver, NodeID: i.ID},
				}}})
	}
	s.k = fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).
		WithStatusSubresource(&corev1.PersistentVolume{}, &storagev1.VolumeAttachment{}).Build()
	s.claims = &Claims{
		Client: s.k, Reader: s.k, Cloud: s.Client, Cluster: cluster, Recorder: events.NewFakeRecorder(10),
	}
	s.volumes = &PersistentVolumes{Client: s.k, Cloud: s.Client}
	s.attachments = &Attachments{Client: s.k, Cloud: s.Client, Clock: clock.RealClock{}}
	return s
}

// reconcile reads an object and reconciles it; a missing one is ignored.
func reconcileOne[T client.Object](
	t *testing.T, k client.Client, r reconcile.ObjectReconciler[T], o T,
) (reconcile.Result, error) {
	t.Helper()
	if err := k.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		if apierrors.IsNotFound(err) {
			return reconcile.Result{}, nil
		}
		t.Fatal(err)
	}
	return r.Reconcile(t.Context(), o)
}

// settled reconciles an object and reports whether it is complete.
func settled[T client.Object](t *testing.T, k client.Client, r reconcile.ObjectReconciler[T], o T) func() bool {
	return func() bool {
		t.Helper()
		result, err := reconcileOne(t, k, r, o)
		if err != nil {
			t.Fatal(err)
		}
		return result.IsZero()
	}
}

func (s *setting) list(t *testing.T) []cloud.Volume {
	t.Helper()
	found, err := s.Client.ListVolumes(t.Context(), cloud.Filter{Tags: map[string]string{v1alpha1.TagCluster: cluster}})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func exists(t *testing.T, k client.Client, o client.Object) bool {
	t.Helper()
	err := k.Get(t.Context(), client.ObjectKeyFromObject(o), o)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return err == nil
}

func attachment(name, node string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.VolumeAttachmentSpec{
		Attacher: csi.Driver, NodeName: node,
		Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("pvc-1234")},
	}}
}

func TestVolumeFromClaimToDeletion(t *testing.T) {
	claim := testClaim()
	s := newSetting(t, testClass(), claim)
	ctx := t.Context()
	for range 2 { // The second time everything exists.
		if _, err := reconcileOne(t, s.k, s.claims, claim); err != nil {
			t.Fatal(err)
		}
	}
	found := s.list(t)
	if len(found) != 1 || found[0].Zone != "local-b" || found[0].SizeBytes != 1<<30 ||
		found[0].Tags[tagClaim] != "ns/data" {
		t.Fatalf("volumes are %+v, want one of the claim's size in the node's zone", found)
	}
	id := found[0].ID
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1234"}}
	if !exists(t, s.k, pv) || pv.Spec.CSI.VolumeHandle != id {
		t.Fatalf("PersistentVolume is %+v, want one of %s", pv.Spec, id)
	}

	first, second := attachment("va-1", "n1"), attachment("va-2", "n2")
	for _, va := range []client.Object{first, second} {
		if err := s.k.Create(ctx, va); err != nil {
			t.Fatal(err)
		}
	}
	s.Eventually(t, "the volume is attached", settled(t, s.k, s.attachments, first))
	if !exists(t, s.k, first) || !first.Status.Attached ||
		!slices.Equal(s.Driver.Volumes(s.instances["n1"]), []string{id}) {
		t.Errorf("attachment is %+v and the instance sees %q, want it attached", first.Status,
			s.Driver.Volumes(s.instances["n1"]))
	}
	result, err := reconcileOne(t, s.k, s.attachments, second)
	if err != nil || result.RequeueAfter == 0 || !exists(t, s.k, second) || second.Status.Attached ||
		second.Status.AttachError == nil {
		t.Errorf("a second attachment ends with %v, %v and is %+v, want a wait", result, err, second.Status)
	}

	pv.Status.Phase = corev1.VolumeReleased
	if err := s.k.Status().Update(ctx, pv); err != nil {
		t.Fatal(err)
	}
	for range 2 { // The deletion, and the first attempt to delete the volume.
		if result, err = reconcileOne(t, s.k, s.volumes, pv); err != nil {
			t.Fatal(err)
		}
	}
	if result.RequeueAfter == 0 || len(s.list(t)) != 1 {
		t.Errorf("the deletion of an attached volume ends with %v, volumes are %+v", result, s.list(t))
	}
	if err := s.k.Delete(ctx, first); err != nil {
		t.Fatal(err)
	}
	s.Eventually(t, "the volume is detached", settled(t, s.k, s.attachments, first))
	if exists(t, s.k, first) {
		t.Errorf("the attachment is still there: %+v", first)
	}
	s.Eventually(t, "the volume is gone", settled(t, s.k, s.volumes, pv))
	if exists(t, s.k, pv) || len(s.list(t)) != 0 {
		t.Errorf("PersistentVolume %+v and volumes %+v are still there", pv, s.list(t))
	}
}

func TestAttachmentToALostInstance(t *testing.T) {
	claim, first, second := testClaim(), attachment("va-1", "n1"), attachment("va-2", "n2")
	s := newSetting(t, testClass(), claim, first, second)
	ctx := t.Context()
	if _, err := reconcileOne(t, s.k, s.claims, claim); err != nil {
		t.Fatal(err)
	}
	s.Eventually(t, "the volume is attached", settled(t, s.k, s.attachments, first))
	if err := s.Client.DeleteInstance(ctx, s.instances["n1"]); err != nil {
		t.Fatal(err)
	}
	s.Eventually(t, "the instance is gone", func() bool {
		_, err := s.Client.GetInstance(ctx, s.instances["n1"])
		return cloud.IsNotFound(err)
	})
	s.Eventually(t, "its attachment is gone", func() bool {
		if _, err := reconcileOne(t, s.k, s.attachments, first); err != nil {
			t.Fatal(err)
		}
		return !exists(t, s.k, first)
	})
	s.Eventually(t, "the volume is attached to the other node", settled(t, s.k, s.attachments, second))
	if !exists(t, s.k, second) || !second.Status.Attached {
		t.Errorf("the second attachment is %+v, want it attached", second.Status)
	}
}

func TestAttachmentWithoutTarget(t *testing.T) {
	claim, va := testClaim(), attachment("va-1", "unknown")
	s := newSetting(t, testClass(), claim, va)
	if _, err := reconcileOne(t, s.k, s.claims, claim); err != nil {
		t.Fatal(err)
	}
	if _, err := reconcileOne(t, s.k, s.attachments, va); err == nil {
		t.Error("the attachment to an unknown node succeeds")
	}
	if !exists(t, s.k, va) || va.Status.AttachError == nil || len(va.Finalizers) != 0 {
		t.Errorf("attachment is %+v with finalizers %q, want an error and none", va.Status, va.Finalizers)
	}
	if err := s.k.Delete(t.Context(), va); err != nil {
		t.Fatal(err)
	}
	if exists(t, s.k, va) {
		t.Error("an attachment that has attached nothing is not released")
	}
}

func TestClaimForANodeThatIsGone(t *testing.T) {
	claim := testClaim(func(c *corev1.PersistentVolumeClaim) { c.Annotations[annotationSelectedNode] = "gone" })
	s := newSetting(t, testClass(), claim)
	if _, err := reconcileOne(t, s.k, s.claims, claim); err != nil {
		t.Fatal(err)
	}
	if !exists(t, s.k, claim) || claim.Annotations[annotationSelectedNode] != "" || len(s.list(t)) != 0 {
		t.Errorf("annotations are %q and volumes %+v, want a new decision of the scheduler", claim.Annotations, s.list(t))
	}
}

// A claim that is deleted before its volume has a PersistentVolume leaves no volume behind, but never takes one that a
// PersistentVolume has.
func TestClaimThatEndsUnbound(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*corev1.PersistentVolumeClaim)
		objects []client.Object
		left    int
	}{
		"deleted":                 {change: func(*corev1.PersistentVolumeClaim) {}},
		"bound to another volume": {change: func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "other" }},
		"with a PersistentVolume": {
			change: func(*corev1.PersistentVolumeClaim) {}, left: 1,
			objects: []client.Object{&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			claim := testClaim(tc.change, func(c *corev1.PersistentVolumeClaim) { c.Finalizers = []string{finalizerClaim} })
			s := newSetting(t, testClass(), claim)
			v, err := s.Client.CreateVolume(t.Context(), request(claim, cluster, "local-b"))
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range tc.objects {
				o.(*corev1.PersistentVolume).Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: csi.Driver, VolumeHandle: v.ID}
				if err := s.k.Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			if claim.Spec.VolumeName == "" {
				if err := s.k.Delete(t.Context(), claim); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := reconcileOne(t, s.k, s.claims, claim); err != nil {
				t.Fatal(err)
			}
			if exists(t, s.k, claim) && len(claim.Finalizers) > 0 {
				t.Errorf("the claim has finalizers %q", claim.Finalizers)
			}
			s.Eventually(t, "volumes are deleted", func() bool { return len(s.list(t)) == tc.left })
		})
	}
}

func TestClaimBeyondTheQuota(t *testing.T) {
	claim := testClaim()
	s := newSetting(t, testClass(), claim)
	if _, err := s.Client.SetQuota(t.Context(), "admin", cloud.Limits{VolumeBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	recorder := s.claims.Recorder.(*events.FakeRecorder)
	if _, err := reconcileOne(t, s.k, s.claims, claim); cloud.CodeOf(err) != cloud.CodeQuotaExceeded {
		t.Errorf("Reconcile() = %v, want the quota to be exceeded", err)
	}
	select {
	case <-recorder.Events:
	default:
		t.Error("the claim has no event")
	}
}

func TestEventsReachTheirObjects(t *testing.T) {
	va := attachment("va-1", "n1")
	va.Annotations = map[string]string{annotationVolume: "vol-1", annotationInstance: "i-1"}
	pv := desiredVolume(testClaim(), testClass(), &cloud.Volume{ID: "vol-1", Zone: "a"})
	s := newSetting(t, va, pv)
	for id, want := range map[string][2]int{"": {1, 1}, "vol-1": {1, 1}, "i-1": {0, 1}, "vol-2": {0, 0}} {
		got := [2]int{len(s.volumes.concernedBy(t.Context(), id)), len(s.attachments.concernedBy(t.Context(), id))}
		if got != want {
			t.Errorf("event %q concerns %v PersistentVolumes and VolumeAttachments, want %v", id, got, want)
		}
	}
	e := &Events{Cloud: s.Client}
	_ = e.Source(s.volumes.concernedBy)
	go func() {
		if err := e.Start(t.Context()); err != nil && !errors.Is(err, t.Context().Err()) {
			t.Error(err)
		}
	}()
	v, err := s.Client.CreateVolume(t.Context(), cloud.CreateVolume{Name: "v", SizeBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.After(time.Minute)
	for reset := false; ; {
		select {
		case got := <-e.readers[0]:
			if name := got.Object.GetName(); name == v.ID || name == "" {
				// Everything before the first response is part of it.
				return
			}
			reset = true
		case <-deadline:
			t.Fatalf("no event of %s (others: %t)", v.ID, reset)
		}
	}
}
