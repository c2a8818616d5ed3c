package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/provider/csi"
)

func testClass(change ...func(*storagev1.StorageClass)) *storagev1.StorageClass {
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "default"}, Provisioner: csi.Driver,
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	for _, c := range change {
		c(class)
	}
	return class
}

func testClaim(change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
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
	for _, c := range change {
		c(claim)
	}
	return claim
}

func TestServesAndUnsupported(t *testing.T) {
	immediate := func(c *storagev1.StorageClass) { c.VolumeBindingMode = nil }
	unplaced := func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil }
	for name, tc := range map[string]struct {
		claim               *corev1.PersistentVolumeClaim
		class               *storagev1.StorageClass
		serves, unsupported bool
	}{
		"a claim placed on a node":          {claim: testClaim(), class: testClass(), serves: true},
		"a claim that is not scheduled yet": {claim: testClaim(unplaced), class: testClass()},
		"a claim of a class that does not wait for a node": {
			claim: testClaim(unplaced), class: testClass(immediate), serves: true,
		},
		"a class of another provisioner": {
			claim: testClaim(), class: testClass(func(c *storagev1.StorageClass) { c.Provisioner = "other" }),
		},
		"a bound claim": {
			claim: testClaim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" }), class: testClass(),
		},
		"a claim that is being deleted": {
			claim: testClaim(func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = ptr.To(metav1.Now()) }),
			class: testClass(),
		},
		"a claim for a raw device": {
			claim: testClaim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }),
			class: testClass(), serves: true, unsupported: true,
		},
		"a claim shared by nodes": {
			claim: testClaim(func(c *corev1.PersistentVolumeClaim) {
				c.Spec.AccessModes = append(c.Spec.AccessModes, corev1.ReadWriteMany)
			}),
			class: testClass(), serves: true, unsupported: true,
		},
		"a claim of one pod": {
			claim: testClaim(func(c *corev1.PersistentVolumeClaim) {
				c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
			}),
			class: testClass(), serves: true,
		},
		"a claim with a selector": {
			claim: testClaim(func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} }),
			class: testClass(), serves: true, unsupported: true,
		},
		"a claim for a copy": {
			claim: testClaim(func(c *corev1.PersistentVolumeClaim) {
				c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "other"}
			}),
			class: testClass(), serves: true, unsupported: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := serves(tc.claim, tc.class); got != tc.serves {
				t.Errorf("serves() = %v, want %v", got, tc.serves)
			}
			if got := unsupported(tc.claim); (got != "") != tc.unsupported {
				t.Errorf("unsupported() = %q, want a reason: %v", got, tc.unsupported)
			}
		})
	}
}

func TestEnded(t *testing.T) {
	held := func(c *corev1.PersistentVolumeClaim) { c.Finalizers = []string{"other", finalizerClaim} }
	deleted := func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = ptr.To(metav1.Now()) }
	bound := func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" }
	for name, tc := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		want  bool
	}{
		"a new claim":               {testClaim(), false},
		"a claim that waits":        {testClaim(held), false},
		"a bound claim":             {testClaim(held, bound), true},
		"a deleted claim":           {testClaim(held, deleted), true},
		"a bound claim, released":   {testClaim(bound), false},
		"a deleted claim, released": {testClaim(deleted), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ended(tc.claim); got != tc.want {
				t.Errorf("ended() = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestRefersTo(t *testing.T) {
	ours := desiredVolume(testClaim(), testClass(), &cloud.Volume{ID: "vol-1", Zone: "a"})
	foreign := ours.DeepCopy()
	foreign.Spec.CSI.Driver, foreign.Spec.CSI.VolumeHandle = "other", "vol-2"
	all := []corev1.PersistentVolume{{}, *ours, *foreign}
	for id, want := range map[string]bool{"vol-1": true, "vol-2": false, "": false} {
		if got := refersTo(all, id); got != want {
			t.Errorf("refersTo(%q) = %v, want %v", id, got, want)
		}
	}
}

func TestAllowedZone(t *testing.T) {
	zones := func(key string, values ...string) func(*storagev1.StorageClass) {
		return func(c *storagev1.StorageClass) {
			c.AllowedTopologies = append(c.AllowedTopologies, corev1.TopologySelectorTerm{
				MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: key, Values: values}},
			})
		}
	}
	for name, tc := range map[string]struct {
		class *storagev1.StorageClass
		want  string
	}{
		"any zone":          {testClass(), ""},
		"the first of some": {testClass(zones("other", "x"), zones(corev1.LabelTopologyZone, "b", "a")), "b"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := allowedZone(tc.class); got != tc.want {
				t.Errorf("allowedZone() = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestNext(t *testing.T) {
	now := metav1.Now()
	pv := func(change ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		pv := desiredVolume(testClaim(), testClass(), &cloud.Volume{ID: "vol-1", Zone: "a", SizeBytes: 1 << 30})
		pv.Status.Phase = corev1.VolumeBound
		for _, c := range change {
			c(pv)
		}
		return pv
	}
	released := func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeReleased }
	deleted := func(pv *corev1.PersistentVolume) { pv.DeletionTimestamp = &now }
	retain := func(pv *corev1.PersistentVolume) {
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	}
	protected := func(pv *corev1.PersistentVolume) {
		pv.Finalizers = append(pv.Finalizers, "kubernetes.io/pv-protection")
	}
	directory := func(pv *corev1.PersistentVolume) {
		pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/v"}}
		pv.Annotations, pv.Finalizers = map[string]string{annotationProvisionedBy: directories}, []string{finalizerDirectory}
	}
	byHand := func(pv *corev1.PersistentVolume) { pv.Annotations = nil }
	for name, tc := range map[string]struct {
		pv   *corev1.PersistentVolume
		want step
	}{
		"a volume in use stays":                           {pv(protected), stepNothing},
		"a released volume is deleted":                    {pv(protected, released), stepDelete},
		"a released volume that is retained stays":        {pv(released, retain), stepNothing},
		"a deleted volume waits for its pods":             {pv(deleted, protected, released), stepNothing},
		"then the cloud's volume is deleted":              {pv(deleted, released), stepDestroy},
		"a retained volume stays in the cloud":            {pv(deleted, retain), stepForget},
		"a manually created volume is ignored":            {pv(released, byHand), stepNothing},
		"an old directory in use stays":                   {pv(directory), stepNothing},
		"a released directory is deleted":                 {pv(directory, released), stepDelete},
		"a deleted directory is removed with its machine": {pv(directory, deleted), stepForget},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := next(tc.pv); got != tc.want {
				t.Errorf("next() = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestDesiredVolume(t *testing.T) {
	pv := desiredVolume(testClaim(), testClass(), &cloud.Volume{ID: "vol-1", Zone: "a", SizeBytes: 1 << 30})
	want := corev1.PersistentVolumeSpec{
		StorageClassName: "default", PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		VolumeMode:  ptr.To(corev1.PersistentVolumeFilesystem),
		Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			Driver: csi.Driver, VolumeHandle: "vol-1",
		}},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"a"},
			}},
		}}}},
		ClaimRef: &corev1.ObjectReference{
			APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: "ns", Name: "data", UID: "1234",
		},
	}
	if diff := cmp.Diff(want, pv.Spec); diff != "" {
		t.Errorf("specification mismatch (-want +got):\n%s", diff)
	}
}
