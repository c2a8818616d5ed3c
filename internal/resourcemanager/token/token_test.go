package token

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

type fixture struct {
	t              *testing.T
	source, target client.Client
	clock          *clocktesting.FakePassiveClock
	r              *Reconciler
	requested      []int64 // Requested lifetimes, in seconds.
}

func newFixture(t *testing.T, change ...func(*corev1.Secret)) *fixture {
	t.Helper()
	f := &fixture{t: t, clock: clocktesting.NewFakePassiveClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "cp", Name: "shoot-access-x",
		Labels: map[string]string{resourcesv1alpha1.LabelPurpose: resourcesv1alpha1.PurposeTokenRequestor},
		Annotations: map[string]string{
			resourcesv1alpha1.AnnotationServiceAccountName:      "x",
			resourcesv1alpha1.AnnotationServiceAccountNamespace: "kube-system",
			resourcesv1alpha1.AnnotationServiceAccountLabels:    `{"a":"b"}`,
		}}}
	for _, c := range change {
		c(s)
	}
	f.source = fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(s).Build()
	f.target = fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceCreate: func(_ context.Context, _ client.Client, _ string, _ client.Object, sub client.Object,
			_ ...client.SubResourceCreateOption) error {
			request := sub.(*authenticationv1.TokenRequest)
			f.requested = append(f.requested, *request.Spec.ExpirationSeconds)
			request.Status = authenticationv1.TokenRequestStatus{Token: "token-" + string(rune('0'+len(f.requested))),
				ExpirationTimestamp: metav1.NewTime(
					f.clock.Now().Add(time.Duration(*request.Spec.ExpirationSeconds) * time.Second))}
			return nil
		},
	}).Build()
	f.r = &Reconciler{Source: f.source, Target: f.target, Clock: f.clock, Jitter: func() float64 { return 0 }}
	return f
}

func (f *fixture) secret() *corev1.Secret {
	f.t.Helper()
	s := &corev1.Secret{}
	if err := f.source.Get(context.Background(), types.NamespacedName{Namespace: "cp", Name: "shoot-access-x"},
		s); err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (f *fixture) reconcile() reconcile.Result {
	f.t.Helper()
	result, err := f.r.Reconcile(context.Background(), f.secret())
	if err != nil {
		f.t.Fatal(err)
	}
	return result
}

func TestTokenIsRequestedAndRenewed(t *testing.T) {
	f := newFixture(t)
	want := 12 * time.Hour * 8 / 10
	if got := f.reconcile().RequeueAfter; got != want {
		t.Errorf("renewed after %v, want %v", got, want)
	}
	if got := string(f.secret().Data[dataToken]); got != "token-1" {
		t.Errorf("token %q", got)
	}
	account := &corev1.ServiceAccount{}
	if err := f.target.Get(context.Background(), types.NamespacedName{Namespace: "kube-system", Name: "x"},
		account); err != nil || account.Labels["a"] != "b" || *account.AutomountServiceAccountToken {
		t.Errorf("ServiceAccount %+v, error %v", account, err)
	}
	f.clock.SetTime(f.clock.Now().Add(want - time.Minute))
	if got := f.reconcile().RequeueAfter; got != time.Minute || len(f.requested) != 1 {
		t.Errorf("a minute early: renewed after %v, %d requests; want 1m, 1", got, len(f.requested))
	}
	f.clock.SetTime(f.clock.Now().Add(time.Minute))
	f.reconcile()
	if got := string(f.secret().Data[dataToken]); got != "token-2" {
		t.Errorf("token %q after renewal", got)
	}
	s := f.secret()
	s.Data = nil // A user has removed it.
	if err := f.source.Update(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	f.reconcile()
	if got := string(f.secret().Data[dataToken]); got != "token-3" {
		t.Errorf("token %q after it was lost", got)
	}
}

func TestTokenGoesIntoKubeconfig(t *testing.T) {
	config, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{"c": {Server: "https://x"}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {}},
		Contexts:  map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}}, CurrentContext: "x"})
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, func(s *corev1.Secret) {
		s.Data = map[string][]byte{dataKubeconfig: config}
		s.Annotations[resourcesv1alpha1.AnnotationTokenExpirationDuration] = "48h"
	})
	if got, want := f.reconcile().RequeueAfter, 24*time.Hour*8/10; got != want || f.requested[0] != 48*3600 {
		t.Errorf("renewed after %v, %d s requested; want %v, 172800", got, f.requested[0], want)
	}
	loaded, err := clientcmd.Load(f.secret().Data[dataKubeconfig])
	if err != nil || loaded.AuthInfos["u"].Token != "token-1" || loaded.Clusters["c"].Server != "https://x" ||
		f.secret().Data[dataToken] != nil {
		t.Errorf("kubeconfig %+v, error %v", loaded, err)
	}
	if f.reconcile(); len(f.requested) != 1 {
		t.Error("the token in the kubeconfig was not recognized")
	}
}

