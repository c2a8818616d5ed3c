package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	"hortus.dev/hortus/test/env"
)

func TestMain(m *testing.M) { env.Main(m, env.WithGardenAPI()) }

// testGarden is a real API server with a project, credentials and a profile, but without a running scheduler.
type testGarden struct {
	*env.Environment
	t         *testing.T
	namespace string
	profile   *corev1beta1.CloudProfile
}

func newGarden(t *testing.T) *testGarden {
	e := env.Shared(t)
	g := &testGarden{Environment: e, t: t, namespace: *e.Project(t).Spec.Namespace}
	version := corev1beta1.ExpirableVersion{Version: "1.36.3"}
	g.profile = &corev1beta1.CloudProfile{ObjectMeta: metav1.ObjectMeta{Name: env.Name("profile-")},
		Spec: corev1beta1.CloudProfileSpec{
			Type:       "local",
			Kubernetes: corev1beta1.KubernetesSettings{Versions: []corev1beta1.ExpirableVersion{version}},
			MachineImages: []corev1beta1.MachineImage{{
				Name: "os", Versions: []corev1beta1.MachineImageVersion{
					{ExpirableVersion: corev1beta1.ExpirableVersion{Version: "1.0.0"}},
				},
			}},
			MachineTypes: []corev1beta1.MachineType{{
				Name: "small", CPU: resource.MustParse("1"), GPU: resource.MustParse("0"), Memory: resource.MustParse("2Gi"),
			}},
			Regions: []corev1beta1.Region{{Name: "eu-west-1"}},
		}}
	e.Create(t, g.profile, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "cloud"}},
		&securityv1alpha1.CredentialsBinding{
			ObjectMeta:     metav1.ObjectMeta{Namespace: g.namespace, Name: "cloud"},
			Provider:       securityv1alpha1.CredentialsBindingProvider{Type: "local"},
			CredentialsRef: corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Name: "cloud", Namespace: g.namespace},
		})
	return g
}

// seed creates a ready Seed with the given number of places.
func (g *testGarden) seed(region, places string) *corev1beta1.Seed {
	g.t.Helper()
	ref := corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: g.namespace, Name: "cloud"}
	s := seed(env.Name("seed-"), region)
	status := s.Status
	status.Allocatable = corev1.ResourceList{corev1beta1.SeedResourceShoots: resource.MustParse(places)}
	s.Spec.Ingress = &corev1beta1.Ingress{
		Domain: "ingress." + s.Name + ".example.org", Controller: corev1beta1.IngressController{Kind: "nginx"},
	}
	s.Spec.DNS = corev1beta1.SeedDNS{
		Provider: &corev1beta1.SeedDNSProvider{Type: "local", CredentialsRef: &ref},
		Internal: &corev1beta1.SeedDNSProviderConfig{Type: "local", Domain: "internal.example.org", CredentialsRef: ref},
	}
	g.Create(g.t, s)
	s.Status = status
	s.Status.LastOperation = &corev1beta1.LastOperation{
		Type: corev1beta1.LastOperationTypeReconcile, State: corev1beta1.LastOperationStateSucceeded,
		LastUpdateTime: metav1.Now(),
	}
	s.Status.Conditions[0].LastTransitionTime, s.Status.Conditions[0].LastUpdateTime = metav1.Now(), metav1.Now()
	if err := g.Client.Status().Update(g.t.Context(), s); err != nil {
		g.t.Fatalf("make Seed ready: %v", err)
	}
	return s
}

