package test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

const (
	operation   = corev1beta1.AnnotationOperation
	deferred    = corev1beta1.AnnotationMaintenanceOperation
	needsRetry  = corev1beta1.AnnotationNeedsRetryOperation
	succeeded   = corev1beta1.LastOperationStateSucceeded
	failedState = corev1beta1.LastOperationStateFailed
)

// offer has an expiring version, its successor, and an image that expires.
func offer() corev1beta1.CloudProfileSpec {
	return corev1beta1.CloudProfileSpec{
		Kubernetes:    kubernetes(version("1.36.3", "s"), version("1.35.4", "s"), version("1.34.4", "dx")),
		MachineImages: images(version("1.0.0", "")),
	}
}

func TestWindows(t *testing.T) {
	g := newGarden(t, offer())
	for name, tc := range map[string]struct {
		begin, end string
		now        time.Duration // Since midnight.
		runs       bool
		next       time.Duration // Middle of the next effective window, since midnight of today.
	}{
		"60: an offset is applied": {
			"220000+0100", "230000+0100", 21*time.Hour + 10*time.Minute, true, 45*time.Hour + 22*time.Minute + 30*time.Second,
		},
		"61: the last 15 minutes are cut": {
			"220000+0100", "230000+0100", 21*time.Hour + 50*time.Minute, false, 45*time.Hour + 22*time.Minute + 30*time.Second,
		},
		"62: the window spans midnight": {
			"233000+0000", "003000+0000", 10 * time.Minute, true, 23*time.Hour + 52*time.Minute + 30*time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := g.newShoot("1.34.4", func(s *corev1beta1.Shoot) {
				s.Spec.Maintenance.TimeWindow = &corev1beta1.MaintenanceTimeWindow{Begin: tc.begin, End: tc.end}
			})
			today := noon.Add(48*time.Hour - 12*time.Hour) // Two days later, when 1.34.4 has expired.
			clock.SetTime(today.Add(tc.now))
			result, _ := g.maintain(s)
			if ran := s.Spec.Kubernetes.Version != "1.34.4"; ran != tc.runs {
				t.Errorf("maintenance ran: %v, want %v", ran, tc.runs)
			}
			if got := tc.now + result.RequeueAfter; got != tc.next {
				t.Errorf("next maintenance at %s, want %s", got, tc.next)
			}
			clock.SetTime(noon)
		})
	}
}

func TestRequestedMaintenanceRunsAtOnce(t *testing.T) {
	g := newGarden(t, offer())
	s := g.newShoot("1.34.4", annotated(operation, "maintain"))
	clock.SetTime(noon.Add(48 * time.Hour))
	g.maintain(s)
	if s.Spec.Kubernetes.Version != "1.35.4" || s.Annotations[operation] != "" {
		t.Errorf("63: version %s, operation %q", s.Spec.Kubernetes.Version, s.Annotations[operation])
	}
	if last := s.Status.LastMaintenance; last == nil || last.State != succeeded {
		t.Errorf("63: lastMaintenance = %+v", last)
	}
}

func TestRefusedMaintenanceChangesNothing(t *testing.T) {
	g := newGarden(t, corev1beta1.CloudProfileSpec{
		Kubernetes: kubernetes(version("1.35.4", "s"), version("1.34.4", "x"), version("1.31.1", "s")),
	})
	s := g.newShoot("1.34.4", annotated(operation, "maintain"), func(s *corev1beta1.Shoot) {
		s.Spec.Provider.Workers[0].Kubernetes = &corev1beta1.WorkerKubernetes{Version: ptr.To("1.31.1")}
	})
	spec := s.Spec.DeepCopy()
	inWindow(2)
	_, events := g.maintain(s)
	if diff := cmp.Diff(spec, &s.Spec); diff != "" {
		t.Errorf("64: the spec changed (-before +after):\n%s", diff)
	}
	last := s.Status.LastMaintenance
	if last == nil || last.State != failedState || last.Description != "Maintenance failed" ||
		!strings.HasPrefix(*last.FailureReason, "Updates to the Shoot failed to be applied: ") {
		t.Errorf("64: lastMaintenance = %+v", last)
	}
	if s.Annotations[operation] != "" {
		t.Errorf("64: operation %q stays", s.Annotations[operation])
	}
	if len(events) != 1 || !strings.HasPrefix(events[0], "Warning MaintenanceFailed Updates to the Shoot failed") {
		t.Errorf("64: events = %q", events)
	}
}

