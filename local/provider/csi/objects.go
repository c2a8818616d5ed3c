package csi

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/local/cloud"
)

const (
	// Driver is the name of the CSI driver, and the provisioner of its StorageClasses.
	Driver = "volume.local.provider.hortus.dev"
	// NodeCommand is the command of the driver on a node, and the name of its DaemonSet.
	NodeCommand = "csi-driver-node"
	// Metadata is the file with a machine's description of itself.
	Metadata = "/run/hortus-instance/metadata.json"
	// KubeletDir is the kubelet's directory.
	KubeletDir = "/var/lib/kubelet"
	// SocketDir is the directory of the driver's socket, RegistryDir is the directory of the sockets by which drivers
	// register.
	SocketDir   = KubeletDir + "/plugins/" + Driver
	RegistryDir = KubeletDir + "/plugins_registry"

	storageClass = "default"
)

// Objects renders the StorageClass "default", the CSIDriver, and the driver on every node of a cluster.
func Objects(image string) []client.Object {
	labels := map[string]string{
		"app": NodeCommand, corev1beta1.LabelRole: corev1beta1.RoleSystemComponent,
		corev1beta1.LabelNodeCriticalComponent: "true",
	}
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: NodeCommand, Labels: labels}
	return []client.Object{
		&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: storageClass, Annotations: map[string]string{
				"storageclass.kubernetes.io/is-default-class": "true",
				// The provisioner of a class cannot be changed, and Shoots may have one with an older provisioner.
				resourcesv1alpha1.AnnotationDeleteOnInvalidUpdate: "true",
			}},
			Provisioner:       Driver,
			ReclaimPolicy:     ptr.To(corev1.PersistentVolumeReclaimDelete),
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		},
		&storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: Driver},
			Spec: storagev1.CSIDriverSpec{
				AttachRequired:       ptr.To(true),
				PodInfoOnMount:       ptr.To(false),
				FSGroupPolicy:        ptr.To(storagev1.FileFSGroupPolicy),
				VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent},
			},
		},
		&corev1.ServiceAccount{ObjectMeta: meta, AutomountServiceAccountToken: ptr.To(false)},
		&appsv1.DaemonSet{
			ObjectMeta: meta,
			Spec: appsv1.DaemonSetSpec{
				RevisionHistoryLimit: ptr.To(int32(1)),
				Selector:             &metav1.LabelSelector{MatchLabels: map[string]string{"app": NodeCommand}},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{
						Labels:      labels,
						Annotations: map[string]string{corev1beta1.AnnotationPrefixWaitForCSINode + "local": Driver},
					},
					Spec: nodePod(image),
				},
			},
		},
	}
}

// nodePod renders the driver on a node. It has no access to any API: it only serves the kubelet.
func nodePod(image string) corev1.PodSpec {
	both, fromNode := corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer
	return corev1.PodSpec{
		ServiceAccountName:           NodeCommand,
		AutomountServiceAccountToken: ptr.To(false),
		EnableServiceLinks:           ptr.To(false),
		PriorityClassName:            "system-node-critical",
		Tolerations:                  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{
			Name:  NodeCommand,
			Image: image,
			Args:  []string{NodeCommand},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("5m"), corev1.ResourceMemory: resource.MustParse("24Mi"),
			}},
			// Only privileged containers can create mounts that other pods see.
			SecurityContext: &corev1.SecurityContext{RunAsUser: ptr.To(int64(0)), Privileged: ptr.To(true)},
			VolumeMounts: []corev1.VolumeMount{
				{Name: "socket", MountPath: SocketDir},
				{Name: "registry", MountPath: RegistryDir},
				{Name: "pods", MountPath: KubeletDir + "/pods", MountPropagation: &both},
				{Name: "volumes", MountPath: cloud.VolumesDir, MountPropagation: &fromNode},
				{Name: "metadata", MountPath: Metadata, ReadOnly: true},
			},
		}},
		Volumes: []corev1.Volume{
			hostPath("socket", SocketDir, corev1.HostPathDirectoryOrCreate),
			hostPath("registry", RegistryDir, corev1.HostPathDirectoryOrCreate),
			hostPath("pods", KubeletDir+"/pods", corev1.HostPathDirectoryOrCreate),
			hostPath("volumes", cloud.VolumesDir, corev1.HostPathDirectoryOrCreate),
			hostPath("metadata", Metadata, corev1.HostPathFile),
		},
	}
}

func hostPath(name, path string, kind corev1.HostPathType) corev1.Volume {
	return corev1.Volume{
		Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}},
	}
}

// Rules returns the permissions of the driver's controllers in a cluster.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"persistentvolumes"},
			Verbs: []string{"get", "list", "watch", "create", "delete", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims"},
			Verbs: []string{"get", "list", "watch", "patch"}},
		{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"storageclasses", "csinodes"}, Verbs: []string{"get"}},
		{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"volumeattachments"},
			Verbs: []string{"get", "list", "watch", "delete", "patch"}},
		{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"volumeattachments/status"}, Verbs: []string{"patch"}},
	}
}
