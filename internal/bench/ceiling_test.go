package bench

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/test/env"
)

// requestBytes and answerBytes are the sizes of a Shoot in a create request and in its response.
const (
	requestBytes = 6 << 10
	answerBytes  = 13 << 10
)

// BenchmarkCeiling sends the requests of BenchmarkAPI through the kube-apiserver to a server that does nothing: no API
// server can be faster on this machine.
func BenchmarkCeiling(b *testing.B) {
	e := env.Start(b)
	idle := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", plainJSON)
		_, _ = io.WriteString(w, `{"kind":"Thing","padding":"`+strings.Repeat("x", answerBytes)+`"}`)
	}))
	idle.EnableHTTP2 = true
	idle.StartTLS()
	defer idle.Close()
	passOn(b, e.Client, int32(idle.Listener.Addr().(*net.TCPAddr).Port))

	config := rest.CopyConfig(e.Config)
	config.UserAgent, config.DisableCompression = userAgent, true
	clients, err := newJSONClients(config, 16)
	if err != nil {
		b.Fatal(err)
	}
	body := []byte(`{"padding":"` + strings.Repeat("x", requestBytes) + `"}`)
	create := func(ctx context.Context, c *jsonClient, _ int) (int64, error) {
		return c.send(ctx, http.MethodPost, "/apis/bench.hortus.dev/v1/things", plainJSON, body)
	}
	for {
		if _, err := load(b.Context(), clients[:1], 1, create); err == nil {
			break
		} else if !hasStatus(err, http.StatusNotFound, http.StatusServiceUnavailable) {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		result, err := load(b.Context(), clients, 5000, create)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(perSecond(5000, result.elapsed), "requests/s")
	}
	b.ReportMetric(0, "ns/op")
}

// passOn makes the kube-apiserver forward requests for a group to a local port.
func passOn(b *testing.B, garden client.Client, port int32) {
	b.Helper()
	name := "ceiling"
	for _, object := range []client.Object{
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
		},
		&apiregistrationv1.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: "v1.bench.hortus.dev"},
			Spec: apiregistrationv1.APIServiceSpec{
				Service: &apiregistrationv1.ServiceReference{Namespace: metav1.NamespaceDefault, Name: name, Port: ptr.To(port)},
				Group:   "bench.hortus.dev", Version: "v1", InsecureSkipTLSVerify: true, GroupPriorityMinimum: 100,
				VersionPriority: 100,
			},
		},
	} {
		if err := garden.Create(b.Context(), object); err != nil {
			b.Fatal(err)
		}
	}
}
