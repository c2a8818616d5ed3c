package apiserver

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func gardenWithIdentity(identity string) *fake.Clientset {
	return fake.NewClientset(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: corev1beta1.ClusterIdentityName},
		Data:       map[string]string{corev1beta1.ClusterIdentityName: identity},
	})
}

func TestIdentityCannotChange(t *testing.T) {
	for want, problem := range map[string]string{
		"": "", "a": "", "b": `the garden has the identity "a" (ConfigMap kube-system/cluster-identity), which cannot change`,
	} {
		err := ensureIdentity(t.Context(), gardenWithIdentity("a"), want)
		if (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("with --cluster-identity=%q: %v, want %q", want, err, problem)
		}
	}
}

// TestIdentityIsThatOfTheFirstReplica: another replica creates the identity between the read and the write.
func TestIdentityIsThatOfTheFirstReplica(t *testing.T) {
	garden := fake.NewClientset()
	first := gardenWithIdentity("a")
	garden.PrependReactor("create", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
		object, err := first.Tracker().Get(a.GetResource(), metav1.NamespaceSystem, corev1beta1.ClusterIdentityName)
		if err == nil {
			err = garden.Tracker().Add(object)
		}
		return true, nil, errors.Join(err, errors.New("it exists"))
	})
	err := ensureIdentity(t.Context(), garden, "b")
	if err == nil || !strings.Contains(err.Error(), `the garden has the identity "a"`) {
		t.Errorf("the identity is not that of the first replica: %v", err)
	}
}
