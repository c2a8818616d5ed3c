package plan_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/cloudprofile"
	"hortus.dev/hortus/internal/controllermanager/shoot/hibernation"
	"hortus.dev/hortus/internal/controllermanager/shoot/maintenance"
	"hortus.dev/hortus/internal/fleet"
	decision "hortus.dev/hortus/internal/maintenance"
	"hortus.dev/hortus/internal/plan"
)

var (
	fleets    = flag.Int("fleets", 2000, "random fleets to compare with the controller")
	firstSeed = flag.Uint64("seed", 1, "seed of the first fleet")
)

// world is a garden in memory: one profile, one Shoot, the rules of the API server that depend on versions, and a
// gardenlet that carries out operations at once.
type world struct {
	client.Client // All other calls panic.
	clock         *clocktesting.FakeClock
	profile       *corev1beta1.CloudProfile
	compiled      *cloudprofile.Profile
	shoot         *corev1beta1.Shoot
	history       []string
	rotations     map[string][]time.Time
}

func (w *world) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	switch o := object.(type) {
	case *corev1beta1.CloudProfile:
		*o = *w.profile
	case *corev1beta1.Shoot:
		w.shoot.DeepCopyInto(o)
	}
	return nil
}

func (w *world) conflict(o client.Object) error {
	if o.GetResourceVersion() != w.shoot.ResourceVersion {
		return apierrors.NewConflict(corev1beta1.Resource("shoots"), o.GetName(), fmt.Errorf("it was changed"))
	}
	return nil
}

func (w *world) Update(_ context.Context, object client.Object, options ...client.UpdateOption) error {
	updated := object.(*corev1beta1.Shoot)
	if err := w.conflict(updated); err != nil {
		return err
	}
	if errs := w.refuse(updated); len(errs) > 0 {
		return apierrors.NewInvalid(corev1beta1.SchemeGroupVersion.WithKind("Shoot").GroupKind(), updated.Name, errs)
	}
	var o client.UpdateOptions
	o.ApplyOptions(options)
	if len(o.DryRun) > 0 {
		return nil
	}
	w.storeSpec(updated)
	updated.ResourceVersion = w.shoot.ResourceVersion
	return nil
}

// refuse returns the API server's errors about versions: skew, and the findings of admission.
func (w *world) refuse(updated *corev1beta1.Shoot) field.ErrorList {
	errs := cloudprofile.ValidateShootVersions(updated, w.shoot, w.compiled, w.clock.Now())
	controlPlane := semver.MustParse(updated.Spec.Kubernetes.Version)
	for _, pool := range updated.Spec.Provider.Workers {
		if pool.Kubernetes != nil && pool.Kubernetes.Version != nil {
			if problem := cloudprofile.SkewProblem(controlPlane, semver.MustParse(*pool.Kubernetes.Version)); problem != "" {
				errs = append(errs, field.Forbidden(field.NewPath("spec"), problem))
			}
		}
	}
	return errs
}

func (w *world) store(s *corev1beta1.Shoot) {
	n, _ := strconv.Atoi(w.shoot.ResourceVersion)
	s.ResourceVersion = strconv.Itoa(n + 1)
	w.note(s)
	// The gardenlet carries out all operations at once.
	for _, operation := range strings.Split(s.Annotations[corev1beta1.AnnotationOperation], ";") {
		now := metav1.NewTime(w.clock.Now())
		if !strings.HasPrefix(operation, "rotate-") {
			continue
		}
		w.rotations[operation] = append(w.rotations[operation], now.Time)
		r := s.Status.Credentials.Rotation
		switch operation {
		case corev1beta1.OperationRotateSSHKeypair:
			r.SSHKeypair = &corev1beta1.ShootSSHKeypairRotation{LastCompletionTime: &now}
		case corev1beta1.OperationRotateObservabilityCredentials:
			r.Observability = &corev1beta1.ObservabilityRotation{LastCompletionTime: &now}
		case corev1beta1.OperationRotateETCDEncryptionKey:
			r.ETCDEncryptionKey = &corev1beta1.ETCDEncryptionKeyRotation{
				Phase: corev1beta1.RotationCompleted, LastCompletionTime: &now,
			}
		}
	}
	delete(s.Annotations, corev1beta1.AnnotationOperation)
	w.shoot = s
}

