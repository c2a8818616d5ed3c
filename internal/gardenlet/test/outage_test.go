package test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/apiserver/admission/seedrestriction"
	seedlifecycle "hortus.dev/hortus/internal/controllermanager/seed"
	"hortus.dev/hortus/internal/gardenlet"
	"hortus.dev/hortus/internal/gardenlet/config"
	"hortus.dev/hortus/test/env"
)

// TestGardenletIsReadyAfterAnOutage starts a gardenlet that does not reach the garden, connects it, and cuts it off
// again until the controller manager, 20 minutes later by its clock, has given it up.
func TestGardenletIsReadyAfterAnOutage(t *testing.T) {
	// Dead connections are found as in production, only earlier, but not so early that a busy server seems dead.
	t.Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "1")
	t.Setenv("HTTP2_PING_TIMEOUT_SECONDS", "5")
	e := env.Shared(t)
	e.GardenRoles(t)
	namespaces(t, e)
	seed := &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: env.Name("seed-")}}
	dns := dnsSecret(t, e, seed.Name)
	network := newLink(t, e.Config.Host)
	is := func(want corev1beta1.ConditionStatus) func() (bool, error) {
		return func() (bool, error) {
			if err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(seed), seed); err != nil {
				return false, err
			}
			c := corev1beta1.FindCondition(seed.Status.Conditions, corev1beta1.SeedGardenletReady)
			return c != nil && c.Status == want, nil
		}
	}

	network.cut()
	c := configuration(t, e, network, seed.Name, dns.Name)
	run(t, c)
	env.Eventually(t, "the gardenlet tries to reach the garden", func() (bool, error) {
		return network.attempts() > 0, nil
	})
	probe := func(path string, want int) func() (bool, error) {
		return func() (bool, error) {
			got, err := status(t, c, path)
			return got == want, err
		}
	}
	env.Eventually(t, "it waits alive", probe("/healthz", http.StatusOK))
	env.Eventually(t, "it is not ready", probe("/readyz", http.StatusServiceUnavailable))
	network.restore()
	env.Eventually(t, "the gardenlet is ready", probe("/readyz", http.StatusOK))
	env.Eventually(t, "the Seed is ready", is(corev1beta1.ConditionTrue))

	before, err := failures("seed")
	if err != nil {
		t.Fatal(err)
	}
	network.cut()
	env.Eventually(t, "the gardenlet tries in vain", func() (bool, error) {
		failed, err := failures("seed")
		return failed > before && network.attempts() > 5, err
	})
	later := clocktesting.NewFakePassiveClock(time.Now().Add(20 * time.Minute))
	lifecycle := &seedlifecycle.Lifecycle{Garden: e.Client, Live: e.Client, Clock: later}
	if _, err := lifecycle.Reconcile(t.Context(), seed); err != nil {
		t.Fatal(err)
	}
	if unknown, err := is(corev1beta1.ConditionUnknown)(); !unknown {
		t.Fatalf("the conditions of a Seed that is cut off are %+v (%v)", seed.Status.Conditions, err)
	}
	installation := &corev1beta1.ControllerInstallation{
		ObjectMeta: metav1.ObjectMeta{Name: env.Name("extension-")},
		Spec: corev1beta1.ControllerInstallationSpec{
			RegistrationRef: corev1.ObjectReference{Name: "extension"}, SeedRef: &corev1.ObjectReference{Name: seed.Name},
		},
	}
	e.Create(t, installation)
	network.restore()
	env.Eventually(t, "the Seed is ready again", is(corev1beta1.ConditionTrue))
	env.Eventually(t, "the gardenlet sees what has changed meanwhile", func() (bool, error) {
		err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(installation), installation)
		return len(installation.Finalizers) > 0, err
	})
}

// namespaces makes those of every garden.
func namespaces(t *testing.T, e *env.Environment) {
	t.Helper()
	for _, name := range []string{corev1beta1.GardenNamespace, corev1beta1.SeedLeaseNamespace} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := e.Client.Create(t.Context(), namespace); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
}

