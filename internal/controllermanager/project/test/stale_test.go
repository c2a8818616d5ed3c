// Package test steps the controllers of Projects against a real API server, with a fake clock.
package test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	"hortus.dev/hortus/internal/controllermanager/project/stale"
	"hortus.dev/hortus/test/env"
)

func TestMain(m *testing.M) { env.Main(m, env.WithGardenAPI()) }

// history is a Project with the days since its creation.
type history struct {
	*env.Environment
	t       *testing.T
	project *corev1beta1.Project
	clock   *clocktesting.FakeClock
}

func newHistory(t *testing.T) *history {
	t.Helper()
	e := env.Shared(t)
	h := &history{Environment: e, t: t, project: e.Project(t)}
	h.clock = clocktesting.NewFakeClock(h.project.CreationTimestamp.Time)
	return h
}

func (h *history) namespace() string { return *h.project.Spec.Namespace }

// day is the number of days since the creation of the Project.
func (h *history) day(n int) time.Time { return h.project.CreationTimestamp.AddDate(0, 0, n).UTC() }

// look steps the controller on a day, and checks the status: the days since which the Project is stale and on which it
// will be deleted, 0 for none.
func (h *history) look(day, since, autoDelete int) {
	h.t.Helper()
	h.clock.SetTime(h.day(day))
	h.get()
	r := &stale.Reconciler{Garden: h.Client, Live: h.Client, Clock: h.clock, Config: stale.Default()}
	if _, err := r.Reconcile(h.t.Context(), h.project); err != nil {
		h.t.Fatalf("day %d: %v", day, err)
	}
	h.get()
	got := map[string]time.Time{}
	for name, at := range map[string]*metav1.Time{
		"since": h.project.Status.StaleSinceTimestamp, "delete": h.project.Status.StaleAutoDeleteTimestamp,
	} {
		if at != nil {
			got[name] = at.UTC()
		}
	}
	want := map[string]time.Time{}
	for name, at := range map[string]int{"since": since, "delete": autoDelete} {
		if at != 0 {
			want[name] = h.day(at)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		h.t.Errorf("day %d: the Project is stale (-want +got):\n%s", day, diff)
	}
}

func (h *history) get() {
	h.t.Helper()
	if err := h.Client.Get(h.t.Context(), client.ObjectKeyFromObject(h.project), h.project); err != nil {
		h.t.Fatal(err)
	}
}

// gone deletes a Shoot without a gardenlet.
func (h *history) gone(s *corev1beta1.Shoot) {
	h.t.Helper()
	confirmed := client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":"true"}}}`))
	if err := h.Client.Patch(h.t.Context(), s, confirmed); err != nil {
		h.t.Fatal(err)
	}
	if err := h.Client.Delete(h.t.Context(), s); err != nil {
		h.t.Fatal(err)
	}
}

func (h *history) annotate(value *string) {
	h.t.Helper()
	ns := &corev1.Namespace{}
	if err := h.Client.Get(h.t.Context(), client.ObjectKey{Name: h.namespace()}, ns); err != nil {
		h.t.Fatal(err)
	}
	before := ns.DeepCopy()
	delete(ns.Annotations, "project.gardener.cloud/skip-stale-check")
	if value != nil {
		metav1.SetMetaDataAnnotation(&ns.ObjectMeta, "project.gardener.cloud/skip-stale-check", *value)
	}
	if err := h.Client.Patch(h.t.Context(), ns, client.MergeFrom(before)); err != nil {
		h.t.Fatal(err)
	}
}

func TestUnusedProjectIsDeletedInTheEnd(t *testing.T) {
	h := newHistory(t)
	h.look(1, 0, 0)
	h.look(29, 0, 0)
	h.look(30, 30, 0)
	h.look(43, 30, 0)
	h.look(44, 30, 120)
	h.look(119, 30, 120)

	h.clock.SetTime(h.day(120))
	r := &stale.Reconciler{Garden: h.Client, Live: h.Client, Clock: h.clock, Config: stale.Default()}
	if _, err := r.Reconcile(t.Context(), h.project); err != nil {
		t.Fatal(err)
	}
	err := h.Client.Get(t.Context(), client.ObjectKeyFromObject(h.project), h.project)
	if !apierrors.IsNotFound(err) && h.project.DeletionTimestamp == nil {
		t.Errorf("the Project is still there, without a deletionTimestamp: %v", err)
	}
}

func TestUseMakesProjectFresh(t *testing.T) {
	h, other := newHistory(t), newHistory(t)
	profile := &corev1beta1.CloudProfile{ObjectMeta: metav1.ObjectMeta{Name: env.Name("profile-")},
		Spec: corev1beta1.CloudProfileSpec{
			Type:       "local",
			Kubernetes: corev1beta1.KubernetesSettings{Versions: []corev1beta1.ExpirableVersion{{Version: "1.36.3"}}},
			MachineImages: []corev1beta1.MachineImage{{
				Name: "os", Versions: []corev1beta1.MachineImageVersion{
					{ExpirableVersion: corev1beta1.ExpirableVersion{Version: "1.0.0"}},
				},
			}},
			MachineTypes: []corev1beta1.MachineType{{
				Name: "small", CPU: resource.MustParse("1"), GPU: resource.MustParse("0"), Memory: resource.MustParse("2Gi"),
			}},
			Regions: []corev1beta1.Region{{Name: "local"}},
		}}
	h.Create(t, profile)
	shoot := func(namespace string) *corev1beta1.Shoot {
		return &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo"},
			Spec: corev1beta1.ShootSpec{
				CloudProfile: &corev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: profile.Name},
				Region:       "local", Kubernetes: corev1beta1.Kubernetes{Version: "1.36.3"},
				Provider: corev1beta1.Provider{Type: "local"},
			}}
	}

	t.Run("a Shoot", func(t *testing.T) {
		h.look(50, 50, 0)
		own := shoot(h.namespace())
		h.Create(t, own)
		h.look(60, 0, 0)
		h.gone(own)
		h.look(61, 61, 0)
	})
	t.Run("activity between two checks", func(t *testing.T) {
		activity := &stale.Activity{Garden: h.Client, Clock: h.clock}
		for range 2 { // Activity is recorded only once per period.
			if _, err := activity.Reconcile(t.Context(), h.project); err != nil {
				t.Fatal(err)
			}
			h.clock.Step(time.Minute)
		}
		h.get()
		if last := h.project.Status.LastActivityTimestamp; last == nil || !last.Equal(&metav1.Time{Time: h.day(61)}) {
			t.Errorf("last activity %v, want %v", last, h.day(61))
		}
		h.look(62, 0, 0)
		h.look(91, 91, 0)
	})
	t.Run("a namespace that is exempt", func(t *testing.T) {
		h.annotate(new("true"))
		h.look(106, 0, 0)
		h.annotate(new("false"))
		h.look(107, 107, 0)
		h.annotate(nil)
		h.look(121, 107, 197)
	})
	t.Run("credentials for the Shoot of another project", func(t *testing.T) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace(), Name: "cloud"}}
		binding := &securityv1alpha1.CredentialsBinding{ObjectMeta: metav1.ObjectMeta{
			Namespace: other.namespace(), Name: "cloud",
		},
			Provider:       securityv1alpha1.CredentialsBindingProvider{Type: "local"},
			CredentialsRef: corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: h.namespace(), Name: "cloud"}}
		h.Create(t, secret, binding)
		h.look(122, 107, 197) // No Shoot uses the binding.
		user := shoot(other.namespace())
		user.Spec.CredentialsBindingName = new("cloud")
		user.Spec.Networking = &corev1beta1.Networking{Type: new("bridge")}
		user.Spec.Provider.Workers = []corev1beta1.Worker{{Name: "pool", Minimum: 1, Maximum: 1,
			Machine: corev1beta1.Machine{
				Type: "small", Image: &corev1beta1.ShootMachineImage{Name: "os", Version: new("1.0.0")},
			}}}
		h.Create(t, user)
		h.look(123, 0, 0)
		other.look(123, 0, 0)
		h.gone(user)
		h.look(124, 124, 0)
	})
}
