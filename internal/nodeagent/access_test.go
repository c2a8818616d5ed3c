package nodeagent

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/nodeagent/config"
	"hortus.dev/hortus/internal/nodeagent/osc"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/test/env"
)

// TestJoin has a node agent get a certificate with its bootstrap token from a real API server, with the permissions
// that the gardenlet grants.
func TestJoin(t *testing.T) {
	e := env.Start(t)
	e.Create(t, osc.Access()...)
	n := newNode(t)
	n.write(t, config.MachineNameFile, "machine-1")
	access := &Access{
		Root: n.root, HostName: "node", Clock: clock.RealClock{},
		Config: &config.Configuration{APIServer: config.APIServer{Server: "https://api.example", CABundle: []byte("ca")}},
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	ca, err := pki.NewCA("clients", clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	admin := kubernetes.NewForConfigOrDie(e.Config)
	const user, group = "system:bootstrap:abcdef", "system:bootstrappers"
	env.Eventually(t, "the API server has seen the permissions", func() (bool, error) {
		review, err := admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User: user, Groups: []string{group}, ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: "create", Group: certificatesv1.GroupName, Resource: "certificatesigningrequests",
				},
			},
		}, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed, err
	})
	signed := make(chan error, 1)
	go func() { signed <- approveAndSign(ctx, admin, ca) }()
	if _, err := access.Renew(ctx, e.As(user, group)); err != nil {
		t.Fatal(err)
	}
	if err := <-signed; err != nil {
		t.Fatal(err)
	}
	own, err := clientcmd.BuildConfigFromFlags("", access.path(config.KubeconfigFile))
	if err != nil {
		t.Fatal(err)
	}
	cert, err := pki.ParseCert(own.CertData)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("CN="+corev1beta1.NodeAgentUserPrefix+"machine-1,O="+corev1beta1.NodeAgentsGroup,
		cert.Subject.String()); diff != "" || own.Host != "https://api.example" {
		t.Errorf("own access is for %s at %s", cert.Subject, own.Host)
	}
}

// approveAndSign does for one request what the resource manager and kube-controller-manager do.
func approveAndSign(ctx context.Context, admin kubernetes.Interface, ca *pki.CA) error {
	requests := admin.CertificatesV1().CertificateSigningRequests()
	watch, err := requests.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer watch.Stop()
	var request *certificatesv1.CertificateSigningRequest
	for request == nil {
		event := <-watch.ResultChan()
		request, _ = event.Object.(*certificatesv1.CertificateSigningRequest)
	}
	block, _ := pem.Decode(request.Spec.Request)
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return err
	}
	request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test", LastUpdateTime: metav1.Now(),
	}}
	if request, err = requests.UpdateApproval(ctx, request.Name, request, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if request.Status.Certificate, err = ca.Sign(pki.Request{
		CommonName: parsed.Subject.CommonName, Organizations: parsed.Subject.Organization, Usage: pki.Client,
	}, parsed.PublicKey); err != nil {
		return err
	}
	_, err = requests.UpdateStatus(ctx, request, metav1.UpdateOptions{})
	return err
}

func TestEnsureNeedsAnAccess(t *testing.T) {
	n := newNode(t)
	now := testclock.NewFakeClock(time.Unix(1e9, 0))
	access := &Access{
		Root: n.root, HostName: "node", Clock: now,
		Config: &config.Configuration{APIServer: config.APIServer{Server: "https://new", CABundle: []byte("ca")}},
	}
	if _, err := access.Ensure(t.Context()); err == nil || !strings.Contains(err.Error(), "bootstrap token") {
		t.Errorf("Ensure without anything: %v", err)
	}
	ca, err := pki.NewCA("clients", now)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Issue(pki.Request{CommonName: "agent", Usage: pki.Client, Validity: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := pki.Kubeconfig{Server: "https://old", CAPEM: []byte("old"), Client: pair}.Render()
	if err != nil {
		t.Fatal(err)
	}
	n.write(t, config.KubeconfigFile, string(kubeconfig))
	own, err := access.Ensure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if own.Host != "https://new" || string(own.CAData) != "ca" ||
		!strings.Contains(n.read(t, config.KubeconfigFile), "https://new") {
		t.Errorf("a changed URL is not used: %s", own.Host)
	}
	now.Step(2 * time.Hour)
	if _, err := access.Ensure(t.Context()); err == nil {
		t.Error("an expired certificate is used")
	}
	cert, err := pki.ParseCert(pair.CertPEM)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := renewAt(cert), time.Unix(1e9, 0).Add(48*time.Minute); got.Sub(want).Abs() > time.Minute {
		t.Errorf("renewed at %s, want about %s", got, want)
	}
}
