package steps

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/secretsmanager"
)

// Annotations of the API server's Deployment that tell how far the rotation to a key is; their value is the key's name.
const (
	annotationKeyPopulated     = "credentials.gardener.cloud/new-encryption-key-populated"
	annotationResourcesLabeled = "credentials.gardener.cloud/resources-labeled"
)

// labelKeyName on an object is the key it was written with last.
const labelKeyName = "credentials.gardener.cloud/key-name"

// rewriteBatch bounds the objects that one pass writes again; the next pass goes on.
const rewriteBatch = 200

// EncryptionKeyRotation brings the objects at rest from one key to the next: first all API servers learn the new key,
// then they write with it, then every object is written once more, and at the end the old key goes.
var EncryptionKeyRotation = &flow.Step[*Scope]{
	Name:    "etcd-encryption-key",
	After:   []*flow.Step[*Scope]{KubeAPIServerReady, Connection},
	SkipIf:  either(asleep, withoutKeyRotation),
	Ensure:  ensureEncryptionKeyRotation,
	Recheck: recheck,
}

func encryptionPhase(s *Scope) corev1beta1.CredentialsRotationPhase {
	if c := s.Shoot.Status.Credentials; c != nil && c.Rotation != nil && c.Rotation.ETCDEncryptionKey != nil {
		return c.Rotation.ETCDEncryptionKey.Phase
	}
	return ""
}

func withoutKeyRotation(s *Scope) string {
	switch encryptionPhase(s) {
	case corev1beta1.RotationPreparing, corev1beta1.RotationCompleting:
		return ""
	}
	return "no rotation"
}

func ensureEncryptionKeyRotation(ctx context.Context, s *Scope) (flow.Outcome, error) {
	current, err := s.Secrets.Get(nameEtcdEncryptionKey)
	if err != nil {
		return flow.Outcome{}, err
	}
	d, err := s.apiServerDeployment(ctx)
	if err != nil {
		return flow.Outcome{}, err
	}
	if encryptionPhase(s) == corev1beta1.RotationCompleting {
		left, err := s.rewrite(ctx, "")
		if err != nil || left > 0 {
			return waitingForRewrite(left, err)
		}
		return flow.Done(), s.annotateAPIServer(ctx, d, map[string]string{annotationKeyPopulated: "", annotationResourcesLabeled: ""})
	}
	key := string(current.Data[secretsmanager.DataEncKey])
	if d.Annotations[annotationKeyPopulated] != key {
		// All API servers know the key now. From the next pass on they write with it.
		if err := s.annotateAPIServer(ctx, d, map[string]string{annotationKeyPopulated: key}); err != nil {
			return flow.Outcome{}, err
		}
		return flow.Waiting("The API server begins to write with the new encryption key"), nil
	}
	if d.Annotations[annotationResourcesLabeled] == key {
		return flow.Done(), nil
	}
	left, err := s.rewrite(ctx, key)
	if err != nil || left > 0 {
		return waitingForRewrite(left, err)
	}
	return flow.Done(), s.annotateAPIServer(ctx, d, map[string]string{annotationResourcesLabeled: key})
}

func waitingForRewrite(left int, err error) (flow.Outcome, error) {
	if err != nil {
		return flow.Outcome{}, err
	}
	return flow.Waiting(fmt.Sprintf("At least %d objects have to be written with the new encryption key", left)), nil
}

// encryptionKeys are the keys for objects at rest; the first one writes. A new key becomes the first one after all API
// servers know it, as otherwise one of them could not read what another has written.
func (s *Scope) encryptionKeys(ctx context.Context) ([]kubeapiserver.EncryptionKey, error) {
	current, err := s.Secrets.Get(nameEtcdEncryptionKey)
	if err != nil {
		return nil, err
	}
	key := func(secret *corev1.Secret) kubeapiserver.EncryptionKey {
		return kubeapiserver.EncryptionKey{Name: string(secret.Data[secretsmanager.DataEncKey]), Secret: string(secret.Data[secretsmanager.DataEncSecret])}
	}
	keys := []kubeapiserver.EncryptionKey{key(current)}
	old := s.Secrets.Old(nameEtcdEncryptionKey)
	if old == nil {
		return keys, nil
	}
	keys = append(keys, key(old))
	d, err := s.apiServerDeployment(ctx)
	if err != nil {
		return nil, err
	}
	if d.Annotations[annotationKeyPopulated] != keys[0].Name {
		slices.Reverse(keys)
	}
	return keys, nil
}

// apiServerDeployment reads the Deployment; an empty one if it does not exist yet.
func (s *Scope) apiServerDeployment(ctx context.Context) (*appsv1.Deployment, error) {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: kubeapiserver.Name, Namespace: s.Namespace}}
	_, err := kube.Exists(ctx, s.Seed, d)
	return d, err
}

// annotateAPIServer sets annotations, or removes those with an empty value.
func (s *Scope) annotateAPIServer(ctx context.Context, d *appsv1.Deployment, annotations map[string]string) error {
	before := d.DeepCopy()
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	for k, v := range annotations {
		if v == "" {
			delete(d.Annotations, k)
		} else {
			d.Annotations[k] = v
		}
	}
	if err := s.Seed.Patch(ctx, d, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("record the progress of the key rotation: %w", err)
	}
	return nil
}

// rewrite makes the API server write encrypted objects again by labelling them with the key, or by removing the label if
// the key is "". It returns how many it had to touch; 0 means that all are done.
func (s *Scope) rewrite(ctx context.Context, key string) (int, error) {
	shoot, err := s.shootClient()
	if err != nil {
		return 0, err
	}
	selector := labelKeyName + "!=" + key
	if key == "" {
		selector = labelKeyName
	}
	touched := 0
	for _, gvr := range s.encryptedResources() {
		gvk, err := shoot.RESTMapper().KindFor(gvr)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return touched, fmt.Errorf("find the kind of %s: %w", gvr.GroupResource(), err)
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := shoot.List(ctx, list, &client.ListOptions{Raw: &metav1.ListOptions{LabelSelector: selector}, Limit: rewriteBatch}); err != nil {
			return touched, fmt.Errorf("list %s: %w", gvr.GroupResource(), err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			o.SetGroupVersionKind(gvk)
			before := o.DeepCopy()
			if o.Labels == nil {
				o.Labels = map[string]string{}
			}
			if key == "" {
				delete(o.Labels, labelKeyName)
			} else {
				o.Labels[labelKeyName] = key
			}
			if err := client.IgnoreNotFound(shoot.Patch(ctx, o, client.MergeFrom(before))); err != nil {
				return touched, fmt.Errorf("write %s %s again: %w", gvk.Kind, client.ObjectKeyFromObject(o), err)
			}
			touched++
		}
	}
	return touched, nil
}

// encryptedResources are secrets and what the user has added.
func (s *Scope) encryptedResources() []schema.GroupVersionResource {
	names := []string{"secrets"}
	if k := s.Shoot.Spec.Kubernetes.KubeAPIServer; k != nil && k.EncryptionConfig != nil {
		names = append(names, k.EncryptionConfig.Resources...)
	}
	var out []schema.GroupVersionResource
	for _, name := range names {
		resource, group, _ := strings.Cut(name, ".")
		r := schema.GroupVersionResource{Group: group, Resource: resource}
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}
