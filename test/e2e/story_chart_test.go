//go:build landscape

package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/internal/chart/oci"
	"hortus.dev/hortus/internal/pki"
)

// TestChartsComeFromRegistries installs an extension whose chart is in a registry that requires a password and has a
// certificate of its own CA; changes it to a tag that does not exist, then to one that does; and removes it.
func TestChartsComeFromRegistries(t *testing.T) {
	story(t, firstSeed)
	const namespace = "extension-leaflet-local-1"
	garden := kubeconfigOf("garden")
	r := newChartRegistry(t)
	r.push(t, "1.0.0", "first")
	r.push(t, "2.0.0", "second")

	t.Cleanup(func() {
		kubectl(t, garden, "delete", "--ignore-not-found", "controllerregistration,controllerdeployment", "leaflet")
		kubectl(t, garden, "-n", "garden", "delete", "--ignore-not-found", "secret", "leaflet-registry", "leaflet-ca")
	})
	install := func(tag string) {
		t.Helper()
		if out, err := applyText(t, garden, r.installation(tag)); err != nil {
			t.Fatalf("apply: %v\n%s", err, out)
		}
	}
	shows := func(edition string) error {
		out, err := kubectlE(t, garden, "-n", namespace, "get", "configmap", "leaflet", "-o", "jsonpath={.data.edition}")
		if err != nil || out != edition {
			return fmt.Errorf("the extension shows %q: %v", out, err)
		}
		return nil
	}
	condition := func(kind string) string {
		return kubectl(t, garden, "get", "controllerinstallation", "leaflet-local-1", "-o",
			fmt.Sprintf(`jsonpath={range .status.conditions[?(@.type==%q)]}{.status} {.reason}: {.message}{end}`, kind))
	}

	install("1.0.0")
	eventually(t, "the first edition", func() error { return shows("first") })
	eventually(t, "the extension is reported as healthy", func() error {
		if got := condition("Healthy"); !strings.HasPrefix(got, "True") {
			return fmt.Errorf("Healthy is %s", got)
		}
		return nil
	})

	install("3.0.0")
	eventually(t, "the missing chart is reported", func() error {
		got, want := condition("Valid"), `False OCIChartCannotBePulled: helm.ociRepository of ControllerDeployment "leaflet": `+
			"pull chart "+r.address
		if !strings.HasPrefix(got, want) {
			return fmt.Errorf("Valid is %s, want %s", got, want)
		}
		return nil
	})
	if err := shows("first"); err != nil {
		t.Errorf("a chart that is missing changes the extension: %v", err)
	}

	install("2.0.0")
	eventually(t, "the second edition", func() error { return shows("second") })
	eventually(t, "the chart is reported as valid", func() error {
		if got := condition("Valid"); !strings.HasPrefix(got, "True") {
			return fmt.Errorf("Valid is %s", got)
		}
		return nil
	})
	kubectl(t, garden, "delete", "controllerregistration", "leaflet")
	eventually(t, "nothing of the extension is left", func() error {
		if out := kubectl(t, garden, "get", "namespace", namespace, "--ignore-not-found", "-o", "name"); out != "" {
			return fmt.Errorf("there is %s", out)
		}
		return nil
	})
}

// chartRegistry is a registry on the host, at an address that pods reach.
type chartRegistry struct {
	address, password string
	ca                *pki.CA
	transport         http.RoundTripper
}

func newChartRegistry(t *testing.T) *chartRegistry {
	t.Helper()
	ca, err := pki.NewCA("ca-of-registry", clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Issue(pki.Request{CommonName: "registry", IPs: []net.IP{net.ParseIP(cloudAddress)}, Usage: pki.Server})
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(cloudAddress, "0"))
	if err != nil {
		t.Fatal(err)
	}
	r := &chartRegistry{address: listener.Addr().String(), password: "open sesame", ca: ca}
	content := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, password, _ := req.BasicAuth(); password != r.password {
			w.Header().Set("WWW-Authenticate", `Basic realm="charts"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		content.ServeHTTP(w, req)
	}))
	server.Listener.Close()
	server.Listener = listener
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(ca.Cert())
	transport := remote.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	r.transport = transport
	return r
}

// push stores a chart with one ConfigMap, which says the edition.
func (r *chartRegistry) push(t *testing.T, tag, edition string) {
	t.Helper()
	archive, err := chart.Archive(fstest.MapFS{
		"leaflet/Chart.yaml": {Data: fmt.Appendf(nil, "apiVersion: v2\nname: leaflet\nversion: %s\n", tag)},
		"leaflet/templates/leaflet.yaml": {Data: fmt.Appendf(nil, `apiVersion: v1
kind: ConfigMap
metadata: {name: leaflet, namespace: {{ .Release.Namespace }}}
data: {edition: %s}
`, edition)},
	}, "leaflet", "leaflet")
	if err != nil {
		t.Fatal(err)
	}
	r.pushArchive(t, "leaflet", tag, archive)
}

// pushArchive stores a chart.
func (r *chartRegistry) pushArchive(t *testing.T, chart, tag string, archive []byte) {
	t.Helper()
	image, err := mutate.Append(empty.Image, mutate.Addendum{
		Layer: static.NewLayer(archive, oci.ChartMediaType), MediaType: oci.ChartMediaType,
	})
	if err != nil {
		t.Fatal(err)
	}
	to, err := name.ParseReference(r.address + "/charts/" + chart + ":" + tag)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(to, image, remote.WithTransport(r.transport),
		remote.WithAuth(&authn.Basic{Username: "ali", Password: r.password})); err != nil {
		t.Fatal(err)
	}
}

// secrets are Secrets <owner>-registry, with the password of the registry, and <owner>-ca, with its CA.
func (r *chartRegistry) secrets(owner string) string {
	config := fmt.Sprintf(`{"auths":{%q:{"username":"ali","password":%q}}}`, r.address, r.password)
	return fmt.Sprintf(`apiVersion: v1
kind: Secret
metadata: {name: %[1]s-registry, namespace: garden}
type: kubernetes.io/dockerconfigjson
data: {.dockerconfigjson: %[2]s}
---
apiVersion: v1
kind: Secret
metadata: {name: %[1]s-ca, namespace: garden}
data: {bundle.crt: %[3]s}
`, owner, base64.StdEncoding.EncodeToString([]byte(config)), base64.StdEncoding.EncodeToString(r.ca.CertPEM))
}

// installation installs the chart with a tag in the first seed.
func (r *chartRegistry) installation(tag string) string {
	return r.secrets("leaflet") + fmt.Sprintf(`---
apiVersion: core.gardener.cloud/v1
kind: ControllerDeployment
metadata: {name: leaflet}
helm:
  ociRepository:
    ref: %s/charts/leaflet:%s
    pullSecretRef: {name: leaflet-registry}
    caBundleSecretRef: {name: leaflet-ca}
---
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerRegistration
metadata: {name: leaflet}
spec:
  deployment:
    deploymentRefs: [{name: leaflet}]
    policy: Always
    seedSelector:
      matchLabels: {name.seed.gardener.cloud/local-1: "true"}
`, r.address, tag)
}
