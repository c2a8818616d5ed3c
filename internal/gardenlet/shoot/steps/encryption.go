package steps

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/encryption"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/secretsmanager"
)

// annotationRewritten on the Deployment of the API server names the encryption configuration with which every object
// has been written, and the operation in which that was proven.
const annotationRewritten = "hortus.dev/objects-rewritten-with"

// alwaysEncrypted is encrypted in every Shoot.
const alwaysEncrypted = "secrets"

// EncryptionAtRest waits until all data in etcd is encrypted as required by the spec and by a rotation of the key. The
// step KubeAPIServer changes the API servers accordingly, one change per rollout. This step rewrites objects that are
// stored otherwise, and verifies by reading etcd that none is left. It relies on no other step: the readiness of API
// servers may be skipped, the safety of data may not.
var EncryptionAtRest = &flow.Step[*Scope]{
	Name:    "encryption-at-rest",
	After:   []*flow.Step[*Scope]{KubeAPIServerReady, Connection},
	SkipIf:  when(asleep),
	Ensure:  use6(ensureEncryptionAtRest),
	Recheck: recheck,
}

func ensureEncryptionAtRest(
	ctx context.Context, s *Values, seed *SeedNamespace, secrets Secrets, cluster *ShootCluster, etcds Etcds,
	status *Status,
) (flow.Outcome, error) {
	target, err := encryptionTarget(s, secrets)
	if err != nil {
		return flow.Outcome{}, err
	}
	d, err := apiServerDeployment(ctx, seed)
	if err != nil {
		return flow.Outcome{}, err
	}
	inUse, found, err := encryptionOf(ctx, seed, d)
	if err != nil {
		return flow.Outcome{}, err
	}
	if !found {
		return flow.Waiting(waitEncryption, "The API server has no encryption configuration yet"), nil
	}
	phase := encryption.PhaseOf(inUse, target)
	if phase == encryption.Learning || phase == encryption.Switching {
		return flow.Waiting(waitEncryption, "The API servers are being switched to the new encryption of etcd"), nil
	}
	if phase == encryption.Settled && encryptionReported(s.Shoot, target) &&
		encryptionPhase(s.Shoot) != corev1beta1.RotationPreparing {
		return flow.Done(), nil
	}
	if outdated, err := outdatedAPIServer(ctx, seed, d); err != nil || outdated != "" {
		return waitingOr(waitEncryption, outdated, err)
	}
	if d.Annotations[annotationRewritten] != proofOf(d, s.Started) {
		left, err := rewrite(ctx, cluster, etcds, inUse)
		if err != nil || left > 0 {
			return waitingOr(waitEncryption, fmt.Sprintf("At least %d objects have to be written to etcd with the new encryption", left), err)
		}
		if phase != encryption.Settled {
			if outcome, err := saveRewritten(ctx, s, seed, etcds); err != nil || !outcome.IsDone() {
				return outcome, err
			}
		}
		if err := recordRewritten(ctx, seed, d, proofOf(d, s.Started)); err != nil {
			return flow.Outcome{}, err
		}
	}
	if phase != encryption.Settled {
		return flow.Waiting(waitEncryption, "Encryption keys that are no longer used are being removed from the API servers"), nil
	}
	reportEncryption(s.Shoot, status)
	return flow.Done(), nil
}

// saveRewritten puts what was written again into the backups, and records that no earlier point can be restored.
// Without that, a restore could bring back objects whose key has been removed.
func saveRewritten(ctx context.Context, s *Values, seed *SeedNamespace, etcds Etcds) (flow.Outcome, error) {
	if _, ok, err := backupSecretFor(ctx, s, seed); err != nil || !ok {
		return flow.Done(), err
	}
	return etcds.saveRestorable(ctx, s, "Objects with the new encryption have to be in a backup")
}

