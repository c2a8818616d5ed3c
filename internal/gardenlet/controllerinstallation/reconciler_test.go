package controllerinstallation

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1v1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/internal/chart/oci"
	"hortus.dev/hortus/internal/component/managedresource"
)

// world is a garden and a seed with one installation.
type world struct {
	t            *testing.T
	clock        *clocktesting.FakePassiveClock
	installation *corev1beta1.ControllerInstallation
	deployment   *corev1v1.ControllerDeployment
	r            *Reconciler
}

// newWorld has an installation of the chart in a deployment. seed may fail.
func newWorld(
	t *testing.T, helm *corev1v1.HelmControllerDeployment, seed interceptor.Funcs, garden ...client.Object,
) *world {
	t.Helper()
	w := &world{
		t: t, clock: clocktesting.NewFakePassiveClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)),
		installation: noticeInstallation.DeepCopy(),
		deployment:   &corev1v1.ControllerDeployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Helm: helm},
	}
	w.installation.Spec = corev1beta1.ControllerInstallationSpec{
		RegistrationRef: corev1.ObjectReference{Name: noticeRegistration.Name},
		DeploymentRef:   &corev1.ObjectReference{Name: w.deployment.Name}, SeedRef: &corev1.ObjectReference{Name: "blue"},
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), resourcesv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	registration := noticeRegistration.DeepCopy()
	registration.Spec.Resources = []corev1beta1.ControllerResource{{Kind: "ConfigMap", Type: "notice"}}
	w.r = &Reconciler{
		Garden: gardenBuilder(t).WithStatusSubresource(w.installation).
			WithObjects(append(garden, registration, seedForChart(), w.deployment, w.installation)...).Build(),
		Seed:  fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(seed).Build(),
		Clock: w.clock, SeedName: "blue", Charts: &oci.Puller{Clock: w.clock},
		Capabilities:   func(context.Context) (chart.Capabilities, error) { return seedCapabilities, nil },
		GardenIdentity: func(context.Context) (string, error) { return "garden", nil },
	}
	return w
}

// reconcile makes one pass.
func (w *world) reconcile() error {
	w.t.Helper()
	w.read(w.r.Garden, w.installation)
	_, err := w.r.Reconcile(w.t.Context(), w.installation)
	w.read(w.r.Garden, w.installation)
	return err
}

func (w *world) read(c client.Client, o client.Object) {
	w.t.Helper()
	if err := c.Get(w.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		w.t.Fatal(err)
	}
}

// wantCondition checks a condition; text is part of its message.
func (w *world) wantCondition(kind corev1beta1.ConditionType, status corev1beta1.ConditionStatus, reason, text string) {
	w.t.Helper()
	c := corev1beta1.FindCondition(w.installation.Status.Conditions, kind)
	if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, text) {
		w.t.Errorf("condition %s is %+v, want %s, %s, with %q", kind, c, status, reason, text)
	}
}

// stored is the text of the installed objects.
func (w *world) stored() string {
	w.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: gardenNamespace, Name: managedresource.SecretName(w.installation.Name),
	}}
	w.read(w.r.Seed, secret)
	return string(secret.Data["objects.yaml"])
}

// noted is a chart whose ConfigMap has a note and the value color.
func noted(t *testing.T, note string) []byte {
	t.Helper()
	archive, err := chart.Archive(fstest.MapFS{
		"x/Chart.yaml": {Data: []byte("apiVersion: v2\nname: x\nversion: 0.1.0\n")},
		"x/templates/object.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n" +
			"data: {note: " + note + ", color: {{ .Values.color }}}\n")},
	}, "x", "x")
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

func colored(color string) *runtime.RawExtension {
	return &runtime.RawExtension{Raw: []byte(`{"color": "` + color + `"}`)}
}

// TestRegistryIsAway: an extension stays usable while its registry does not answer, and the condition Valid says that
// its chart may be outdated.
func TestRegistryIsAway(t *testing.T) {
	var away atomic.Bool
	content := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, request *http.Request) {
		if away.Load() {
			out.WriteHeader(http.StatusForbidden)
			return
		}
		content.ServeHTTP(out, request)
	}))
	t.Cleanup(server.Close)
	reference := strings.TrimPrefix(server.URL, "https://") + "/charts/notice:1.0.0"
	push := func(archive []byte) {
		t.Helper()
		image, err := mutate.Append(empty.Image, mutate.Addendum{
			Layer: static.NewLayer(archive, oci.ChartMediaType), MediaType: oci.ChartMediaType,
		})
		if err != nil {
			t.Fatal(err)
		}
		to, err := name.ParseReference(reference)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(to, image, remote.WithTransport(server.Client().Transport)); err != nil {
			t.Fatal(err)
		}
	}
	ca := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "ca"},
		Data: map[string][]byte{
			"bundle.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		},
	}
	w := newWorld(t, &corev1v1.HelmControllerDeployment{
		Values: colored("red"), OCIRepository: &corev1v1.OCIRepository{
			Ref: ptr.To(reference), CABundleSecretRef: &corev1.LocalObjectReference{Name: ca.Name},
		},
	}, interceptor.Funcs{}, ca)
	step := func(note, color string, valid corev1beta1.ConditionStatus, reason, text string) {
		t.Helper()
		w.clock.SetTime(w.clock.Now().Add(oci.ResolvePeriod))
		w.read(w.r.Garden, w.deployment)
		w.deployment.Helm.Values = colored(color)
		if err := w.r.Garden.Update(t.Context(), w.deployment); err != nil {
			t.Fatal(err)
		}
		if err := w.reconcile(); err != nil {
			t.Fatal(err)
		}
		w.wantCondition(conditionValid, valid, reason, text)
		w.wantCondition(conditionInstalled, corev1beta1.ConditionFalse, "InstallationPending", "")
		if got := w.stored(); !strings.Contains(got, "note: "+note) || !strings.Contains(got, "color: "+color) {
			t.Errorf("want the note %s and the color %s in\n%s", note, color, got)
		}
	}
	push(noted(t, "first"))
	step("first", "red", corev1beta1.ConditionTrue, "RegistrationValid", "")
	push(noted(t, "second"))
	away.Store(true)
	step("first", "green", corev1beta1.ConditionFalse, "OCIChartCannotBePulled", "403")
	away.Store(false)
	step("second", "green", corev1beta1.ConditionTrue, "RegistrationValid", "")

	// After a restart there is no chart to use. What is installed stays.
	away.Store(true)
	w.r.Charts = &oci.Puller{Clock: w.clock}
	if err := w.reconcile(); err == nil {
		t.Error("a chart that cannot be pulled is no error")
	}
	w.wantCondition(conditionValid, corev1beta1.ConditionFalse, "OCIChartCannotBePulled", "403")
	if got := w.stored(); !strings.Contains(got, "note: second") {
		t.Errorf("the extension is changed to\n%s", got)
	}
}

