package managedresource

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

// annotationRestartedAt is set by `kubectl rollout restart` on pod templates.
const annotationRestartedAt = "kubectl.kubernetes.io/restartedAt"

// mergeOptions are the parts of a ManagedResource that shape its objects.
type mergeOptions struct {
	origin               string
	injectLabels         map[string]string
	overwriteLabels      bool
	overwriteAnnotations bool
	// corrects: all was applied before, so that somebody else has changed what differs, or this program applies it
	// differently since it was updated.
	corrects bool
}

// injected returns a copy of want with everything the resource-manager adds.
func injected(want *unstructured.Unstructured, o mergeOptions) *unstructured.Unstructured {
	u := want.DeepCopy()
	unstructured.RemoveNestedField(u.Object, "status")
	// Pods have the label as well: webhooks change those of managed objects only.
	labels := union(o.injectLabels, map[string]string{
		resourcesv1alpha1.LabelManagedBy: resourcesv1alpha1.ManagedByGardener,
	})
	u.SetLabels(union(u.GetLabels(), labels))
	description := "This object is managed. Changes to it are undone; change the ManagedResource named in the origin " +
		"annotation instead."
	if isTrue(u.GetAnnotations(), resourcesv1alpha1.AnnotationIgnore) {
		description = "This object was created for the ManagedResource named in the origin annotation. Changes to it are kept."
	}
	u.SetAnnotations(union(u.GetAnnotations(), map[string]string{
		resourcesv1alpha1.AnnotationOrigin: o.origin, resourcesv1alpha1.AnnotationDescription: description,
	}))
	for _, path := range templatePaths(u) {
		addNestedLabels(u.Object, labels, slices.Concat(path, []string{"metadata", "labels"})...)
	}
	if u.GetKind() == "StatefulSet" {
		claims, _, _ := unstructured.NestedSlice(u.Object, "spec", "volumeClaimTemplates")
		for _, c := range claims {
			if claim, ok := c.(map[string]any); ok {
				addNestedLabels(claim, labels, "metadata", "labels")
			}
		}
		if len(claims) > 0 {
			_ = unstructured.SetNestedSlice(u.Object, claims, "spec", "volumeClaimTemplates")
		}
	}
	return u
}

func union(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, b)
	return out
}

func addNestedLabels(obj map[string]any, add map[string]string, path ...string) {
	labels, _, _ := unstructured.NestedStringMap(obj, path...)
	_ = unstructured.SetNestedStringMap(obj, union(labels, add), path...)
}

// templatePaths are the paths of the pod templates of an object, each ending before "metadata" and "spec".
func templatePaths(u *unstructured.Unstructured) [][]string {
	switch u.GroupVersionKind().Group + "/" + u.GetKind() {
	case "apps/Deployment", "apps/DaemonSet", "apps/StatefulSet", "apps/ReplicaSet", "batch/Job", "/ReplicationController",
		"extensions/Deployment", "extensions/DaemonSet":
		return [][]string{{"spec", "template"}}
	case "batch/CronJob":
		return [][]string{{"spec", "jobTemplate"}, {"spec", "jobTemplate", "spec", "template"}}
	}
	return nil
}

// merge returns what to write, given the live object, the injected wish, and the labels and annotations of the last
// wish. What others are entitled to set is taken from the live object: status, identity, values the server allocated.
// scaled means that an autoscaler sets the replicas.
func merge(
	live, want *unstructured.Unstructured, last resourcesv1alpha1.ObjectReference, scaled bool, o mergeOptions,
) *unstructured.Unstructured {
	out := want.DeepCopy()
	for _, field := range []string{"resourceVersion", "uid", "creationTimestamp", "generation", "managedFields",
		"finalizers",
		"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} {
		keep(out, live, "metadata", field)
	}
	if len(out.GetOwnerReferences()) == 0 {
		keep(out, live, "metadata", "ownerReferences")
	}
	if !o.overwriteLabels {
		out.SetLabels(mergeMaps(live.GetLabels(), want.GetLabels(), last.Labels))
	}
	if !o.overwriteAnnotations {
		out.SetAnnotations(mergeMaps(live.GetAnnotations(), want.GetAnnotations(), last.Annotations))
	}
	keep(out, live, "status")
	for _, path := range templatePaths(out) {
		keepIfUnset(out, live, slices.Concat(path, []string{"metadata", "annotations", annotationRestartedAt})...)
	}
	if isTrue(out.GetAnnotations(), resourcesv1alpha1.AnnotationPreserveResources) {
		keepResources(out, live)
	}
	mergeKind(out, live, scaled)
	return out
}

// mergeMaps keeps foreign keys of live. A key that was wanted last time and is no longer goes, unless someone has given
// it another value since.
func mergeMaps(live, want, last map[string]string) map[string]string {
	out := maps.Clone(want)
	if out == nil {
		out = map[string]string{}
	}
	for key, value := range live {
		if _, wanted := want[key]; wanted {
			continue
		}
		if before, ok := last[key]; ok && before == value {
			continue
		}
		out[key] = value
	}
	return out
}

// keep copies a field from live, or removes it when live lacks it.
func keep(out, live *unstructured.Unstructured, path ...string) {
	value, found, err := unstructured.NestedFieldCopy(live.Object, path...)
	if err != nil || !found {
		unstructured.RemoveNestedField(out.Object, path...)
		return
	}
	_ = unstructured.SetNestedField(out.Object, value, path...)
}

// keepIfUnset copies a field from live if the wish does not have it.
func keepIfUnset(out, live *unstructured.Unstructured, path ...string) {
	if _, found, err := unstructured.NestedFieldNoCopy(out.Object, path...); found || err != nil {
		return
	}
	if value, found, err := unstructured.NestedFieldCopy(live.Object, path...); found && err == nil {
		_ = unstructured.SetNestedField(out.Object, value, path...)
	}
}

// keepResources takes the resources of containers over from those of the same name.
func keepResources(out, live *unstructured.Unstructured) {
	for _, template := range templatePaths(out) {
		for _, list := range []string{"containers", "initContainers"} {
			path := slices.Concat(template, []string{"spec", list})
			wanted, found, _ := unstructured.NestedSlice(out.Object, path...)
			if !found {
				continue
			}
			running, _, _ := unstructured.NestedSlice(live.Object, path...)
			byName := map[any]map[string]any{}
			for _, c := range running {
				if container, ok := c.(map[string]any); ok {
					byName[container["name"]] = container
				}
			}
			for _, c := range wanted {
				container, ok := c.(map[string]any)
				if !ok {
					continue
				}
				if resources, ok := byName[container["name"]]["resources"]; ok {
					container["resources"] = resources
				}
			}
			_ = unstructured.SetNestedSlice(out.Object, wanted, path...)
		}
	}
}
