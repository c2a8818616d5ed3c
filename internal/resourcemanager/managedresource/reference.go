package managedresource

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

// reference names an object of the target cluster.
type reference struct {
	schema.GroupVersionKind
	Namespace, Name string
}

func (r reference) String() string {
	name := r.Name
	if r.Namespace != "" {
		name = r.Namespace + "/" + name
	}
	return fmt.Sprintf("%s %s", r.Kind, name)
}

func fromStatus(o resourcesv1alpha1.ObjectReference) reference {
	return reference{schema.FromAPIVersionAndKind(o.APIVersion, o.Kind), o.Namespace, o.Name}
}

func toStatus(r reference, labels, annotations map[string]string) resourcesv1alpha1.ObjectReference {
	return resourcesv1alpha1.ObjectReference{
		ObjectReference: corev1.ObjectReference{
			APIVersion: r.GroupVersion().String(), Kind: r.Kind, Namespace: r.Namespace, Name: r.Name},
		Labels: labels, Annotations: annotations,
	}
}

func sortReferences(refs []resourcesv1alpha1.ObjectReference) {
	slices.SortFunc(refs, func(a, b resourcesv1alpha1.ObjectReference) int {
		return cmp.Or(cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// wellKnown are kinds that moved between API groups: both names mean the same object.
var wellKnown = [][]metav1.GroupKind{
	{{Group: "extensions", Kind: "Deployment"}, {Group: "apps", Kind: "Deployment"}},
	{{Group: "extensions", Kind: "DaemonSet"}, {Group: "apps", Kind: "DaemonSet"}},
	{{Group: "extensions", Kind: "ReplicaSet"}, {Group: "apps", Kind: "ReplicaSet"}},
	{{Group: "extensions", Kind: "StatefulSet"}, {Group: "apps", Kind: "StatefulSet"}},
	{{Group: "extensions", Kind: "Ingress"}, {Group: "networking.k8s.io", Kind: "Ingress"}},
	{{Group: "extensions", Kind: "NetworkPolicy"}, {Group: "networking.k8s.io", Kind: "NetworkPolicy"}},
}

// identity is what stays the same when an object is named by another version or an equivalent group.
type identity struct {
	metav1.GroupKind
	namespace, name string
}

// identities maps references to identities, given the equivalences of one ManagedResource.
func identities(extra [][]metav1.GroupKind) func(reference) identity {
	first := map[metav1.GroupKind]metav1.GroupKind{}
	for _, set := range slices.Concat(wellKnown, extra) {
		if len(set) == 0 {
			continue
		}
		to := set[0]
		for _, gk := range set { // Sets that share a member are one set.
			if known, ok := first[gk]; ok {
				to = known
				break
			}
		}
		for _, gk := range set {
			first[gk] = to
		}
	}
	return func(r reference) identity {
		gk := metav1.GroupKind{Group: r.Group, Kind: r.Kind}
		if to, ok := first[gk]; ok {
			gk = to
		}
		return identity{gk, r.Namespace, r.Name}
	}
}

// selectorOf reads a label selector from an object's field.
func selectorOf(raw map[string]any) (labels.Selector, error) {
	var s metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &s); err != nil {
		return nil, fmt.Errorf("decode selector: %w", err)
	}
	out, err := metav1.LabelSelectorAsSelector(&s)
	if err != nil {
		return nil, fmt.Errorf("read selector: %w", err)
	}
	return out, nil
}