func TestPartialFailureIsShownUntilItHeals(t *testing.T) {
	spec := offer()
	spec.MachineImages = images(version("1.0.0", "x"))
	g := newGarden(t, spec)
	s := g.newShoot("1.34.4")
	g.operate(s, "Reconcile", succeeded)
	inWindow(2)
	_, events := g.maintain(s)
	last := s.Status.LastMaintenance
	if s.Spec.Kubernetes.Version != "1.35.4" || last == nil || last.State != failedState ||
		!strings.HasPrefix(last.Description, "(1/2) maintenance operations successful. ") {
		t.Errorf("65: version %s, lastMaintenance %+v", s.Spec.Kubernetes.Version, last)
	}
	if len(events) != 2 || !strings.HasPrefix(events[0], "Normal KubernetesVersionMaintenance Control Plane: Updated") ||
		!strings.HasPrefix(events[1],
			`Warning MachineImageVersionMaintenance Worker pool "pool": machine image version maintenance failed.`) {
		t.Errorf("65: events = %q", events)
	}

	inWindow(3)
	g.maintain(s)
	if last := s.Status.LastMaintenance; last.State != failedState || !strings.HasPrefix(last.Description, "(0/1) ") {
		t.Errorf("the next window: lastMaintenance = %+v", last)
	}

	// The operator adds an update path: the next window uses it, and reports that.
	if err := g.Client.Get(g.ctx, client.ObjectKeyFromObject(g.profile), g.profile); err != nil {
		t.Fatal(err)
	}
	g.profile.Spec.MachineImages[0].Versions = append(g.profile.Spec.MachineImages[0].Versions,
		corev1beta1.MachineImageVersion{
			ExpirableVersion: version("1.1.0", "s"), CRI: []corev1beta1.CRI{{Name: "containerd"}},
			Architectures: []string{"amd64"},
		})
	if err := g.Client.Update(g.ctx, g.profile); err != nil {
		t.Fatal(err)
	}
	inWindow(4)
	g.maintain(s)
	if image := *s.Spec.Provider.Workers[0].Machine.Image.Version; image != "1.1.0" ||
		s.Status.LastMaintenance.State != succeeded {
		t.Errorf("healed: image %s, lastMaintenance %+v", image, s.Status.LastMaintenance)
	}
}

func TestNothingToDoHealsAFailure(t *testing.T) {
	g := newGarden(t, offer())
	s := g.newShoot("1.36.3")
	g.operate(s, "Reconcile", succeeded)
	g.status(s,
		`{"status":{"lastMaintenance":{"description":"x","state":"Failed","failureReason":"y","triggeredTime":"2020-01-01T00:00:00Z"}}}`)
	inWindow(0)
	g.maintain(s)
	last := s.Status.LastMaintenance
	if last.State != succeeded || last.Description != "Maintenance succeeded" || last.FailureReason != nil {
		t.Errorf("lastMaintenance = %+v", last)
	}
}

func TestQuietMaintenanceReconciles(t *testing.T) {
	g := newGarden(t, offer())
	s := g.newShoot("1.36.3")
	g.operate(s, "Reconcile", succeeded)
	generation := s.Generation
	inWindow(0)
	g.maintain(s)
	if s.Generation != generation+1 || s.Annotations[operation] != "" || s.Status.LastMaintenance != nil {
		t.Errorf("66: generation %d -> %d, operation %q, lastMaintenance %+v", generation, s.Generation,
			s.Annotations[operation], s.Status.LastMaintenance)
	}
	want := "deployInfrastructure,deployDNSRecordInternal,deployDNSRecordExternal,deployDNSRecordIngress,restartControlPlanePods"
	if got := s.Annotations[corev1beta1.AnnotationShootTasks]; got != want {
		t.Errorf("66: tasks = %s, want %s", got, want)
	}
}

