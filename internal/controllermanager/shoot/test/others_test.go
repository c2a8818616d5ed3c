package test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	"hortus.dev/hortus/internal/controllermanager/shoot"
	"hortus.dev/hortus/internal/controllermanager/shoot/hibernation"
	"hortus.dev/hortus/internal/controllermanager/shoot/quota"
	"hortus.dev/hortus/internal/controllermanager/shoot/reference"
	"hortus.dev/hortus/internal/controllermanager/shoot/retry"
	"hortus.dev/hortus/internal/controllermanager/shoot/statuslabel"
	hortusversion "hortus.dev/hortus/internal/version"
	"hortus.dev/hortus/test/env"
)

// step reconciles a Shoot once with any of the controllers.
func (g *garden) step(s *corev1beta1.Shoot, r reconcile.ObjectReconciler[*corev1beta1.Shoot]) reconcile.Result {
	g.t.Helper()
	result, err := r.Reconcile(g.ctx, g.get(s))
	if err != nil {
		g.t.Fatalf("reconcile: %v", err)
	}
	if err := g.Client.Get(g.ctx, client.ObjectKeyFromObject(s), s); client.IgnoreNotFound(err) != nil {
		g.t.Fatal(err)
	}
	return result
}

func (g *garden) sleeper() *hibernation.Reconciler {
	return &hibernation.Reconciler{
		Garden: g.Client, Clock: clock, Recorder: events.NewFakeRecorder(10), TriggerDeadline: 2 * time.Hour,
	}
}

func berlin(t *testing.T, hour, minute int) time.Time {
	t.Helper()
	location, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	day := noon.AddDate(0, 0, 1)
	return time.Date(day.Year(), day.Month(), day.Day(), hour, minute, 0, 0, location)
}

func nightly(s *corev1beta1.Shoot) {
	s.Spec.Hibernation = &corev1beta1.Hibernation{Schedules: []corev1beta1.HibernationSchedule{{
		Start: ptr.To("0 20 * * *"), End: ptr.To("0 7 * * *"), Location: ptr.To("Europe/Berlin"),
	}}}
}

func hibernated(s *corev1beta1.Shoot) bool {
	return s.Spec.Hibernation.Enabled != nil && *s.Spec.Hibernation.Enabled
}

func TestHibernationSchedules(t *testing.T) {
	g := newGarden(t, offer())
	for name, tc := range map[string]struct {
		hour, minute int
		want         bool
		next         time.Duration
	}{
		"72: a fire that is too long ago is skipped": {23, 30, false, 7*time.Hour + 30*time.Minute},
		"73: a recent one is made up for":            {21, 0, true, 10 * time.Hour},
		"nothing happens before the schedule":        {19, 55, false, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			s := g.newShoot("1.36.3", nightly)
			clock.SetTime(berlin(t, tc.hour, tc.minute))
			result := g.step(s, g.sleeper())
			if got := hibernated(s); got != tc.want {
				t.Errorf("hibernated = %v, want %v", got, tc.want)
			}
			if got := result.RequeueAfter - 100*time.Millisecond; got != tc.next {
				t.Errorf("comes back in %s, want %s", got, tc.next)
			}
			if triggered := s.Status.LastHibernationTriggerTime != nil; triggered != tc.want {
				t.Errorf("lastHibernationTriggerTime = %v", s.Status.LastHibernationTriggerTime)
			}
			clock.SetTime(noon)
		})
	}
}

func TestHibernationAndWakeUp(t *testing.T) {
	g := newGarden(t, offer())
	s := g.newShoot("1.36.3", nightly)
	clock.SetTime(berlin(t, 20, 0).Add(time.Second))
	g.step(s, g.sleeper())
	if !hibernated(s) {
		t.Fatal("the Shoot is awake at night")
	}
	g.patch(s, `{"spec":{"hibernation":{"enabled":false}}}`) // The owner has woken it up.
	clock.SetTime(berlin(t, 21, 0))
	g.step(s, g.sleeper())
	if hibernated(s) {
		t.Error("the same fire acts twice")
	}
	clock.SetTime(berlin(t, 31, 0).Add(time.Second))
	g.patch(s, `{"spec":{"hibernation":{"enabled":true}}}`)
	g.step(s, g.sleeper())
	if hibernated(s) {
		t.Error("the Shoot is hibernated in the morning")
	}
}

