package controllerinstallation

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1v1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/chart"
)

// TestConditionsContainNoSecrets: if the chart has values of Secrets, problems of its objects are described in the seed
// alone.
func TestConditionsContainNoSecrets(t *testing.T) {
	const quoting, constant = `Invalid value: "sesame"`, "All is well."
	for name, tc := range map[string]struct {
		from, kind            corev1beta1.ConditionType
		status                corev1beta1.ConditionStatus
		reason, message       string
		secretValues, leftOut bool
	}{
		"applying fails": {resourcesv1alpha1.ResourcesApplied, conditionInstalled, corev1beta1.ConditionFalse,
			resourcesv1alpha1.ReasonApplyFailed, quoting, true, true},
		"applying fails without Secrets": {resourcesv1alpha1.ResourcesApplied, conditionInstalled,
			corev1beta1.ConditionFalse, resourcesv1alpha1.ReasonApplyFailed, quoting, false, false},
		"applied": {resourcesv1alpha1.ResourcesApplied, conditionInstalled, corev1beta1.ConditionTrue,
			resourcesv1alpha1.ReasonApplySucceeded, constant, true, false},
		"waiting for deletion": {resourcesv1alpha1.ResourcesApplied, conditionInstalled,
			corev1beta1.ConditionProgressing, resourcesv1alpha1.ReasonDeletionPending, quoting, true, true},
		"being applied": {resourcesv1alpha1.ResourcesApplied, conditionInstalled, corev1beta1.ConditionProgressing,
			resourcesv1alpha1.ReasonApplyProgressing, constant, true, false},
		"unhealthy": {resourcesv1alpha1.ResourcesHealthy, conditionHealthy, corev1beta1.ConditionFalse,
			"DeploymentUnhealthy", quoting, true, true},
		"healthy": {resourcesv1alpha1.ResourcesHealthy, conditionHealthy, corev1beta1.ConditionTrue,
			resourcesv1alpha1.ReasonResourcesHealthy, constant, true, false},
		"rolling out": {resourcesv1alpha1.ResourcesProgressing, conditionProgressing, corev1beta1.ConditionTrue,
			"DeploymentProgressing", quoting, true, true},
		"rolled out": {resourcesv1alpha1.ResourcesProgressing, conditionProgressing, corev1beta1.ConditionFalse,
			resourcesv1alpha1.ReasonResourcesRolledOut, constant, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "notice-blue"}}
			mr.Status.Conditions = []corev1beta1.Condition{
				{Type: tc.from, Status: tc.status, Reason: tc.reason, Message: tc.message},
			}
			got := corev1beta1.FindCondition(
				conditionsFor(nil, observed{resource: mr, secretValues: tc.secretValues}, time.Time{}), tc.kind)
			want := tc.message
			if tc.leftOut {
				want = "See the condition " + string(tc.from) + " of ManagedResource garden/notice-blue in the seed: " +
					"the message is left out here because it may contain values of the Secrets in resources."
			}
			if got == nil || got.Message != want || tc.secretValues && strings.Contains(got.Message, "sesame") {
				t.Errorf("the condition is %+v, want the message %q", got, want)
			}
		})
	}
}

// TestConditionRequired: it is written as soon as it is known, whatever else fails, and otherwise left as it was.
func TestConditionRequired(t *testing.T) {
	applied := &resourcesv1alpha1.ManagedResource{}
	for name, tc := range map[string]struct {
		observed  observed
		want      corev1beta1.ConditionStatus
		wantValid corev1beta1.ConditionStatus
	}{
		"in use, installed": {observed{usedBy: new("Network a/b"), resource: applied},
			corev1beta1.ConditionTrue, corev1beta1.ConditionTrue},
		"unused, installed": {observed{usedBy: new(""), resource: applied},
			corev1beta1.ConditionFalse, corev1beta1.ConditionTrue},
		"in use, the chart is stale": {observed{usedBy: new("Network a/b"), invalid: errNoChart, resource: applied},
			corev1beta1.ConditionTrue, corev1beta1.ConditionFalse},
		"in use, the chart fails": {observed{usedBy: new("Network a/b"), invalid: errNoChart},
			corev1beta1.ConditionTrue, corev1beta1.ConditionFalse},
		"unused, the chart fails": {observed{usedBy: new(""), invalid: errNoChart},
			corev1beta1.ConditionFalse, corev1beta1.ConditionFalse},
		"unused, not applied":             {observed{usedBy: new("")}, corev1beta1.ConditionFalse, "before"},
		"not read, no registration":       {observed{invalid: errNoChart}, "before", corev1beta1.ConditionFalse},
		"not read, nothing else is known": {observed{}, "before", "before"},
	} {
		t.Run(name, func(t *testing.T) {
			got := conditionsFor([]corev1beta1.Condition{
				{Type: corev1beta1.ControllerInstallationRequired, Status: "before"}, {Type: conditionValid, Status: "before"},
			}, tc.observed, time.Time{})
			for kind, want := range map[corev1beta1.ConditionType]corev1beta1.ConditionStatus{
				corev1beta1.ControllerInstallationRequired: tc.want, conditionValid: tc.wantValid,
			} {
				if c := corev1beta1.FindCondition(got, kind); c == nil || c.Status != want {
					t.Errorf("condition %s is %+v, want %s", kind, c, want)
				}
			}
		})
	}
}

// TestValuesOfSecretsAreNoticed: whether messages are left out depends on what the chart's values refer to.
func TestValuesOfSecretsAreNoticed(t *testing.T) {
	archive, err := chart.Archive(fstest.MapFS{
		"x/Chart.yaml": {Data: []byte("apiVersion: v2\nname: x\nversion: 0.1.0\n")},
	}, "x", "x")
	if err != nil {
		t.Fatal(err)
	}
	for values, want := range map[string]bool{`{"a": "{{ .resources.login.data.word }}"}`: true, `{"a": "b"}`: false} {
		installation := noticeInstallation.DeepCopy()
		installation.Spec.RegistrationRef.Name = noticeRegistration.Name
		installation.Spec.DeploymentRef = &corev1.ObjectReference{Name: "d"}
		r := &Reconciler{
			GardenIdentity: func(context.Context) (string, error) { return "garden", nil },
			Garden: gardenBuilder(t).WithObjects(noticeRegistration.DeepCopy(), seedForChart(),
				&corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "login"},
					Data:       map[string][]byte{"word": []byte("sesame")},
				},
				&corev1v1.ControllerDeployment{
					ObjectMeta: metav1.ObjectMeta{Name: "d"},
					Resources: []corev1v1.NamedResourceReference{{
						Name:        "login",
						ResourceRef: autoscalingv1.CrossVersionObjectReference{APIVersion: "v1", Kind: "Secret", Name: "login"},
					}},
					Helm: &corev1v1.HelmControllerDeployment{
						RawChart: archive, Values: &runtime.RawExtension{Raw: []byte(values)},
					},
				}).Build(),
			Seed: fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build(), SeedName: "blue",
			Capabilities: func(context.Context) (chart.Capabilities, error) { return seedCapabilities, nil },
		}
		var o observed
		if _, err := r.objects(t.Context(), installation, &o); err != nil || o.secretValues != want {
			t.Errorf("with values %s, Secrets are noticed: %t, want %t (error %v)", values, o.secretValues, want, err)
		}
	}
}
