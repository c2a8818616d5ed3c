// Package test steps the controllers of Shoots against a real API server, with a fake clock.
package test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	"hortus.dev/hortus/internal/controllermanager/shoot/maintenance"
	decision "hortus.dev/hortus/internal/maintenance"
	"hortus.dev/hortus/test/env"
)

// noon is the time at which every test begins. It is near the real time, from which objects get their creation
// timestamps.
var (
	noon  = time.Now().UTC().Truncate(24 * time.Hour).Add(12 * time.Hour)
	clock = clocktesting.NewFakeClock(noon)
)

func TestMain(m *testing.M) { env.Main(m, env.WithClock(clock)) }

// garden is a project with a profile and credentials.
type garden struct {
	*env.Environment
	t         *testing.T
	ctx       context.Context
	namespace string
	profile   *corev1beta1.CloudProfile
}

func newGarden(t *testing.T, profile corev1beta1.CloudProfileSpec) *garden {
	t.Helper()
	clock.SetTime(noon)
	e := env.Shared(t)
	g := &garden{Environment: e, t: t, ctx: t.Context(), namespace: *e.Project(t).Spec.Namespace}
	g.profile = profileFor(t, e, profile)
	e.Create(t,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "cloud"}},
		&securityv1alpha1.CredentialsBinding{
			ObjectMeta:     metav1.ObjectMeta{Namespace: g.namespace, Name: "cloud"},
			Provider:       securityv1alpha1.CredentialsBindingProvider{Type: "local"},
			CredentialsRef: corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Name: "cloud", Namespace: g.namespace},
		})
	return g
}

func profileFor(t testing.TB, e *env.Environment, spec corev1beta1.CloudProfileSpec) *corev1beta1.CloudProfile {
	t.Helper()
	p := &corev1beta1.CloudProfile{ObjectMeta: metav1.ObjectMeta{Name: env.Name("profile-")}, Spec: spec}
	p.Spec.Type = "local"
	p.Spec.MachineTypes = []corev1beta1.MachineType{{
		Name: "small", CPU: resource.MustParse("1"), GPU: resource.MustParse("0"), Memory: resource.MustParse("2Gi"),
	}}
	p.Spec.Regions = []corev1beta1.Region{{Name: "local"}}
	if len(p.Spec.MachineImages) == 0 {
		p.Spec.MachineImages = images(version("1.0.0", ""))
	}
	e.Create(t, p)
	return p
}

// workerless returns a Shoot without nodes, which refers only to a profile.
func workerless(g *garden, name string) *corev1beta1.Shoot {
	return &corev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: name},
		Spec: corev1beta1.ShootSpec{
			CloudProfile: &corev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: g.profile.Name},
			Region:       "local",
			Kubernetes:   corev1beta1.Kubernetes{Version: "1.36.3"},
			Maintenance: &corev1beta1.Maintenance{
				TimeWindow: &corev1beta1.MaintenanceTimeWindow{Begin: "220000+0000", End: "230000+0000"},
			},
			Provider: corev1beta1.Provider{Type: "local"},
		},
	}
}

// version parses a version's classification: s, d, p or nothing, and "x" for a version that expires a day after noon.
func version(v, class string) corev1beta1.ExpirableVersion {
	e := corev1beta1.ExpirableVersion{Version: v}
	for _, c := range class {
		switch c {
		case 's':
			e.Classification = ptr.To(corev1beta1.ClassificationSupported)
		case 'd':
			e.Classification = ptr.To(corev1beta1.ClassificationDeprecated)
		case 'p':
			e.Classification = ptr.To(corev1beta1.ClassificationPreview)
		case 'x':
			e.ExpirationDate = ptr.To(metav1.NewTime(noon.Add(24 * time.Hour)))
		}
	}
	return e
}

func kubernetes(versions ...corev1beta1.ExpirableVersion) corev1beta1.KubernetesSettings {
	return corev1beta1.KubernetesSettings{Versions: versions}
}

func images(versions ...corev1beta1.ExpirableVersion) []corev1beta1.MachineImage {
	image := corev1beta1.MachineImage{Name: "os"}
	for _, v := range versions {
		image.Versions = append(image.Versions, corev1beta1.MachineImageVersion{ExpirableVersion: v})
	}
	return []corev1beta1.MachineImage{image}
}