func TestFailedShoots(t *testing.T) {
	g := newGarden(t, offer())
	s := g.newShoot("1.34.4")
	g.operate(s, "Reconcile", succeeded)
	g.patch(s, `{"metadata":{"annotations":{"maintenance.gardener.cloud/operation":"rotate-ca-start"}}}`)
	g.operate(s, "Reconcile", failedState)
	generation := s.Generation
	inWindow(2)
	g.maintain(s)
	if s.Spec.Kubernetes.Version != "1.35.4" || s.Annotations[operation] != "" ||
		s.Annotations[deferred] != "rotate-ca-start" || s.Generation != generation+1 {
		t.Errorf("67: version %s, annotations %v, generation %d -> %d", s.Spec.Kubernetes.Version, s.Annotations, generation,
			s.Generation)
	}
}

func TestFixedShootsAreRetried(t *testing.T) {
	g := newGarden(t, offer())
	s := g.newShoot("1.36.3", func(s *corev1beta1.Shoot) { s.Spec.Maintenance.ConfineSpecUpdateRollout = ptr.To(true) })
	g.operate(s, "Reconcile", failedState)
	generation := s.Generation
	g.patch(s, `{"spec":{"purpose":"testing"}}`)
	if s.Generation != generation || s.Annotations[needsRetry] != "true" {
		t.Fatalf("68: before the window: generation %d -> %d, annotations %v", generation, s.Generation, s.Annotations)
	}
	inWindow(0)
	g.maintain(s)
	if s.Generation != generation+1 || s.Annotations[needsRetry] != "" {
		t.Errorf("68: generation %d -> %d, annotations %v", generation, s.Generation, s.Annotations)
	}
}

func TestConfinedChangesRollOutInTheWindow(t *testing.T) {
	g := newGarden(t, offer())
	s := g.newShoot("1.35.4", func(s *corev1beta1.Shoot) { s.Spec.Maintenance.ConfineSpecUpdateRollout = ptr.To(true) })
	g.operate(s, "Reconcile", succeeded)
	generation := s.Generation
	g.patch(s, `{"spec":{"kubernetes":{"version":"1.36.3"}}}`)
	if s.Generation != generation {
		t.Errorf("69: a confined change is rolled out at noon")
	}
	inWindow(0)
	g.maintain(s)
	if s.Generation != generation+1 {
		t.Errorf("69: generation %d -> %d", generation, s.Generation)
	}
	g.patch(s, `{"spec":{"hibernation":{"enabled":true}}}`)
	if s.Generation != generation+2 {
		t.Errorf("70: hibernation waits: generation %d -> %d", generation+1, s.Generation)
	}
}

func TestDeferredOperationsStartInTheWindow(t *testing.T) {
	g := newGarden(t, offer())
	s := g.newShoot("1.36.3")
	g.operate(s, "Reconcile", succeeded)
	g.patch(s, `{"metadata":{"annotations":{"maintenance.gardener.cloud/operation":"rotate-ssh-keypair"}}}`)
	inWindow(0)
	g.maintain(s)
	// The API server removes "reconcile" from the list; the rotation stays for the gardenlet.
	if s.Annotations[operation] != "rotate-ssh-keypair" || s.Annotations[deferred] != "" {
		t.Errorf("71: annotations %v", s.Annotations)
	}
	if last := s.Status.LastMaintenance; last == nil ||
		!strings.Contains(last.Description, `Added "rotate-ssh-keypair;reconcile" operation annotation`) {
		t.Errorf("71: lastMaintenance = %+v", last)
	}
}