func (g *testGarden) shoot(change ...func(*corev1beta1.Shoot)) *corev1beta1.Shoot {
	g.t.Helper()
	s := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: env.Name("s")},
		Spec: corev1beta1.ShootSpec{
			CloudProfile: &corev1beta1.CloudProfileReference{Name: g.profile.Name}, CredentialsBindingName: new("cloud"),
			Region:     "eu-west-1",
			Networking: &corev1beta1.Networking{Type: new("bridge"), Pods: new("100.96.0.0/16"), Services: new("100.64.0.0/16")},
			Provider: corev1beta1.Provider{
				Type: "local", Workers: []corev1beta1.Worker{
					{Name: "pool", Machine: corev1beta1.Machine{Type: "small"}, Minimum: 1, Maximum: 2},
				},
			},
		}}
	for _, c := range change {
		c(s)
	}
	g.Create(g.t, s)
	return s
}

// reconciler is stepped: it reads the present objects.
func (g *testGarden) reconciler(name string) (*Reconciler, *events.FakeRecorder) {
	recorder := events.NewFakeRecorder(20)
	clock := testclock.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	return &Reconciler{Garden: g.Client, Clock: clock, Recorder: recorder, Name: name, Strategy: SameRegion,
		counted: func() bool { return true }}, recorder
}

func (g *testGarden) get(o client.Object) {
	g.t.Helper()
	if err := g.Client.Get(g.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		g.t.Fatalf("get %T: %v", o, err)
	}
}

func (g *testGarden) seedOf(s *corev1beta1.Shoot) string {
	g.t.Helper()
	g.get(s)
	return ptr.Deref(s.Spec.SeedName, "")
}

func (g *testGarden) patch(o client.Object, patch string) {
	g.t.Helper()
	if err := g.Client.Patch(g.t.Context(), o,
		client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		g.t.Fatalf("patch %T: %v", o, err)
	}
}

// delete deletes a Shoot as at the end of its deletion by a gardenlet.
func (g *testGarden) delete(s *corev1beta1.Shoot) {
	g.t.Helper()
	g.get(s)
	g.patch(s, `{"metadata":{"annotations":{"`+corev1beta1.AnnotationConfirmationDeletion+`":"true"}}}`)
	s.Status.LastOperation = &corev1beta1.LastOperation{
		Type: corev1beta1.LastOperationTypeDelete, State: corev1beta1.LastOperationStateSucceeded, Progress: 100,
		LastUpdateTime: metav1.Now(),
	}
	if err := g.Client.Status().Update(g.t.Context(), s); err != nil {
		g.t.Fatalf("end deletion: %v", err)
	}
	if err := g.Client.Delete(g.t.Context(), s); err != nil {
		g.t.Fatalf("delete Shoot: %v", err)
	}
	if err := g.Client.Patch(g.t.Context(), s, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"finalizers":null}}`))); client.IgnoreNotFound(err) != nil {
		g.t.Fatalf("let Shoot go: %v", err)
	}
}

func TestEverySchedulerPlacesItsOwnShoots(t *testing.T) {
	g := newGarden(t)
	there := g.seed("eu-west-1", "10")
	usual, other := g.shoot(), g.shoot(func(s *corev1beta1.Shoot) { s.Spec.SchedulerName = new("other") })
	standard, _ := g.reconciler("default-scheduler")
	second, recorder := g.reconciler("other")

	for _, s := range []*corev1beta1.Shoot{usual, other} {
		if _, err := standard.Reconcile(t.Context(), s.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	if got := g.seedOf(usual); got != there.Name {
		t.Errorf("seed is %q, want %q", got, there.Name)
	}
	if got := g.seedOf(other); got != "" || other.Status.LastOperation != nil {
		t.Errorf("the Shoot of another scheduler was changed: seed %q, last operation %v", got, other.Status.LastOperation)
	}
	if _, err := second.Reconcile(t.Context(), other.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if got := g.seedOf(other); got != there.Name {
		t.Errorf("seed is %q, want %q from its own scheduler", got, there.Name)
	}
	if got, want := <-recorder.Events, `Normal SchedulingSuccessful Scheduled to seed "`+there.Name+
		`"`; !strings.HasPrefix(got, want) {
		t.Errorf("event %q, want %q", got, want)
	}
}

