package shoot

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/kube"
)

// GardenIdentity is the identity of a garden, which is unique among all gardens and does not change. It is for
// concurrent use.
type GardenIdentity struct {
	Garden client.Reader

	known atomic.Pointer[string]
}

// Get returns the identity; "garden" as long as the garden has none, as with an API server of version 0.1.
func (i *GardenIdentity) Get(ctx context.Context) (string, error) {
	if known := i.known.Load(); known != nil {
		return *known, nil
	}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceSystem, Name: corev1beta1.ClusterIdentityName,
	}}
	if _, err := kube.Exists(ctx, i.Garden, m); err != nil {
		return "", fmt.Errorf("read the identity of the garden: %w", err)
	}
	id := m.Data[corev1beta1.ClusterIdentityName]
	if id == "" {
		return corev1beta1.GardenNamespace, nil
	}
	i.known.Store(&id)
	return id, nil
}
