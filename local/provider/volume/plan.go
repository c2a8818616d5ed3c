package volume

import (
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// Provisioner is the name StorageClasses use.
	Provisioner = "local.provider.hortus.dev/directory"
	// annotationSelectedNode is written by the scheduler on claims that wait for their first consumer.
	annotationSelectedNode = "volume.kubernetes.io/selected-node"
	// annotationProvisionedBy is the annotation that the volume controller expects on a provisioned volume.
	annotationProvisionedBy = "pv.kubernetes.io/provisioned-by"
	// finalizer keeps a volume's object until its directory is gone.
	finalizer = "local.provider.hortus.dev/directory"
)

// serves reports whether the process on the node should make a volume for the claim now.
func serves(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, node string) bool {
	return claim.DeletionTimestamp.IsZero() &&
		claim.Spec.VolumeName == "" &&
		claim.Annotations[annotationSelectedNode] == node &&
		class.Provisioner == Provisioner
}

// unsupported returns why a claim cannot be served, or "".
func unsupported(claim *corev1.PersistentVolumeClaim) string {
	if ptr.Deref(claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) == corev1.PersistentVolumeBlock {
		return "volume mode Block is not supported"
	}
	if claim.Spec.Selector != nil {
		return "a selector is not supported"
	}
	for _, mode := range claim.Spec.AccessModes {
		if mode == corev1.ReadWriteMany || mode == corev1.ReadOnlyMany {
			return "access mode " + string(mode) + " is not supported: the volume is a directory on one node"
		}
	}
	return ""
}

// volumeName is unique per claim, so a second attempt finds what the first one made.
func volumeName(claim *corev1.PersistentVolumeClaim) string { return "pvc-" + string(claim.UID) }

// desiredVolume renders the volume for a claim: a directory below root, usable on the node with that host name only.
func desiredVolume(
	claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, root, hostname string,
) *corev1.PersistentVolume {
	name := volumeName(claim)
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{annotationProvisionedBy: Provisioner},
			Finalizers:  []string{finalizer},
		},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName:              class.Name,
			PersistentVolumeReclaimPolicy: ptr.Deref(class.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete),
			MountOptions:                  class.MountOptions,
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    claim.Spec.VolumeMode,
			Capacity: corev1.ResourceList{
				corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage],
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{
				Path: filepath.Join(root, name),
				Type: ptr.To(corev1.HostPathDirectory), // A directory that the kubelet creates would be writable only for root.
			}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{hostname},
					}},
				}},
			}},
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			},
		},
	}
}

// removable reports whether the process for hostname should remove the volume and its directory.
func removable(pv *corev1.PersistentVolume, hostname string) bool {
	if !own(pv, hostname) {
		return false
	}
	deleted := !pv.DeletionTimestamp.IsZero()
	if pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return deleted
	}
	return deleted || pv.Status.Phase == corev1.VolumeReleased || pv.Status.Phase == corev1.VolumeFailed
}

// own reports whether the volume is a directory that the process for hostname has made.
func own(pv *corev1.PersistentVolume, hostname string) bool {
	return pv.Annotations[annotationProvisionedBy] == Provisioner && volumeHost(pv) == hostname && pv.Spec.HostPath != nil
}

// volumeHost is the host name a volume of ours is bound to, or "".
func volumeHost(pv *corev1.PersistentVolume) string {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return ""
	}
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, e := range term.MatchExpressions {
			if e.Key == corev1.LabelHostname && len(e.Values) == 1 {
				return e.Values[0]
			}
		}
	}
	return ""
}