func TestFailureIsReportedInStatusAndEvent(t *testing.T) {
	g := newGarden(t)
	full := g.seed("eu-west-1", "0")
	s := g.shoot()
	for name, tc := range map[string]struct {
		prepare func()
		want    string
	}{
		"no seed fits": {
			func() {}, "Failed to schedule Shoot: no seed fits (1 checked): 1 by capacity (" + full.Name +
				": it is full: 0 of 0 Shoots (status.allocatable.shoots))",
		},
		"the profile is missing": {
			func() { s.Spec.CloudProfile.Name = "gone" }, "Failed to schedule Shoot: CloudProfile gone does not exist",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, recorder := g.reconciler("default-scheduler")
			g.get(s)
			tc.prepare() // The API server rejects such a Shoot, but a profile may be removed later.
			if _, err := r.Reconcile(t.Context(), s.DeepCopy()); err == nil {
				t.Error("no error, so the Shoot will not be retried")
			}
			g.get(s)
			if last := s.Status.LastOperation; last == nil || last.Type != "Create" || last.State != "Pending" ||
				last.Description != tc.want || !last.LastUpdateTime.Time.Equal(r.Clock.Now()) {
				t.Errorf("last operation is %+v, want Create Pending: %s", last, tc.want)
			}
			if got, want := <-recorder.Events, "Warning SchedulingFailed "+tc.want; got != want {
				t.Errorf("event %q, want %q", got, want)
			}
			before := s.ResourceVersion
			tc.prepare()
			if _, err := r.Reconcile(t.Context(), s.DeepCopy()); err == nil {
				t.Error("no error on the second attempt")
			}
			if g.get(s); s.ResourceVersion != before {
				t.Error("the same failure is written twice")
			}
		})
	}
}

func TestLastPlaceIsGivenOnce(t *testing.T) {
	g := newGarden(t)
	one := g.seed("eu-west-1", "1")
	r, _ := g.reconciler("default-scheduler")
	shoots := []*corev1beta1.Shoot{g.shoot(), g.shoot(), g.shoot(), g.shoot()}
	var wg sync.WaitGroup
	failures := make([]error, len(shoots))
	for i, s := range shoots {
		wg.Go(func() { _, failures[i] = r.Reconcile(t.Context(), s.DeepCopy()) })
	}
	wg.Wait()
	placed := 0
	for i, s := range shoots {
		if g.seedOf(s) == one.Name {
			placed++
		} else if failures[i] == nil || !strings.Contains(failures[i].Error(), "it is full: 1 of 1 Shoots") {
			t.Errorf("a Shoot without place got error %v, want the decision to say that the seed is full", failures[i])
		}
	}
	if placed != 1 {
		t.Errorf("%d Shoots are on a seed with one place", placed)
	}
}

func TestConflictIsQuiet(t *testing.T) {
	g := newGarden(t)
	there := g.seed("eu-west-1", "10")
	r, recorder := g.reconciler("default-scheduler")
	s := g.shoot()
	stale := s.DeepCopy()
	g.patch(s, `{"metadata":{"labels":{"changed":"true"}}}`)
	result, err := r.Reconcile(t.Context(), stale)
	if err != nil || result != (reconcile.Result{RequeueAfter: conflictRetry}) {
		t.Errorf("a conflict gives %v, %v; want a retry without an error", result, err)
	}
	if g.seedOf(s) != "" || s.Status.LastOperation != nil || len(recorder.Events) > 0 || r.usage.Of(there.Name) != 0 {
		t.Errorf("a conflict had effects: status %v, %d events, %d Shoots counted", s.Status.LastOperation,
			len(recorder.Events), r.usage.Of(there.Name))
	}
	if _, err := r.Reconcile(t.Context(), s.DeepCopy()); err != nil || g.seedOf(s) != there.Name {
		t.Errorf("the next attempt gives seed %q, error %v", g.seedOf(s), err)
	}
}

