package controllerinstallation

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/networkpolicy"
	"hortus.dev/hortus/internal/pki"
)

const (
	// envGardenKubeconfig is the environment variable with the path of the kubeconfig for the garden.
	envGardenKubeconfig = "GARDEN_KUBECONFIG"
	// gardenAccessSecret has the token for the garden, in the extension's namespace.
	gardenAccessSecret = "garden-access-extension"
	// gardenKubeconfigPrefix begins the name of the Secret with the kubeconfig, which ends with a hash of it: pods are
	// replaced when it changes.
	gardenKubeconfigPrefix = "generic-garden-kubeconfig-"
	// gardenVolume and gardenPath are where pods have the kubeconfig and the token.
	gardenVolume = "garden-kubeconfig"
	gardenPath   = "/var/run/secrets/gardener.cloud/garden/generic-kubeconfig"
	// labelInjectGarden, "false" on an object with pods, leaves it without the kubeconfig.
	labelInjectGarden = "extensions.gardener.cloud/inject-garden-kubeconfig"

	keyKubeconfig = "kubeconfig"
	keyToken      = "token"
)

// accountOf is the ServiceAccount of an extension in the Seed's namespace of the garden.
func accountOf(installation *corev1beta1.ControllerInstallation) string {
	return corev1beta1.ExtensionNamespacePrefix + installation.Name
}

// gardenAccess is the way of an extension's pods to the garden.
type gardenAccess struct {
	// kubeconfigSecret is the name of the Secret with the kubeconfig.
	kubeconfigSecret string
	// objects are the two Secrets and the NetworkPolicy.
	objects []client.Object
}

// newGardenAccess returns the access of an extension to the garden, which garden describes without credentials.
func newGardenAccess(
	installation *corev1beta1.ControllerInstallation, garden pki.Kubeconfig,
) (*gardenAccess, error) {
	garden.TokenFile = path.Join(gardenPath, keyToken)
	kubeconfig, err := garden.Render()
	if err != nil {
		return nil, err
	}
	policy, err := networkpolicy.ToGarden(namespaceOf(installation), garden.Server)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(kubeconfig)
	name := gardenKubeconfigPrefix + hex.EncodeToString(sum[:4])
	return &gardenAccess{kubeconfigSecret: name, objects: []client.Object{
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(installation), Name: name},
			Type:       corev1.SecretTypeOpaque,
			Data:       map[string][]byte{keyKubeconfig: kubeconfig},
		},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespaceOf(installation), Name: gardenAccessSecret,
				Labels: map[string]string{
					resourcesv1alpha1.LabelPurpose: resourcesv1alpha1.PurposeTokenRequestor,
					resourcesv1alpha1.LabelClass:   resourcesv1alpha1.ClassGarden,
				},
				Annotations: map[string]string{
					resourcesv1alpha1.AnnotationServiceAccountName: accountOf(installation),
				},
			},
			Type: corev1.SecretTypeOpaque,
		},
		policy,
	}}, nil
}

// inject gives the pods of an object the kubeconfig: all containers that do not set the variable themselves.
func (a *gardenAccess) inject(o *unstructured.Unstructured) error {
	where, runsPods := podSpecs[o.GetKind()]
	if !runsPods || o.GetLabels()[labelInjectGarden] == "false" {
		return nil
	}
	injected := false
	err := eachContainer(o, func(container map[string]any) error {
		added, err := addEnv(container, envGardenKubeconfig, path.Join(gardenPath, keyKubeconfig))
		if err != nil || !added {
			return err
		}
		injected = true
		mounts, _, err := unstructured.NestedSlice(container, "volumeMounts")
		if err != nil {
			return err
		}
		container["volumeMounts"] = append(mounts,
			map[string]any{"name": gardenVolume, "mountPath": gardenPath, "readOnly": true})
		return nil
	})
	if err != nil || !injected {
		return err
	}
	volumesPath := append(slices.Clone(where), "volumes")
	volumes, _, err := unstructured.NestedSlice(o.Object, volumesPath...)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(volumes, func(v any) bool {
		volume, isMap := v.(map[string]any)
		return isMap && volume["name"] == gardenVolume
	}) {
		return errors.New("the volume " + gardenVolume + " exists: the gardenlet adds one with this name")
	}
	if err := unstructured.SetNestedSlice(o.Object, append(volumes, a.volume()), volumesPath...); err != nil {
		return err
	}
	return addPodLabel(o, where, networkpolicy.LabelToGarden, resourcesv1alpha1.NetworkPolicyAllowed)
}

// volume has the kubeconfig and the token. Pods start when there is a token.
func (a *gardenAccess) volume() map[string]any {
	source := func(secret, key string) any {
		return map[string]any{"secret": map[string]any{
			"name": secret, "optional": false, "items": []any{map[string]any{"key": key, "path": key}},
		}}
	}
	return map[string]any{"name": gardenVolume, "projected": map[string]any{
		"defaultMode": int64(corev1.ProjectedVolumeSourceDefaultMode),
		"sources": []any{
			source(a.kubeconfigSecret, keyKubeconfig), source(gardenAccessSecret, keyToken),
		},
	}}
}

// addPodLabel sets a label of the pods whose specification is at a path of the object.
func addPodLabel(o *unstructured.Unstructured, podSpec []string, key, value string) error {
	labelsPath := append(slices.Clone(podSpec[:len(podSpec)-1]), "metadata", "labels")
	labels, _, err := unstructured.NestedMap(o.Object, labelsPath...)
	if err != nil {
		return err
	}
	if labels == nil {
		labels = map[string]any{}
	}
	labels[key] = value
	return unstructured.SetNestedMap(o.Object, labels, labelsPath...)
}
