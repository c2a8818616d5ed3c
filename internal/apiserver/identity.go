package apiserver

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// identityPeriod is the interval of attempts to write the identity of the garden.
const identityPeriod = time.Second

// ensureIdentity gives the garden its identity, unless it has one: the configured one, or the UID of its namespace
// kube-system if none is configured. The server is not ready before, so that no Shoot gets a name without it. It
// returns an error if the garden has another identity than the configured one, or if the context ends.
func ensureIdentity(ctx context.Context, garden kubernetes.Interface, want string) error {
	return wait.PollUntilContextCancel(ctx, identityPeriod, true, func(ctx context.Context) (bool, error) {
		have, err := identityOf(ctx, garden, want)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Identity of the garden cannot be ensured")
			return false, nil
		}
		if want != "" && have != want {
			return false, fmt.Errorf("--cluster-identity: the garden has the identity %q (ConfigMap %s/%s), which cannot "+
				"change: %q (leave it empty)", have, metav1.NamespaceSystem, corev1beta1.ClusterIdentityName, want)
		}
		return true, nil
	})
}

// identityOf returns the identity of the garden, and creates it before if it has none.
func identityOf(ctx context.Context, garden kubernetes.Interface, want string) (string, error) {
	configMaps := garden.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	have, err := configMaps.Get(ctx, corev1beta1.ClusterIdentityName, metav1.GetOptions{})
	if err == nil && have.Data[corev1beta1.ClusterIdentityName] == "" {
		return "", fmt.Errorf("ConfigMap %s/%s has no key %s: write the identity into it, or delete it",
			metav1.NamespaceSystem, have.Name, corev1beta1.ClusterIdentityName)
	}
	if err == nil {
		return have.Data[corev1beta1.ClusterIdentityName], nil
	}
	if !errors.IsNotFound(err) {
		return "", err
	}
	if want == "" {
		namespace, err := garden.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		want = string(namespace.UID)
	}
	_, err = configMaps.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: corev1beta1.ClusterIdentityName},
		Data: map[string]string{
			corev1beta1.ClusterIdentityName: want, corev1beta1.DataKeyOrigin: "gardener-apiserver",
		},
		Immutable: ptr.To(true),
	}, metav1.CreateOptions{})
	// Another replica may have been first, whose identity is then returned by the next attempt.
	return want, err
}