// newShoot creates a Shoot on a Kubernetes version, with one pool on image version 1.0.0 and the window 22:00 to
// 23:00, that is not updated automatically.
func (g *garden) newShoot(kubernetes string, change ...func(*corev1beta1.Shoot)) *corev1beta1.Shoot {
	g.t.Helper()
	s := &corev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: env.Name("s")},
		Spec: corev1beta1.ShootSpec{
			CloudProfile:           &corev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: g.profile.Name},
			CredentialsBindingName: ptr.To("cloud"),
			Region:                 "local",
			Kubernetes:             corev1beta1.Kubernetes{Version: kubernetes},
			Networking:             &corev1beta1.Networking{Type: ptr.To("bridge")},
			Maintenance: &corev1beta1.Maintenance{
				TimeWindow: &corev1beta1.MaintenanceTimeWindow{Begin: "220000+0000", End: "230000+0000"},
				AutoUpdate: &corev1beta1.MaintenanceAutoUpdate{MachineImageVersion: ptr.To(false)},
				AutoRotation: &corev1beta1.MaintenanceAutoRotation{Credentials: &corev1beta1.MaintenanceCredentialsAutoRotation{
					ETCDEncryptionKey: &corev1beta1.MaintenanceRotationConfig{RotationPeriod: &metav1.Duration{}}}},
			},
			Provider: corev1beta1.Provider{Type: "local", Workers: []corev1beta1.Worker{{
				Name: "pool", Minimum: 1, Maximum: 2,
				Machine: corev1beta1.Machine{
					Type: "small", Image: &corev1beta1.ShootMachineImage{Name: "os", Version: ptr.To("1.0.0")},
				},
			}}},
		},
	}
	for _, c := range change {
		c(s)
	}
	g.Create(g.t, s)
	return s
}

func annotated(key, value string) func(*corev1beta1.Shoot) {
	return func(s *corev1beta1.Shoot) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, key, value) }
}

func (g *garden) get(s *corev1beta1.Shoot) *corev1beta1.Shoot {
	g.t.Helper()
	if err := g.Client.Get(g.ctx, client.ObjectKeyFromObject(s), s); err != nil {
		g.t.Fatalf("get Shoot: %v", err)
	}
	return s
}

// operate sets the last operation, as the gardenlet does.
func (g *garden) operate(
	s *corev1beta1.Shoot, kind corev1beta1.LastOperationType, state corev1beta1.LastOperationState,
) {
	g.t.Helper()
	g.status(s,
		fmt.Sprintf(`{"status":{"observedGeneration":%d,"lastOperation":{"type":%q,"state":%q,"progress":100,"description":"","lastUpdateTime":%q}}}`,
			s.Generation, kind, state, clock.Now().UTC().Format(time.RFC3339)))
}

func (g *garden) status(s *corev1beta1.Shoot, patch string) {
	g.t.Helper()
	if err := g.Client.Status().Patch(g.ctx, s,
		client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		g.t.Fatalf("patch status: %v", err)
	}
}

func (g *garden) patch(s *corev1beta1.Shoot, patch string) {
	g.t.Helper()
	if err := g.Client.Patch(g.ctx, s, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		g.t.Fatalf("patch Shoot: %v", err)
	}
}

// middle is a jitter that runs every maintenance in the middle of its window.
func middle(string, time.Time) float64 { return 0.5 }

// maintainer returns the controller and its events.
func (g *garden) maintainer() (*maintenance.Reconciler, *events.FakeRecorder) {
	recorder := events.NewFakeRecorder(100)
	return &maintenance.Reconciler{
		Garden: g.Client, Clock: clock, Jitter: middle, Recorder: recorder, Profiles: &maintenance.Profiles{},
		Options: decision.Options{RestartControlPlane: true},
	}, recorder
}

// maintain steps the controller once and returns its result and its events.
func (g *garden) maintain(s *corev1beta1.Shoot) (reconcile.Result, []string) {
	g.t.Helper()
	r, recorder := g.maintainer()
	result, err := r.Reconcile(g.ctx, g.get(s))
	if err != nil {
		g.t.Fatalf("reconcile: %v", err)
	}
	g.get(s)
	close(recorder.Events)
	var sent []string
	for e := range recorder.Events {
		sent = append(sent, e)
	}
	return result, sent
}

// inWindow is a time in the window, the given number of days after today.
func inWindow(day int) { clock.SetTime(noon.AddDate(0, 0, day).Add(10*time.Hour + 20*time.Minute)) }
