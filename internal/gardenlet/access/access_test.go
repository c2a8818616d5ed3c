package access

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	approver "hortus.dev/hortus/internal/controllermanager/csr"
	"hortus.dev/hortus/internal/csr"
	"hortus.dev/hortus/internal/garden/bootstraptoken"
	"hortus.dev/hortus/internal/gardenlet/config"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/test/env"
)

func TestMain(m *testing.M) {
	env.Main(m, env.WithSeedAuthorizer(), env.WithKubeAPIServer(func(s *envtest.APIServer) {
		s.Configure().Set("enable-bootstrap-token-auth", "true")
	}))
}

// world is a garden with one Seed, whose cluster is the garden's own, and with a signer that uses the clock of the
// test.
type world struct {
	*env.Environment
	t     *testing.T
	ca    *pki.CA
	clock *testclock.FakeClock
	seed  *corev1beta1.Seed
	file  string
	// events are those of the newest Reconciler.
	events *events.FakeRecorder
}

func newWorld(t *testing.T) *world {
	t.Helper()
	e := env.Shared(t)
	e.GardenRoles(t)
	w := &world{Environment: e, t: t, clock: testclock.NewFakeClock(day0), file: filepath.Join(t.TempDir(), "kubeconfig")}
	var err error
	if w.ca, err = pki.NewCA("clients", w.clock); err != nil {
		t.Fatal(err)
	}
	dns := corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "garden", Name: "dns"}
	w.seed = &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: env.Name("seed-")}, Spec: corev1beta1.SeedSpec{
		Provider: corev1beta1.SeedProvider{Type: "local", Region: "home"},
		Networks: corev1beta1.SeedNetworks{Pods: "10.244.0.0/16", Services: "10.0.0.0/24", Nodes: ptr.To("10.1.0.0/24")},
		Ingress: &corev1beta1.Ingress{
			Domain: "ingress.example.com", Controller: corev1beta1.IngressController{Kind: "nginx"},
		},
		DNS: corev1beta1.SeedDNS{
			Provider: &corev1beta1.SeedDNSProvider{Type: "local", CredentialsRef: &dns},
			Internal: &corev1beta1.SeedDNSProviderConfig{Type: "local", Domain: "internal.example.com", CredentialsRef: dns},
		},
	}}
	e.Create(t, w.seed)
	return w
}

func (w *world) user() string { return corev1beta1.SeedUserPrefix + w.seed.Name }

