package fleet

import (
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/manifest"
)

// FromManifests reads manifests; "-" is standard input. If an object has two manifests, the later one replaces the
// first, in its place.
//
// All manifests that cannot be read are reported in one error (manifest.Errors). Problems that the API server would
// reject, but that can be ignored here, are warnings: unknown and duplicate fields, and manifests without a kind or of
// an unknown kind.
func FromManifests(paths []string, stdin io.Reader, options Options) (*Fleet, []manifest.Finding, error) {
	results, err := manifest.Read(paths, stdin, options.decode)
	if err != nil {
		return nil, nil, err
	}
	var errs manifest.Errors
	var warnings []manifest.Finding
	shoots := 0
	for i := range results {
		errs, warnings = append(errs, results[i].errs...), append(warnings, results[i].warnings...)
		if _, isShoot := results[i].object.(*corev1beta1.Shoot); isShoot {
			shoots++
		}
	}
	if len(errs) > 0 {
		return nil, warnings, errs
	}
	c := collection{fleet: &Fleet{Shoots: make([]corev1beta1.Shoot, 0, shoots)}, seen: map[key]int{}}
	for i := range results {
		c.add(results[i].object)
		results[i].object = nil // The fleet has a copy.
	}
	return c.fleet, warnings, nil
}

// result is the result of decoding a manifest.
type result struct {
	object         metav1.Object // Nil if the manifest is skipped.
	errs, warnings []manifest.Finding
}

// decode decodes a manifest. It is called concurrently.
func (o *Options) decode(m *manifest.Object) result {
	var r result
	if !m.Parsed() {
		for _, p := range m.Problems {
			r.errs = append(r.errs, m.Finding(p))
		}
		return r
	}
	gvk := m.GroupVersionKind()
	kind, version := Kind(gvk.Kind), groupVersionOf(Kind(gvk.Kind))
	wanted := slices.Contains(o.Kinds, kind) && gvk.Group == version.Group && gvk.Version != ""
	unknown, isUnknown := m.UnknownKind()
	switch {
	case wanted && gvk.Version != version.Version:
		r.errs = append(r.errs, m.Finding(manifest.Problem{
			Type: manifest.TypeMalformed, Field: "apiVersion", Value: m.APIVersion,
			Message: "must be " + version.String(),
		}))
		return r
	case isUnknown:
		r.warnings = append(r.warnings, m.Finding(unknown))
		return r
	case !wanted:
		return r
	}
	var problems []manifest.Problem
	switch kind {
	case Seeds:
		r.object, problems = decode[corev1beta1.Seed](m)
	case CloudProfiles:
		r.object, problems = decode[corev1beta1.CloudProfile](m)
	case NamespacedCloudProfiles:
		r.object, problems = decode[corev1beta1.NamespacedCloudProfile](m)
	case Projects:
		r.object, problems = decode[corev1beta1.Project](m)
	case Shoots:
		var shoot *corev1beta1.Shoot
		shoot, problems = decode[corev1beta1.Shoot](m)
		o.trim(shoot)
		r.object = shoot
	case ConfigMaps:
		r.object, problems = decode[corev1.ConfigMap](m)
	}
	for _, p := range append(slices.Clone(m.Problems), problems...) {
		if p.Type == manifest.TypeUnknownField || p.Type == manifest.TypeDuplicateField {
			r.warnings = append(r.warnings, m.Finding(p))
		} else {
			r.errs = append(r.errs, m.Finding(p))
		}
	}
	return r
}

func decode[T any](m *manifest.Object) (*T, []manifest.Problem) {
	return manifest.Decode(m, func() *T { return new(T) })
}

func groupVersionOf(kind Kind) schema.GroupVersion {
	if kind == ConfigMaps {
		return corev1.SchemeGroupVersion
	}
	return corev1beta1.SchemeGroupVersion
}

// collection collects objects into a Fleet.
type collection struct {
	fleet *Fleet
	seen  map[key]int // Indexes of the objects in their lists.
}

type key struct {
	kind            Kind
	namespace, name string
}

func (c *collection) add(object metav1.Object) {
	switch object := object.(type) {
	case nil:
	case *corev1beta1.Seed:
		put(c, Seeds, &c.fleet.Seeds, *object, object)
	case *corev1beta1.CloudProfile:
		put(c, CloudProfiles, &c.fleet.CloudProfiles, *object, object)
	case *corev1beta1.NamespacedCloudProfile:
		put(c, NamespacedCloudProfiles, &c.fleet.NamespacedCloudProfiles, *object, object)
	case *corev1beta1.Project:
		put(c, Projects, &c.fleet.Projects, *object, object)
	case *corev1beta1.Shoot:
		put(c, Shoots, &c.fleet.Shoots, *object, object)
	case *corev1.ConfigMap:
		put(c, ConfigMaps, &c.fleet.ConfigMaps, *object, object)
	default:
		panic(fmt.Sprintf("a fleet has no %T", object)) // decode returns no other types.
	}
}

func put[T any](c *collection, kind Kind, list *[]T, value T, object metav1.Object) {
	k := key{kind, object.GetNamespace(), object.GetName()}
	if at, seen := c.seen[k]; seen && k.name != "" {
		(*list)[at] = value
		return
	}
	c.seen[k] = len(*list)
	*list = append(*list, value)
}
