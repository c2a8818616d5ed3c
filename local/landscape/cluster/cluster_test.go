package cluster

import (
	"bytes"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	testclock "k8s.io/utils/clock/testing"

	etcdmember "hortus.dev/hortus/internal/etcdmember/command"
	"hortus.dev/hortus/internal/golden"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/local/machineinit"
)

func testValues() Values {
	return Values{
		Name: "garden", KubernetesVersion: "1.36.3", NodeAddress: "10.1.0.10", PublicAddress: "198.18.8.1",
		Region: "local", Zone: "local-a", APIServerNames: []string{"api.garden.landscape.local"},
		Pods: "10.244.0.0/22", Routes: []Route{{Pods: "10.244.4.0/22", Via: "10.1.0.11"}},
		PodCIDR: "10.244.0.0/16", ServiceCIDR: "10.0.0.0/24", APIServiceIP: "10.0.0.1", DNSServiceIP: "10.0.0.10",
		UpstreamDNS: "198.18.0.1",
		SeedAuthorizer: &SeedAuthorizer{
			Server: "https://10.0.0.11/authorize/seeds", TLSServerName: "hortus-apiserver.garden.svc",
			CA: []byte("CA of the garden\n"),
		},
		EtcdBackup: &EtcdBackup{
			Image: "hortus.dev/hortus:dev", Prefix: "kubernetes-etcd",
			Store: map[string]string{"accessKeyID": "ID", "bucketName": "hortus-garden"},
		},
		Images: Images{
			Kubelet: "hortus.dev/kubelet:v1.36.3@sha256:0123", KubeAPIServer: "registry.k8s.io/kube-apiserver:v1.36.3",
			KubeControllerManager: "registry.k8s.io/kube-controller-manager:v1.36.3",
			KubeScheduler:         "registry.k8s.io/kube-scheduler:v1.36.3",
			KubeProxy:             "registry.k8s.io/kube-proxy:v1.36.3", Etcd: "registry.k8s.io/etcd:3.6.8-0",
			CoreDNS: "registry.k8s.io/coredns/coredns:v1.14.7",
		},
	}
}

// readablePKI has names instead of keys and certificates, so that golden files are deterministic and show the place of
// each.
func readablePKI() *PKI {
	p := &PKI{}
	fields := reflect.ValueOf(p).Elem()
	for i := range fields.NumField() {
		name := fields.Type().Field(i).Name
		switch field := fields.Field(i).Addr().Interface().(type) {
		case *pki.KeyPair:
			*field = pki.KeyPair{CertPEM: []byte("certificate of " + name + "\n"), KeyPEM: []byte("key of " + name + "\n")}
		case *[]byte:
			*field = []byte(name + "\n")
		case *string:
			*field = name
		}
	}
	return p
}

func TestUserData(t *testing.T) {
	encoded, err := UserData(testValues(), readablePKI())
	if err != nil {
		t.Fatal(err)
	}
	golden.Bytes(t, "userdata.yaml", encoded)
	data, err := machineinit.ParseUserData(encoded)
	if err != nil {
		t.Fatalf("machines cannot read the user data: %v", err)
	}
	for _, file := range data.Files {
		if bytes.HasPrefix([]byte(file.Path), []byte(manifestDir)) {
			var pod map[string]any
			if err := yaml.Unmarshal([]byte(file.Content.Inline.Data), &pod); err != nil {
				t.Errorf("kubelets cannot read %s: %v", file.Path, err)
			}
		}
		if file.Path == manifestDir+"etcd.yaml" {
			checkEtcdArguments(t, file.Content.Inline.Data)
		}
	}
}

func TestWorkerUserData(t *testing.T) {
	w := Worker{
		Name: "garden-node-2", Address: "10.1.0.11", Zone: "local-b", Pods: "10.244.4.0/22",
		Routes: []Route{{Pods: "10.244.0.0/22", Via: "10.1.0.10"}},
	}
	credentials := &WorkerPKI{
		Kubelet:        pki.KeyPair{CertPEM: []byte("client certificate\n"), KeyPEM: []byte("client key\n")},
		KubeletServing: pki.KeyPair{CertPEM: []byte("serving certificate\n"), KeyPEM: []byte("serving key\n")},
	}
	encoded, err := WorkerUserData(testValues(), w, readablePKI(), credentials)
	if err != nil {
		t.Fatal(err)
	}
	golden.Bytes(t, "worker-userdata.yaml", encoded)
	if _, err := machineinit.ParseUserData(encoded); err != nil {
		t.Errorf("machines cannot read the user data: %v", err)
	}
	for _, secret := range []string{"key of CA", "key of ServiceAccountKey", "key of EtcdServer"} {
		if bytes.Contains(encoded, []byte(secret)) {
			t.Errorf("a node without a control plane has the %s", secret)
		}
	}
}