func TestTokenGoesIntoTargetSecret(t *testing.T) {
	f := newFixture(t, func(s *corev1.Secret) {
		s.Annotations[annotationTargetName], s.Annotations[annotationTargetNamespace] = "out", "kube-system"
	})
	f.reconcile()
	out := &corev1.Secret{}
	key := types.NamespacedName{Namespace: "kube-system", Name: "out"}
	if err := f.target.Get(context.Background(), key, out); err != nil || string(out.Data[dataToken]) != "token-1" {
		t.Errorf("Secret %+v, error %v", out.Data, err)
	}
	if f.secret().Data[dataToken] != nil {
		t.Error("the token is also in the source")
	}
	if err := f.target.Delete(context.Background(), out); err != nil {
		t.Fatal(err)
	}
	f.reconcile()
	if err := f.target.Get(context.Background(), key, out); err != nil || string(out.Data[dataToken]) != "token-2" {
		t.Errorf("after it was deleted: Secret %+v, error %v", out.Data, err)
	}
}

// TestCABundle: a Secret that requests them gets the CA certificates of the target, and others when they change.
func TestCABundle(t *testing.T) {
	kubeconfig := func(current string) []byte {
		config, err := clientcmd.Write(clientcmdapi.Config{
			Clusters: map[string]*clientcmdapi.Cluster{
				"c": {Server: "https://x", CertificateAuthority: "/ca.crt"}, "other": {CertificateAuthorityData: []byte("other")},
			},
			AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {}},
			Contexts:  map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}}, CurrentContext: current,
		})
		if err != nil {
			t.Fatal(err)
		}
		return config
	}
	const renewal = 12 * time.Hour * 8 / 10
	outdated := map[string][]byte{dataBundle: []byte("zero")}
	withKubeconfig := map[string][]byte{dataKubeconfig: kubeconfig("x")}
	for name, tc := range map[string]struct {
		wanted string // Value of the annotation.
		data   map[string][]byte
		none   bool // The target has a certificate of a public CA.
		want   string
		period time.Duration
	}{
		"requested":                   {"true", nil, false, "bundle.crt=first", time.Hour},
		"not requested":               {"", nil, false, "", renewal},
		"refused":                     {"false", nil, false, "", renewal},
		"there are none":              {"true", nil, true, "", time.Hour},
		"an outdated one":             {"true", outdated, false, "bundle.crt=first", time.Hour},
		"a kubeconfig":                {"true", withKubeconfig, false, "c=first,other=other", time.Hour},
		"a kubeconfig, not requested": {"", withKubeconfig, false, "c=,other=other", renewal},
	} {
		t.Run(name, func(t *testing.T) {
			bundle := "first"
			f := newFixture(t, func(s *corev1.Secret) {
				s.Annotations[resourcesv1alpha1.AnnotationInjectCABundle], s.Data = tc.wanted, tc.data
			})
			f.r.CABundle = func() ([]byte, error) {
				if tc.none {
					return nil, nil
				}
				return []byte(bundle), nil
			}
			found := func() string {
				t.Helper()
				data := f.secret().Data
				if data["kubeconfig"] == nil {
					if data["bundle.crt"] == nil {
						return ""
					}
					return "bundle.crt=" + string(data["bundle.crt"])
				}
				config, err := clientcmd.Load(data["kubeconfig"])
				if err != nil {
					t.Fatal(err)
				}
				return "c=" + string(config.Clusters["c"].CertificateAuthorityData) +
					",other=" + string(config.Clusters["other"].CertificateAuthorityData)
			}
			for range 2 { // A second pass changes nothing.
				if got := f.reconcile().RequeueAfter; got != tc.period || len(f.requested) != 1 {
					t.Errorf("checked after %v, %d requests; want %v, 1", got, len(f.requested), tc.period)
				}
				if got := found(); got != tc.want {
					t.Errorf("the CA certificates are %q, want %q", got, tc.want)
				}
			}
			bundle = "second"
			f.reconcile()
			if got, want := found(), strings.ReplaceAll(tc.want, "first", "second"); got != want {
				t.Errorf("after a rotation, the CA certificates are %q, want %q", got, want)
			}
		})
	}
	t.Run("in the target", func(t *testing.T) {
		f := newFixture(t, func(s *corev1.Secret) {
			s.Annotations[resourcesv1alpha1.AnnotationInjectCABundle] = "true"
			s.Annotations[annotationTargetName], s.Annotations[annotationTargetNamespace] = "out", "kube-system"
		})
		f.r.CABundle = func() ([]byte, error) { return []byte("first"), nil }
		f.reconcile()
		f.reconcile()
		out := &corev1.Secret{}
		if err := f.target.Get(t.Context(), types.NamespacedName{Namespace: "kube-system", Name: "out"}, out); err != nil ||
			string(out.Data[dataBundle]) != "first" || len(f.requested) != 1 || f.secret().Data[dataBundle] != nil {
			t.Errorf("Secret %v after %d requests, source %v, error %v", out.Data, len(f.requested), f.secret().Data, err)
		}
	})
	t.Run("a kubeconfig without current context", func(t *testing.T) {
		f := newFixture(t, func(s *corev1.Secret) {
			s.Annotations[resourcesv1alpha1.AnnotationInjectCABundle] = "true"
			s.Data = map[string][]byte{dataKubeconfig: kubeconfig("none")}
		})
		f.r.CABundle = func() ([]byte, error) { return []byte("first"), nil }
		if !hasBundle(f.secret(), []byte("first")) {
			t.Error("the token would be renewed again and again for CA certificates that have no place")
		}
	})
}

