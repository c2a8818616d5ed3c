package test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/gardenlet/shoot"
	"hortus.dev/hortus/internal/gardenlet/shoot/care"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
)

// Status is the HTTP status of a health check.
func (c connector) Status(context.Context, []byte) (int, error) { return c.health, nil }

// CertificatesUntil returns nothing: the connection to the fake cluster has no certificates.
func (c connector) CertificatesUntil([]byte) (server, client time.Time) {
	return time.Time{}, time.Time{}
}

// ConfirmOwner connects to the service of the test instead of the one in the seed, with the same certificates.
func (c connector) ConfirmOwner(ctx context.Context, access steps.EtcdAccess, epoch int64) error {
	access.Endpoint = c.backupService
	return (&shoot.Connector{Now: c.clock.Now}).ConfirmOwner(ctx, access, epoch)
}

// BackupStatus connects to the service of the test instead of the one in the seed, with the same certificates.
func (c connector) BackupStatus(ctx context.Context, access steps.EtcdAccess) (etcdbackup.Status, error) {
	access.Endpoint = c.backupService
	return (&shoot.Connector{Now: c.clock.Now}).BackupStatus(ctx, access)
}

func (w *world) care(s *corev1beta1.Shoot, r *care.Reconciler) *corev1beta1.Shoot {
	w.t.Helper()
	w.clock.Step(time.Minute)
	_, err := reconcile.AsReconciler(w.Client, r).Reconcile(w.ctx,
		reconcile.Request{NamespacedName: client.ObjectKeyFromObject(s)})
	w.must(err)
	out := &corev1beta1.Shoot{}
	w.must(w.Client.Get(w.ctx, client.ObjectKeyFromObject(s), out))
	return out
}

func (w *world) carer() *care.Reconciler {
	return &care.Reconciler{
		Garden: w.gardenlet, Cache: w.Client, Seed: w.Client, Clock: w.clock, Shoots: connector{w}, SeedName: w.seed.Name,
		Period: time.Minute,
		Events: events.NewFakeRecorder(1000),
		Settings: care.Settings{
			Thresholds: map[corev1beta1.ConditionType]time.Duration{corev1beta1.ShootAPIServerAvailable: 90 * time.Second},
		},
	}
}

// meddler is a connector that calls a function while a check runs.
type meddler struct {
	connector
	meddle func()
}

func (m meddler) Status(ctx context.Context, kubeconfig []byte) (int, error) {
	m.meddle()
	return m.connector.Status(ctx, kubeconfig)
}

func TestConditionsThatOthersWriteDuringACheckStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot(), succeeded)
	w.clock.Step(time.Hour)
	r, written := w.carer(), 0
	r.Shoots = meddler{connector: connector{w}, meddle: func() {
		written++
		now := s.DeepCopy()
		now.Status.Conditions = corev1beta1.SetCondition(now.Status.Conditions,
			corev1beta1.Condition{Type: "OfSomebodyElse", Status: corev1beta1.ConditionTrue}, w.clock.Now())
		w.must(w.Client.Status().Patch(w.ctx, now, client.MergeFrom(s)))
	}}
	s = w.care(s, r)
	for _, kind := range []corev1beta1.ConditionType{"OfSomebodyElse", corev1beta1.ShootAPIServerAvailable} {
		if corev1beta1.FindCondition(s.Status.Conditions, kind) == nil {
			t.Errorf("condition %s is missing: %v", kind, s.Status.Conditions)
		}
	}
	if written != 1 {
		t.Errorf("the Shoot was checked %d times, want 1", written)
	}
}

func TestConditionsOfAShoot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot(), succeeded)
	w.clock.Step(time.Hour)
	r := w.carer()
	want := func(status corev1beta1.ConditionStatus, reason string) {
		t.Helper()
		s = w.care(s, r)
		c := corev1beta1.FindCondition(s.Status.Conditions, corev1beta1.ShootAPIServerAvailable)
		if c == nil || c.Status != status || c.Reason != reason {
			t.Errorf("condition = %+v, want %s, %s", c, status, reason)
		}
	}
	want(corev1beta1.ConditionTrue, "HealthzRequestSucceeded")
	for _, c := range s.Status.Conditions {
		if c.Status != corev1beta1.ConditionTrue {
			t.Errorf("condition of a healthy Shoot = %+v", c)
		}
	}
	if c := corev1beta1.FindCondition(s.Status.Constraints, corev1beta1.ShootHibernationPossible); c == nil ||
		c.Status != corev1beta1.ConditionTrue {
		t.Errorf("constraint = %+v", c)
	}
	w.health = 500
	want(corev1beta1.ConditionProgressing, "HealthzRequestError")
	want(corev1beta1.ConditionProgressing, "HealthzRequestError")
	want(corev1beta1.ConditionFalse, "HealthzRequestError")
	w.health = 200
	want(corev1beta1.ConditionTrue, "HealthzRequestSucceeded")
}

