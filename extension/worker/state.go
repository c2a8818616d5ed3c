package worker

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// State is what a seed must know of the machines that another seed has created, by name of the MachineDeployment.
type State map[string]DeploymentState

func (s State) hasMachines() bool {
	for _, deployment := range s {
		if len(deployment.Machines) > 0 {
			return true
		}
	}
	return false
}

// DeploymentState is the state of one MachineDeployment.
type DeploymentState struct {
	Replicas    int32                        `json:"replicas,omitempty"`
	MachineSets []machinev1alpha1.MachineSet `json:"machineSets,omitempty"`
	Machines    []machinev1alpha1.Machine    `json:"machines,omitempty"`
}

// templateAnnotations are those of the machines of a class. A user has put them on the template of the
// MachineDeployment to force a roll-out; without them the machine controller would replace the machines.
func (s DeploymentState) templateAnnotations(class string) map[string]string {
	for i := range s.MachineSets {
		if t := &s.MachineSets[i].Spec.Template; t.Spec.Class.Name == class && s.MachineSets[i].Spec.Replicas > 0 {
			return maps.Clone(t.Annotations)
		}
	}
	return nil
}

// envelope is the stored form: a document, compressed because its objects repeat themselves.
type envelope struct {
	State []byte `json:"state"`
}

// document is the decompressed form. Gardener's own library for extensions reads and writes it, too.
type document struct {
	MachineDeployments State `json:"machineDeployments"`
}

// maxStateBytes bounds a decompressed state; 64 MiB is some 50,000 machines.
const maxStateBytes = 64 << 20

// Collect computes the state of all machines in a control plane namespace. Machines that have neither a node nor a
// provider ID are left out: they can be created again.
func Collect(
	deployments []machinev1alpha1.MachineDeployment, sets []machinev1alpha1.MachineSet, machines []machinev1alpha1.Machine,
) State {
	out := State{}
	for i := range deployments {
		md := &deployments[i]
		state := DeploymentState{Replicas: md.Spec.Replicas}
		for j := range sets {
			if s := &sets[j]; s.Labels[labelName] == md.Name || s.Spec.Template.Labels[labelName] == md.Name {
				state.MachineSets = append(state.MachineSets,
					machinev1alpha1.MachineSet{ObjectMeta: slimMeta(s.ObjectMeta), Spec: *s.Spec.DeepCopy()})
			}
		}
		for j := range machines {
			m := &machines[j]
			if m.Labels[labelName] == md.Name && (m.Labels[machinev1alpha1.NodeLabelKey] != "" || m.Spec.ProviderID != "") {
				state.Machines = append(state.Machines,
					machinev1alpha1.Machine{ObjectMeta: slimMeta(m.ObjectMeta), Spec: *m.Spec.DeepCopy()})
			}
		}
		out[md.Name] = state
	}
	return out
}

func slimMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, Labels: m.Labels, Annotations: m.Annotations}
}

// EncodeState encodes a state for storage, deterministically; nil for an empty one.
func EncodeState(state State) (*runtime.RawExtension, error) {
	if len(state) == 0 {
		return nil, nil
	}
	plain, err := json.Marshal(document{state})
	if err != nil {
		return nil, fmt.Errorf("encode machine state: %w", err)
	}
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if _, err := zip.Write(plain); err != nil {
		return nil, fmt.Errorf("compress machine state: %w", err)
	}
	if err := zip.Close(); err != nil {
		return nil, fmt.Errorf("compress machine state: %w", err)
	}
	raw, err := json.Marshal(envelope{State: packed.Bytes()})
	if err != nil {
		return nil, fmt.Errorf("encode machine state: %w", err)
	}
	return &runtime.RawExtension{Raw: raw}, nil
}

// DecodeState decodes a stored state; a nil or empty one becomes an empty state.
func DecodeState(raw *runtime.RawExtension) (State, error) {
	if raw == nil || len(raw.Raw) == 0 || string(raw.Raw) == "null" {
		return nil, nil
	}
	var packed envelope
	if err := json.Unmarshal(raw.Raw, &packed); err != nil {
		return nil, fmt.Errorf("decode machine state: %w", err)
	}
	if len(packed.State) == 0 {
		return nil, nil
	}
	zip, err := gzip.NewReader(bytes.NewReader(packed.State))
	if err != nil {
		return nil, fmt.Errorf("decompress machine state: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(zip, maxStateBytes))
	if err != nil {
		return nil, fmt.Errorf("decompress machine state: %w", err)
	}
	var out document
	if err := json.Unmarshal(plain, &out); err != nil {
		return nil, fmt.Errorf("decode machine state: %w", err)
	}
	if out.MachineDeployments == nil { // v0.1.0 wrote the MachineDeployments without a field around them.
		if err := json.Unmarshal(plain, &out.MachineDeployments); err != nil {
			return nil, fmt.Errorf("decode machine state: %w", err)
		}
	}
	return out.MachineDeployments, nil
}

// restoreMachines creates the sets and machines of a state that are not there yet. Machines carry their provider ID and
// node label, so the machine controller finds their instances instead of making new ones.
func (a *Actuator) restoreMachines(ctx context.Context, namespace string, want []Wanted, state State) error {
	for i := range want {
		s, ok := state[want[i].Name]
		if !ok || len(s.MachineSets) == 0 {
			continue
		}
		for j := range s.MachineSets {
			set := &machinev1alpha1.MachineSet{ObjectMeta: slimMeta(s.MachineSets[j].ObjectMeta), Spec: s.MachineSets[j].Spec}
			if err := a.createIn(ctx, namespace, set); err != nil {
				return err
			}
		}
		for j := range s.Machines {
			machine := &machinev1alpha1.Machine{ObjectMeta: slimMeta(s.Machines[j].ObjectMeta), Spec: s.Machines[j].Spec}
			if err := a.createIn(ctx, namespace, machine); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *Actuator) createIn(ctx context.Context, namespace string, obj client.Object) error {
	obj.SetNamespace(namespace)
	if err := a.Client.Create(ctx, obj); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("restore %T %q: %w", obj, obj.GetName(), err)
	}
	return nil
}
