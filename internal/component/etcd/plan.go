package etcd

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Annotations of pods that the gardenlet sets.
const (
	// AnnotationConfiguration is the checksum that the pod has to run with. The kubelet looks for new contents of
	// Secrets at once when a pod changes, else only about once a minute.
	AnnotationConfiguration = "etcd.hortus.dev/configuration"
	// AnnotationRefreshed is the time of the last change of the pod for this purpose only.
	AnnotationRefreshed = "etcd.hortus.dev/refreshed"
	// AnnotationRestarts is the number of restarts of the container when its image was changed.
	AnnotationRestarts = "etcd.hortus.dev/restarts-before-image"
)

// Change holds the changes to a pod that make it match the StatefulSet.
type Change struct {
	// Replace means that the pod has to be deleted, and Reason why.
	Replace bool
	Reason  string
	// Images are new images of containers in a pod that stays, by name of the container; Annotations to set. Only the
	// container restarts.
	Images      map[string]string
	Annotations map[string]string
}

// IsNone reports whether there are no changes.
func (c Change) IsNone() bool { return !c.Replace && len(c.Images) == 0 && len(c.Annotations) == 0 }

// Plan returns the changes to a pod. checksum identifies the desired configuration of etcd, see [Checksum].
func Plan(template *corev1.PodTemplateSpec, checksum string, pod *corev1.Pod) Change {
	if !pod.DeletionTimestamp.IsZero() {
		return Change{}
	}
	if was := pod.Annotations[annotationTemplate]; was != template.Annotations[annotationTemplate] {
		return Change{Replace: true, Reason: "its template has changed"}
	}
	c := Change{}
	for _, wanted := range template.Spec.Containers {
		i := slices.IndexFunc(pod.Spec.Containers, func(has corev1.Container) bool { return has.Name == wanted.Name })
		if i >= 0 && pod.Spec.Containers[i].Image != wanted.Image {
			c.Images = with(c.Images, wanted.Name, wanted.Image)
			c.Annotations = with(c.Annotations, AnnotationRestarts, strconv.Itoa(int(restarts(pod, wanted.Name))))
		}
	}
	if pod.Annotations[AnnotationConfiguration] != checksum {
		c.Annotations = with(c.Annotations, AnnotationConfiguration, checksum)
	}
	return c
}

// Unready returns why a pod does not match the desired state yet; "" if it does. The configuration that etcd itself
// runs with is reported by its process.
func Unready(template *corev1.PodTemplateSpec, checksum string, pod *corev1.Pod) string {
	switch c := Plan(template, checksum, pod); {
	case !pod.DeletionTimestamp.IsZero():
		return fmt.Sprintf("Pod %s is being replaced", pod.Name)
	case !c.IsNone():
		return fmt.Sprintf("Pod %s has to be updated", pod.Name)
	}
	if before := pod.Annotations[AnnotationRestarts]; before != "" {
		if n, err := strconv.Atoi(before); err == nil && restarts(pod, Name) <= int32(n) {
			return fmt.Sprintf("Pod %s is being restarted with its new image", pod.Name)
		}
	}
	if isReady(pod) {
		return ""
	}
	return fmt.Sprintf("Pod %s is not ready", pod.Name)
}

func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp.IsZero() && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func restarts(pod *corev1.Pod, container string) int32 {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == container {
			return s.RestartCount
		}
	}
	return 0
}

func with(m map[string]string, key, value string) map[string]string {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// Next returns the changes to the pods that may be made now. Only one pod is ended at a time, and with several members
// only while all others are ready, so that they keep a quorum.
func Next(template *corev1.PodTemplateSpec, checksum string, pods []corev1.Pod) map[string]Change {
	changes := map[string]Change{}
	var ends, unready []string
	for i := range pods {
		c := Plan(template, checksum, &pods[i])
		changes[pods[i].Name] = c
		if !isReady(&pods[i]) {
			unready = append(unready, pods[i].Name)
		}
		if c.Replace || len(c.Images) > 0 {
			ends = append(ends, pods[i].Name)
		}
	}
	slices.Sort(ends)
	next := ""
	for _, name := range ends {
		if len(unready) == 0 || len(unready) == 1 && unready[0] == name {
			next = name
			break
		}
	}
	for _, name := range ends {
		if name != next && len(pods) > 1 {
			changes[name] = Change{}
		}
	}
	return changes
}

// templateChecksum identifies a template without the fields that can change in a running pod (its images and the
// owner), and without the placement of pods, which matters only for new ones.
func templateChecksum(t corev1.PodTemplateSpec) string {
	t = *t.DeepCopy()
	t.Spec.TopologySpreadConstraints = nil
	for _, containers := range [][]corev1.Container{t.Spec.InitContainers, t.Spec.Containers} {
		for i := range containers {
			containers[i].Image = ""
			containers[i].Command = slices.DeleteFunc(containers[i].Command, func(arg string) bool {
				return strings.HasPrefix(arg, flagEpoch) || strings.HasPrefix(arg, flagHolder) ||
					strings.HasPrefix(arg, flagStandby)
			})
		}
	}
	data, err := json.Marshal(t)
	if err != nil {
		panic(err) // It consists of plain values.
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])[:16]
}
