package controller

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/provider/csi"
	"hortus.dev/hortus/local/provider/v1alpha1"
)

const (
	// annotationSelectedNode is written by the scheduler on claims that wait for their first consumer.
	annotationSelectedNode = "volume.kubernetes.io/selected-node"
	// annotationProvisionedBy is the annotation that Kubernetes expects on a provisioned volume.
	annotationProvisionedBy = "pv.kubernetes.io/provisioned-by"
	// finalizerClaim keeps a claim that is not bound yet: it may have a volume without PersistentVolume.
	finalizerClaim = "local.provider.hortus.dev/provisioning"
	// finalizerVolume keeps a PersistentVolume until its volume is gone from the cloud.
	finalizerVolume = "local.provider.hortus.dev/volume"
	// directories and finalizerDirectory belong to PersistentVolumes of older Shoots, which were directories on a node.
	directories        = "local.provider.hortus.dev/directory"
	finalizerDirectory = "local.provider.hortus.dev/directory"
	// tagClaim names the claim of a volume, for people.
	tagClaim = "kubernetes.io/claim"
)

// serves reports whether a volume should be made for the claim now.
func serves(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) bool {
	waits := ptr.Deref(class.VolumeBindingMode,
		storagev1.VolumeBindingImmediate) == storagev1.VolumeBindingWaitForFirstConsumer
	return claim.DeletionTimestamp.IsZero() && claim.Spec.VolumeName == "" && class.Provisioner == csi.Driver &&
		(!waits || claim.Annotations[annotationSelectedNode] != "")
}

// ended reports whether an attempt to make a volume for the claim is over, finished or not.
func ended(claim *corev1.PersistentVolumeClaim) bool {
	return controllerutil.ContainsFinalizer(claim, finalizerClaim) &&
		(!claim.DeletionTimestamp.IsZero() || claim.Spec.VolumeName != "")
}

// refersTo reports whether one of the PersistentVolumes, of any origin, is the volume of the cloud.
func refersTo(all []corev1.PersistentVolume, volumeID string) bool {
	return slices.ContainsFunc(all, func(pv corev1.PersistentVolume) bool {
		return pv.Spec.CSI != nil && pv.Spec.CSI.Driver == csi.Driver && pv.Spec.CSI.VolumeHandle == volumeID
	})
}

// unsupported returns why a claim cannot be served, or "".
func unsupported(claim *corev1.PersistentVolumeClaim) string {
	if ptr.Deref(claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) == corev1.PersistentVolumeBlock {
		return "volume mode Block is not supported"
	}
	if claim.Spec.Selector != nil {
		return "a selector is not supported"
	}
	if claim.Spec.DataSource != nil || claim.Spec.DataSourceRef != nil {
		return "a data source is not supported"
	}
	for _, mode := range claim.Spec.AccessModes {
		if mode != corev1.ReadWriteOnce && mode != corev1.ReadWriteOncePod {
			return fmt.Sprintf("access mode %s is not supported (available: ReadWriteOnce, ReadWriteOncePod)", mode)
		}
	}
	return ""
}

// volumeName is unique per claim, so a second attempt finds what the first one made.
func volumeName(claim *corev1.PersistentVolumeClaim) string { return "pvc-" + string(claim.UID) }

// request is the call that makes the volume for a claim. An empty zone leaves the choice to the cloud.
func request(claim *corev1.PersistentVolumeClaim, cluster, zone string) cloud.CreateVolume {
	return cloud.CreateVolume{
		Name: volumeName(claim), Zone: zone, SizeBytes: claim.Spec.Resources.Requests.Storage().Value(),
		Tags: map[string]string{v1alpha1.TagCluster: cluster, tagClaim: claim.Namespace + "/" + claim.Name},
	}
}

// desiredVolume renders the PersistentVolume for a claim: a volume of the cloud, usable on the nodes of its zone.
func desiredVolume(
	claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, volume *cloud.Volume,
) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        volumeName(claim),
			Annotations: map[string]string{annotationProvisionedBy: csi.Driver},
			Finalizers:  []string{finalizerVolume},
		},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName:              class.Name,
			PersistentVolumeReclaimPolicy: ptr.Deref(class.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete),
			MountOptions:                  class.MountOptions,
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    ptr.To(corev1.PersistentVolumeFilesystem),
			Capacity: corev1.ResourceList{
				corev1.ResourceStorage: *resource.NewQuantity(volume.SizeBytes, resource.BinarySI),
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: csi.Driver, VolumeHandle: volume.ID,
			}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{volume.Zone},
					}},
				}},
			}},
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
		},
	}
}

// allowedZone is the zone of a class that does not wait for a node, or "".
func allowedZone(class *storagev1.StorageClass) string {
	for _, term := range class.AllowedTopologies {
		for _, e := range term.MatchLabelExpressions {
			if e.Key == corev1.LabelTopologyZone && len(e.Values) > 0 {
				return e.Values[0]
			}
		}
	}
	return ""
}

// step is the next step for a PersistentVolume that is no longer needed.
type step string

const (
	stepNothing step = "nothing"
	stepDelete  step = "delete"  // Delete the object; its deletion timestamp brings the next step.
	stepForget  step = "forget"  // Remove the finalizer.
	stepDestroy step = "destroy" // Delete the volume of the cloud, then remove the finalizer.
)

// next returns the next step for a PersistentVolume, and the finalizer that it concerns. For a directory on a node,
// which the cloud does not manage, only the finalizer is removed: the directory disappears with its node.
func next(pv *corev1.PersistentVolume) (step, string) {
	finalizer := ""
	switch {
	case pv.Spec.CSI != nil && pv.Spec.CSI.Driver == csi.Driver && pv.Annotations[annotationProvisionedBy] == csi.Driver:
		finalizer = finalizerVolume
	case pv.Spec.HostPath != nil && pv.Annotations[annotationProvisionedBy] == directories:
		finalizer = finalizerDirectory
	default:
		return stepNothing, ""
	}
	toDelete := pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
	released := pv.Status.Phase == corev1.VolumeReleased || pv.Status.Phase == corev1.VolumeFailed
	switch {
	case pv.DeletionTimestamp.IsZero() && toDelete && released:
		return stepDelete, finalizer
	case pv.DeletionTimestamp.IsZero(), len(pv.Finalizers) != 1 || pv.Finalizers[0] != finalizer:
		return stepNothing, finalizer // Kubernetes removes its own finalizers when no pod uses the volume any longer.
	case toDelete && finalizer == finalizerVolume:
		return stepDestroy, finalizer
	default:
		return stepForget, finalizer
	}
}