// checkEtcdArguments checks that the program has the flags in the arguments of the pod.
func checkEtcdArguments(t *testing.T, manifest string) {
	t.Helper()
	pod := &corev1.Pod{}
	if err := yaml.Unmarshal([]byte(manifest), pod); err != nil {
		t.Fatal(err)
	}
	args := pod.Spec.Containers[0].Args
	command := etcdmember.NewCommand()
	run, flags, err := command.Find(args[1:])
	if err == nil {
		err = run.ParseFlags(flags)
	}
	if err != nil || len(run.Flags().Args()) < 10 {
		t.Errorf("'hortus %s' does not take the arguments of the pod: %v", strings.Join(args, " "), err)
	}
}

// fakeCtr mounts images that contain a kubelet with the name of its image, and records the pulled images.
const fakeCtr = `#!/bin/sh
case "$4" in
pull) echo "$7" >> "$PULLED" ;;
mount) mkdir -p "$6/usr/local/bin" && echo "kubelet of $5" > "$6/usr/local/bin/kubelet" ;;
unmount) rm -r "$6/usr" ;;
esac
`

func TestKubeletIsReplacedWhenItsImageDiffers(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ctr"), []byte(fakeCtr), 0o700); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, step := range []struct {
		what, image string
		remove      string // A file that was lost before.
		pulls       bool
	}{
		{what: "the first boot", image: "kubelet:v1@sha256:1", pulls: true},
		{what: "a second boot", image: "kubelet:v1@sha256:1"},
		{what: "another build of the same version", image: "kubelet:v1@sha256:2", pulls: true},
		{what: "another version", image: "kubelet:v2@sha256:3", pulls: true},
		{what: "an interrupted installation", image: "kubelet:v2@sha256:3", remove: "kubelet.image", pulls: true},
		{what: "a missing kubelet", image: "kubelet:v2@sha256:3", remove: "kubelet", pulls: true},
		{what: "a last boot", image: "kubelet:v2@sha256:3"},
	} {
		if step.pulls {
			want = append(want, step.image)
		}
		if step.remove != "" {
			if err := os.Remove(filepath.Join(dir, "bin", step.remove)); err != nil {
				t.Fatal(err)
			}
		}
		script, err := render("install.sh", Values{Images: Images{Kubelet: step.image}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		install := exec.CommandContext(t.Context(), "/bin/sh", "-c",
			strings.ReplaceAll(string(script), "/opt/bin", dir+"/bin"))
		install.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "PULLED=" + dir + "/pulled", "TMPDIR=" + dir}
		if out, err := install.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", step.what, err, out)
		}
		kubelet, err := os.ReadFile(filepath.Join(dir, "bin", "kubelet"))
		if err != nil || string(kubelet) != "kubelet of "+step.image+"\n" {
			t.Errorf("%s leaves %q, %v", step.what, kubelet, err)
		}
		if info, err := os.Stat(filepath.Join(dir, "bin", "kubelet")); err != nil || info.Mode().Perm() != modeExecute {
			t.Errorf("%s leaves a kubelet that cannot be run: %v, %v", step.what, info, err)
		}
		pulled, err := os.ReadFile(filepath.Join(dir, "pulled"))
		if diff := cmp.Diff(want, strings.Fields(string(pulled))); err != nil || diff != "" {
			t.Errorf("%s: pulled images mismatch (-want +got): %v\n%s", step.what, err, diff)
		}
	}
}

func TestClustersWithoutGardenCallNoAuthorizer(t *testing.T) {
	v := testValues()
	v.SeedAuthorizer, v.EtcdBackup = nil, nil
	encoded, err := UserData(v, readablePKI())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(encoded, []byte("--authorization-mode=Node,RBAC")) ||
		bytes.Contains(encoded, []byte("seed-authorizer")) ||
		bytes.Contains(encoded, []byte("kubernetes/etcd/")) {
		t.Errorf("the API server has a seed authorizer:\n%s", encoded)
	}
}

func TestAddons(t *testing.T) {
	addons, err := Addons(testValues())
	if err != nil {
		t.Fatal(err)
	}
	golden.Bytes(t, "addons.yaml", addons)
}

func TestPKI(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	p, err := NewPKI(testValues(), testclock.NewFakePassiveClock(now))
	if err != nil {
		t.Fatal(err)
	}
	server, err := pki.ParseCert(p.APIServer.CertPEM)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(p.CA.CertPEM)
	for _, name := range []string{
		"127.0.0.1", "10.0.0.1", "10.1.0.10", "198.18.8.1", "api.garden.landscape.local", "kubernetes.default.svc",
	} {
		if _, err := server.Verify(x509.VerifyOptions{
			Roots: roots, DNSName: name, CurrentTime: now.Add(4 * 365 * 24 * time.Hour),
		}); err != nil {
			t.Errorf("the API server's certificate is not valid for %s: %v", name, err)
		}
	}
	kubelet, err := pki.ParseCert(p.Kubelet.CertPEM)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("CN=system:node:garden,O=system:nodes", kubelet.Subject.String()); diff != "" {
		t.Errorf("kubelet's subject mismatch (-want +got):\n%s", diff)
	}
}

