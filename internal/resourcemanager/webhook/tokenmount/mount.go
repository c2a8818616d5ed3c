package tokenmount

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"hortus.dev/hortus/internal/resourcemanager/webhook/configuration"
)

const (
	// AnnotationExpirationSeconds on a pod is how long its token is valid, in seconds. Default 43200 (12 h), at least 600.
	AnnotationExpirationSeconds = "projected-token-mount.resources.gardener.cloud/expiration-seconds"

	// defaultExpirationSeconds is 12 hours; the kubelet requests a new token when 80 % are over.
	defaultExpirationSeconds = 12 * 60 * 60
	// minExpirationSeconds is the shortest life that API servers accept.
	minExpirationSeconds = 600

	volumeName = configuration.TokenVolumePrefix + "-gardener"
	mountPath  = "/var/run/secrets/kubernetes.io/serviceaccount"
	// rootCA is the ConfigMap with the CA of the API server that Kubernetes keeps in each namespace.
	rootCA = "kube-root-ca.crt"
)

// Mount adds a token to a pod that needs one and does not get it from Kubernetes, and reports whether it did.
func Mount(pod *corev1.Pod, account *corev1.ServiceAccount) bool {
	_, skipped := pod.Labels[configuration.LabelSkipTokenMount]
	if skipped || pod.Spec.AutomountServiceAccountToken != nil || ptr.Deref(account.AutomountServiceAccountToken, true) ||
		slices.ContainsFunc(pod.Spec.Volumes, holdsToken) {
		return false
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, volume(expirationSeconds(pod)))
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			mount(&containers[i])
		}
	}
	return true
}

func holdsToken(v corev1.Volume) bool {
	return strings.HasPrefix(v.Name, configuration.TokenVolumePrefix)
}

// expirationSeconds is the expiration that the pod requests, within the limits.
func expirationSeconds(pod *corev1.Pod) int64 {
	n, err := strconv.ParseInt(pod.Annotations[AnnotationExpirationSeconds], 10, 64)
	if err != nil {
		return defaultExpirationSeconds
	}
	return max(n, minExpirationSeconds)
}

// volume has what Kubernetes itself would mount.
func volume(expirationSeconds int64) corev1.Volume {
	return corev1.Volume{Name: volumeName, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: ptr.To(int32(0o644)),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
				ExpirationSeconds: ptr.To(expirationSeconds), Path: corev1.ServiceAccountTokenKey,
			}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: rootCA},
				Items: []corev1.KeyToPath{{
					Key: corev1.ServiceAccountRootCAKey, Path: corev1.ServiceAccountRootCAKey,
				}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
				Path:     corev1.ServiceAccountNamespaceKey,
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
			}}}},
		},
	}}}
}

// mount leaves a container alone that has something of its own at the path.
func mount(c *corev1.Container) {
	if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == mountPath }) {
		return
	}
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volumeName, MountPath: mountPath, ReadOnly: true})
}
