package managedresource

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/andybalholm/brotli"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

// Keys of the Secret, which has one of them.
const (
	dataKey = "objects.yaml"
	// compressedKey has the same, compressed with Brotli.
	compressedKey = dataKey + ".br"
)

// maxPlain is the size in bytes up to which objects are stored as readable text: half of what a Secret may hold, so
// that the Secrets of nearly all components are readable. Definitions of large kinds shrink to less than a tenth.
const maxPlain = corev1.MaxSecretSize / 2

// LabelNoCleanup on an object in a Shoot excludes it from the cleanup before deletion: it is deleted with its
// ManagedResource.
const LabelNoCleanup = "shoot.gardener.cloud/no-cleanup"

// ForShoot returns the Secret and the ManagedResource for objects in a Shoot. An error means that the objects cannot be
// encoded, or are too large for a Secret.
func ForShoot(
	scheme *runtime.Scheme, namespace, name string, objects ...client.Object,
) (*corev1.Secret, *resourcesv1alpha1.ManagedResource, error) {
	secret, mr, err := render(scheme, namespace, name, objects)
	if err != nil {
		return nil, nil, err
	}
	mr.Labels = map[string]string{resourcesv1alpha1.LabelOrigin: resourcesv1alpha1.OriginGardener}
	mr.Spec.InjectLabels = map[string]string{LabelNoCleanup: "true"}
	mr.Spec.KeepObjects = ptr.To(false)
	return secret, mr, nil
}

// ForSeed is ForShoot for objects in the seed itself.
func ForSeed(
	scheme *runtime.Scheme, namespace, name string, objects ...client.Object,
) (*corev1.Secret, *resourcesv1alpha1.ManagedResource, error) {
	secret, mr, err := render(scheme, namespace, name, objects)
	if err != nil {
		return nil, nil, err
	}
	mr.Spec.Class = ptr.To(resourcesv1alpha1.ClassSeed)
	mr.Spec.KeepObjects = ptr.To(false)
	return secret, mr, nil
}

// SecretName is the name of the Secret behind a ManagedResource.
func SecretName(name string) string { return "managedresource-" + name }

func render(
	scheme *runtime.Scheme, namespace, name string, objects []client.Object,
) (*corev1.Secret, *resourcesv1alpha1.ManagedResource, error) {
	text, err := Encode(scheme, objects)
	if err != nil {
		return nil, nil, fmt.Errorf("encode objects of ManagedResource %q: %w", name, err)
	}
	data, err := dataOf(text)
	if err != nil {
		return nil, nil, fmt.Errorf("store objects of ManagedResource %q: %w", name, err)
	}
	return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: SecretName(name), Namespace: namespace},
			Type:       corev1.SecretTypeOpaque,
			Data:       data,
		}, &resourcesv1alpha1.ManagedResource{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
			Spec: resourcesv1alpha1.ManagedResourceSpec{
				SecretRefs: []corev1.LocalObjectReference{{Name: SecretName(name)}},
			},
		}, nil
}

// dataOf returns the data of the Secret for a text, which is the same for the same text.
func dataOf(text []byte) (map[string][]byte, error) {
	if len(text) <= maxPlain {
		return map[string][]byte{dataKey: text}, nil
	}
	var out bytes.Buffer
	w := brotli.NewWriter(&out)
	_, err := w.Write(text)
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	if out.Len() > corev1.MaxSecretSize {
		return nil, fmt.Errorf("%d bytes, %d when compressed (at most %d)", len(text), out.Len(), corev1.MaxSecretSize)
	}
	return map[string][]byte{compressedKey: out.Bytes()}, nil
}

// Encode writes the objects as a stream of YAML documents, without their status.
func Encode(scheme *runtime.Scheme, objects []client.Object) ([]byte, error) {
	var out bytes.Buffer
	for _, o := range objects {
		gvk, err := apiutil.GVKForObject(o, scheme)
		if err != nil {
			return nil, err
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return nil, err
		}
		u := &unstructured.Unstructured{Object: content}
		u.SetGroupVersionKind(gvk)
		unstructured.RemoveNestedField(content, "status")
		unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
		doc, err := yaml.Marshal(content)
		if err != nil {
			return nil, err
		}
		out.WriteString("---\n")
		out.Write(doc)
	}
	return out.Bytes(), nil
}

// Checksum returns the checksum of the data of a ManagedResource's Secrets, in their order: the
// status.secretsDataChecksum after exactly this data has been applied.
func Checksum(secrets ...*corev1.Secret) string {
	h := sha256.New()
	for _, s := range secrets {
		for _, key := range slices.Sorted(maps.Keys(s.Data)) {
			fmt.Fprintf(h, "%s/%s %d\n", s.Name, key, len(s.Data[key]))
			h.Write(s.Data[key])
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Ready reports whether the newest spec has been applied and everything in it is healthy and rolled out; if not, why.
// checksum is the checksum of the current Secrets, so that a status from before their last change does not count; ""
// skips this check.
func Ready(mr *resourcesv1alpha1.ManagedResource, checksum string) (bool, string) {
	if mr.Status.ObservedGeneration != mr.Generation {
		return false, fmt.Sprintf("ManagedResource %s has not been observed yet", mr.Name)
	}
	for _, want := range []struct {
		condition string
		status    corev1beta1.ConditionStatus
	}{
		{resourcesv1alpha1.ResourcesApplied, corev1beta1.ConditionTrue},
		{resourcesv1alpha1.ResourcesHealthy, corev1beta1.ConditionTrue},
		{resourcesv1alpha1.ResourcesProgressing, corev1beta1.ConditionFalse},
	} {
		c := condition(mr, want.condition)
		switch {
		case c == nil:
			return false, fmt.Sprintf("ManagedResource %s has no condition %s yet", mr.Name, want.condition)
		case c.Status != want.status:
			return false, fmt.Sprintf("ManagedResource %s: %s is %s: %s", mr.Name, c.Type, c.Status, c.Message)
		case checksum != "" && ptr.Deref(mr.Status.SecretsDataChecksum, "") != checksum:
			return false, fmt.Sprintf("ManagedResource %s has not been applied since its last change", mr.Name)
		}
	}
	return true, ""
}

func condition(mr *resourcesv1alpha1.ManagedResource, name string) *corev1beta1.Condition {
	for i := range mr.Status.Conditions {
		if string(mr.Status.Conditions[i].Type) == name {
			return &mr.Status.Conditions[i]
		}
	}
	return nil
}
