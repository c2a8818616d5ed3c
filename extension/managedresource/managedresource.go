// Package managedresource passes objects of an extension to the resource-manager, which applies them to a Shoot or to
// the seed and keeps them there.
package managedresource

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

const (
	secretPrefix = "managedresource-"
	dataKey      = "objects.yaml"
	labelNoClean = "shoot.gardener.cloud/no-cleanup"
)

// Set is a named set of objects.
type Set struct {
	Namespace string
	Name      string
	Seed      bool // Apply the objects to the seed instead of the Shoot.
	Objects   []client.Object
}

// Apply passes the set to the resource-manager. The scheme must know the kinds of the objects.
func Apply(ctx context.Context, c client.Client, scheme *runtime.Scheme, set Set) error {
	data, err := Encode(scheme, set.Objects)
	if err != nil {
		return fmt.Errorf("encode objects of managed resource %q: %w", set.Name, err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: secretPrefix + set.Name}}
	if _, err := controllerutil.CreateOrPatch(ctx, c, secret, func() error {
		secret.Data = map[string][]byte{dataKey: data}
		return nil
	}); err != nil {
		return fmt.Errorf("apply secret of managed resource %q: %w", set.Name, err)
	}
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name}}
	if _, err := controllerutil.CreateOrPatch(ctx, c, mr, func() error {
		mr.Spec.SecretRefs = []corev1.LocalObjectReference{{Name: secret.Name}}
		if set.Seed {
			mr.Spec.Class = ptr.To(resourcesv1alpha1.ClassSeed)
			return nil
		}
		mr.Spec.Class = nil
		mr.Spec.InjectLabels = map[string]string{labelNoClean: "true"} // The clean-up of the Shoot must not delete them.
		return nil
	}); err != nil {
		return fmt.Errorf("apply managed resource %q: %w", set.Name, err)
	}
	return nil
}

// Delete deletes the set and reports whether it is gone. With keep, the objects stay in the cluster.
func Delete(ctx context.Context, c client.Client, namespace, name string, keep bool) (bool, error) {
	mr := &resourcesv1alpha1.ManagedResource{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, mr)
	if apierrors.IsNotFound(err) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secretPrefix + name}}
		if err := c.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("delete secret of managed resource %q: %w", name, err)
		}
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read managed resource %q: %w", name, err)
	}
	if keep && !ptr.Deref(mr.Spec.KeepObjects, false) {
		before := mr.DeepCopy()
		mr.Spec.KeepObjects = ptr.To(true)
		if err := c.Patch(ctx, mr, client.MergeFrom(before)); err != nil {
			return false, fmt.Errorf("keep objects of managed resource %q: %w", name, err)
		}
	}
	if mr.DeletionTimestamp.IsZero() {
		if err := c.Delete(ctx, mr); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("delete managed resource %q: %w", name, err)
		}
	}
	return false, nil
}

// Problem returns why a ManagedResource is not applied or not healthy, or "" if it is both.
func Problem(mr *resourcesv1alpha1.ManagedResource) string {
	if mr.Status.ObservedGeneration != mr.Generation {
		return fmt.Sprintf("managed resource %q has not been applied yet", mr.Name)
	}
	for _, want := range []struct {
		typ    corev1beta1.ConditionType
		status corev1beta1.ConditionStatus
	}{
		{resourcesv1alpha1.ResourcesApplied, corev1beta1.ConditionTrue},
		{resourcesv1alpha1.ResourcesHealthy, corev1beta1.ConditionTrue},
		{resourcesv1alpha1.ResourcesProgressing, corev1beta1.ConditionFalse},
	} {
		found := false
		for _, c := range mr.Status.Conditions {
			if c.Type != want.typ {
				continue
			}
			found = true
			if c.Status != want.status {
				return fmt.Sprintf("managed resource %q: %s is %s: %s", mr.Name, c.Type, c.Status, c.Message)
			}
		}
		if !found {
			return fmt.Sprintf("managed resource %q has no condition %s yet", mr.Name, want.typ)
		}
	}
	return ""
}

// Encode writes objects as a YAML stream, in the given order; the output is deterministic.
func Encode(scheme *runtime.Scheme, objects []client.Object) ([]byte, error) {
	var out bytes.Buffer
	for _, obj := range objects {
		gvk, err := apiutil.GVKForObject(obj, scheme)
		if err != nil {
			return nil, err
		}
		m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			return nil, err
		}
		m["apiVersion"], m["kind"] = gvk.GroupVersion().String(), gvk.Kind
		delete(m, "status")
		prune(m)
		text, err := yaml.Marshal(m)
		if err != nil {
			return nil, err
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.Bytes(), nil
}

// prune drops the creation timestamps that Go's encoder writes for objects that were never created.
func prune(value any) {
	switch v := value.(type) {
	case map[string]any:
		if ts, ok := v["creationTimestamp"]; ok && ts == nil {
			delete(v, "creationTimestamp")
		}
		for _, child := range v {
			prune(child)
		}
	case []any:
		for _, child := range v {
			prune(child)
		}
	}
}
