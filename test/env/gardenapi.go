package env

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gardencorev1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/apiserver"
	"hortus.dev/hortus/internal/apiserver/admission/extensionvalidator"
	"hortus.dev/hortus/internal/pki"
)

const (
	serviceName  = "hortus-apiserver"
	pollInterval = 50 * time.Millisecond
)

// startGardenAPI runs our API server and makes the kube-apiserver proxy requests to it.
func (e *Environment) startGardenAPI() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	var listener net.Listener
	var err error
	if e.seeds != nil {
		listener = e.seeds.listener
	} else if listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return fmt.Errorf("listen for our API server: %w", err)
	}
	e.address = listener.Addr().String()
	ca, err := e.prepareGardenAPI(ctx)
	if err != nil {
		return err
	}
	if e.options.program == "" {
		err = e.serveGardenAPI(listener)
	} else {
		err = e.spawnGardenAPI(listener)
	}
	if err != nil {
		return err
	}
	return e.register(ctx, listener.Addr().(*net.TCPAddr).Port, ca)
}

// prepareGardenAPI writes the files that our API server reads, and returns the certificate authority of its
// certificate.
func (e *Environment) prepareGardenAPI(ctx context.Context) ([]byte, error) {
	// The kube-apiserver publishes the CA of its proxy certificate some time after it has become ready.
	if err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		published := &corev1.ConfigMap{}
		err := e.Client.Get(ctx, client.ObjectKey{
			Namespace: metav1.NamespaceSystem, Name: "extension-apiserver-authentication",
		}, published)
		return err == nil && published.Data["requestheader-client-ca-file"] != "", client.IgnoreNotFound(err)
	}); err != nil {
		return nil, fmt.Errorf("wait for extension-apiserver-authentication: %w", err)
	}
	ca, pair, err := e.servingCertificate()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"apiserver.crt": pair.CertPEM, "apiserver.key": pair.KeyPEM, "kubeconfig": e.Kubeconfig}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(e.dir, name), content, 0o600); err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
	}
	return ca.CertPEM, nil
}

// serveGardenAPI runs our API server in this process.
func (e *Environment) serveGardenAPI(listener net.Listener) error {
	o := apiserver.NewOptions()
	kubeconfig := filepath.Join(e.dir, "kubeconfig")
	o.Recommended.Etcd.StorageConfig.Transport.ServerList = []string{e.plane.ControlPlane.Etcd.URL.String()}
	o.Recommended.SecureServing.Listener = listener
	o.Recommended.SecureServing.BindAddress = net.IPv4(127, 0, 0, 1)
	o.Recommended.SecureServing.BindPort = listener.Addr().(*net.TCPAddr).Port
	o.Recommended.SecureServing.ServerCert.CertKey.CertFile = filepath.Join(e.dir, "apiserver.crt")
	o.Recommended.SecureServing.ServerCert.CertKey.KeyFile = filepath.Join(e.dir, "apiserver.key")
	o.Recommended.CoreAPI.CoreAPIKubeconfigPath = kubeconfig
	o.Recommended.Authentication.RemoteKubeConfigFile = kubeconfig
	o.Recommended.Authorization.RemoteKubeConfigFile = kubeconfig
	// A test that changes a role sees the effect at once.
	o.Recommended.Authorization.AllowCacheTTL = time.Millisecond
	o.Recommended.Authorization.DenyCacheTTL = time.Millisecond
	// Most tests do not register extensions.
	o.Recommended.Admission.DisablePlugins = []string{extensionvalidator.Name}
	if e.seeds != nil {
		o.Recommended.Authentication.ClientCert.ClientCA = e.seeds.clientCA
	}
	for _, configure := range e.options.configure {
		configure(o)
	}
	if err := o.Validate(); err != nil {
		return fmt.Errorf("options of our API server: %w", err)
	}
	var running context.Context
	running, e.stop = context.WithCancel(context.Background())
	e.stopped = make(chan error, 1)
	go func() { e.stopped <- apiserver.Run(running, o) }()
	return nil
}

// RestartGardenAPI ends our API server and starts another one at the same address. For a server in this process.
func (e *Environment) RestartGardenAPI(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	e.stop()
	if err := <-e.stopped; err != nil {
		e.stopped <- err
		return fmt.Errorf("end our API server: %w", err)
	}
	listener, err := net.Listen("tcp", e.address)
	if err == nil {
		err = e.serveGardenAPI(listener)
	}
	if err != nil {
		e.stopped <- err
		return fmt.Errorf("start our API server again: %w", err)
	}
	for err = e.awaitGardenAPI(ctx); apierrors.IsForbidden(err) && ctx.Err() == nil; err = e.awaitGardenAPI(ctx) {
		time.Sleep(pollInterval) // The server does not trust the kube-apiserver's certificate yet.
	}
	return err
}

