package component

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

// annotationReference with a kind, a dash and eight hexadecimal digits after it names an object that is in use. Unique
// objects without such a reference are deleted.
const annotationReference = "reference.resources.gardener.cloud/"

// hashLength is the length of the hashes in names and annotations, in hexadecimal digits: enough to exclude collisions
// of a few versions of the same object.
const hashLength = 8

// UniqueConfigMap makes a ConfigMap one of many: immutable, with a name that ends in a hash of its content. A pod that
// mounts it gets exactly this content, and is replaced when the content changes. If its users carry its Reference, it
// is deleted some time after its last user.
func UniqueConfigMap(m *corev1.ConfigMap) *corev1.ConfigMap {
	m.Name += "-" + hash(m.Data, func(s string) string { return s })
	m.Labels = collectable(m.Labels)
	m.Immutable = ptr.To(true)
	return m
}

// UniqueSecret is UniqueConfigMap for a Secret.
func UniqueSecret(s *corev1.Secret) *corev1.Secret {
	s.Name += "-" + hash(s.Data, func(b []byte) string { return string(b) })
	s.Labels = collectable(s.Labels)
	s.Immutable = ptr.To(true)
	return s
}

func collectable(labels map[string]string) map[string]string {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[resourcesv1alpha1.LabelGarbageCollectable] = "true"
	return labels
}

// References are the annotations by which an object names the ConfigMaps and Secrets that it uses.
func References(objects ...client.Object) map[string]string {
	annotations := map[string]string{}
	for _, o := range objects {
		kind := "configmap"
		if _, ok := o.(*corev1.Secret); ok {
			kind = "secret"
		}
		annotations[annotationReference+kind+"-"+digest(o.GetName())] = o.GetName()
	}
	return annotations
}

func hash[V any](data map[string]V, text func(V) string) string {
	var all strings.Builder
	for _, key := range slices.Sorted(maps.Keys(data)) {
		value := text(data[key])
		fmt.Fprintf(&all, "%s %d %s\n", key, len(value), value)
	}
	return digest(all.String())
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:hashLength]
}
