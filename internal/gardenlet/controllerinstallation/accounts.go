package controllerinstallation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1v1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/kube"
)

// access returns the access of an extension to the garden, nil if its deployment requests none.
func (r *Reconciler) access(
	ctx context.Context, installation *corev1beta1.ControllerInstallation, deployment *corev1v1.ControllerDeployment,
) (*gardenAccess, error) {
	if !ptr.Deref(deployment.InjectGardenKubeconfig, false) {
		return nil, nil
	}
	garden, err := r.Server.Garden(ctx)
	if err != nil {
		return nil, err
	}
	return newGardenAccess(installation, garden)
}

// endAccess ends the access that an extension had, at once: tokens are invalid without their ServiceAccount. It is
// called before the Secret with the token is deleted, which therefore exists until the ServiceAccount is deleted. The
// token is removed first: should the extension have access again before the Secret is deleted, a token is missing, and
// the invalid one is not used any more.
func (r *Reconciler) endAccess(ctx context.Context, installation *corev1beta1.ControllerInstallation) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespaceOf(installation), Name: gardenAccessSecret,
	}}
	had, err := kube.Exists(ctx, r.Seed, secret)
	if err != nil || !had {
		return err
	}
	before := secret.DeepCopy()
	delete(secret.Data, keyToken)
	delete(secret.Annotations, resourcesv1alpha1.AnnotationTokenRenewTimestamp)
	if err := r.Seed.Patch(ctx, secret, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the token from Secret %s: %w", client.ObjectKeyFromObject(secret), err)
	}
	return r.deleteAccount(ctx, accountOf(installation))
}

// deleteAccounts deletes the ServiceAccounts in the garden that Secrets in the extension's namespace have requested.
func (r *Reconciler) deleteAccounts(ctx context.Context, installation *corev1beta1.ControllerInstallation) error {
	accounts := &corev1.ServiceAccountList{}
	if err := r.Garden.List(ctx, accounts, client.InNamespace(corev1beta1.SeedNamespacePrefix+r.SeedName),
		client.MatchingLabels{resourcesv1alpha1.LabelRequestedIn: namespaceOf(installation)}); err != nil {
		return fmt.Errorf("list ServiceAccounts of the extension: %w", err)
	}
	for i := range accounts.Items {
		if name := accounts.Items[i].Name; ownsAccount(namespaceOf(installation), name) {
			if err := r.deleteAccount(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Reconciler) deleteAccount(ctx context.Context, name string) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: corev1beta1.SeedNamespacePrefix + r.SeedName, Name: name,
	}}
	ctrl.LoggerFrom(ctx).Info("Deleting ServiceAccount of the extension in the garden", "ServiceAccount",
		client.ObjectKeyFromObject(account))
	_, err := kube.Delete(ctx, r.Garden, account)
	return err
}