func TestConsecutiveUpdatesTakeOneWindowEach(t *testing.T) {
	g := newGarden(t, corev1beta1.CloudProfileSpec{
		Kubernetes: kubernetes(version("1.36.3", "s"), version("1.35.4", "dx"), version("1.35.3", "dx"),
			version("1.34.4", "dx")),
	})
	s := g.newShoot("1.34.4")
	for day, want := range []string{"1.34.4", "1.34.4", "1.35.4", "1.36.3", "1.36.3"} {
		inWindow(day)
		if day == 1 {
			clock.SetTime(noon.Add(23 * time.Hour)) // Not expired yet, and outside the window.
		}
		g.maintain(s)
		if got := s.Spec.Kubernetes.Version; got != want {
			t.Errorf("12: day %d: %s, want %s", day, got, want)
		}
	}
}

func TestDeletedShootsAreLeftAlone(t *testing.T) {
	g := newGarden(t, offer())
	s := g.newShoot("1.34.4")
	r, _ := g.maintainer()
	inWindow(2)
	g.get(s)
	now := s.CreationTimestamp
	s.DeletionTimestamp = &now
	if result, err := r.Reconcile(g.ctx, s); err != nil || !result.IsZero() {
		t.Errorf("result %+v, error %v", result, err)
	}
}

var errStopped = errors.New("stopped")

// stopAfter allows a number of writes and fails all others, as if the process had been killed.
func stopAfter(c client.Client, writes int) client.Client {
	left := writes
	count := func() error {
		if left--; left < 0 {
			return errStopped
		}
		return nil
	}
	return interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			if err := count(); err != nil {
				return err
			}
			return c.Update(ctx, obj, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, obj client.Object, patch client.Patch,
			opts ...client.SubResourcePatchOption) error {
			if err := count(); err != nil {
				return err
			}
			return c.SubResource(name).Patch(ctx, obj, patch, opts...)
		},
	})
}

// A maintenance that is stopped after any of its writes and restarted must end like an uninterrupted one.
func TestMaintenanceSurvivesStops(t *testing.T) {
	g := newGarden(t, offer())
	watching, err := client.NewWithWatch(g.Config, client.Options{Scheme: g.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	for writes := range 5 {
		s := g.newShoot("1.34.4")
		g.operate(s, "Reconcile", succeeded)
		inWindow(2)
		r, _ := g.maintainer()
		r.Garden = stopAfter(watching, writes)
		if _, err := r.Reconcile(g.ctx, g.get(s)); !errors.Is(err, errStopped) && writes < 4 {
			t.Fatalf("after %d writes: error %v", writes, err)
		}
		g.maintain(s)
		if last := s.Status.LastMaintenance; s.Spec.Kubernetes.Version != "1.35.4" || last == nil || last.State != succeeded {
			t.Errorf("stopped after %d writes: version %s, lastMaintenance %+v", writes, s.Spec.Kubernetes.Version, last)
		}
		clock.SetTime(noon)
	}
}

// A maintenance that has read an old Shoot must not overwrite later changes.
func TestMaintenanceDoesNotOverwrite(t *testing.T) {
	g := newGarden(t, offer())
	s := g.newShoot("1.34.4")
	g.operate(s, "Reconcile", succeeded)
	stale := g.get(s).DeepCopy()
	g.patch(s, `{"spec":{"purpose":"testing"}}`)
	inWindow(2)
	r, _ := g.maintainer()
	if _, err := r.Reconcile(g.ctx, stale); !apierrors.IsConflict(err) {
		t.Errorf("error = %v, want a conflict", err)
	}
	g.get(s)
	if *s.Spec.Purpose != corev1beta1.ShootPurposeTesting || s.Spec.Kubernetes.Version != "1.34.4" ||
		s.Status.LastMaintenance != nil {
		t.Errorf("purpose %s, version %s, lastMaintenance %+v", *s.Spec.Purpose, s.Spec.Kubernetes.Version,
			s.Status.LastMaintenance)
	}
}
