package controllerinstallation

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/chart"
)

const (
	namespacePrefix   = "extension-"
	labelRegistration = "controllerregistration.core.gardener.cloud/name"
	labelRole         = "gardener.cloud/role"
	roleExtension     = "extension"
	labelPodSecurity  = "pod-security.kubernetes.io/enforce"
)

// errNoChart says that a deployment can't be installed by this gardenlet.
var errNoChart = errors.New("the ControllerDeployment has no chart in helm")

// namespaceOf is where an extension runs.
func namespaceOf(installation *corev1beta1.ControllerInstallation) string {
	return namespacePrefix + installation.Name
}

// desiredNamespace is the namespace of an extension. Its pods are restricted only as its registration demands, and
// spread over the zones of the seed.
func desiredNamespace(
	installation *corev1beta1.ControllerInstallation, registration *corev1beta1.ControllerRegistration,
	seed *corev1beta1.Seed,
) *corev1.Namespace {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespaceOf(installation),
		Labels: map[string]string{
			labelRole: roleExtension, labelRegistration: registration.Name,
			resourcesv1alpha1.LabelHighAvailabilityConsider: "true",
		},
	}}
	if level := registration.Annotations[corev1beta1.AnnotationPodSecurityEnforce]; level != "" {
		namespace.Labels[labelPodSecurity] = level
	}
	if zones := seed.Spec.Provider.Zones; len(zones) > 0 {
		namespace.Annotations = map[string]string{
			resourcesv1alpha1.AnnotationHighAvailabilityZones: strings.Join(zones, ","),
		}
	}
	return namespace
}

// render returns the objects of an extension: its namespace and what the chart in the archive makes of the deployment's
// values, to which the key gardener is added with what an extension has to know of its surroundings. capabilities are
// those of the seed. access is nil without access to the garden.
func render(
	archive []byte, installation *corev1beta1.ControllerInstallation, registration *corev1beta1.ControllerRegistration,
	values map[string]any,
	seed *corev1beta1.Seed, gardenIdentity string, gates map[string]bool, capabilities chart.Capabilities,
	access *gardenAccess,
) ([]client.Object, error) {
	if len(archive) == 0 {
		return nil, errNoChart
	}
	loaded, err := chart.LoadArchive(archive)
	if err != nil {
		return nil, err
	}
	about, err := surroundings(seed, gardenIdentity, gates)
	if err != nil {
		return nil, err
	}
	if access != nil {
		about["garden"].(map[string]any)["genericKubeconfigSecretName"] = access.kubeconfigSecret
	}
	chart.MergeValues(values, map[string]any{"gardener": about})
	rendered, err := chart.Render(loaded, chart.Release{
		Name: registration.Name, Namespace: namespaceOf(installation), Capabilities: capabilities,
	}, values)
	if err != nil {
		return nil, err
	}
	objects := []client.Object{desiredNamespace(installation, registration, seed)}
	if access != nil {
		objects = append(objects, access.objects...)
	}
	for _, o := range rendered {
		if err := nameSeed(o, seed.Name); err != nil {
			return nil, fmt.Errorf("set %s in %s %q: %w", envSeedName, o.GetKind(), o.GetName(), err)
		}
		if access != nil {
			if err := access.inject(o); err != nil {
				return nil, fmt.Errorf("inject kubeconfig of the garden into %s %q: %w", o.GetKind(), o.GetName(), err)
			}
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// surroundings are the values under the key gardener.
func surroundings(seed *corev1beta1.Seed, gardenIdentity string, gates map[string]bool) (map[string]any, error) {
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&seed.Spec)
	if err != nil {
		return nil, fmt.Errorf("encode seed: %w", err)
	}
	about := map[string]any{
		"name": seed.Name, "provider": seed.Spec.Provider.Type, "region": seed.Spec.Provider.Region,
		"annotations": toAny(seed.Annotations), "labels": toAny(seed.Labels), "spec": spec,
		"visible": seed.Spec.Settings == nil || seed.Spec.Settings.Scheduling == nil ||
			seed.Spec.Settings.Scheduling.Visible,
		"protected": hasTaint(seed, "seed.gardener.cloud/protected"),
		"taints":    listOr(spec["taints"]), "networks": spec["networks"],
		"blockCIDRs":     toList(seed.Spec.Networks.BlockCIDRs),
		"volumeProvider": "", "volumeProviders": []any{},
	}
	if volume := seed.Spec.Volume; volume != nil && len(volume.Providers) > 0 {
		about["volumeProvider"] = volume.Providers[0].Name
		about["volumeProviders"] = spec["volume"].(map[string]any)["providers"]
	}
	if seed.Spec.Ingress != nil {
		about["ingressDomain"] = seed.Spec.Ingress.Domain
	}
	if seed.Status.ClusterIdentity != nil {
		about["clusterIdentity"] = *seed.Status.ClusterIdentity
	}
	return map[string]any{
		"version":   extensionsv1alpha1.GardenerVersion, // Not that of Hortus: charts compare it with versions of Gardener.
		"garden":    map[string]any{"clusterIdentity": gardenIdentity},
		"seed":      about,
		"gardenlet": map[string]any{"featureGates": toAny(gates)},
	}, nil
}

func listOr(list any) any {
	if list == nil {
		return []any{}
	}
	return list
}

func toList[V any](list []V) []any {
	out := make([]any, 0, len(list))
	for _, v := range list {
		out = append(out, v)
	}
	return out
}

func toAny[V any](m map[string]V) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

func hasTaint(seed *corev1beta1.Seed, key string) bool {
	for _, t := range seed.Spec.Taints {
		if t.Key == key {
			return true
		}
	}
	return false
}