// TestFailuresAreReported: whatever keeps an extension from being installed is in its conditions. What is installed
// stays, and so do the conditions about it.
func TestFailuresAreReported(t *testing.T) {
	fails := errors.New("it does not answer")
	read := func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return fails }
	apply := func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
		return fails
	}
	plain, secret := `{"color": "red"}`, `{"color": "{{ .resources.login.data.color }}"}`
	for name, tc := range map[string]struct {
		seed   interceptor.Funcs
		change func(*Reconciler)
		values string
		reason string
		text   string
	}{
		"objects of the extension cannot be read": {
			interceptor.Funcs{List: read}, nil, plain, "ExtensionObjectsReadError", "it does not answer",
		},
		"the capabilities of the seed cannot be read": {
			interceptor.Funcs{}, func(r *Reconciler) {
				r.Capabilities = func(context.Context) (chart.Capabilities, error) { return chart.Capabilities{}, fails }
			}, plain, "CapabilitiesReadError", "it does not answer",
		},
		"the identity of the garden cannot be read": {
			interceptor.Funcs{}, func(r *Reconciler) {
				r.GardenIdentity = func(context.Context) (string, error) { return "", fails }
			}, plain, "GardenIdentityReadError", "it does not answer",
		},
		"the ManagedResource cannot be applied": {
			interceptor.Funcs{Apply: apply}, nil, plain, "ManagedResourceApplyError", "it does not answer",
		},
		"the ManagedResource with values of a Secret cannot be applied": {
			interceptor.Funcs{Apply: apply}, nil, secret, "ManagedResourceApplyError", "the error is left out",
		},
	} {
		t.Run(name, func(t *testing.T) {
			login := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "login"},
				Data:       map[string][]byte{"color": []byte("sesame")},
			}
			w := newWorld(t, &corev1v1.HelmControllerDeployment{
				RawChart: noted(t, "first"), Values: &runtime.RawExtension{Raw: []byte(tc.values)},
			}, tc.seed, login)
			if tc.values == secret {
				w.deployment.Resources = []corev1v1.NamedResourceReference{{
					Name:        "login",
					ResourceRef: autoscalingv1.CrossVersionObjectReference{APIVersion: "v1", Kind: "Secret", Name: login.Name},
				}}
				if err := w.r.Garden.Update(t.Context(), w.deployment); err != nil {
					t.Fatal(err)
				}
			}
			if tc.change != nil {
				tc.change(w.r)
			}
			installed := corev1beta1.Condition{
				Type: conditionInstalled, Status: corev1beta1.ConditionTrue, Reason: "Before",
			}
			w.installation.Status.Conditions = []corev1beta1.Condition{installed}
			if err := w.r.Garden.Status().Update(t.Context(), w.installation); err != nil {
				t.Fatal(err)
			}
			if err := w.reconcile(); !errors.Is(err, fails) {
				t.Errorf("the error is %v, want %v, so that it is tried again", err, fails)
			}
			w.wantCondition(conditionValid, corev1beta1.ConditionFalse, tc.reason, tc.text)
			w.wantCondition(conditionInstalled, corev1beta1.ConditionTrue, "Before", "")
		})
	}
}

// TestLargeCharts: what a chart renders to may be larger than a Secret, if it fits when compressed.
func TestLargeCharts(t *testing.T) {
	text := strings.Repeat("A field of a large definition. ", 40_000)
	for name, tc := range map[string]struct {
		template string
		valid    corev1beta1.ConditionStatus
		reason   string
	}{
		"text": {text, corev1beta1.ConditionTrue, "RegistrationValid"},
		"random data": {
			`{{ range until 1600 }}{{ randAlphaNum 1000 }}{{ end }}`, corev1beta1.ConditionFalse, "ChartCannotBeRendered",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, &corev1v1.HelmControllerDeployment{RawChart: noted(t, tc.template), Values: colored("red")},
				interceptor.Funcs{})
			if err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			w.wantCondition(conditionValid, tc.valid, tc.reason, "")
			if tc.valid == corev1beta1.ConditionFalse {
				w.wantCondition(conditionValid, tc.valid, tc.reason, "at most 1048576")
			} else {
				w.wantCondition(conditionInstalled, corev1beta1.ConditionFalse, "InstallationPending", "")
			}
		})
	}
}
