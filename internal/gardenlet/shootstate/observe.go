package shootstate

import (
	"context"
	"fmt"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/secretsmanager"
)

// persisted selects the Secrets that have to survive the loss of a seed.
var persisted = client.MatchingLabels{secretsmanager.LabelPersist: "true"}

// Observed has the objects from which a ShootState is made.
type Observed struct {
	Secrets    []corev1.Secret
	Extensions []extensionsv1alpha1.Object

	Deployments []machinev1alpha1.MachineDeployment
	Sets        []machinev1alpha1.MachineSet
	Machines    []machinev1alpha1.Machine

	// Referenced are the objects that status.resources of extension objects refers to; missing ones are omitted.
	Referenced map[Reference]*unstructured.Unstructured
}

// Reference to an object of the control plane namespace.
type Reference struct{ APIVersion, Kind, Name string }

// observe reads everything from the seed.
func observe(ctx context.Context, seed client.Reader, shoot *corev1beta1.Shoot) (*Observed, error) {
	namespace := shoot.Status.TechnicalID
	secrets := &corev1.SecretList{}
	if err := seed.List(ctx, secrets, client.InNamespace(namespace), persisted); err != nil {
		return nil, fmt.Errorf("list persistent Secrets of namespace %q: %w", namespace, err)
	}
	var (
		deployments machinev1alpha1.MachineDeploymentList
		sets        machinev1alpha1.MachineSetList
		machines    machinev1alpha1.MachineList
	)
	for _, list := range []client.ObjectList{&deployments, &sets, &machines} {
		if err := seed.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("list machine objects of namespace %q: %w", namespace, err)
		}
	}
	o := &Observed{
		Secrets: secrets.Items, Deployments: deployments.Items, Sets: sets.Items, Machines: machines.Items,
		Referenced: map[Reference]*unstructured.Unstructured{},
	}
	var err error
	if o.Extensions, err = extensionobject.List(ctx, seed, namespace, extensionobject.Kinds...); err != nil {
		return nil, err
	}
	entry := &extensionsv1alpha1.BackupEntry{}
	entry.Name = namespace + "--" + string(shoot.Status.UID)
	if found, err := kube.Exists(ctx, seed, entry); err != nil {
		return nil, err
	} else if found {
		o.Extensions = append(o.Extensions, entry)
	}
	return o, o.readReferenced(ctx, seed, namespace)
}

// readReferenced reads the objects that the state of extensions refers to.
func (o *Observed) readReferenced(ctx context.Context, seed client.Reader, namespace string) error {
	for _, object := range o.Extensions {
		if object.GetDeletionTimestamp() != nil {
			continue
		}
		for _, r := range object.GetDefaultStatus().Resources {
			ref := Reference{r.ResourceRef.APIVersion, r.ResourceRef.Kind, r.ResourceRef.Name}
			u := &unstructured.Unstructured{}
			u.SetAPIVersion(ref.APIVersion)
			u.SetKind(ref.Kind)
			u.SetNamespace(namespace)
			u.SetName(ref.Name)
			found, err := kube.Exists(ctx, seed, u)
			if err != nil {
				return err
			}
			if found {
				o.Referenced[ref] = u
			}
		}
	}
	return nil
}