// give writes a kubeconfig as an operator does. Its certificate is valid for a year from now on.
func (w *world) give() {
	w.t.Helper()
	pair, err := w.ca.Issue(pki.Request{
		CommonName: w.user(), Organizations: []string{corev1beta1.SeedsGroup}, Usage: pki.Client, Validity: 365 * day,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	kubeconfig, err := pki.Kubeconfig{
		Name: "garden", Server: "https://garden.example", CAPEM: w.ca.CertPEM, Client: pair,
	}.Render()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.file, kubeconfig, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// start does what the gardenlet does at its start.
func (w *world) start(secret *config.SecretReference) *Reconciler {
	w.t.Helper()
	connection := &config.GardenClientConnection{
		ClientConnection: config.ClientConnection{Kubeconfig: w.file}, KubeconfigSecret: secret,
	}
	access, err := Open(w.t.Context(), connection, w.seed.Name, w.Client, "test", w.clock)
	if err != nil {
		w.t.Fatal(err)
	}
	w.events = events.NewFakeRecorder(100)
	return &Reconciler{
		Access: access, Garden: w.ClientAs(w.t, w.user(), corev1beta1.SeedsGroup), Events: w.events, Clock: w.clock,
		Chance: func() float64 { return 0.5 }, SeedName: w.seed.Name, Window: Window{80, 90}, Validity: ptr.To(100 * day),
	}
}

// step reconciles once and returns when the next step is due.
func (w *world) step(r *Reconciler) time.Duration {
	w.t.Helper()
	result, err := r.Reconcile(w.t.Context(), w.seed.DeepCopy())
	if err != nil {
		w.t.Fatal(err)
	}
	return result.RequeueAfter
}

// decide has the controller-manager decide about a request.
func (w *world) decide(request *certificatesv1.CertificateSigningRequest) {
	w.t.Helper()
	controller := &approver.Reconciler{Garden: w.Client, Direct: w.Client, Clock: w.clock}
	if _, err := controller.Reconcile(w.t.Context(), request); err != nil {
		w.t.Fatal(err)
	}
}

// sign does what the controllers of the garden do with a request: it is approved, and signed for the requested life.
func (w *world) sign(name string) {
	w.t.Helper()
	request := &certificatesv1.CertificateSigningRequest{}
	if err := w.Client.Get(w.t.Context(), client.ObjectKey{Name: name}, request); err != nil {
		w.t.Fatal(err)
	}
	w.decide(request)
	if len(request.Status.Conditions) != 1 || request.Status.Conditions[0].Type != certificatesv1.CertificateApproved {
		w.t.Fatalf("the request is not approved: %v", request.Status.Conditions)
	}
	parsed, err := csr.Parse(request.Spec.Request)
	if err != nil {
		w.t.Fatal(err)
	}
	request.Status.Certificate, err = w.ca.Sign(pki.Request{
		CommonName: parsed.Subject.CommonName, Organizations: parsed.Subject.Organization, Usage: pki.Client,
		Validity: time.Duration(*request.Spec.ExpirationSeconds) * time.Second,
	}, parsed.PublicKey)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.Client.Status().Update(w.t.Context(), request); err != nil {
		w.t.Fatal(err)
	}
}

// renew steps a due renewal to its end. The seed authorizer is a separate process and first has to see the request.
func (w *world) renew(r *Reconciler) (next time.Duration) {
	w.t.Helper()
	if next := w.step(r); next != answerPeriod || r.pending() == nil {
		w.t.Fatalf("no certificate is requested; the next check is in %s", next)
	}
	w.step(r)
	if r.pending() == nil {
		w.t.Fatal("the request is dropped before it is answered")
	}
	w.sign(r.pending().name)
	env.Eventually(w.t, "the new certificate is used", func() (bool, error) {
		next = w.step(r)
		return r.pending() == nil, nil
	})
	return next
}

func (w *world) event() string {
	select {
	case e := <-w.events.Events:
		return e
	default:
		return ""
	}
}

func TestJoining(t *testing.T) {
	w := newWorld(t)
	w.clock.SetTime(time.Now()) // The kube-apiserver uses its own clock.
	ns := w.Namespace(t, nil)
	token, secret := bootstraptoken.New(w.seed.Name, time.Now().Add(time.Hour))
	w.Create(t, secret)
	w.Create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "joining"},
		RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "gardener.cloud:system:seed-bootstrapper",
		},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: bootstraptoken.Group}},
	}, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "gardener.cloud:system:seed-bootstrapper"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{certificatesv1.GroupName}, Resources: []string{"certificatesigningrequests"},
			Verbs: []string{"create", "get"},
		}},
	})
	kubeconfig, err := pki.Kubeconfig{Name: "garden", Server: w.Config.Host, CAPEM: w.Config.CAData, Token: token}.Render()
	if err != nil {
		t.Fatal(err)
	}
	w.Create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "bootstrap"},
		Data:       map[string][]byte{"kubeconfig": kubeconfig},
	})
	connection := &config.GardenClientConnection{
		KubeconfigSecret:    &config.SecretReference{Namespace: ns.Name, Name: "gardenlet-kubeconfig"},
		BootstrapKubeconfig: &config.SecretReference{Namespace: ns.Name, Name: "bootstrap"},
		KubeconfigValidity:  &config.KubeconfigValidity{Validity: &metav1.Duration{Duration: 100 * day}},
	}
	type opened struct {
		*Access
		err error
	}
	// open is the start of a gardenlet; answer is what the controllers of the garden do with its request meanwhile.
	open := func(answer func(request *certificatesv1.CertificateSigningRequest)) opened {
		done := make(chan opened)
		go func() {
			a, err := Open(t.Context(), connection, w.seed.Name, w.Client, "test", w.clock)
			done <- opened{a, err}
		}()
		if answer == nil {
			return <-done
		}
		env.Eventually(t, "a request of the gardenlet", func() (bool, error) {
			list := &certificatesv1.CertificateSigningRequestList{}
			if err := w.Client.List(t.Context(), list); err != nil {
				return false, err
			}
			for _, o := range list.Items {
				if strings.HasPrefix(o.Spec.Username, "system:bootstrap:") && csr.Open(&o) {
					answer(&o)
					return true, nil
				}
			}
			return false, nil
		})
		return <-done
	}

	first := open(func(request *certificatesv1.CertificateSigningRequest) { w.sign(request.Name) })
	if first.err != nil {
		t.Fatal(first.err)
	}
	if got := first.used.Load().Subject.CommonName; got != w.user() {
		t.Errorf("the certificate is for %q, want %q", got, w.user())
	}
	if again := open(nil); again.err != nil || !again.used.Load().Equal(first.used.Load()) {
		t.Errorf("the next start does not use the certificate: %v", again.err)
	}
	// The token is of no use to anybody else any more.
	connection.KubeconfigSecret.Name = "another"
	const used = "the token has been used by request"
	if second := open(w.decide); second.err == nil || !strings.Contains(second.err.Error(), used) {
		t.Errorf("the token is used twice: %v", second.err)
	}
	if err := w.Client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	withToken, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := client.New(withToken, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, "the kube-apiserver knows the token", func() (bool, error) {
		err := stranger.Get(t.Context(), client.ObjectKey{Name: "x"}, &certificatesv1.CertificateSigningRequest{})
		return apierrors.IsUnauthorized(err), err
	})
	if third := open(nil); third.err == nil || !strings.Contains(third.err.Error(), "hortus garden bootstrap-kubeconfig") {
		t.Errorf("a deleted token: %v", third.err)
	}
}

