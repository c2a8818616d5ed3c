package shootsystem

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

// placeholders are definitions that make room for those of a user, who may have an operator, or install one later:
// existing definitions are neither changed nor judged. They stay when they are no longer wanted, because all objects of
// a kind are deleted with its definition.
func placeholders(definitions []*apiextensionsv1.CustomResourceDefinition) []client.Object {
	var out []client.Object
	for _, d := range definitions {
		d = d.DeepCopy()
		for _, annotation := range []string{
			resourcesv1alpha1.AnnotationIgnore, resourcesv1alpha1.AnnotationKeepObject,
			resourcesv1alpha1.AnnotationSkipHealthCheck,
		} {
			metav1.SetMetaDataAnnotation(&d.ObjectMeta, annotation, "true")
		}
		out = append(out, d)
	}
	return out
}