// TestCABundleOf reads the CA certificates where clients do.
func TestCABundleOf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	read := CABundleOf(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: file}})
	if _, err := read(); err == nil {
		t.Error("a missing file is no error")
	}
	for _, content := range []string{"first", "second"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := read(); err != nil || string(got) != content {
			t.Errorf("read %q, %v from a file, want %q", got, err, content)
		}
	}
	data := rest.TLSClientConfig{CAFile: file, CAData: []byte("data")}
	if got, err := CABundleOf(&rest.Config{TLSClientConfig: data})(); err != nil || string(got) != "data" {
		t.Errorf("read %q, %v, want data", got, err)
	}
	if got, err := CABundleOf(&rest.Config{})(); err != nil || len(got) > 0 {
		t.Errorf("read %q, %v from a configuration without CA certificates", got, err)
	}
}

func TestSecretWithoutServiceAccount(t *testing.T) {
	f := newFixture(t, func(s *corev1.Secret) { s.Annotations = nil })
	if _, err := f.r.Reconcile(context.Background(), f.secret()); !errors.Is(err, reconcile.TerminalError(nil)) {
		t.Errorf("error %v, want one that is not retried", err)
	}
}

func TestResponsible(t *testing.T) {
	for _, tc := range []struct {
		label, class string
		want         bool
	}{{"", "", true}, {"shoot", "", true}, {"seed", "", false}, {"seed", "seed", true}, {"", "seed", false},
		{"garden", "", false}, {"garden", "garden", true}, {"", "garden", false}, {"shoot", "garden", false}} {
		s := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{resourcesv1alpha1.LabelPurpose: "token-requestor"}},
		}
		if tc.label != "" {
			s.Labels[resourcesv1alpha1.LabelClass] = tc.label
		}
		if got := responsible(s, tc.class); got != tc.want {
			t.Errorf("responsible(label %q, class %q) = %v, want %v", tc.label, tc.class, got, tc.want)
		}
	}
}