func TestRenewal(t *testing.T) {
	w := newWorld(t)
	w.give()
	ns := w.Namespace(t, nil)
	secret := &config.SecretReference{Namespace: ns.Name, Name: "gardenlet-kubeconfig"}
	r := w.start(secret)
	first := r.Access.used.Load()
	next := w.step(r)
	if want := 365 * day * 85 / 100; (next-want).Abs() > time.Hour || r.pending() != nil {
		t.Fatalf("renewed in %s, want %s", next, want)
	}
	w.clock.Step(next)
	next = w.renew(r)
	if want := 100 * day * 85 / 100; (next - want).Abs() > time.Hour {
		t.Errorf("renewed again in %s, want %s", next, want)
	}
	if !strings.Contains(w.event(), "CertificateRenewed") {
		t.Error("there is no event")
	}
	second := r.Access.used.Load()
	if second.Subject.String() != first.Subject.String() || !second.NotBefore.After(first.NotBefore) {
		t.Errorf("the second certificate is %s from %s, the first %s from %s", second.Subject, second.NotBefore,
			first.Subject, first.NotBefore)
	}

	// A new start, long after the file's certificate has expired.
	w.clock.Step(next)
	if got := w.start(secret).Access.used.Load(); !got.Equal(second) {
		t.Errorf("after a restart the certificate is that of %s", got.NotBefore)
	}
	// Another replica uses the certificate that the first one has stored.
	other := w.start(secret)
	w.renew(r)
	w.step(other)
	if !other.Access.used.Load().Equal(r.Access.used.Load()) || other.pending() != nil {
		t.Error("the other replica does not use the stored certificate")
	}
	// The Secret alone is sufficient: it has the address of the garden.
	alone, err := Open(t.Context(), &config.GardenClientConnection{KubeconfigSecret: secret}, w.seed.Name, w.Client,
		"test", w.clock)
	if err != nil {
		t.Fatal(err)
	}
	if !alone.used.Load().Equal(r.Access.used.Load()) || alone.Config.Host != "https://garden.example" {
		t.Errorf("the Secret gives access to %s with the certificate of %s", alone.Config.Host, alone.used.Load().NotBefore)
	}
	// An operator replaces the kubeconfig, as after a change of the garden's CA.
	w.clock.Step(time.Hour)
	w.give()
	if got := w.start(secret).Access.used.Load(); !got.NotBefore.After(r.Access.used.Load().NotBefore) {
		t.Errorf("the operator's kubeconfig is not used, but a certificate from %s", got.NotBefore)
	}
}

