package finalizerremoval

import (
	"reflect"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
	"hortus.dev/hortus/internal/golden"
)

func TestCleanedUp(t *testing.T) {
	for name, tc := range map[string]struct {
		status corev1beta1.ShootStatus
		want   bool
	}{
		"nothing was made":       {corev1beta1.ShootStatus{}, true},
		"no operation has begun": {corev1beta1.ShootStatus{TechnicalID: "x"}, true},
		"not placed": {corev1beta1.ShootStatus{LastOperation: &corev1beta1.LastOperation{
			Type: "Create", State: "Pending",
		}}, true},
		"it is there": {corev1beta1.ShootStatus{
			TechnicalID: "x", LastOperation: &corev1beta1.LastOperation{Type: "Reconcile", State: "Succeeded", Progress: 100},
		}, false},
		"the deletion continues": {corev1beta1.ShootStatus{
			TechnicalID: "x", LastOperation: &corev1beta1.LastOperation{Type: "Delete", State: "Processing", Progress: 100},
		}, false},
		"the deletion is not complete": {corev1beta1.ShootStatus{
			TechnicalID: "x", LastOperation: &corev1beta1.LastOperation{Type: "Delete", State: "Succeeded", Progress: 99},
		}, false},
		"it is deleted": {corev1beta1.ShootStatus{
			TechnicalID: "x", LastOperation: &corev1beta1.LastOperation{Type: "Delete", State: "Succeeded", Progress: 100},
		}, true},
	} {
		if got := cleanedUp(&corev1beta1.Shoot{Status: tc.status}); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestUserAmong(t *testing.T) {
	shoots := []corev1beta1.Shoot{
		{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1beta1.ShootSpec{SecretBindingName: ptr.To("x")}},
		{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: corev1beta1.ShootSpec{CredentialsBindingName: ptr.To("x")}},
	}
	if got := userAmong(shoots, true, "x"); got != "a" {
		t.Errorf("SecretBinding is used by %q", got)
	}
	if got := userAmong(shoots, false, "x"); got != "b" {
		t.Errorf("CredentialsBinding is used by %q", got)
	}
	if got := userAmong(shoots, false, "y"); got != "" {
		t.Errorf("an unused binding is used by %q", got)
	}
}

func TestRefusals(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	in := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "garden-dev", Name: name, Finalizers: []string{corev1beta1.FinalizerName}}
	}
	older := &corev1beta1.Shoot{ObjectMeta: in("plum"), Spec: corev1beta1.ShootSpec{SecretBindingName: ptr.To("used")}}
	newer := &corev1beta1.Shoot{
		ObjectMeta: in("apple"), Spec: corev1beta1.ShootSpec{CredentialsBindingName: ptr.To("used")},
	}
	late := &corev1beta1.Shoot{ObjectMeta: in("pear"), Spec: corev1beta1.ShootSpec{CredentialsBindingName: ptr.To("late")}}
	cached := fake.NewClientBuilder().WithScheme(scheme).WithObjects(older, newer).WithIndex(&corev1beta1.Shoot{},
		"binding", func(o client.Object) []string {
			if name := o.(*corev1beta1.Shoot).Spec.SecretBindingName; name != nil {
				return []string{hortusadmission.BindingKey(true, *name)}
			}
			return []string{hortusadmission.BindingKey(false, *o.(*corev1beta1.Shoot).Spec.CredentialsBindingName)}
		}).Build()
	live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(older, newer, late).Build()
	p := &plugin{hortusadmission.Base{
		Handler: admission.NewHandler(admission.Update), Objects: &hortusadmission.Objects{Cached: cached, Live: live},
	}}

	shoot := func(deleted bool, last corev1beta1.LastOperation) *corev1beta1.Shoot {
		s := &corev1beta1.Shoot{
			ObjectMeta: in("apple"), Status: corev1beta1.ShootStatus{TechnicalID: "shoot--dev--apple", LastOperation: &last},
		}
		if deleted {
			s.DeletionTimestamp = &metav1.Time{}
		}
		return s
	}
	messages := map[string]error{}
	for name, tc := range map[string]struct {
		object  client.Object
		allowed bool
	}{
		"a Shoot that runs": {
			shoot(false, corev1beta1.LastOperation{Type: "Reconcile", State: "Succeeded", Progress: 100}), false,
		},
		"a Shoot half way": {
			shoot(true, corev1beta1.LastOperation{Type: "Delete", State: "Processing", Progress: 50}), false,
		},
		"a Shoot that is gone": {
			shoot(true, corev1beta1.LastOperation{Type: "Delete", State: "Succeeded", Progress: 100}), true,
		},
		"a SecretBinding in use":                     {&corev1beta1.SecretBinding{ObjectMeta: in("used")}, false},
		"a SecretBinding":                            {&corev1beta1.SecretBinding{ObjectMeta: in("late")}, true},
		"a CredentialsBinding in use":                {&securityv1alpha1.CredentialsBinding{ObjectMeta: in("used")}, false},
		"a CredentialsBinding that a new Shoot uses": {&securityv1alpha1.CredentialsBinding{ObjectMeta: in("late")}, false},
		"a CredentialsBinding":                       {&securityv1alpha1.CredentialsBinding{ObjectMeta: in("unused")}, true},
		"a Seed":                                     {&corev1beta1.Seed{ObjectMeta: in("x")}, true},
	} {
		without := tc.object.DeepCopyObject().(client.Object)
		without.SetFinalizers(nil)
		kind := reflect.TypeOf(tc.object).Elem().Name()
		a := admission.NewAttributesRecord(without, tc.object, schema.GroupVersionKind{Kind: kind}, "garden-dev",
			tc.object.GetName(),
			schema.GroupVersionResource{Resource: strings.ToLower(kind) + "s"}, "", admission.Update, nil, false,
			&user.DefaultInfo{Name: "alice"})
		err := p.Validate(t.Context(), a, nil)
		if (err == nil) != tc.allowed || err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("%s: Validate() = %v", name, err)
		}
		messages[name] = err
	}
	golden.Messages(t, messages)
}