// unavailableWebhook denies an operation on a kind of version v1, because nothing listens on its address.
func unavailableWebhook(
	name string, operation admissionregistrationv1.OperationType, group, resource string,
) *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: resource + ".example.com", FailurePolicy: ptr.To(admissionregistrationv1.Fail),
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1")},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{operation},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource},
				},
			}},
		}},
	}
}

func TestWebhooksAreRemediatedOnlyIfTheOperatorWants(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot(), succeeded)
	webhook := func(name string, labels map[string]string) *admissionregistrationv1.ValidatingWebhookConfiguration {
		c := unavailableWebhook(name, admissionregistrationv1.Create, "", "pods")
		c.Labels = labels
		c.Webhooks[0].TimeoutSeconds = ptr.To(int32(30))
		w.must(w.user.Create(w.ctx, c))
		return c
	}
	policy := webhook("policy", nil)
	left := webhook("left-alone", map[string]string{corev1beta1.LabelExcludeWebhookFromRemediation: "true"})
	reason := func() string {
		return corev1beta1.FindCondition(s.Status.Constraints, corev1beta1.ShootMaintenancePreconditionsSatisfied).Reason
	}
	r := w.carer()
	s = w.care(s, r)
	w.must(w.user.Get(w.ctx, client.ObjectKeyFromObject(policy), policy))
	if reason() != "ProblematicWebhooks" || *policy.Webhooks[0].TimeoutSeconds != 30 {
		t.Errorf("reason = %s, timeout = %d", reason(), *policy.Webhooks[0].TimeoutSeconds)
	}

	r.RemediateWebhooks = true
	s = w.care(s, r)
	w.must(w.user.Get(w.ctx, client.ObjectKeyFromObject(policy), policy))
	fixed := policy.Webhooks[0]
	if *fixed.TimeoutSeconds != 15 || len(fixed.NamespaceSelector.MatchExpressions) == 0 ||
		*fixed.FailurePolicy != admissionregistrationv1.Fail || policy.Annotations[corev1beta1.AnnotationWarning] == "" {
		t.Errorf("remediated webhook = %+v, annotations %v", fixed, policy.Annotations)
	}
	w.must(w.user.Get(w.ctx, client.ObjectKeyFromObject(left), left))
	if selector := left.Webhooks[0].NamespaceSelector; len(selector.MatchExpressions) > 0 {
		t.Error("a webhook was changed although its owner has disabled that")
	}
	w.must(w.user.Delete(w.ctx, left))
	if s = w.care(s, r); reason() != "RemediatedWebhooks" {
		t.Errorf("reason = %s, want a report to the owner", reason())
	}
}

// A webhook that its owner, or a controller, always changes back is not repaired with every check, and the status
// reports that.
func TestWebhooksThatAreChangedBackAreRemediatedLessAndLessOften(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot(), succeeded)
	policy := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "stubborn"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "pods.example.com", FailurePolicy: ptr.To(admissionregistrationv1.Ignore), TimeoutSeconds: ptr.To(int32(30)),
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://webhook.example.com")},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"},
				},
			}},
		}},
	}
	w.must(w.user.Create(w.ctx, policy))
	r := w.carer()
	r.RemediateWebhooks = true
	constraint := func() *corev1beta1.Condition {
		return corev1beta1.FindCondition(s.Status.Constraints, corev1beta1.ShootHibernationPossible)
	}
	const checks = 40
	var repaired []int
	for check := range checks {
		s = w.care(s, r)
		if c := constraint(); check > 0 &&
			(c.Reason != "ProblematicWebhooks" || !strings.Contains(c.Message, "changed back since then: stubborn.")) {
			t.Fatalf("check %d: constraint = %+v, want one that names the webhook that is changed back", check, c)
		}
		w.must(w.user.Get(w.ctx, client.ObjectKeyFromObject(policy), policy))
		if *policy.Webhooks[0].TimeoutSeconds == 30 {
			continue
		}
		repaired = append(repaired, check)
		before := policy.DeepCopy()
		policy.Webhooks[0].TimeoutSeconds = ptr.To(int32(30))
		w.must(w.user.Patch(w.ctx, policy, client.MergeFrom(before)))
	}
	if want := []int{0, 1, 3, 7, 15, 31}; !slices.Equal(repaired, want) {
		t.Errorf("repaired by the checks %v of %d, want %v", repaired, checks, want)
	}
	w.clock.Step(time.Hour)
	s = w.care(s, r)
	if s = w.care(s, r); constraint().Reason != "RemediatedWebhooks" {
		t.Errorf("constraint = %+v, want a lasting repair", constraint())
	}
}
