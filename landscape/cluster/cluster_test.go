package cluster

import (
	"crypto/x509"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testclock "k8s.io/utils/clock/testing"

	"hortus.dev/hortus/internal/component/golden"
	"hortus.dev/hortus/internal/machine"
	"hortus.dev/hortus/internal/pki"
)

func testValues() Values {
	return Values{
		Name: "garden",
		Images: Images{
			Kubelet: "hortus.dev/kubelet:v1.36.3", KubeAPIServer: "registry.k8s.io/kube-apiserver:v1.36.3",
			KubeControllerManager: "registry.k8s.io/kube-controller-manager:v1.36.3", KubeScheduler: "registry.k8s.io/kube-scheduler:v1.36.3",
			KubeProxy: "registry.k8s.io/kube-proxy:v1.36.3", Etcd: "registry.k8s.io/etcd:3.6.8-0", CoreDNS: "registry.k8s.io/coredns/coredns:v1.14.7",
		},
		PodCIDR: "10.244.0.0/16", ServiceCIDR: "10.0.0.0/24",
		ExtraSANs: []string{"198.18.8.1", "api.garden.example"},
	}
}

// readablePKI has names in place of keys and certificates, so that golden files stay the same and show what goes where.
func readablePKI() *PKI {
	p := &PKI{}
	fields := reflect.ValueOf(p).Elem()
	for i := range fields.NumField() {
		name := fields.Type().Field(i).Name
		fields.Field(i).Set(reflect.ValueOf(pki.KeyPair{CertPEM: []byte("certificate of " + name + "\n"), KeyPEM: []byte("key of " + name + "\n")}))
	}
	return p
}

func TestUserData(t *testing.T) {
	v := testValues()
	v.PKI = readablePKI()
	data, err := UserData(v)
	if err != nil {
		t.Fatal(err)
	}
	golden.Bytes(t, "userdata.yaml", data)
	if _, err := machine.ParseUserData(data); err != nil {
		t.Errorf("machines cannot read the user data: %v", err)
	}
}

func TestAddons(t *testing.T) {
	v := testValues()
	v.PKI = readablePKI()
	objects, err := Addons(v)
	if err != nil {
		t.Fatal(err)
	}
	golden.Objects(t, "addons", objects...)
}

func TestPKI(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	p, err := NewPKI(testValues(), testclock.NewFakePassiveClock(now))
	if err != nil {
		t.Fatal(err)
	}
	server, err := pki.ParseCert(p.Server.CertPEM)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(p.CA.CertPEM)
	for _, name := range []string{"127.0.0.1", "10.0.0.1", "198.18.8.1", "api.garden.example", "kubernetes.default.svc.cluster.local"} {
		if _, err := server.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now.Add(5 * 365 * 24 * time.Hour)}); err != nil {
			t.Errorf("the API server's certificate is not good for %s: %v", name, err)
		}
	}
	kubelet, err := pki.ParseCert(p.KubeletClient.CertPEM)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("CN=system:node:garden,O=system:nodes", kubelet.Subject.String()); diff != "" {
		t.Errorf("kubelet's subject mismatch (-want +got):\n%s", diff)
	}
	v := testValues()
	v.ServiceCIDR = "10.0.0.0"
	if _, err := NewPKI(v, testclock.NewFakePassiveClock(now)); err == nil {
		t.Error("NewPKI accepts a service network that is none")
	}
}
