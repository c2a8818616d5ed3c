package extension

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// An operation that waits keeps its annotation; what it reports must not bring it back at once.
func TestOwnReportsAreNoRequests(t *testing.T) {
	object := func(change ...func(*extensionsv1alpha1.Network)) *extensionsv1alpha1.Network {
		n := &extensionsv1alpha1.Network{}
		for _, c := range change {
			c(n)
		}
		return n
	}
	asked := func(n *extensionsv1alpha1.Network) {
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, extensionsv1alpha1.AnnotationOperation,
			extensionsv1alpha1.OperationMigrate)
	}
	again := func(n *extensionsv1alpha1.Network) {
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, extensionsv1alpha1.AnnotationTimestamp, "later")
	}
	reported := func(n *extensionsv1alpha1.Network) {
		n.Status.LastOperation = &corev1beta1.LastOperation{Description: "waiting"}
	}
	succeeded := func(n *extensionsv1alpha1.Network) {
		n.Status.LastOperation = &corev1beta1.LastOperation{State: corev1beta1.LastOperationStateSucceeded}
	}
	deleting := func(n *extensionsv1alpha1.Network) { n.DeletionTimestamp = new(metav1.Now()) }
	another := func(n *extensionsv1alpha1.Network) { n.UID = "another" }
	for name, tc := range map[string]struct {
		before, after *extensionsv1alpha1.Network
		want          bool
	}{
		"nothing":                                   {object(), object(), false},
		"a request":                                 {object(), object(asked), true},
		"a request next to a report":                {object(), object(asked, reported), true},
		"the request again":                         {object(asked, reported), object(asked, again, reported), true},
		"a report while it waits":                   {object(asked), object(asked, reported), false},
		"a report":                                  {object(), object(reported), false},
		"a deletion":                                {object(), object(deleting), true},
		"a report while it is going":                {object(deleting), object(deleting, reported), false},
		"a finalizer while it is going":             {object(deleting, reported), object(deleting, reported), true},
		"a newer request and a report in one event": {object(asked), object(asked, again, reported), true},
		"a deletion and a report in one event":      {object(), object(deleting, reported), true},
		"another object of the same name":           {object(asked, reported), object(asked, reported, another), true},
		"the end of a request, reported":            {object(asked, reported), object(reported), false},
		"a success":                                 {object(reported), object(succeeded), false},
		"the begin of what nobody has requested":    {object(succeeded), object(reported), true},
	} {
		if got := OperationRequested().Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
