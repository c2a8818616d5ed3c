package seed

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

func TestUnknownControlPlanesAreReported(t *testing.T) {
	namespace := func(name string) metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	going := namespace("shoot--dev--going")
	going.DeletionTimestamp = ptr.To(metav1.Now())
	namespaces := []metav1.PartialObjectMetadata{
		namespace("shoot--dev--b"), namespace("shoot--dev--known"), going, namespace("shoot--dev--a"),
	}
	known := corev1beta1.Shoot{Status: corev1beta1.ShootStatus{TechnicalID: "shoot--dev--known"}}
	unknown := unknownControlPlanes(namespaces, []corev1beta1.Shoot{known})
	if diff := cmp.Diff([]string{"shoot--dev--a", "shoot--dev--b"}, unknown); diff != "" {
		t.Errorf("unknownControlPlanes() mismatch (-want +got):\n%s", diff)
	}
	c := controlPlanes(unknown)
	if c.Status != corev1beta1.ConditionFalse ||
		!strings.Contains(c.Message, "control planes shoot--dev--a, shoot--dev--b. They") {
		t.Errorf("condition = %+v", c)
	}
	if c := controlPlanes([]string{"1", "2", "3", "4", "5", "6", "7"}); !strings.Contains(c.Message, "4, 5 and 2 more.") {
		t.Errorf("condition of many = %+v", c)
	}
	if c := controlPlanes(nil); c.Status != corev1beta1.ConditionTrue {
		t.Errorf("condition of none = %+v", c)
	}
}

func TestErrorsOfExtensionsForTheSeedAreReported(t *testing.T) {
	extension := func(name, problem string) extensionsv1alpha1.Extension {
		e := extensionsv1alpha1.Extension{ObjectMeta: metav1.ObjectMeta{Name: name}}
		e.Spec.Class = ptr.To(extensionsv1alpha1.ClassSeed)
		if problem != "" {
			e.Status.LastError = &corev1beta1.LastError{Description: problem}
		}
		return e
	}
	if err := failures([]extensionsv1alpha1.Extension{extension("fine", "")}); err != nil {
		t.Errorf("failures() = %v, want none", err)
	}
	ofGarden := extension("garden", "no access")
	ofGarden.Spec.Class = ptr.To(extensionsv1alpha1.ClassGarden)
	if err := failures([]extensionsv1alpha1.Extension{ofGarden}); err != nil {
		t.Errorf("failures() = %v of an extension of the garden, want none", err)
	}
	err := failures([]extensionsv1alpha1.Extension{
		extension("a", "no access"), extension("fine", ""), extension("b", "gone"),
	})
	if want := "extension a: no access\nextension b: gone"; err == nil || err.Error() != want {
		t.Errorf("failures() = %v, want %s", err, want)
	}
}

func TestSystemComponents(t *testing.T) {
	service := &corev1.Service{Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{
		Ingress: []corev1.LoadBalancerIngress{{IP: "10.0.0.1"}},
	}}}
	gateway := func(updated, available int32) []*appsv1.Deployment {
		return []*appsv1.Deployment{{
			ObjectMeta: metav1.ObjectMeta{Name: "gateway"},
			Spec:       appsv1.DeploymentSpec{Replicas: ptr.To(int32(2))},
			Status:     appsv1.DeploymentStatus{UpdatedReplicas: updated, AvailableReplicas: available},
		}}
	}
	for name, tc := range map[string]struct {
		observed observed
		want     corev1beta1.ConditionStatus
		message  string
	}{
		"all pods serve": {observed{gateway: service, deployments: gateway(2, 2)}, corev1beta1.ConditionTrue,
			"All system components are healthy."},
		"one of two serves": {observed{gateway: service, deployments: gateway(2, 1)}, corev1beta1.ConditionTrue,
			"All system components are running. Deployment gateway is rolling out: 1 of 2 updated pods available."},
		"none serves": {observed{gateway: service, deployments: gateway(2, 0)}, corev1beta1.ConditionFalse,
			"Deployment gateway is rolling out: 0 of 2 updated pods available."},
		"no address": {observed{gateway: &corev1.Service{}, deployments: gateway(2, 2)}, corev1beta1.ConditionFalse,
			"The load balancer of the gateway has no address yet."},
	} {
		t.Run(name, func(t *testing.T) {
			if c := systemComponents(tc.observed); c.Status != tc.want || c.Message != tc.message {
				t.Errorf("condition = %s, %q; want %s, %q", c.Status, c.Message, tc.want, tc.message)
			}
		})
	}
}

