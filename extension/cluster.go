package extension

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// Cluster is a decoded Cluster object: what an extension knows about the Shoot it works for.
type Cluster struct {
	Object       *extensionsv1alpha1.Cluster
	Shoot        *corev1beta1.Shoot
	CloudProfile *corev1beta1.CloudProfile
	Seed         *corev1beta1.Seed // Nil when the Cluster has none.
}

// GetCluster reads the Cluster of a control plane namespace.
func GetCluster(ctx context.Context, c client.Reader, namespace string) (*Cluster, error) {
	obj := &extensionsv1alpha1.Cluster{}
	if err := c.Get(ctx, client.ObjectKey{Name: namespace}, obj); err != nil {
		return nil, fmt.Errorf("read cluster %q: %w", namespace, err)
	}
	return DecodeCluster(obj)
}

// DecodeCluster decodes the garden objects in a Cluster. Unknown fields are ignored, as newer gardens may add some.
func DecodeCluster(obj *extensionsv1alpha1.Cluster) (*Cluster, error) {
	out := &Cluster{Object: obj, Shoot: &corev1beta1.Shoot{}, CloudProfile: &corev1beta1.CloudProfile{}}
	if len(obj.Spec.Seed.Raw) > 0 && string(obj.Spec.Seed.Raw) != "null" {
		out.Seed = &corev1beta1.Seed{}
	}
	for _, part := range []struct {
		field string
		raw   []byte
		into  runtime.Object
	}{
		{"shoot", obj.Spec.Shoot.Raw, out.Shoot},
		{"cloudProfile", obj.Spec.CloudProfile.Raw, out.CloudProfile},
		{"seed", obj.Spec.Seed.Raw, out.Seed},
	} {
		if len(part.raw) == 0 || string(part.raw) == "null" {
			continue
		}
		if err := json.Unmarshal(part.raw, part.into); err != nil {
			return nil, fmt.Errorf("decode %s of cluster %q: %w", part.field, obj.Name, err)
		}
	}
	return out, nil
}

// Hibernated reports whether the Shoot's control plane and machines should be scaled down.
func (c *Cluster) Hibernated() bool {
	h := c.Shoot.Spec.Hibernation
	return h != nil && h.Enabled != nil && *h.Enabled
}

// ShootFailed reports whether the Shoot's last operation has failed; nothing is done for it then.
func (c *Cluster) ShootFailed() bool {
	op := c.Shoot.Status.LastOperation
	return op != nil && op.State == corev1beta1.LastOperationStateFailed
}

// ForceDeletion reports whether the user has requested a forced deletion of the Shoot.
func (c *Cluster) ForceDeletion() bool {
	force, _ := strconv.ParseBool(c.Shoot.Annotations[extensionsv1alpha1.AnnotationConfirmForceDeletion])
	return force && !c.Shoot.DeletionTimestamp.IsZero()
}