func TestRenewalInAFile(t *testing.T) {
	w := newWorld(t)
	w.give()
	r := w.start(nil)
	w.clock.Step(w.step(r))
	w.renew(r)
	if again := w.start(nil); !again.Access.used.Load().Equal(r.Access.used.Load()) ||
		again.Access.Config.Host != "https://garden.example" {
		t.Errorf("the file has a certificate of %s", again.Access.used.Load().NotBefore)
	}
	files, err := os.ReadDir(filepath.Dir(w.file))
	if err != nil || len(files) != 1 {
		t.Errorf("files are left: %v, %v", files, err)
	}

	// The file cannot be replaced, since its directory is gone; the certificate is used nevertheless.
	w.clock.Step(90 * day)
	if err := os.RemoveAll(filepath.Dir(w.file)); err != nil {
		t.Fatal(err)
	}
	before := r.Access.used.Load()
	w.renew(r)
	if r.Access.used.Load().Equal(before) {
		t.Error("the certificate is not renewed")
	}
}

func TestOperation(t *testing.T) {
	w := newWorld(t)
	w.give()
	operate := func() {
		t.Helper()
		patch := `{"metadata":{"annotations":{"gardener.cloud/operation":"renew-kubeconfig"}}}`
		if err := w.Client.Patch(t.Context(), w.seed, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}
	pending := func() bool {
		t.Helper()
		if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(w.seed), w.seed); err != nil {
			t.Fatal(err)
		}
		return w.seed.Annotations[corev1beta1.AnnotationOperation] != ""
	}
	r := w.start(nil)
	operate()
	before := r.Access.used.Load()
	w.clock.Step(time.Hour)
	w.renew(r)
	if r.Access.used.Load().Equal(before) || pending() {
		t.Errorf("renewed: %t, the operation is still there: %t", !r.Access.used.Load().Equal(before), pending())
	}
	if next := w.step(r); next < 80*day || r.pending() != nil {
		t.Errorf("renewed again in %s", next)
	}

	// The certificate of another user is not renewed, and an event reports that.
	pair, err := w.ca.Issue(pki.Request{CommonName: "admin", Usage: pki.Client})
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := pki.Kubeconfig{Server: "https://garden.example", Client: pair}.Render()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.file, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	r = w.start(nil)
	if next := w.step(r); next != 0 || w.event() != "" {
		t.Errorf("a certificate of another user is renewed in %s", next)
	}
	operate()
	w.step(r)
	if event := w.event(); pending() || !strings.Contains(event, "CertificateNotRenewed") {
		t.Errorf("the operation is still there: %t; event %q", pending(), event)
	}
}