// TestOnlyGardenletsWithALeaseAreReady: whoever cannot renew the Lease leaves the condition to the controller manager.
func TestOnlyGardenletsWithALeaseAreReady(t *testing.T) {
	ready := func(o observed) *corev1beta1.Condition {
		return corev1beta1.FindCondition(conditions(o), corev1beta1.SeedGardenletReady)
	}
	if c := ready(observed{alive: true}); c == nil || c.Status != corev1beta1.ConditionTrue {
		t.Errorf("with a Lease the condition is %+v", c)
	}
	if c := ready(observed{}); c != nil {
		t.Errorf("without a Lease the condition is %+v", c)
	}
}

// TestConditionsOfUnknownInputsStay: no installation and no control plane known is not the same as none.
func TestConditionsOfUnknownInputsStay(t *testing.T) {
	types := func(o observed) (out []corev1beta1.ConditionType) {
		for _, c := range conditions(o) {
			out = append(out, c.Type)
		}
		return out
	}
	components, ready := corev1beta1.SeedSystemComponentsHealthy, corev1beta1.SeedExtensionsReady
	for name, tc := range map[string]struct {
		observed observed
		want     []corev1beta1.ConditionType
	}{
		"nothing is known": {observed{err: errors.New("no route to host")}, []corev1beta1.ConditionType{components}},
		"there are no installations": {
			observed{installationsRead: true}, []corev1beta1.ConditionType{components, ready},
		},
		"all is known": {
			observed{installationsRead: true, controlPlanesRead: true},
			[]corev1beta1.ConditionType{components, ready, corev1beta1.SeedControlPlanesKnown},
		},
	} {
		if diff := cmp.Diff(tc.want, types(tc.observed)); diff != "" {
			t.Errorf("%s: conditions() mismatch (-want +got):\n%s", name, diff)
		}
	}
}

func TestOperation(t *testing.T) {
	deleted := &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: ptr.To(metav1.Now())}}
	seed, failed := &corev1beta1.Seed{}, errors.New("no route to host")
	unreachable, inUse := observed{err: failed}, left{reason: "in use"}
	for name, tc := range map[string]struct {
		scope scope
		want  string
	}{
		"reconciled":       {scope{seed: seed}, "Reconcile Succeeded 100: Seed is reconciled."},
		"failed":           {scope{seed: seed, observed: unreachable}, "Reconcile Error 50: no route to host"},
		"without a bucket": {scope{seed: seed, bucketErr: failed}, "Reconcile Error 50: no route to host"},
		"in deletion":      {scope{seed: deleted, left: inUse}, "Delete Processing 0: in use"},
		"in deletion, with an error of the components": {
			scope{seed: deleted, left: inUse, observed: unreachable}, "Delete Processing 0: in use",
		},
		"in deletion, with unknown users": {
			scope{seed: deleted, leftErr: failed}, "Delete Error 0: no route to host",
		},
	} {
		op := operation(&tc.scope)
		if got := fmt.Sprintf("%s %s %d: %s", op.Type, op.State, op.Progress, op.Description); got != tc.want {
			t.Errorf("%s: operation() = %s, want %s", name, got, tc.want)
		}
	}
}

func TestBecameSilent(t *testing.T) {
	seed := func(status ...corev1beta1.ConditionStatus) *corev1beta1.Seed {
		s := &corev1beta1.Seed{}
		for _, one := range status {
			s.Status.Conditions = append(s.Status.Conditions, corev1beta1.Condition{
				Type: corev1beta1.SeedGardenletReady, Status: one,
			})
		}
		return s
	}
	isTrue, unknown, none := seed(corev1beta1.ConditionTrue), seed(corev1beta1.ConditionUnknown), seed()
	for name, tc := range map[string]struct {
		old, now *corev1beta1.Seed
		want     bool
	}{
		"given up":                   {isTrue, unknown, true},
		"given up before it reports": {none, unknown, true},
		"still silent":               {unknown, unknown, false},
		"it reports":                 {unknown, isTrue, false},
		"nothing has changed":        {isTrue, isTrue, false},
	} {
		if got := becameSilent(tc.old, tc.now); got != tc.want {
			t.Errorf("%s: becameSilent() = %t, want %t", name, got, tc.want)
		}
	}
}