// encryptionTarget is the target by the spec and a rotation of the key.
func encryptionTarget(s *Values, secrets Secrets) (encryption.Target, error) {
	current, err := secrets.Get(nameEtcdEncryptionKey)
	if err != nil {
		return encryption.Target{}, err
	}
	resources, cipher := encryptionSpec(s.Shoot)
	name := string(current.Data[secretsmanager.DataEncKey])
	t := encryption.Target{
		Resources: append(resources, alwaysEncrypted),
		Writer:    encryption.Provider{Cipher: string(cipher), Key: name},
		Keys:      map[string]string{name: string(current.Data[secretsmanager.DataEncSecret])},
	}
	for _, old := range secrets.Predecessors(nameEtcdEncryptionKey) {
		name := string(old.Data[secretsmanager.DataEncKey])
		t.Keep = append(t.Keep, encryption.Provider{Cipher: string(cipher), Key: name})
		t.Keys[name] = string(old.Data[secretsmanager.DataEncSecret])
	}
	return t, nil
}

// encryptionSpec is the user's configuration: resources in addition to secrets, sorted, and the cipher.
func encryptionSpec(shoot *corev1beta1.Shoot) ([]string, corev1beta1.EncryptionProviderType) {
	k := shoot.Spec.Kubernetes.KubeAPIServer
	if k == nil || k.EncryptionConfig == nil {
		return nil, corev1beta1.EncryptionProviderTypeAESCBC
	}
	resources := slices.DeleteFunc(slices.Clone(k.EncryptionConfig.Resources),
		func(r string) bool { return r == alwaysEncrypted })
	slices.Sort(resources)
	return slices.Compact(resources), ptr.Deref(k.EncryptionConfig.Provider.Type, corev1beta1.EncryptionProviderTypeAESCBC)
}

// encryptionPhase is that of the rotation of the key; "" if there never was one.
func encryptionPhase(shoot *corev1beta1.Shoot) corev1beta1.CredentialsRotationPhase {
	if c := shoot.Status.Credentials; c != nil && c.Rotation != nil && c.Rotation.ETCDEncryptionKey != nil {
		return c.Rotation.ETCDEncryptionKey.Phase
	}
	return ""
}

// encryptionReported reports whether the status of the Shoot already reports that the target has been reached.
func encryptionReported(shoot *corev1beta1.Shoot, t encryption.Target) bool {
	c := shoot.Status.Credentials
	if c == nil || c.EncryptionAtRest == nil {
		return false
	}
	resources, _ := encryptionSpec(shoot)
	return slices.Equal(c.EncryptionAtRest.Resources, resources) &&
		string(c.EncryptionAtRest.Provider.Type) == t.Writer.Cipher
}

func reportEncryption(shoot *corev1beta1.Shoot, status *Status) {
	resources, cipher := encryptionSpec(shoot)
	status.change(func(to *corev1beta1.ShootStatus) {
		if to.Credentials == nil {
			to.Credentials = &corev1beta1.ShootCredentials{}
		}
		to.Credentials.EncryptionAtRest = &corev1beta1.EncryptionAtRest{
			Resources: resources, Provider: corev1beta1.EncryptionProviderStatus{Type: cipher},
		}
	})
}

// nextEncryption is the configuration to render API servers with: the one in use, or the next one on the way to what
// is requested.
func nextEncryption(ctx context.Context, s *Values, seed *SeedNamespace, secrets Secrets) (encryption.Config, error) {
	target, err := encryptionTarget(s, secrets)
	if err != nil {
		return encryption.Config{}, err
	}
	d, err := apiServerDeployment(ctx, seed)
	if err != nil {
		return encryption.Config{}, err
	}
	inUse, found, err := encryptionOf(ctx, seed, d)
	switch {
	case err != nil:
		return encryption.Config{}, err
	case !found:
		return recoverEncryption(ctx, s, seed, target)
	case encryption.PhaseOf(inUse, target) == encryption.Settled:
		return inUse, nil
	}
	outdated, err := outdatedAPIServer(ctx, seed, d)
	if err != nil {
		return encryption.Config{}, err
	}
	return encryption.Next(inUse, target, encryption.State{
		RolledOut: outdated == "", Rewritten: d.Annotations[annotationRewritten] == proofOf(d, s.Started),
	}), nil
}