// onlyWhenTriggered makes a Shoot wait after a failure until an event triggers the next attempt.
type onlyWhenTriggered struct{}

func (onlyWhenTriggered) When(reconcile.Request) time.Duration { return time.Hour }
func (onlyWhenTriggered) Forget(reconcile.Request)             {}
func (onlyWhenTriggered) NumRequeues(reconcile.Request) int    { return 0 }

func TestPendingShootsAreTriggered(t *testing.T) {
	g := newGarden(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: corev1beta1.GardenNamespace}}
	if err := g.Client.Create(t.Context(), namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	seeds := []string{g.seed("eu-west-1", "1").Name}
	distances := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: env.Name("distances-"), Namespace: corev1beta1.GardenNamespace,
			Labels:      map[string]string{corev1beta1.LabelSchedulingPurpose: corev1beta1.SchedulingPurposeRegionConfig},
			Annotations: map[string]string{corev1beta1.AnnotationSchedulingCloudProfiles: g.profile.Name}},
		Data: map[string]string{"eu-west-1": "{}"},
	}
	g.Create(t, distances)

	ctx, cancel := context.WithCancel(context.Background())
	mgr, err := newManager(ctx, g.Config,
		options{name: "default-scheduler", workers: 2, metricsAddress: "0"}, MinimalDistance,
		onlyWhenTriggered{})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("manager: %v", err)
		}
	}()
	placed := func(s *corev1beta1.Shoot) {
		t.Helper()
		env.Eventually(t, "Shoot "+s.Name+" has a seed", func() (bool, error) {
			return slices.Contains(seeds, g.seedOf(s)),
				fmt.Errorf("seed %q, last operation %+v", ptr.Deref(s.Spec.SeedName, ""), s.Status.LastOperation)
		})
	}
	pending := func() *corev1beta1.Shoot {
		t.Helper()
		s := g.shoot()
		env.Eventually(t, "Shoot "+s.Name+" waits", func() (bool, error) {
			g.get(s)
			return s.Status.LastOperation != nil && s.Status.LastOperation.State == "Pending", nil
		})
		return s
	}

	first := g.shoot()
	placed(first)
	waiting := pending()
	g.delete(first) // Its place becomes free.
	placed(waiting)

	waiting = pending()
	seeds = append(seeds, g.seed("eu-west-1", "1").Name) // A new Seed.
	placed(waiting)

	g.patch(distances, `{"data":{"eu-west-1":"{asia: far}"}}`) // Not a number: decisions by distance fail.
	env.Eventually(t, "the scheduler has seen the distances", func() (bool, error) {
		var configMap corev1.ConfigMap
		err := mgr.GetClient().Get(ctx, client.ObjectKeyFromObject(distances), &configMap)
		return err == nil && strings.Contains(configMap.Data["eu-west-1"], "far"), err
	})
	seeds = append(seeds, g.seed("asia", "1").Name)
	waiting = pending()
	g.patch(distances, `{"data":{"eu-west-1":"{asia: 10}"}}`)
	placed(waiting)

	g.patch(g.profile, `{"spec":{"seedSelector":{"matchLabels":{"kubernetes.io/hostname":"nowhere"}}}}`)
	seeds = append(seeds, g.seed("eu-west-1", "1").Name)
	env.Eventually(t, "the scheduler has seen the profile", func() (bool, error) {
		var profile corev1beta1.CloudProfile
		err := mgr.GetClient().Get(t.Context(), client.ObjectKeyFromObject(g.profile), &profile)
		return err == nil && profile.Spec.SeedSelector != nil, err
	})
	waiting = pending()
	g.patch(g.profile, `{"spec":{"seedSelector":null}}`)
	placed(waiting)

	var shoots corev1beta1.ShootList // Shoots are deleted first, because they block the deletion of Seeds.
	if err := g.Client.List(t.Context(), &shoots, client.InNamespace(g.namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range shoots.Items {
		g.delete(&shoots.Items[i])
	}
}
