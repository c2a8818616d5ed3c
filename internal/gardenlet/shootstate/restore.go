package shootstate

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/secretsmanager"
)

// Saved is a Shoot's control plane state as saved in the garden.
type Saved struct{ state *corev1beta1.ShootState }

// Load reads the state; nil if there is none. It may be large: load it once per pass.
func Load(ctx context.Context, garden client.Reader, shoot *corev1beta1.Shoot) (*Saved, error) {
	state := &corev1beta1.ShootState{}
	if err := garden.Get(ctx, client.ObjectKeyFromObject(shoot), state); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("read ShootState %s: %w", client.ObjectKeyFromObject(shoot), err)
	}
	return New(state), nil
}

// New returns the content of a ShootState.
func New(state *corev1beta1.ShootState) *Saved { return &Saved{state} }

// CompleteFrom is the seed that has saved everything after its extensions had been migrated; empty if the state is the
// last one that a seed saved before it was lost.
func (s *Saved) CompleteFrom() string {
	var seed string
	_, _ = fmt.Sscan(s.state.Annotations[annotationComplete], &seed)
	return seed
}

// HasCredentials reports whether the state has any credentials.
func (s *Saved) HasCredentials() bool {
	return slices.ContainsFunc(s.state.Spec.Gardener, func(e corev1beta1.GardenerResourceData) bool {
		return e.Type == corev1beta1.DataTypeSecret
	})
}

// Secrets returns the Secrets to create in the control plane namespace before a Manager of secretsmanager reads it: by
// their names and labels, the Manager adopts them.
func (s *Saved) Secrets(namespace string) ([]*corev1.Secret, error) {
	var out []*corev1.Secret
	for i := range s.state.Spec.Gardener {
		entry := &s.state.Spec.Gardener[i]
		if entry.Type != corev1beta1.DataTypeSecret {
			continue
		}
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: entry.Name, Labels: maps.Clone(entry.Labels)},
			Type:       corev1.SecretTypeOpaque,
		}
		if err := json.Unmarshal(entry.Data.Raw, &secret.Data); err != nil {
			return nil, fmt.Errorf("decode Secret %q of the ShootState: it is not a map of base64", entry.Name)
		}
		if secret.Labels[secretsmanager.LabelManagedBy] == secretsmanager.ManagedBy {
			secret.Immutable = ptr.To(true)
		}
		out = append(out, secret)
	}
	return out, nil
}

// StateOf returns status.state and status.resources for an extension object; purpose is nil for kinds without one. A
// Worker without a state of its own gets the state of the machines, in the form that extension/worker reads.
func (s *Saved) StateOf(
	kind, name string, purpose *string,
) (state *runtime.RawExtension, resources []extensionsv1alpha1.NamedResourceReference) {
	for i := range s.state.Spec.Extensions {
		e := &s.state.Spec.Extensions[i]
		if e.Kind != kind || ptr.Deref(e.Name, "") != name || ptr.Deref(e.Purpose, "") != ptr.Deref(purpose, "") {
			continue
		}
		state = e.State.DeepCopy()
		for _, r := range e.Resources {
			resources = append(resources, extensionsv1alpha1.NamedResourceReference{
				Name: r.Name, ResourceRef: r.ResourceRef,
			})
		}
	}
	if state == nil && kind == extensionsv1alpha1.WorkerKind {
		state = s.Machines()
	}
	return state, resources
}

// StateOfObject is StateOf for an object.
func (s *Saved) StateOfObject(
	object extensionsv1alpha1.Object,
) (*runtime.RawExtension, []extensionsv1alpha1.NamedResourceReference) {
	return s.StateOf(kindOf(object), object.GetName(), purposeOf(object))
}

// Machines returns the state of all machines, which extension/worker decodes; nil if there are none.
func (s *Saved) Machines() *runtime.RawExtension {
	for i := range s.state.Spec.Gardener {
		if e := &s.state.Spec.Gardener[i]; e.Type == machineState {
			return e.Data.DeepCopy()
		}
	}
	return nil
}

// Resources returns the objects that the state of extensions refers to, to be created in the control plane namespace.
func (s *Saved) Resources(namespace string) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for i := range s.state.Spec.Resources {
		entry := &s.state.Spec.Resources[i]
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(entry.Data.Raw); err != nil {
			return nil, fmt.Errorf("decode %s %q of the ShootState: it is not an object", entry.Kind, entry.Name)
		}
		object.SetAPIVersion(entry.APIVersion)
		object.SetKind(entry.Kind)
		object.SetName(entry.Name)
		object.SetNamespace(namespace)
		out = append(out, bare(object))
	}
	return out, nil
}

// CreateSecrets creates the Secrets in the control plane namespace. Existing ones are not changed.
func (s *Saved) CreateSecrets(ctx context.Context, seed client.Client, namespace string) error {
	secrets, err := s.Secrets(namespace)
	if err != nil {
		return err
	}
	for _, secret := range secrets {
		if err := create(ctx, seed, secret, "Secret"); err != nil {
			return err
		}
	}
	return nil
}

// CreateResources creates the objects that the state of extensions refers to. Existing ones are not changed.
func (s *Saved) CreateResources(ctx context.Context, seed client.Client, namespace string) error {
	resources, err := s.Resources(namespace)
	if err != nil {
		return err
	}
	for _, object := range resources {
		if err := create(ctx, seed, object, object.GetKind()); err != nil {
			return err
		}
	}
	return nil
}

// create looks first: every pass of a restore comes here, and its client knows most of what there is.
func create(ctx context.Context, seed client.Client, object client.Object, kind string) error {
	if found, err := kube.Exists(ctx, seed, object.DeepCopyObject().(client.Object)); err != nil || found {
		return err
	}
	if err := seed.Create(ctx, object, client.FieldOwner(fieldOwner)); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("restore %s %s: %w", kind, client.ObjectKeyFromObject(object), err)
	}
	return nil
}