func TestRenewalAfter(t *testing.T) {
	for _, tc := range []struct {
		lifetime time.Duration
		jitter   float64
		want     time.Duration
	}{{10 * time.Hour, 0, 8 * time.Hour}, {10 * time.Hour, 1, 8*time.Hour - 24*time.Minute},
		{100 * time.Hour, 0, 24 * time.Hour * 8 / 10}} {
		if got := renewalAfter(tc.lifetime, tc.jitter); got.Round(time.Second) != tc.want {
			t.Errorf("renewalAfter(%v, %v) = %v, want %v", tc.lifetime, tc.jitter, got, tc.want)
		}
	}
}

// Authors of Secrets see why they get no token, once an hour and whenever the reason changes.
func TestRefusalsAreEvents(t *testing.T) {
	f := newFixture(t, func(s *corev1.Secret) { s.UID = "1" })
	recorder := events.NewFakeRecorder(10)
	long := strings.Repeat("ä", 1000)
	refusal := ""
	f.r.Confined = &Confinement{
		Namespace: "seed-a", Events: recorder,
		Labels: func(context.Context, *corev1.Secret) (map[string]string, error) {
			if refusal == "retried" {
				return nil, errors.New(refusal)
			}
			return nil, reconcile.TerminalError(errors.New(refusal))
		},
	}
	for _, step := range []struct {
		name, refusal string
		after         time.Duration
		want          string // In the event; empty: there is none.
	}{
		{"the first refusal", "of another", 0, "Warning TokenRefused of another"},
		{"a retry", "of another", time.Minute, ""},
		{"another reason", "no extension", time.Minute, "Warning TokenRefused no extension"},
		{"the same an hour later", "no extension", time.Hour, "Warning TokenRefused no extension"},
		{"no refusal, but an error that is tried again", "retried", time.Hour, ""},
		{"a long reason", long, time.Minute, "Warning TokenRefused " + long[:maxNote]},
	} {
		refusal = step.refusal
		f.clock.SetTime(f.clock.Now().Add(step.after))
		_, err := f.r.Reconcile(context.Background(), f.secret())
		if retried := err != nil; retried != (step.refusal == "retried") {
			t.Errorf("%s: error %v", step.name, err)
		}
		got := ""
		select {
		case got = <-recorder.Events:
		default:
		}
		if got != step.want {
			t.Errorf("%s: the event is %q, want %q", step.name, got, step.want)
		}
	}
	f.r.Confined.Labels = func(context.Context, *corev1.Secret) (map[string]string, error) { return nil, nil }
	if f.reconcile(); string(f.secret().Data[dataToken]) != "token-1" {
		t.Errorf("token %q after the refusals, want token-1", f.secret().Data[dataToken])
	}
}

