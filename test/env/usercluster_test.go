package env

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A user cluster is used again with the content of a new one, unless its API was changed.
func TestUserClustersAreUsedAgain(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var first string
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "mine", Name: "p", Finalizers: []string{"example.com/stays"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	t.Run("the first test leaves objects", func(t *testing.T) {
		c := UserCluster(t)
		first = c.Config.Host
		for _, o := range []client.Object{
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mine"}},
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "mine", Name: "default"}}, pod.DeepCopy(),
		} {
			if err := c.Client.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "view"}}
		if err := c.Client.Delete(t.Context(), role); err != nil {
			t.Fatal(err)
		}
		if other := UserCluster(t); other.Config.Host == first {
			t.Error("two clusters that are in use at the same time are the same one")
		}
	})
	t.Run("another one does not find them", func(t *testing.T) {
		c := UserCluster(t)
		for c.Config.Host != first {
			c = UserCluster(t)
		}
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); !apierrors.IsNotFound(err) {
			t.Errorf("the Pod of the test before: %v", err)
		}
		if err := c.Client.Get(t.Context(), client.ObjectKey{Name: "view"}, &rbacv1.ClusterRole{}); err != nil {
			t.Errorf("a ClusterRole that the test before has deleted: %v", err)
		}
		definitions, err := client.New(c.Config, client.Options{Scheme: scheme})
		if err != nil {
			t.Fatal(err)
		}
		if err := definitions.Create(t.Context(), definition()); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("one with another API is not used again", func(t *testing.T) {
		for range len(userClusters.all) {
			if c := UserCluster(t); c.Config.Host == first {
				t.Error("it is used again")
			}
		}
	})
}

func definition() *apiextensionsv1.CustomResourceDefinition {
	names := apiextensionsv1.CustomResourceDefinitionNames{
		Plural: "leaves", Singular: "leaf", Kind: "Leaf", ListKind: "LeafList",
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "leaves.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.ClusterScoped, Names: names,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"},
				},
			}},
		},
	}
}
