package steps

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/secretsmanager"
)

// GardenObjects publishes, in the project's namespace, what users and the garden need to connect to the Shoot.
var GardenObjects = &flow.Step[*Scope]{
	Name:   "garden-objects",
	After:  []*flow.Step[*Scope]{Credentials},
	Ensure: use3(ensureGardenObjects),
}

func ensureGardenObjects(
	ctx context.Context, s *Values, garden *GardenNamespace, secrets Secrets,
) (flow.Outcome, error) {
	objects, err := gardenObjects(s, secrets)
	if err != nil {
		return flow.Outcome{}, err
	}
	for _, o := range objects {
		if err := garden.applied.Apply(ctx, garden, o, FieldOwner); err != nil {
			return flow.Outcome{}, err
		}
	}
	for _, suffix := range uselessKeys(s, secrets) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Name: s.Shoot.Name + "." + suffix, Namespace: s.Shoot.Namespace,
		}}
		if err := client.IgnoreNotFound(garden.Delete(ctx, secret)); err != nil {
			return flow.Outcome{}, fmt.Errorf("delete Secret %q of the project: %w", secret.Name, err)
		}
	}
	return flow.Done(), nil
}

// uselessKeys are the suffixes of Secrets, which may be there or not, with keys that machines do not take: all without
// access, the older one if there was no access for a while since the last rotation.
func uselessKeys(s *Values, secrets Secrets) []string {
	credentials := s.Shoot.Status.Credentials
	rotated := credentials != nil && credentials.Rotation != nil && credentials.Rotation.SSHKeypair != nil
	switch {
	case s.Workerless():
		return nil
	case !s.SSHAccess():
		return []string{corev1beta1.ShootSuffixSSHKeypair, corev1beta1.ShootSuffixOldSSHKeypair}
	case rotated && secrets.Old(nameSSHKeypair) == nil:
		return []string{corev1beta1.ShootSuffixOldSSHKeypair}
	}
	return nil
}

func gardenObjects(s *Values, secrets Secrets) ([]client.Object, error) {
	meta := func(suffix, role string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Name:      s.Shoot.Name + "." + suffix,
			Namespace: s.Shoot.Namespace,
			Labels: map[string]string{
				corev1beta1.LabelRole: role, corev1beta1.LabelShootName: s.Shoot.Name,
				corev1beta1.LabelShootUID: string(s.Shoot.Status.UID),
			},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(s.Shoot, corev1beta1.SchemeGroupVersion.WithKind("Shoot")),
			},
		}
	}
	configMap := func(bundle, suffix, role string) (client.Object, error) {
		ca, err := secrets.Bundle(bundle)
		if err != nil {
			return nil, err
		}
		return &corev1.ConfigMap{
			ObjectMeta: meta(suffix, role),
			Data:       map[string]string{corev1beta1.DataKeyCertificateCA: string(ca.Data[secretsmanager.DataBundle])},
		}, nil
	}
	cluster, err := configMap(nameCA, corev1beta1.ShootSuffixCACluster, corev1beta1.RoleCACluster)
	if err != nil {
		return nil, err
	}
	signer, err := secrets.Get(nameCAClient)
	if err != nil {
		return nil, err
	}
	objects := []client.Object{cluster, &corev1beta1.InternalSecret{
		ObjectMeta: meta(corev1beta1.ShootSuffixCAClient, corev1beta1.RoleCAClient),
		Type:       corev1.SecretTypeOpaque,
		Data: map[string][]byte{
			corev1beta1.DataKeyCertificateCA: signer.Data[secretsmanager.DataCACert],
			corev1beta1.DataKeyPrivateKeyCA:  signer.Data[secretsmanager.DataCAKey],
		},
	}}
	if s.Workerless() {
		return objects, nil
	}
	kubelet, err := configMap(nameCAKubelet, corev1beta1.ShootSuffixCAKubelet, corev1beta1.RoleCAKubelet)
	if err != nil {
		return nil, err
	}
	objects = append(objects, kubelet)
	if !s.SSHAccess() {
		return objects, nil
	}
	pair, err := secrets.Get(nameSSHKeypair)
	if err != nil {
		return nil, err
	}
	objects = append(objects, &corev1.Secret{
		ObjectMeta: meta(corev1beta1.ShootSuffixSSHKeypair, corev1beta1.RoleSSHKeypair), Type: corev1.SecretTypeOpaque,
		Data: pair.Data,
	})
	if old := secrets.Old(nameSSHKeypair); old != nil {
		objects = append(objects, &corev1.Secret{
			ObjectMeta: meta(corev1beta1.ShootSuffixOldSSHKeypair, corev1beta1.RoleSSHKeypair), Type: corev1.SecretTypeOpaque,
			Data: old.Data,
		})
	}
	return objects, nil
}
