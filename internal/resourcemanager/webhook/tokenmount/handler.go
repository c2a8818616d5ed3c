package tokenmount

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/webhook/mutation"
)

// Change mounts tokens of the ServiceAccounts that the reader returns. The reader is not cached: a pod may be created
// right after its ServiceAccount. Kubernetes itself rejects a pod whose ServiceAccount does not exist.
func Change(reader client.Reader) mutation.Change[*corev1.Pod] {
	return func(ctx context.Context, namespace string, pod *corev1.Pod) (bool, error) {
		account := &corev1.ServiceAccount{}
		key := client.ObjectKey{Namespace: namespace, Name: pod.Spec.ServiceAccountName}
		if err := reader.Get(ctx, key, account); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("read ServiceAccount %s: %w", key, err)
		}
		return Mount(pod, account), nil
	}
}