// recoverEncryption is where to start without an API server: everything that may be stored must be readable.
func recoverEncryption(
	ctx context.Context, s *Values, seed *SeedNamespace, t encryption.Target,
) (encryption.Config, error) {
	secrets := &corev1.SecretList{}
	if err := seed.List(ctx, secrets, client.InNamespace(s.Namespace)); err != nil {
		return encryption.Config{}, fmt.Errorf("list Secrets of namespace %q: %w", s.Namespace, err)
	}
	var known []encryption.Config
	keys := map[string]string{}
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		switch {
		case strings.HasPrefix(secret.Name, kubeapiserver.EncryptionSecretName):
			c, err := encryption.Parse(secret.Data[kubeapiserver.KeyEncryption])
			if err != nil {
				return encryption.Config{}, fmt.Errorf("read Secret %q: %w", secret.Name, err)
			}
			known = append(known, c)
		case secret.Labels[secretsmanager.LabelName] == nameEtcdEncryptionKey:
			keys[string(secret.Data[secretsmanager.DataEncKey])] = string(secret.Data[secretsmanager.DataEncSecret])
		}
	}
	if s.Restoring() && len(known) == 1 { // All API servers in the other seed used this key.
		return known[0], nil
	}
	if s.Operation != corev1beta1.LastOperationTypeCreate {
		resources := slices.Clone(t.Resources)
		if c := s.Shoot.Status.Credentials; c != nil && c.EncryptionAtRest != nil {
			resources = append(resources, c.EncryptionAtRest.Resources...)
		}
		known = append(known, encryption.AnyCipher(resources, keys))
	}
	return t.Recover(known...), nil
}

// encryptionOf reads the configuration that the Deployment's pods mount.
func encryptionOf(ctx context.Context, seed *SeedNamespace, d *appsv1.Deployment) (encryption.Config, bool, error) {
	name := encryptionSecret(&d.Spec.Template.Spec)
	if name == "" {
		return encryption.Config{}, false, nil
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: seed.namespace}}
	if found, err := kube.Exists(ctx, seed, secret); err != nil || !found {
		return encryption.Config{}, false, err
	}
	c, err := encryption.Parse(secret.Data[kubeapiserver.KeyEncryption])
	if err != nil {
		return encryption.Config{}, false, fmt.Errorf("read Secret %q: %w", name, err)
	}
	return c, true, nil
}

// encryptionSecret is the name of the Secret with the encryption configuration that an API server mounts, or "".
func encryptionSecret(pod *corev1.PodSpec) string {
	for _, v := range pod.Volumes {
		if v.Name == kubeapiserver.EncryptionVolume && v.Secret != nil {
			return v.Secret.SecretName
		}
	}
	return ""
}

// outdatedAPIServer says which API server may still use another encryption configuration than the Deployment's newest,
// or "" if none does. Pods that are being deleted count as long as they are there: they may still write.
func outdatedAPIServer(ctx context.Context, seed *SeedNamespace, d *appsv1.Deployment) (string, error) {
	if d.UID != "" && !kube.DeploymentReady(d) {
		return kube.DeploymentProgress(d), nil
	}
	// A pod that the cache does not contain yet could write.
	pods, err := seed.podsOf(ctx, kubeapiserver.Name, &client.ListOptions{Raw: &metav1.ListOptions{}})
	if err != nil {
		return "", err
	}
	want := encryptionSecret(&d.Spec.Template.Spec)
	for i := range pods {
		p := &pods[i]
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if !ended && encryptionSecret(&p.Spec) != want {
			return fmt.Sprintf("Pod %s with the previous encryption configuration is still running", p.Name), nil
		}
	}
	return "", nil
}

// proofOf is the value of the annotation that says that etcd holds nothing but what the Deployment's configuration
// writes. It counts for one operation: etcd may be restored to an earlier state between two.
func proofOf(d *appsv1.Deployment, started time.Time) string {
	return encryptionSecret(&d.Spec.Template.Spec) + "@" + strconv.FormatInt(started.Unix(), 10)
}

// recordRewritten records in the Deployment of the API server that etcd has nothing but what its configuration writes.
func recordRewritten(ctx context.Context, seed *SeedNamespace, d *appsv1.Deployment, proof string) error {
	before := d.DeepCopy()
	metav1.SetMetaDataAnnotation(&d.ObjectMeta, annotationRewritten, proof)
	if err := seed.Patch(ctx, d, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("record the progress of the encryption at rest: %w", err)
	}
	log.FromContext(ctx).Info("Recorded that all objects in etcd are stored with the new encryption",
		"Deployment", klog.KObj(d), "encryption", encryptionSecret(&d.Spec.Template.Spec))
	return nil
}
