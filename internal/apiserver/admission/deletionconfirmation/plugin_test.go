package deletionconfirmation

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
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
		"confirmed now":                     {now: map[string]string{confirmation: "true"}, want: "alice"},
		"confirmed with a forged record":    {now: map[string]string{confirmation: "1", confirmedBy: "bob"}, want: "alice"},
		"confirmed before by somebody else": {now: map[string]string{confirmation: "true"}, old: map[string]string{confirmation: "true", confirmedBy: "bob"}, want: "bob"},
		"confirmed again":                   {now: map[string]string{confirmation: "true"}, old: map[string]string{confirmation: "false", confirmedBy: "bob"}, want: "alice"},
		"no longer confirmed":               {now: map[string]string{confirmedBy: "bob"}, old: map[string]string{confirmation: "true", confirmedBy: "bob"}},
		"no boolean":                        {now: map[string]string{confirmation: "yes"}},
	} {
		shoot := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Annotations: tc.now}}
		record(shoot, tc.old, "alice")
		if got := shoot.Annotations[confirmedBy]; got != tc.want {
			t.Errorf("%s: confirmed by %q, want %q", name, got, tc.want)
		}
	}
}

func TestNeedsSecondPerson(t *testing.T) {
	project := &corev1beta1.Project{Spec: corev1beta1.ProjectSpec{DualApprovalForDeletion: []corev1beta1.DualApprovalForDeletion{{
		Resource: "shoots", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"important": "yes"}}, IncludeServiceAccounts: ptr.To(false),
	}}}}
	shoot := func(by string, labels map[string]string) *corev1beta1.Shoot {
		return &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{confirmedBy: by}}}
	}
	important, robot := map[string]string{"important": "yes"}, "system:serviceaccount:n:robot"
	for name, tc := range map[string]struct {
		shoot *corev1beta1.Shoot
		user  string
		want  bool
	}{
		"the same person":         {shoot("alice", important), "alice", true},
		"another person":          {shoot("bob", important), "alice", false},
		"an unimportant Shoot":    {shoot("alice", nil), "alice", false},
		"a robot may do it alone": {shoot(robot, important), robot, false},
	} {
		if got := needsSecondPerson(project, tc.shoot, tc.user); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