func TestDue(t *testing.T) {
	made := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	ca, err := pki.NewCA("ca", testclock.NewFakePassiveClock(made))
	if err != nil {
		t.Fatal(err)
	}
	const month = 30 * 24 * time.Hour
	for name, tc := range map[string]struct {
		life, after time.Duration
		want        bool
	}{
		"new":                                 {validity, 0, false},
		"five years, after 13 months":         {validity, 13 * month, false},
		"five years, with half of them left":  {validity, validity / 2, false},
		"five years, with a third of it left": {validity, validity*2/3 + month, true},
		"five years, expired":                 {validity, validity + month, true},
		"a year, after 7 months":              {365 * 24 * time.Hour, 7 * month, false},
		"a year, after 13 months":             {365 * 24 * time.Hour, 13 * month, true},
	} {
		pair, err := ca.Issue(pki.Request{CommonName: "a", Usage: pki.Client, Validity: tc.life})
		if err != nil {
			t.Fatal(err)
		}
		if due, err := Due(*pair, made.Add(tc.after)); due != tc.want || err != nil {
			t.Errorf("%s: Due() = %t, %v", name, due, err)
		}
	}
	if due, err := Due(pki.KeyPair{}, made); !due || err != nil {
		t.Errorf("one that does not exist: Due() = %t, %v", due, err)
	}
	if _, err := Due(pki.KeyPair{CertPEM: []byte("x")}, made); err == nil {
		t.Error("one that cannot be read is replaced")
	}
}

// TestRenewal: due certificates are replaced by ones that clients trust as before; CAs and keys stay.
func TestRenewal(t *testing.T) {
	clock := testclock.NewFakePassiveClock(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	p, err := NewPKI(testValues(), clock)
	if err != nil {
		t.Fatal(err)
	}
	worker := &WorkerPKI{}
	if _, err := p.RenewWorker(worker, Worker{Name: "w", Address: "10.1.0.11"}, clock); err != nil {
		t.Fatal(err)
	}
	before, workerBefore := *p, *worker
	clock.SetTime(clock.Now().Add(13 * 30 * 24 * time.Hour))
	changed, err := p.Renew(testValues(), clock)
	if diff := cmp.Diff(before, *p); changed || err != nil || diff != "" {
		t.Fatalf("after 13 months: changed %t, %v:\n%s", changed, err, diff)
	}
	clock.SetTime(clock.Now().Add(3 * 365 * 24 * time.Hour))
	if changed, err := p.Renew(testValues(), clock); !changed || err != nil {
		t.Fatalf("after four years: changed %t, %v", changed, err)
	}
	if changed, err := p.RenewWorker(worker, Worker{Name: "w", Address: "10.1.0.11"}, clock); !changed || err != nil {
		t.Fatalf("after four years: worker changed %t, %v", changed, err)
	}
	stays := func(p PKI) []any {
		return []any{p.CA, p.FrontProxyCA, p.EtcdCA, p.ServiceAccountKey, p.ServiceAccountPublicKey, p.EncryptionKey}
	}
	if diff := cmp.Diff(stays(before), stays(*p)); diff != "" {
		t.Errorf("CAs or keys have changed:\n%s", diff)
	}
	for _, c := range []struct {
		name              string
		ca, before, after pki.KeyPair
	}{
		{"API server", p.CA, before.APIServer, p.APIServer},
		{"administrator", p.CA, before.Admin, p.Admin},
		{"etcd", p.EtcdCA, before.EtcdServer, p.EtcdServer},
		{"front proxy", p.FrontProxyCA, before.FrontProxy, p.FrontProxy},
		{"node", p.CA, workerBefore.KubeletServing, worker.KubeletServing},
	} {
		old, err := pki.ParseCert(c.before.CertPEM)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := pki.ParseCert(c.after.CertPEM)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(c.ca.CertPEM)
		_, err = cert.Verify(x509.VerifyOptions{
			Roots: roots, CurrentTime: clock.Now().Add(4 * 365 * 24 * time.Hour),
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
		})
		if err != nil || cert.Subject.String() != old.Subject.String() || !cmp.Equal(cert.DNSNames, old.DNSNames) {
			t.Errorf("%s: the new certificate is for %s %v, the old one for %s %v; %v",
				c.name, cert.Subject, cert.DNSNames, old.Subject, old.DNSNames, err)
		}
	}
}