// spawnGardenAPI runs our API server as a process of its own, on the address of a listener, which it closes.
func (e *Environment) spawnGardenAPI(listener net.Listener) error {
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		return fmt.Errorf("free the port of our API server: %w", err)
	}
	program, err := leash(e.dir, e.options.program)
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(e.dir, "kubeconfig")
	command := exec.Command(program, append([]string{
		"apiserver", "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + filepath.Join(e.dir, "apiserver.crt"), "--tls-private-key-file=" +
			filepath.Join(e.dir, "apiserver.key"),
		"--etcd-servers=" + e.plane.ControlPlane.Etcd.URL.String(),
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
	}, e.options.arguments...)...)
	log, err := os.Create(filepath.Join(e.dir, "apiserver.log"))
	if err != nil {
		return fmt.Errorf("log of our API server: %w", err)
	}
	defer log.Close()
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		return fmt.Errorf("start our API server: %w", err)
	}
	e.GardenAPI = Process{PID: command.Process.Pid, URL: fmt.Sprintf("https://127.0.0.1:%d", port)}
	e.stop = func() { _ = command.Process.Signal(os.Interrupt) }
	e.stopped = make(chan error, 1)
	go func() {
		err := command.Wait()
		if err != nil {
			text, _ := os.ReadFile(log.Name()) // The folder is removed with the environment.
			err = fmt.Errorf("%w: %s", err, text[max(0, len(text)-2000):])
		}
		e.stopped <- err
	}()
	return nil
}

// servingCertificate issues the certificate of our API server, by an authority that the kube-apiserver may know
// already.
func (e *Environment) servingCertificate() (*pki.CA, *pki.KeyPair, error) {
	ca := (*pki.CA)(nil)
	if e.seeds != nil {
		ca = e.seeds.ca
	} else {
		var err error
		if ca, err = pki.NewCA("hortus-apiserver", clock.RealClock{}); err != nil {
			return nil, nil, err
		}
	}
	pair, err := ca.Issue(pki.Request{
		CommonName: "hortus-apiserver", Usage: pki.Server,
		DNSNames: []string{serviceName + "." + corev1beta1.GardenNamespace + ".svc", "localhost"},
		IPs:      []net.IP{net.IPv4(127, 0, 0, 1)},
	})
	return ca, pair, err
}

// register makes the kube-apiserver proxy requests, and waits until it does.
func (e *Environment) register(ctx context.Context, port int, ca []byte) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: corev1beta1.GardenNamespace}}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: serviceName},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	objects := []client.Object{namespace, service}
	versions := []schema.GroupVersion{
		corev1beta1.SchemeGroupVersion, gardencorev1.SchemeGroupVersion, securityv1alpha1.SchemeGroupVersion,
		seedmanagementv1alpha1.SchemeGroupVersion, operationsv1alpha1.SchemeGroupVersion,
	}
	for i, gv := range versions {
		objects = append(objects, &apiregistrationv1.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: gv.Version + "." + gv.Group},
			Spec: apiregistrationv1.APIServiceSpec{
				Service: &apiregistrationv1.ServiceReference{Namespace: namespace.Name, Name: serviceName, Port: ptr(int32(port))},
				Group:   gv.Group, Version: gv.Version, CABundle: ca,
				GroupPriorityMinimum: 10000, VersionPriority: int32(100 - i),
			},
		})
	}
	for _, object := range objects {
		if err := e.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %s: %w", object.GetName(), err)
		}
	}
	return e.awaitGardenAPI(ctx)
}

// awaitGardenAPI waits until our API server answers through the kube-apiserver.
func (e *Environment) awaitGardenAPI(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-e.stopped:
			e.stopped <- err
			return false, fmt.Errorf("our API server has ended: %w", err)
		default:
		}
		for _, list := range []client.ObjectList{
			&corev1beta1.ShootList{}, &gardencorev1.ControllerDeploymentList{}, &securityv1alpha1.CredentialsBindingList{},
			&seedmanagementv1alpha1.ManagedSeedList{}, &operationsv1alpha1.BastionList{},
		} {
			if err := e.Client.List(ctx, list, client.Limit(1)); err != nil {
				if apierrors.IsForbidden(err) || ctx.Err() != nil {
					return false, err
				}
				return false, nil // Not registered or not ready yet.
			}
		}
		// Admission waits for its caches, too; a dry run reports whether they are filled.
		if err := e.Client.Create(ctx, &corev1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: "probe"}},
			client.DryRunAll); err != nil {
			return false, nil
		}
		// The last thing that it does before it is ready.
		err := e.Client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: corev1beta1.ClusterIdentityName},
			&corev1.ConfigMap{})
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for our API server: %w", err)
	}
	return nil
}

func ptr[T any](value T) *T { return &value }
