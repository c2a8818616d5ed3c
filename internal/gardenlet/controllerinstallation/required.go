package controllerinstallation

import (
	"context"
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

const (
	// requiredPeriod is the interval of the checks whether an extension is in use. Objects of extensions are not watched,
	// because there are many.
	requiredPeriod = time.Minute
	// removalPeriod is the same while the extension is being unregistered or uninstalled, which users wait for.
	removalPeriod = 5 * time.Second
	// usersPage bounds what one request returns. The first object is nearly always of the right type.
	usersPage = 50
)

// usedBy names an object in the seed that needs the extension, "" if none does. The garden may not know all control
// planes of the seed, as after a restore from a backup; no extension may be removed below one.
func (r *Reconciler) usedBy(ctx context.Context, registration *corev1beta1.ControllerRegistration) (string, error) {
	for _, resource := range registration.Spec.Resources {
		name, err := r.firstOf(ctx, resource.Kind, resource.Type)
		if err != nil || name != "" {
			return name, err
		}
	}
	return "", nil
}

func (r *Reconciler) firstOf(ctx context.Context, kind, extensionType string) (string, error) {
	for next := ""; ; {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(extensionsv1alpha1.SchemeGroupVersion.WithKind(kind + "List"))
		err := r.Seed.List(ctx, list, client.Limit(usersPage), client.Continue(next))
		if apimeta.IsNoMatchError(err) {
			return "", nil // No kind of the contract.
		}
		if err != nil {
			return "", fmt.Errorf("list %s: %w", kind, err)
		}
		for i := range list.Items {
			if found, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", "type"); found == extensionType {
				return kind + " " + client.ObjectKeyFromObject(&list.Items[i]).String(), nil
			}
		}
		if next = list.GetContinue(); next == "" {
			return "", nil
		}
	}
}