// A gardenlet serves Secrets of many authors: they do not choose whose tokens they get, and write nothing to the
// garden.
func TestConfinedTokens(t *testing.T) {
	confine := func(f *fixture, labels map[string]string, err error) {
		f.r.Confined = &Confinement{Namespace: "seed-a",
			Labels: func(_ context.Context, secret *corev1.Secret) (map[string]string, error) {
				if secret.Namespace != "cp" || secret.Name != "shoot-access-x" {
					t.Errorf("labels for Secret %s/%s", secret.Namespace, secret.Name)
				}
				return labels, err
			},
			Events: events.NewFakeRecorder(10)}
	}
	account := func(f *fixture, namespace, name string) (*corev1.ServiceAccount, error) {
		found := &corev1.ServiceAccount{}
		return found, f.target.Get(context.Background(), types.NamespacedName{Namespace: namespace, Name: name}, found)
	}
	t.Run("permitted", func(t *testing.T) {
		f := newFixture(t, func(s *corev1.Secret) {
			s.Annotations[resourcesv1alpha1.AnnotationServiceAccountLabels] = `{"a":"b","registration":"of another"}`
			s.Annotations[resourcesv1alpha1.AnnotationTokenExpirationDuration] = "8760h"
			s.Annotations[annotationTargetName], s.Annotations[annotationTargetNamespace] = "out", "garden"
		})
		confine(f, map[string]string{"registration": "r", "requested-in": "cp"}, nil)
		f.reconcile()
		if got := string(f.secret().Data[dataToken]); got != "token-1" {
			t.Errorf("token %q", got)
		}
		if diff := cmp.Diff([]int64{12 * 3600}, f.requested); diff != "" {
			t.Errorf("requested lifetimes (-want +got):\n%s", diff)
		}
		found, err := account(f, "seed-a", "x")
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"a": "b", "registration": "r", "requested-in": "cp"}
		if diff := cmp.Diff(want, found.Labels); diff != "" || *found.AutomountServiceAccountToken {
			t.Errorf("ServiceAccount %+v, labels (-want +got):\n%s", found, diff)
		}
		if _, err := account(f, "kube-system", "x"); !apierrors.IsNotFound(err) {
			t.Errorf("a ServiceAccount in the namespace that the Secret names: %v", err)
		}
		if err := f.target.Get(context.Background(), types.NamespacedName{Namespace: "garden", Name: "out"},
			&corev1.Secret{}); !apierrors.IsNotFound(err) {
			t.Errorf("a Secret in the target: %v", err)
		}
	})
	t.Run("the ServiceAccount is replaced", func(t *testing.T) {
		f := newFixture(t)
		confine(f, nil, nil)
		create := func(uid types.UID) {
			t.Helper()
			if err := f.target.Create(context.Background(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
				Namespace: "seed-a", Name: "x", UID: uid}}); err != nil {
				t.Fatal(err)
			}
		}
		create("1")
		for i, want := range []string{"token-1", "token-1"} {
			if got := f.reconcile().RequeueAfter; got != time.Hour || string(f.secret().Data[dataToken]) != want {
				t.Errorf("pass %d: checked after %v, token %q; want 1h, %q", i, got, f.secret().Data[dataToken], want)
			}
		}
		found, err := account(f, "seed-a", "x")
		if err != nil || f.target.Delete(context.Background(), found) != nil {
			t.Fatalf("delete the ServiceAccount: %v", err)
		}
		create("2")
		f.clock.SetTime(f.clock.Now().Add(time.Hour))
		if f.reconcile(); string(f.secret().Data[dataToken]) != "token-2" {
			t.Errorf("token %q, want another one", f.secret().Data[dataToken])
		}
		f.clock.SetTime(f.clock.Now().Add(12*time.Hour*8/10 - time.Minute))
		if got := f.reconcile().RequeueAfter; got != time.Minute || len(f.requested) != 2 {
			t.Errorf("checked after %v, %d requests; want 1m, 2", got, len(f.requested))
		}
	})
	t.Run("a shorter lifetime", func(t *testing.T) {
		f := newFixture(t, func(s *corev1.Secret) {
			s.Annotations[resourcesv1alpha1.AnnotationTokenExpirationDuration] = "1h"
		})
		confine(f, nil, nil)
		f.reconcile()
		if diff := cmp.Diff([]int64{3600}, f.requested); diff != "" {
			t.Errorf("requested lifetimes (-want +got):\n%s", diff)
		}
	})
	t.Run("refused", func(t *testing.T) {
		f, refusal := newFixture(t), reconcile.TerminalError(errors.New("of another"))
		confine(f, nil, refusal)
		if got := f.reconcile().RequeueAfter; got != time.Hour || len(f.requested) > 0 {
			t.Errorf("checked after %v, %d requests; want 1h, 0", got, len(f.requested))
		}
		accounts := &corev1.ServiceAccountList{}
		if err := f.target.List(context.Background(), accounts); err != nil || len(accounts.Items) > 0 {
			t.Errorf("ServiceAccounts %+v, error %v", accounts.Items, err)
		}
	})
}
