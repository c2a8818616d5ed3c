package controllerinstallation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1v1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// errSecretValues stands for an error that may contain values of Secrets, which conditions must not.
var errSecretValues = errors.New("the chart cannot be rendered with the present values of the Secrets in resources; " +
	"the error is left out because it may contain them")

// reference is an object in resources of a ControllerDeployment.
type reference struct {
	data   map[string]string
	secret bool
}

// chartValues are the values of a chart, with those of the objects in resources.
type chartValues struct {
	values map[string]any
	// public has other values instead of those of Secrets; nil if there are no Secrets.
	public map[string]any
}

// values reads the values of a chart. Its errors contain no values of Secrets.
func (r *Reconciler) values(ctx context.Context, deployment *corev1v1.ControllerDeployment) (chartValues, error) {
	references := map[string]reference{}
	for _, resource := range deployment.Resources {
		found, err := r.reference(ctx, resource)
		if err != nil {
			return chartValues{}, fmt.Errorf("resource %q of ControllerDeployment %q: %w", resource.Name, deployment.Name, err)
		}
		references[resource.Name] = found
	}
	return expand(deployment.Helm, references)
}

func (r *Reconciler) reference(ctx context.Context, resource corev1v1.NamedResourceReference) (reference, error) {
	key := client.ObjectKey{Namespace: corev1beta1.GardenNamespace, Name: resource.ResourceRef.Name}
	switch resource.ResourceRef.Kind {
	case "Secret":
		secret := &corev1.Secret{}
		if err := r.Garden.Get(ctx, key, secret); err != nil {
			return reference{}, fmt.Errorf("read Secret %s: %w", key, err)
		}
		data := make(map[string]string, len(secret.Data))
		for name, value := range secret.Data {
			data[name] = string(value)
		}
		return reference{data: data, secret: true}, nil
	case "ConfigMap":
		configMap := &corev1.ConfigMap{}
		if err := r.Garden.Get(ctx, key, configMap); err != nil {
			return reference{}, fmt.Errorf("read ConfigMap %s: %w", key, err)
		}
		return reference{data: configMap.Data}, nil
	}
	return reference{}, fmt.Errorf("unsupported kind: %q (Secret, ConfigMap)", resource.ResourceRef.Kind)
}

// expand decodes the values of a chart. Without references they are taken literally.
func expand(helm *corev1v1.HelmControllerDeployment, references map[string]reference) (chartValues, error) {
	out := chartValues{values: map[string]any{}}
	if helm == nil || helm.Values == nil || len(helm.Values.Raw) == 0 {
		return out, nil
	}
	if err := json.Unmarshal(helm.Values.Raw, &out.values); err != nil {
		return chartValues{}, fmt.Errorf("read helm.values: %w", err)
	}
	if len(references) == 0 {
		return out, nil
	}
	literal := out.values
	var err error
	if out.values, err = expanded(literal, func(name, key string) (string, error) {
		return valueOf(references, name, key)
	}); err != nil {
		return out, err
	}
	used, err := namesIn(literal)
	if err != nil || !slices.ContainsFunc(used, func(name string) bool { return references[name].secret }) {
		return out, err
	}
	out.public, err = expanded(literal, func(name, key string) (string, error) {
		if references[name].secret {
			return "value-of-" + name + "-" + key, nil
		}
		return valueOf(references, name, key)
	})
	return out, err
}

// namesIn returns the names of the resources that values refer to.
func namesIn(values map[string]any) ([]string, error) {
	var out []string
	_, err := expanded(values, func(name, _ string) (string, error) {
		out = append(out, name)
		return "", nil
	})
	return out, err
}

func expanded(values map[string]any, lookup func(name, key string) (string, error)) (map[string]any, error) {
	out, err := corev1v1.ExpandResources(values, lookup)
	if err != nil {
		return nil, fmt.Errorf("helm.values: %w", err)
	}
	return out.(map[string]any), nil
}

func valueOf(references map[string]reference, name, key string) (string, error) {
	found, known := references[name]
	if !known {
		return "", fmt.Errorf("resources has no %q", name)
	}
	value, known := found.data[key]
	if !known {
		return "", fmt.Errorf("resource %q has no key %q", name, key)
	}
	if !utf8.ValidString(value) {
		return "", fmt.Errorf("resource %q, key %q: the value is no text", name, key)
	}
	return value, nil
}

// renderPublic renders a chart so that its errors contain no values of Secrets: an error is that of other values in
// their place.
func renderPublic[T any](values chartValues, render func(map[string]any) (T, error)) (T, error) {
	out, err := render(values.values)
	if err == nil || values.public == nil {
		return out, err
	}
	if _, err := render(values.public); err != nil {
		return out, err
	}
	return out, errSecretValues
}