// note records the versions that have changed.
func (w *world) note(s *corev1beta1.Shoot) {
	add := func(what, from, to string) {
		if from != to {
			w.history = append(w.history, line(w.clock.Now(), what, from, to))
		}
	}
	add("ControlPlane", w.shoot.Spec.Kubernetes.Version, s.Spec.Kubernetes.Version)
	for i := range s.Spec.Provider.Workers {
		before, after := &w.shoot.Spec.Provider.Workers[i], &s.Spec.Provider.Workers[i]
		if after.Kubernetes != nil && after.Kubernetes.Version != nil {
			add("PoolKubernetes "+after.Name, *before.Kubernetes.Version, *after.Kubernetes.Version)
		}
		add("PoolImage "+after.Name, *before.Machine.Image.Version, *after.Machine.Image.Version)
	}
}

func line(at time.Time, what, from, to string) string {
	return fmt.Sprintf("%s %s %s->%s", at.UTC().Format(time.RFC3339Nano), what, from, to)
}

func (w *world) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.PatchOption) error {
	w.storeSpec(object.(*corev1beta1.Shoot))
	object.SetResourceVersion(w.shoot.ResourceVersion)
	return nil
}

func (w *world) storeSpec(updated *corev1beta1.Shoot) {
	s := updated.DeepCopy()
	w.shoot.Status.DeepCopyInto(&s.Status)
	w.store(s)
}

func (w *world) Status() client.SubResourceWriter { return status{world: w} }

type status struct {
	client.SubResourceWriter
	world *world
}

func (s status) Patch(
	_ context.Context, object client.Object, _ client.Patch, _ ...client.SubResourcePatchOption,
) error {
	patched := object.(*corev1beta1.Shoot)
	if err := s.world.conflict(patched); err != nil {
		return err
	}
	stored := s.world.shoot.DeepCopy() // A patch contains only the changes of the controllers.
	stored.Annotations = patched.Annotations
	stored.Status.LastMaintenance = patched.Status.LastMaintenance
	stored.Status.LastHibernationTriggerTime = patched.Status.LastHibernationTriggerTime
	s.world.store(stored)
	patched.ResourceVersion = s.world.shoot.ResourceVersion
	return nil
}