// configuration of a gardenlet that reaches the garden by the network only, as the user of its Seed.
func configuration(t *testing.T, e *env.Environment, garden *link, name, dns string) *config.GardenletConfiguration {
	t.Helper()
	dir := t.TempDir()
	files := map[string][]byte{"seed": e.Kubeconfig}
	k := clientcmdapi.NewConfig()
	k.Clusters["garden"] = &clientcmdapi.Cluster{Server: garden.url(), CertificateAuthorityData: e.Config.CAData}
	k.AuthInfos["gardenlet"] = &clientcmdapi.AuthInfo{
		Token: e.Config.BearerToken, Impersonate: corev1beta1.SeedUserPrefix + name,
		ImpersonateGroups: []string{corev1beta1.SeedsGroup, "system:authenticated"},
	}
	k.Contexts["garden"] = &clientcmdapi.Context{Cluster: "garden", AuthInfo: "gardenlet"}
	k.CurrentContext = "garden"
	var err error
	if files["garden"], err = clientcmd.Write(*k); err != nil {
		t.Fatal(err)
	}
	for file, content := range files {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := &config.GardenletConfiguration{
		GardenClientConnection: config.GardenClientConnection{
			ClientConnection: config.ClientConnection{Kubeconfig: filepath.Join(dir, "garden")},
		},
		SeedClientConnection: &config.ClientConnection{Kubeconfig: filepath.Join(dir, "seed")},
		Server: &config.Server{
			HealthProbes: &config.Endpoint{BindAddress: "127.0.0.1", Port: freePort(t)},
			Metrics:      &config.Endpoint{BindAddress: "127.0.0.1", Port: freePort(t)},
		},
		SeedConfig: &config.SeedConfig{},
		LogLevel:   "error",
	}
	c.SeedConfig.Name = name
	c.SeedConfig.Spec = seedSpec(dns)
	config.SetDefaults(c)
	return c
}

// dnsSecret makes the Secret that a Seed refers to.
func dnsSecret(t *testing.T, e *env.Environment, seed string) *corev1.Secret {
	t.Helper()
	dns := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: corev1beta1.GardenNamespace, Name: env.Name("dns-"),
		Annotations: map[string]string{seedrestriction.AnnotationSeeds: seed},
	}}
	e.Create(t, dns)
	return dns
}

// seedSpec is for a Seed with a Secret for DNS.
func seedSpec(dns string) corev1beta1.SeedSpec {
	credentials := corev1.ObjectReference{
		APIVersion: "v1", Kind: "Secret", Namespace: corev1beta1.GardenNamespace, Name: dns,
	}
	return corev1beta1.SeedSpec{
		Provider: corev1beta1.SeedProvider{Type: "local", Region: "local"},
		Networks: corev1beta1.SeedNetworks{Pods: "10.244.0.0/16", Services: "10.0.0.0/24"},
		Ingress: &corev1beta1.Ingress{
			Domain: "ingress.local.hortus.dev", Controller: corev1beta1.IngressController{Kind: "nginx"},
		},
		DNS: corev1beta1.SeedDNS{
			Provider: &corev1beta1.SeedDNSProvider{Type: "local", CredentialsRef: &credentials},
			Internal: &corev1beta1.SeedDNSProviderConfig{
				Type: "local", Domain: "internal.hortus.dev", CredentialsRef: credentials,
			},
		},
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

// run runs the gardenlet until the test ends.
func run(t *testing.T, c *config.GardenletConfiguration) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- gardenlet.Run(ctx, c, "hortus.dev/hortus:test") }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the gardenlet has ended: %v", err)
		}
	})
}

// failures returns how many reconciliations of a controller have failed.
func failures(controller string) (float64, error) {
	families, err := metrics.Registry.Gather()
	if err != nil {
		return 0, err
	}
	for _, family := range families {
		if family.GetName() != "controller_runtime_reconcile_errors_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			if m.GetLabel()[0].GetValue() == controller {
				return m.GetCounter().GetValue(), nil
			}
		}
	}
	return 0, nil
}

// status returns the answer to a probe; 0 if there is none yet.
func status(t *testing.T, c *config.GardenletConfiguration, path string) (int, error) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		fmt.Sprintf("http://127.0.0.1:%d%s", c.Server.HealthProbes.Port, path), nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}