func TestHibernationOfFailedShoots(t *testing.T) {
	g := newGarden(t, offer())
	s := g.newShoot("1.36.3", nightly)
	g.status(s, fmt.Sprintf(`{"status":{"gardener":{"id":"","name":"","version":%q}}}`, hortusversion.Version))
	g.operate(s, "Reconcile", failedState)
	clock.SetTime(berlin(t, 20, 0).Add(time.Second))
	if result := g.step(s, g.sleeper()); hibernated(s) || result.RequeueAfter == 0 {
		t.Errorf("hibernated = %v, result %+v", hibernated(s), result)
	}
}

func TestHibernationThatIsRefusedIsTriedAgain(t *testing.T) {
	g := newGarden(t, offer())
	s := g.newShoot("1.36.3", nightly)
	g.status(s,
		`{"status":{"constraints":[{"type":"HibernationPossible","status":"False","reason":"x","message":"","lastTransitionTime":"2030-01-01T00:00:00Z","lastUpdateTime":"2030-01-01T00:00:00Z"}]}}`)
	clock.SetTime(berlin(t, 20, 0).Add(time.Second))
	if _, err := g.sleeper().Reconcile(g.ctx, g.get(s)); !apierrors.IsForbidden(err) {
		t.Fatalf("error = %v, want a refusal", err)
	}
	if g.get(s); s.Status.LastHibernationTriggerTime != nil {
		t.Error("a rejected fire counts as done")
	}
	g.status(s, `{"status":{"constraints":null}}`)
	g.step(s, g.sleeper())
	if !hibernated(s) {
		t.Error("the fire is not made up for")
	}
}

func TestRetryAfterRateLimits(t *testing.T) {
	g := newGarden(t, offer())
	r := &retry.Reconciler{
		Garden: g.Client, Clock: clock, Period: 10 * time.Minute, MaxJitter: 4 * time.Minute, Jitter: middle,
	}
	s := g.newShoot("1.36.3")
	g.operate(s, "Reconcile", failedState)
	if result := g.step(s, r); !result.IsZero() {
		t.Errorf("a Shoot that failed for another reason: %+v", result)
	}
	g.status(s, `{"status":{"lastErrors":[{"description":"","codes":["ERR_INFRA_RATE_LIMITS_EXCEEDED"]}]}}`)
	clock.SetTime(noon.Add(5 * time.Minute))
	if result := g.step(s, r); result.RequeueAfter != 7*time.Minute {
		t.Errorf("waits %s, want 7m", result.RequeueAfter)
	}
	clock.SetTime(noon.Add(12 * time.Minute))
	generation := s.Generation
	g.step(s, r)
	if s.Generation != generation+1 {
		t.Error("the Shoot is not retried")
	}
	if result := g.step(s, r); !result.IsZero() || s.Generation != generation+1 {
		t.Error("the Shoot is retried twice")
	}
}