// live runs the real controllers for one Shoot, from timer to timer.
func (w *world) live(t *testing.T, jitter decision.Jitter, until time.Time) {
	t.Helper()
	recorder := events.NewFakeRecorder(0)
	recorder.Events = nil // Discards thousands of events.
	maintainer := &maintenance.Reconciler{
		Garden: w, Clock: w.clock, Jitter: jitter, Recorder: recorder, Profiles: &maintenance.Profiles{},
	}
	sleeper := &hibernation.Reconciler{
		Garden: w, Clock: w.clock, Recorder: recorder, TriggerDeadline: decision.DefaultTriggerDeadline,
	}
	ctx := log.IntoContext(context.Background(), logr.Discard())
	start := w.clock.Now()
	nextSleep, nextMaintenance := start, start
	for {
		next := nextMaintenance
		sleepTurn := !nextSleep.IsZero() && !nextSleep.After(nextMaintenance)
		if sleepTurn {
			next = nextSleep
		}
		if next.After(until) {
			return
		}
		w.clock.SetTime(next)
		if sleepTurn {
			result, err := sleeper.Reconcile(ctx, w.shoot.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			if nextSleep = next.Add(result.RequeueAfter); result.RequeueAfter == 0 {
				nextSleep = time.Time{}
			}
			continue
		}
		result, err := maintainer.Reconcile(ctx, w.shoot.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		if result.RequeueAfter <= 0 {
			t.Fatalf("maintenance at %s requests no further reconciliation", next)
		}
		nextMaintenance = next.Add(result.RequeueAfter)
	}
}

func pick[T any](rng *rand.Rand, list ...T) T { return list[rng.IntN(len(list))] }

func randomVersion(rng *rand.Rand, version string, start time.Time) corev1beta1.ExpirableVersion {
	v := corev1beta1.ExpirableVersion{Version: version}
	at := func() *metav1.Time {
		return &metav1.Time{Time: start.Add(time.Duration(rng.IntN(100*24)-10*24) * time.Hour)}
	}
	class := func(c corev1beta1.VersionClassification) *corev1beta1.VersionClassification { return &c }
	switch rng.IntN(6) {
	case 0:
		v.Classification = class(corev1beta1.ClassificationPreview)
	case 1:
		v.Classification = class(corev1beta1.ClassificationSupported)
	case 2:
		v.Classification = class(corev1beta1.ClassificationDeprecated)
	case 3:
		first := at()
		v.Lifecycle = []corev1beta1.LifecycleStage{
			{Classification: corev1beta1.ClassificationPreview, StartTime: first},
			{Classification: corev1beta1.ClassificationSupported, StartTime: &metav1.Time{Time: first.Add(96 * time.Hour)}},
			{Classification: corev1beta1.ClassificationExpired, StartTime: &metav1.Time{Time: first.Add(40 * 24 * time.Hour)}},
		}
		return v
	}
	if rng.IntN(2) == 0 {
		v.ExpirationDate = at()
	}
	return v
}

func randomProfile(rng *rand.Rand, start time.Time) *corev1beta1.CloudProfile {
	p := &corev1beta1.CloudProfile{}
	p.Name, p.ResourceVersion = "p", "1"
	for minor := 26; minor < 36; minor++ {
		for patch := range 3 {
			if rng.IntN(5) < 3 {
				p.Spec.Kubernetes.Versions = append(p.Spec.Kubernetes.Versions,
					randomVersion(rng, fmt.Sprintf("1.%d.%d", minor, patch), start))
			}
		}
	}
	for _, name := range []string{"a", "b"} {
		strategy := pick(rng, corev1beta1.UpdateStrategyPatch, corev1beta1.UpdateStrategyMinor,
			corev1beta1.UpdateStrategyMajor)
		image := corev1beta1.MachineImage{Name: name, UpdateStrategy: &strategy}
		for i := range 18 {
			if rng.IntN(5) < 2 {
				continue
			}
			v := corev1beta1.MachineImageVersion{
				ExpirableVersion: randomVersion(rng, fmt.Sprintf("%d.%d.%d", 1+i/9, i/3%3, i%3), start),
			}
			switch rng.IntN(8) {
			case 0:
				v.KubeletVersionConstraint = ptr(pick(rng, ">= 1.28", "< 1.30", ">= 1.27, < 1.33"))
			case 1:
				v.Architectures = []string{"arm64"}
			case 2, 3:
				v.InPlaceUpdates = &corev1beta1.InPlaceUpdates{Supported: true}
				if rng.IntN(3) > 0 {
					v.InPlaceUpdates.MinVersionForUpdate = ptr(fmt.Sprintf("%d.%d.0", 1+rng.IntN(2), rng.IntN(3)))
				}
			case 4:
				v.CRI = []corev1beta1.CRI{{Name: "containerd", ContainerRuntimes: []corev1beta1.ContainerRuntime{{Type: "gvisor"}}}}
			}
			image.Versions = append(image.Versions, v)
		}
		p.Spec.MachineImages = append(p.Spec.MachineImages, image)
	}
	p.Spec.MachineTypes = []corev1beta1.MachineType{{Name: "small"}, {Name: "arm", Architecture: ptr("arm64")}}
	return p
}

func ptr[T any](v T) *T { return &v }

func randomShoot(rng *rand.Rand, start time.Time) *corev1beta1.Shoot {
	s := &corev1beta1.Shoot{}
	s.Namespace, s.Name, s.ResourceVersion = "garden-dev", fmt.Sprintf("s%d", rng.IntN(100)), "1"
	s.CreationTimestamp = metav1.NewTime(start.AddDate(0, 0, -rng.IntN(60)))
	s.Spec.CloudProfile = &corev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: "p"}
	minor := 26 + rng.IntN(4)
	s.Spec.Kubernetes.Version = fmt.Sprintf("1.%d.%d", minor, rng.IntN(3))
	begin := rng.IntN(24 * 60)
	end := begin + 30 + rng.IntN(330)
	clock := func(minutes int) string { return fmt.Sprintf("%02d%02d00+0000", minutes/60%24, minutes%60) }
	s.Spec.Maintenance = &corev1beta1.Maintenance{
		TimeWindow: &corev1beta1.MaintenanceTimeWindow{Begin: clock(begin), End: clock(end)},
		AutoUpdate: &corev1beta1.MaintenanceAutoUpdate{
			KubernetesVersion: rng.IntN(2) == 0, MachineImageVersion: ptr(rng.IntN(2) == 0),
		},
	}
	if rng.IntN(8) == 0 {
		s.Spec.Maintenance.TimeWindow = nil
	}
	rotation := func() *corev1beta1.MaintenanceRotationConfig {
		if rng.IntN(3) > 0 {
			return nil
		}
		return &corev1beta1.MaintenanceRotationConfig{
			RotationPeriod: &metav1.Duration{Duration: time.Duration(1+rng.IntN(40)) * 12 * time.Hour},
		}
	}
	s.Spec.Maintenance.AutoRotation = &corev1beta1.MaintenanceAutoRotation{
		Credentials: &corev1beta1.MaintenanceCredentialsAutoRotation{
			SSHKeypair: rotation(), Observability: rotation(), ETCDEncryptionKey: rotation()}}
	s.Spec.Hibernation = &corev1beta1.Hibernation{Enabled: ptr(rng.IntN(6) == 0)}
	if rng.IntN(2) == 0 {
		s.Spec.Hibernation.Schedules = []corev1beta1.HibernationSchedule{{
			Start:    ptr(fmt.Sprintf("%d %d * * %s", rng.IntN(60), rng.IntN(24), pick(rng, "*", "1-5", "6"))),
			End:      ptr(fmt.Sprintf("%d %d * * %s", rng.IntN(60), rng.IntN(24), pick(rng, "*", "1-5", "1"))),
			Location: ptr(pick(rng, "UTC", "Europe/Berlin", "America/New_York")),
		}}
	}
	for i := range rng.IntN(4) {
		strategy := pick(rng, corev1beta1.AutoRollingUpdate, corev1beta1.AutoRollingUpdate, corev1beta1.AutoInPlaceUpdate,
			corev1beta1.ManualInPlaceUpdate)
		w := corev1beta1.Worker{Name: fmt.Sprintf("pool%d", i), UpdateStrategy: &strategy}
		w.Machine.Type = pick(rng, "small", "small", "small", "arm")
		if rng.IntN(30) == 0 {
			w.Machine.Type = "gone"
		}
		w.Machine.Architecture = ptr(map[string]string{"arm": "arm64"}[w.Machine.Type])
		if *w.Machine.Architecture == "" {
			w.Machine.Architecture = ptr("amd64")
		}
		w.Machine.Image = &corev1beta1.ShootMachineImage{
			Name: pick(rng, "a", "b"), Version: ptr(fmt.Sprintf("%d.%d.%d", 1+rng.IntN(2), rng.IntN(3), rng.IntN(3))),
		}
		if rng.IntN(6) == 0 {
			w.CRI = &corev1beta1.CRI{Name: "containerd", ContainerRuntimes: []corev1beta1.ContainerRuntime{{Type: "gvisor"}}}
		}
		if rng.IntN(3) == 0 {
			version := fmt.Sprintf("1.%d.%d", minor-rng.IntN(2), rng.IntN(3))
			if semver.MustParse(version).GreaterThan(semver.MustParse(s.Spec.Kubernetes.Version)) {
				version = s.Spec.Kubernetes.Version
			}
			w.Kubernetes = &corev1beta1.WorkerKubernetes{Version: &version}
		}
		s.Spec.Provider.Workers = append(s.Spec.Provider.Workers, w)
	}
	s.Status.LastOperation = &corev1beta1.LastOperation{
		Type: corev1beta1.LastOperationTypeReconcile, State: corev1beta1.LastOperationStateSucceeded,
	}
	s.Status.LastHibernationTriggerTime = ptr(metav1.NewTime(start))
	s.Status.Credentials = &corev1beta1.ShootCredentials{Rotation: &corev1beta1.ShootCredentialsRotation{}}
	return s
}

// The controllers must do what the plan shows: the same changes at the same times, the same rotations, and failures
// exactly while the plan shows a dead end.
func TestPlanIsWhatTheControllerDoes(t *testing.T) {
	changes, ends, refusals, rotations := 0, 0, 0, 0
	for seed := *firstSeed; seed < *firstSeed+uint64(*fleets) && !t.Failed(); seed++ {
		rng := rand.New(rand.NewPCG(seed, 0))
		start := time.Date(2026, 1, 10, rng.IntN(24), rng.IntN(60), 0, 0, time.UTC)
		until := start.AddDate(0, 0, 120)
		jitter := decision.HashJitter(seed)
		profile, shoot := randomProfile(rng, start), randomShoot(rng, start)
		compiled, err := cloudprofile.Compile("p", &profile.Spec)
		if err != nil {
			t.Fatal(err)
		}
		objects := &fleet.Fleet{
			CloudProfiles: []corev1beta1.CloudProfile{*profile}, Shoots: []corev1beta1.Shoot{*shoot.DeepCopy()},
		}
		planned := plan.Make(plan.Prepare(objects, start), plan.Options{At: start, Until: until, Jitter: jitter}).Shoots[0]

		w := &world{
			clock: clocktesting.NewFakeClock(start), profile: profile, compiled: compiled, shoot: shoot,
			rotations: map[string][]time.Time{},
		}
		w.live(t, jitter, until)

		var want []string
		for _, c := range planned.Changes {
			what := string(c.Subject)
			if c.Pool != "" {
				what += " " + c.Pool
			}
			want = append(want, line(c.At, what, c.From, c.To))
		}
		slices.Sort(want)
		slices.Sort(w.history)
		if diff := cmp.Diff(w.history, want); diff != "" {
			t.Errorf("seed %d: changes mismatch (-controller +plan):\n%s\n%+v", seed, diff, planned.DeadEnds)
		}
		rotated := map[string][]time.Time{}
		for _, r := range planned.Rotations {
			rotated[r.Operation] = r.Times
			rotations += len(r.Times)
		}
		if diff := cmp.Diff(w.rotations, rotated); diff != "" {
			t.Errorf("seed %d: rotations mismatch (-controller +plan):\n%s", seed, diff)
		}
		stuck := slices.ContainsFunc(planned.DeadEnds, func(d plan.DeadEnd) bool {
			// Unknown machine types are only logged.
			return !d.Temporary && !(d.Version == "" && d.Subject == decision.PoolImage)
		})
		last := w.shoot.Status.LastMaintenance
		if failed := last != nil && last.State == corev1beta1.LastOperationStateFailed; failed != stuck {
			t.Errorf("seed %d: lastMaintenance %+v, dead ends %+v", seed, last, planned.DeadEnds)
		}
		changes += len(w.history)
		ends += len(planned.DeadEnds)
		if last != nil && last.Description == "Maintenance failed" {
			refusals++
		}
	}
	t.Logf("%d changes, %d dead ends, %d refusals, %d rotations", changes, ends, refusals, rotations)
	if *fleets >= 500 && (changes < *fleets || ends < *fleets/10 || refusals < *fleets/100 || rotations < *fleets) {
		t.Error("the fleets have too few changes for a meaningful test")
	}
}
