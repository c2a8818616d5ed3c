package test

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/test/env"
)

// callsOffered: the API server requests webhooks in the seed by the names in their URLs. The tunnel server lets it
// reach those that are offered.
func callsOffered(t *testing.T, e *env.Environment, ca *pki.CA, out *tunnelServer) {
	const answered = "the extension has answered"
	pair, err := ca.Issue(pki.Request{
		CommonName: "hook", DNSNames: []string{"hook.extension-noted", "hook.extension-noted.svc"}, Usage: pki.Server,
	})
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &admissionv1.AdmissionReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Result: &metav1.Status{Message: answered},
		}
		respond(w, review)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	address := server.Listener.Addr().String()
	out.mu.Lock()
	out.offered = map[string]string{"hook.extension-noted:443": address, "hook.extension-noted.svc:8443": address}
	out.mu.Unlock()

	for name, tc := range map[string]struct{ url, want string }{
		"by-service":     {"https://hook.extension-noted/webhooks/shoot", answered},
		"with-svc":       {"https://hook.extension-noted.svc:8443/webhooks/shoot", answered},
		"other-port":     {"https://hook.extension-noted.svc:443/webhooks/shoot", "403 Forbidden"},
		"other-service":  {"https://other.extension-noted.svc:8443/webhooks/shoot", "403 Forbidden"},
		"other-spelling": {"https://hook.extension-noted.svc.cluster.local:8443/webhooks/shoot", "403 Forbidden"},
	} {
		registration := &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: name + ".example.com", AdmissionReviewVersions: []string{"v1"},
				SideEffects:    ptr.To(admissionregistrationv1.SideEffectClassNone),
				ClientConfig:   admissionregistrationv1.WebhookClientConfig{URL: ptr.To(tc.url), CABundle: ca.CertPEM},
				ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"probe": name}},
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{"CREATE"},
					Rule: admissionregistrationv1.Rule{
						APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"},
					},
				}},
			}},
		}
		e.Create(t, registration)
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", GenerateName: "probe-", Labels: map[string]string{"probe": name},
		}}
		env.Eventually(t, "the server calls "+tc.url, func() (bool, error) {
			err := e.Client.Create(t.Context(), probe.DeepCopy(), client.DryRunAll)
			if err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v, want %s", tc.url, err, tc.want)
			}
			return err != nil, nil
		})
	}
}