func TestStatusLabel(t *testing.T) {
	for name, tc := range map[string]struct {
		kind       corev1beta1.LastOperationType
		state      corev1beta1.LastOperationState
		errors     int
		conditions []corev1beta1.ConditionStatus
		want       string
	}{
		"no operation yet":    {conditions: []corev1beta1.ConditionStatus{"False"}, want: "healthy"},
		"being created":       {"Create", "Processing", 0, []corev1beta1.ConditionStatus{"False"}, "healthy"},
		"creation has errors": {"Create", "Error", 1, []corev1beta1.ConditionStatus{"True"}, "unhealthy"},
		"being deleted":       {"Delete", "Processing", 0, []corev1beta1.ConditionStatus{"False"}, "healthy"},
		"being reconciled": {"Reconcile", "Processing", 0, []corev1beta1.ConditionStatus{
			"True", "True",
		}, "healthy"},
		"being reconciled, with errors": {
			"Reconcile", "Processing", 1, []corev1beta1.ConditionStatus{"True"}, "unhealthy",
		},
		"one condition in progress": {
			"Reconcile", "Succeeded", 0, []corev1beta1.ConditionStatus{"True", "Progressing"}, "progressing",
		},
		"one unknown, one in progress": {
			"Reconcile", "Succeeded", 0, []corev1beta1.ConditionStatus{"Unknown", "Progressing"}, "unknown",
		},
		"one false": {"Reconcile", "Succeeded", 0, []corev1beta1.ConditionStatus{
			"Unknown", "False",
		}, "unhealthy"},
		"failed": {"Reconcile", "Failed", 0, []corev1beta1.ConditionStatus{"True"}, "unhealthy"},
		"created, with a condition in peril": {
			"Create", "Succeeded", 0, []corev1beta1.ConditionStatus{"Progressing"}, "progressing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &corev1beta1.Shoot{}
			if tc.kind != "" {
				s.Status.LastOperation = &corev1beta1.LastOperation{Type: tc.kind, State: tc.state}
			}
			s.Status.LastErrors = make([]corev1beta1.LastError, tc.errors)
			for _, c := range tc.conditions {
				s.Status.Conditions = append(s.Status.Conditions, corev1beta1.Condition{Status: c})
			}
			if got := statuslabel.StatusOf(s); got != tc.want {
				t.Errorf("StatusOf() = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestQuotaEndsLives(t *testing.T) {
	g := newGarden(t, offer())
	q := &corev1beta1.Quota{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "short"},
		Spec: corev1beta1.QuotaSpec{
			ClusterLifetimeDays: ptr.To(int32(3)),
			Scope:               corev1.ObjectReference{APIVersion: "core.gardener.cloud/v1beta1", Kind: "Project"},
			Metrics:             corev1.ResourceList{},
		},
	}
	limited := &securityv1alpha1.CredentialsBinding{
		ObjectMeta:     metav1.ObjectMeta{Namespace: g.namespace, Name: "limited"},
		Provider:       securityv1alpha1.CredentialsBindingProvider{Type: "local"},
		CredentialsRef: corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Name: "cloud", Namespace: g.namespace},
		Quotas:         []corev1.ObjectReference{{Namespace: g.namespace, Name: "short"}},
	}
	g.Create(t, q, limited)
	r := &quota.Reconciler{Garden: g.Client, Live: g.Client, Clock: clock, SyncPeriod: time.Hour}

	free := g.newShoot("1.36.3")
	g.step(free, r)
	if _, set := free.Annotations[corev1beta1.AnnotationShootExpirationTimestamp]; set {
		t.Error("a Shoot without a quota expires")
	}
	s := g.newShoot("1.36.3", func(s *corev1beta1.Shoot) { s.Spec.CredentialsBindingName = ptr.To("limited") })
	clock.SetTime(s.CreationTimestamp.Time)
	if result := g.step(s, r); result.RequeueAfter != time.Hour {
		t.Errorf("comes back in %s", result.RequeueAfter)
	}
	end := s.CreationTimestamp.AddDate(0, 0, 3)
	if got := s.Annotations[corev1beta1.AnnotationShootExpirationTimestamp]; got != end.UTC().Format(time.RFC3339) {
		t.Errorf("expiration = %s, want %s", got, end)
	}
	clock.SetTime(end.Add(-10 * time.Minute))
	if result := g.step(s, r); result.RequeueAfter != 10*time.Minute {
		t.Errorf("comes back in %s, want 10m", result.RequeueAfter)
	}
	clock.SetTime(end)
	g.patch(s, `{"metadata":{"finalizers":["hortus.dev/test"]}}`)
	g.step(s, r)
	if s.DeletionTimestamp == nil {
		t.Error("the Shoot outlives its quota")
	}
}

func TestReferencesAreProtected(t *testing.T) {
	g := newGarden(t, offer())
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "registry"}}
	policy := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "audit"},
		Data: map[string]string{
			"policy": "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n",
		}}
	g.Create(t, secret, policy)
	using := func(s *corev1beta1.Shoot) {
		s.Spec.Resources = []corev1beta1.NamedResourceReference{{Name: "registry"}}
		ref := &s.Spec.Resources[0].ResourceRef
		ref.APIVersion, ref.Kind, ref.Name = "v1", "Secret", "registry"
		s.Spec.Kubernetes.KubeAPIServer = &corev1beta1.KubeAPIServerConfig{AuditConfig: &corev1beta1.AuditConfig{
			AuditPolicy: &corev1beta1.AuditPolicy{ConfigMapRef: &corev1.ObjectReference{Name: "audit"}}}}
	}
	r := &reference.Reconciler{Garden: g.Client, Live: g.Client}
	protected := func(object client.Object) bool {
		t.Helper()
		if err := g.Client.Get(g.ctx, client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		return slices.Contains(object.GetFinalizers(), corev1beta1.FinalizerReferenceProtection)
	}
	one, two := g.newShoot("1.36.3", using), g.newShoot("1.36.3", using)
	g.step(one, r)
	g.step(two, r)
	if !protected(secret) || !protected(policy) || !protected(one) {
		t.Error("an object is not protected")
	}
	g.patch(one, `{"spec":{"resources":null,"kubernetes":{"kubeAPIServer":{"auditConfig":null}}}}`)
	g.step(one, r)
	if protected(one) || !protected(secret) || !protected(policy) {
		t.Error("an object that another Shoot uses is released, or the Shoot is not")
	}
	g.patch(two, `{"spec":{"kubernetes":{"kubeAPIServer":{"auditConfig":null}}}}`)
	g.step(two, r)
	if !protected(secret) || protected(policy) {
		t.Error("a removed reference protects, or a remaining one does not")
	}
	g.patch(two, `{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":"true"}}}`)
	if err := g.Client.Delete(g.ctx, two); err != nil {
		t.Fatal(err)
	}
	g.step(two, r)
	if protected(secret) {
		t.Error("a deleted Shoot protects")
	}
}

