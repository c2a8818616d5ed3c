package deletionconfirmation

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
	"hortus.dev/hortus/internal/golden"
)

const (
	confirmation = corev1beta1.AnnotationConfirmationDeletion
	confirmedBy  = corev1beta1.AnnotationDeletionConfirmedBy
)

func TestRecord(t *testing.T) {
	for name, tc := range map[string]struct {
		now, old map[string]string
		want     string
	}{
		"confirmed now":                  {now: map[string]string{confirmation: "true"}, want: "alice"},
		"confirmed with a forged record": {now: map[string]string{confirmation: "1", confirmedBy: "bob"}, want: "alice"},
		"confirmed before by another user": {
			now: map[string]string{confirmation: "true"}, old: map[string]string{
				confirmation: "true", confirmedBy: "bob",
			}, want: "bob",
		},
		"confirmed again": {
			now: map[string]string{confirmation: "true"}, old: map[string]string{confirmation: "false", confirmedBy: "bob"},
			want: "alice",
		},
		"no longer confirmed": {
			now: map[string]string{confirmedBy: "bob"}, old: map[string]string{confirmation: "true", confirmedBy: "bob"},
		},
		"no boolean": {now: map[string]string{confirmation: "yes"}},
	} {
		shoot := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Annotations: tc.now}}
		record(shoot, tc.old, "alice")
		if got := shoot.Annotations[confirmedBy]; got != tc.want {
			t.Errorf("%s: confirmed by %q, want %q", name, got, tc.want)
		}
	}
}

func TestNeedsSecondPerson(t *testing.T) {
	project := &corev1beta1.Project{Spec: corev1beta1.ProjectSpec{
		DualApprovalForDeletion: []corev1beta1.DualApprovalForDeletion{{
			Resource: "shoots", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"important": "yes"}},
			IncludeServiceAccounts: ptr.To(false),
		}}}}
	shoot := func(by string, labels map[string]string) *corev1beta1.Shoot {
		return &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{
			Labels: labels, Annotations: map[string]string{confirmedBy: by},
		}}
	}
	important, robot := map[string]string{"important": "yes"}, "system:serviceaccount:n:robot"
	for name, tc := range map[string]struct {
		shoot *corev1beta1.Shoot
		user  string
		want  bool
	}{
		"the same person":                {shoot("alice", important), "alice", true},
		"another person":                 {shoot("bob", important), "alice", false},
		"an unimportant Shoot":           {shoot("alice", nil), "alice", false},
		"a robot may confirm and delete": {shoot(robot, important), robot, false},
	} {
		if got := needsSecondPerson(project, tc.shoot, tc.user); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestRefusals(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	project := &corev1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: "dev"}, Spec: corev1beta1.ProjectSpec{
		Namespace: ptr.To("garden-dev"),
		DualApprovalForDeletion: []corev1beta1.DualApprovalForDeletion{{
			Resource: "shoots", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"important": "yes"}},
		}},
	}}
	byNamespace := func(o client.Object) []string { return []string{*o.(*corev1beta1.Project).Spec.Namespace} }
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(project,
		&corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "pear", UID: "new"}}).
		WithIndex(&corev1beta1.Project{}, "namespace", byNamespace).WithIndex(&corev1beta1.Project{}, "spec.namespace",
		byNamespace).Build()
	p := &plugin{hortusadmission.Base{
		Handler: admission.NewHandler(admission.Delete), Objects: &hortusadmission.Objects{Cached: reader, Live: reader},
	}}

	meta := func(labels map[string]string, annotations ...string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: "garden-dev", Name: "apple", Labels: labels, Annotations: map[string]string{}}
		for i := 0; i < len(annotations); i += 2 {
			m.Annotations[annotations[i]] = annotations[i+1]
		}
		return m
	}
	stateOf := func(name, uid string) *corev1beta1.ShootState {
		s := &corev1beta1.ShootState{ObjectMeta: meta(nil)}
		s.OwnerReferences = []metav1.OwnerReference{{
			Kind: "Shoot", Name: name, UID: types.UID(uid), Controller: ptr.To(true),
		}}
		return s
	}
	important := map[string]string{"important": "yes"}
	messages := map[string]error{}
	for name, tc := range map[string]struct {
		object  client.Object
		kind    string
		allowed bool
	}{
		"a Shoot, not confirmed": {&corev1beta1.Shoot{ObjectMeta: meta(nil)}, "Shoot", false},
		"a Shoot, confirmed with no boolean": {
			&corev1beta1.Shoot{ObjectMeta: meta(nil, confirmation, "yes")}, "Shoot", false,
		},
		"a Shoot, confirmed": {&corev1beta1.Shoot{
			ObjectMeta: meta(nil, confirmation, "true", confirmedBy, "alice"),
		}, "Shoot", true},
		"a Shoot, confirmed by the same": {&corev1beta1.Shoot{
			ObjectMeta: meta(important, confirmation, "true", confirmedBy, "alice"),
		}, "Shoot", false},
		"a Shoot, confirmed by another user": {&corev1beta1.Shoot{
			ObjectMeta: meta(important, confirmation, "true", confirmedBy, "bob"),
		}, "Shoot", true},
		"a Project, not confirmed": {
			&corev1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: "dev"}}, "Project", false,
		},
		"a ShootState, not confirmed":     {&corev1beta1.ShootState{ObjectMeta: meta(nil)}, "ShootState", false},
		"a ShootState of a Shoot":         {stateOf("pear", "new"), "ShootState", false},
		"a ShootState of a former Shoot":  {stateOf("pear", "old"), "ShootState", true},
		"a ShootState of a deleted Shoot": {stateOf("apple", "1"), "ShootState", true},
		"a Seed":                          {&corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, "Seed", true},
	} {
		a := admission.NewAttributesRecord(nil, tc.object, corev1beta1.SchemeGroupVersion.WithKind(tc.kind),
			tc.object.GetNamespace(), tc.object.GetName(),
			corev1beta1.SchemeGroupVersion.WithResource(strings.ToLower(tc.kind)+"s"), "", admission.Delete, nil, false,
			&user.DefaultInfo{Name: "alice"})
		err := p.Validate(t.Context(), a, nil)
		if (err == nil) != tc.allowed || err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("%s: Validate() = %v", name, err)
		}
		messages[name] = err
	}
	golden.Messages(t, messages)
}
