package shootstate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension/worker"
)

// machineState is the name of the entry with all machines.
const machineState = corev1beta1.DataTypeMachineState

// Desired is the ShootState for the observed objects; missing are the referenced objects that do not exist.
func Desired(o *Observed) (spec corev1beta1.ShootStateSpec, missing []Reference, err error) {
	for i := range o.Secrets {
		s := &o.Secrets[i]
		if s.DeletionTimestamp != nil {
			continue
		}
		data, err := json.Marshal(s.Data)
		if err != nil {
			return spec, nil, fmt.Errorf("encode Secret %q: %w", s.Name, err)
		}
		spec.Gardener = append(spec.Gardener, corev1beta1.GardenerResourceData{
			Name: s.Name, Type: corev1beta1.DataTypeSecret, Labels: s.Labels, Data: runtime.RawExtension{Raw: data},
		})
	}
	machines, err := worker.EncodeState(worker.Collect(o.Deployments, o.Sets, o.Machines))
	if err != nil {
		return spec, nil, err
	}
	if machines != nil {
		spec.Gardener = append(spec.Gardener, corev1beta1.GardenerResourceData{
			Name: machineState, Type: machineState, Data: *machines,
		})
	}
	wanted := map[Reference]bool{}
	for _, object := range o.Extensions {
		entry, ok := extensionState(object)
		if !ok {
			continue
		}
		spec.Extensions = append(spec.Extensions, entry)
		for _, r := range entry.Resources {
			wanted[Reference{r.ResourceRef.APIVersion, r.ResourceRef.Kind, r.ResourceRef.Name}] = true
		}
	}
	for _, ref := range slices.SortedFunc(maps.Keys(wanted), compareReferences) {
		object := o.Referenced[ref]
		if object == nil {
			missing = append(missing, ref)
			continue
		}
		data, err := json.Marshal(bare(object))
		if err != nil {
			return spec, nil, fmt.Errorf("encode %s %q: %w", ref.Kind, ref.Name, err)
		}
		spec.Resources = append(spec.Resources, corev1beta1.ResourceData{
			CrossVersionObjectReference: autoscalingv1.CrossVersionObjectReference{
				APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name,
			},
			Data: runtime.RawExtension{Raw: data},
		})
	}
	return spec, missing, nil
}

func compareReferences(a, b Reference) int {
	return slices.Compare([]string{a.APIVersion, a.Kind, a.Name}, []string{b.APIVersion, b.Kind, b.Name})
}

// extensionState is the entry of an extension object; ok is false if there is nothing to save.
func extensionState(object extensionsv1alpha1.Object) (entry corev1beta1.ExtensionResourceState, ok bool) {
	status := object.GetDefaultStatus()
	state := status.State
	if state != nil && (len(state.Raw) == 0 || string(state.Raw) == "null" || isMachineState(object, state)) {
		state = nil
	}
	if object.GetDeletionTimestamp() != nil || state == nil && len(status.Resources) == 0 {
		return entry, false
	}
	entry = corev1beta1.ExtensionResourceState{
		Kind: kindOf(object), Name: ptr.To(object.GetName()), Purpose: purposeOf(object), State: state.DeepCopy(),
	}
	for _, r := range status.Resources {
		entry.Resources = append(entry.Resources, corev1beta1.NamedResourceReference{
			Name: r.Name, ResourceRef: r.ResourceRef,
		})
	}
	return entry, true
}

// isMachineState: the state of a Worker that a restore has put there. The entry with the machines is newer.
func isMachineState(object extensionsv1alpha1.Object, state *runtime.RawExtension) bool {
	if _, ok := object.(*extensionsv1alpha1.Worker); !ok {
		return false
	}
	machines, err := worker.DecodeState(state)
	return err == nil && len(machines) > 0
}

func kindOf(object extensionsv1alpha1.Object) string {
	_, name, _ := strings.Cut(fmt.Sprintf("%T", object), ".")
	return name
}

// purposeOf distinguishes objects of the same kind; nil for kinds without a purpose.
func purposeOf(object extensionsv1alpha1.Object) *string {
	switch o := object.(type) {
	case *extensionsv1alpha1.ControlPlane:
		if o.Spec.Purpose != nil {
			return ptr.To(string(*o.Spec.Purpose))
		}
	case *extensionsv1alpha1.OperatingSystemConfig:
		return ptr.To(string(o.Spec.Purpose))
	}
	return nil
}

// bare is the object without what its server has added and without status: it will be created by another one.
func bare(object *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	for key, value := range object.Object {
		if key != "metadata" && key != "status" {
			out.Object[key] = value
		}
	}
	out.SetNamespace(object.GetNamespace())
	out.SetName(object.GetName())
	out.SetLabels(object.GetLabels())
	out.SetAnnotations(object.GetAnnotations())
	return out
}