// The controllers run in a manager and react to changes by users and the gardenlet.
func TestControllersInAManager(t *testing.T) {
	g := newGarden(t, offer())
	ctx, stop := context.WithCancel(g.ctx)
	mgr, err := ctrl.NewManager(g.Config, ctrl.Options{Scheme: g.Scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := shoot.AddToManager(mgr, shoot.Config{}, clock); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	clock.SetTime(noon.Add(48 * time.Hour))
	s := g.newShoot("1.36.3", annotated(corev1beta1.AnnotationOperation, ""))
	env.Eventually(t, "the label says healthy", func() (bool, error) {
		return g.get(s).Labels[corev1beta1.LabelShootStatus] == corev1beta1.ShootStatusHealthy, nil
	})
	g.operate(s, "Reconcile", failedState)
	env.Eventually(t, "the label says unhealthy", func() (bool, error) {
		return g.get(s).Labels[corev1beta1.LabelShootStatus] == corev1beta1.ShootStatusUnhealthy, nil
	})
	g.operate(s, "Reconcile", succeeded)
	g.patch(s, `{"metadata":{"annotations":{"gardener.cloud/operation":"maintain"}}}`)
	env.Eventually(t, "the requested maintenance is over", func() (bool, error) {
		return g.get(s).Annotations[corev1beta1.AnnotationOperation] == "" &&
			strings.Contains(s.Annotations[corev1beta1.AnnotationShootTasks], corev1beta1.ShootTaskRestartControlPlanePods), nil
	})
}