// TestRefusal: a gardenlet does not get the certificate of another seed, and requests one again after a refusal.
func TestRefusal(t *testing.T) {
	w := newWorld(t)
	w.give()
	gardenlet := w.ClientAs(t, w.user(), corev1beta1.SeedsGroup)
	wish, _, err := pki.NewRequest(corev1beta1.SeedUserPrefix+"other", []string{corev1beta1.SeedsGroup})
	if err != nil {
		t.Fatal(err)
	}
	request := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "stolen-"}}
	request.Spec = certificatesv1.CertificateSigningRequestSpec{
		Request: wish, SignerName: certificatesv1.KubeAPIServerClientSignerName,
		Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
	}
	if err := gardenlet.Create(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	w.decide(request)
	if c := request.Status.Conditions; len(c) != 1 || c[0].Type != certificatesv1.CertificateDenied ||
		!strings.Contains(c[0].Message, "common name") {
		t.Errorf("conditions of a request for another seed: %v", c)
	}
	foreign := w.ClientAs(t, corev1beta1.SeedUserPrefix+"other", corev1beta1.SeedsGroup)
	if err := foreign.Get(t.Context(), client.ObjectKeyFromObject(request), request); !apierrors.IsForbidden(err) {
		t.Errorf("another gardenlet reads the request: %v", err)
	}

	r := w.start(nil)
	before := r.Access.used.Load()
	w.clock.Step(w.step(r))
	w.step(r)
	if err := w.Client.Get(t.Context(), client.ObjectKey{Name: r.pending().name}, request); err != nil {
		t.Fatal(err)
	}
	request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue, Message: "not today"})
	if err := w.Client.SubResource("approval").Update(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, "the refusal is reported", func() (bool, error) {
		_, err := r.Reconcile(t.Context(), w.seed.DeepCopy())
		return err != nil && strings.Contains(err.Error(), "not today"), err
	})
	if !strings.Contains(w.event(), "not today") || !r.Access.used.Load().Equal(before) {
		t.Error("there is no event, or another certificate")
	}
	w.renew(r)

	// A request that nobody answers is replaced by a new one.
	w.clock.Step(90 * day)
	w.step(r)
	abandoned := r.pending().name
	w.clock.Step(answerTimeout + time.Second)
	w.step(r)
	if r.pending() == nil || r.pending().name == abandoned {
		t.Error("the request is not repeated")
	}
}

// TestRenewalSurvivesFailedWrites: whichever write fails first, the renewal ends with the same certificate in use and
// in the Secret.
func TestRenewalSurvivesFailedWrites(t *testing.T) {
	w := newWorld(t)
	w.give()
	ns := w.Namespace(t, nil)
	secret := &config.SecretReference{Namespace: ns.Name, Name: "gardenlet-kubeconfig"}
	r := w.start(secret)
	w.clock.Step(w.step(r))
	w.step(r)
	w.sign(r.pending().name)
	good := r.Access.seed
	r.Access.seed = failing{good}
	env.Eventually(t, "the failed write is reported", func() (bool, error) {
		_, err := r.Reconcile(t.Context(), w.seed.DeepCopy())
		return errors.Is(err, errFailing), err
	})
	r.Access.seed = good
	w.step(r)
	if r.pending() != nil {
		t.Fatal("the certificate is not stored after the failure")
	}
	stored := &corev1.Secret{}
	if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: secret.Namespace, Name: secret.Name},
		stored); err != nil {
		t.Fatal(err)
	}
	c, err := clientcmd.RESTConfigFromKubeConfig(stored.Data[keyKubeconfig])
	if err != nil {
		t.Fatal(err)
	}
	cert, err := pki.ParseCert(c.CertData)
	if err != nil || !cert.Equal(r.Access.used.Load()) || !slices.Equal(c.CAData, w.ca.CertPEM) {
		t.Errorf("the Secret has another certificate or CA than is in use: %v", err)
	}
}

var errFailing = errors.New("out of order")

// failing rejects every creation.
type failing struct{ client.Client }

func (failing) Create(context.Context, client.Object, ...client.CreateOption) error {
	return errFailing
}

// pending returns the open request; nil without one.
func (r *Reconciler) pending() *request {
	if r.issuer == nil {
		return nil
	}
	return r.issuer.pending[r.SeedName]
}
