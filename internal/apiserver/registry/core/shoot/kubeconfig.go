package shoot

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"

	authenticationv1alpha1 "hortus.dev/hortus/api/authentication/v1alpha1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/pki"
)

// KubeconfigIssuer holds the dependencies of the subresources for kubeconfigs.
type KubeconfigIssuer struct {
	// CA reads the keys ca.crt and ca.key of a Shoot's client certificate authority from its InternalSecret.
	CA func(ctx context.Context, namespace, name string) (map[string][]byte, error)
	// Bundle reads the CA certificates of a Shoot's API server from its ConfigMap or Secret.
	Bundle func(ctx context.Context, namespace, name string) ([]byte, error)
	// Authorizer determines the caller's permissions in the garden, and thereby in the Shoot.
	Authorizer authorizer.Authorizer
	Clock      clock.PassiveClock
	// MaxAdmin and MaxViewer bound the lifetime of credentials. Longer requests are cut.
	MaxAdmin, MaxViewer time.Duration
	// Resolve, if set, resolves the host name of an API server to an address for the kubeconfig, which then has the name
	// as tls-server-name only. It is for landscapes whose names the users' resolvers do not know.
	Resolve func(ctx context.Context, host string) (address string, err error)
}

// Subresources returns the subresources of a Shoot other than status.
func Subresources(issuer KubeconfigIssuer, backups ListBackups) func(*genericregistry.Store) map[string]rest.Storage {
	return func(store *genericregistry.Store) map[string]rest.Storage {
		return map[string]rest.Storage{
			"binding":          NewBinding(store),
			"backups":          &backupsREST{store, backups},
			"adminkubeconfig":  &kubeconfigREST[*authenticationv1alpha1.AdminKubeconfigRequest]{store, issuer, admin(issuer)},
			"viewerkubeconfig": &kubeconfigREST[*authenticationv1alpha1.ViewerKubeconfigRequest]{store, issuer, viewer(issuer)},
		}
	}
}

// audience is a kind of kubeconfig: admin or viewer.
type audience[T runtime.Object] struct {
	kind       string
	new        func() T
	userPrefix string
	system     string // Group of callers that are allowed reads in the whole garden.
	project    string // Group of all other callers.
	reads      authorizer.AttributesRecord
	max        time.Duration
	validate   func(T) field.ErrorList
	seconds    func(T) *int64
	answer     func(T, []byte, metav1.Time)
}

func admin(issuer KubeconfigIssuer) audience[*authenticationv1alpha1.AdminKubeconfigRequest] {
	type request = *authenticationv1alpha1.AdminKubeconfigRequest
	return audience[request]{
		kind:       "AdminKubeconfigRequest",
		new:        func() request { return &authenticationv1alpha1.AdminKubeconfigRequest{} },
		userPrefix: corev1beta1.ShootAdminUserPrefix,
		system:     corev1beta1.ShootSystemAdminsGroup,
		project:    corev1beta1.ShootProjectAdminsGroup,
		reads:      authorizer.AttributesRecord{Verb: "list", APIVersion: "v1", Resource: "secrets", ResourceRequest: true},
		max:        issuer.MaxAdmin,
		validate:   authenticationv1alpha1.ValidateAdminKubeconfigRequest,
		seconds:    func(r request) *int64 { return r.Spec.ExpirationSeconds },
		answer: func(r request, kubeconfig []byte, expiration metav1.Time) {
			r.Status.Kubeconfig, r.Status.ExpirationTimestamp = kubeconfig, expiration
		},
	}
}

func viewer(issuer KubeconfigIssuer) audience[*authenticationv1alpha1.ViewerKubeconfigRequest] {
	type request = *authenticationv1alpha1.ViewerKubeconfigRequest
	return audience[request]{
		kind:       "ViewerKubeconfigRequest",
		new:        func() request { return &authenticationv1alpha1.ViewerKubeconfigRequest{} },
		userPrefix: corev1beta1.ShootViewerUserPrefix,
		system:     corev1beta1.ShootSystemViewersGroup,
		project:    corev1beta1.ShootProjectViewersGroup,
		reads: authorizer.AttributesRecord{
			Verb: "list", APIGroup: corev1beta1.GroupName, APIVersion: corev1beta1.SchemeGroupVersion.Version,
			Resource: "projects", ResourceRequest: true,
		},
		max:      issuer.MaxViewer,
		validate: authenticationv1alpha1.ValidateViewerKubeconfigRequest,
		seconds:  func(r request) *int64 { return r.Spec.ExpirationSeconds },
		answer: func(r request, kubeconfig []byte, expiration metav1.Time) {
			r.Status.Kubeconfig, r.Status.ExpirationTimestamp = kubeconfig, expiration
		},
	}
}

// kubeconfigREST issues kubeconfigs. It stores nothing.
type kubeconfigREST[T runtime.Object] struct {
	store    *genericregistry.Store
	issuer   KubeconfigIssuer
	audience audience[T]
}

func (r *kubeconfigREST[T]) New() runtime.Object { return r.audience.new() }
func (r *kubeconfigREST[T]) Destroy()            {} // The store belongs to the resource.

func (r *kubeconfigREST[T]) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return authenticationv1alpha1.SchemeGroupVersion.WithKind(r.audience.kind)
}

// Create issues a kubeconfig.
func (r *kubeconfigREST[T]) Create(
	ctx context.Context, name string, o runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions,
) (runtime.Object, error) {
	if validate != nil { // For subresources, the storage must call validating admission.
		if err := validate(ctx, o.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	request, ok := o.(T)
	if !ok {
		return nil, errors.NewBadRequest(fmt.Sprintf("%T is not a %s", o, r.audience.kind))
	}
	out := request.DeepCopyObject().(T)
	meta, _ := any(out).(metav1.Object)
	meta.SetName(name)
	if errs := r.audience.validate(request); len(errs) > 0 {
		return nil, errors.NewInvalid(authenticationv1alpha1.Kind(r.audience.kind), name, errs)
	}

	stored, err := r.store.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	caller, ok := apirequest.UserFrom(ctx)
	if !ok {
		return nil, errors.NewForbidden(corev1beta1.Resource("shoots"), name, fmt.Errorf("the request has no user"))
	}
	kubeconfig, expiration, err := r.issue(ctx, stored.(*corev1beta1.Shoot), caller, r.lifetime(request))
	if err != nil {
		return nil, err
	}
	r.audience.answer(out, kubeconfig, metav1.NewTime(expiration))
	meta.SetNamespace(stored.(*corev1beta1.Shoot).Namespace)
	meta.SetManagedFields(nil) // Nothing is stored; the handler would add them to the response.
	return out, nil
}

// lifetime cuts the requested lifetime to the maximum.
func (r *kubeconfigREST[T]) lifetime(request T) time.Duration {
	seconds := authenticationv1alpha1.DefaultExpirationSeconds
	if given := r.audience.seconds(request); given != nil {
		seconds = *given
	}
	return min(time.Duration(seconds)*time.Second, r.audience.max)
}

// usableAddresses are the names of the addresses at which the API server itself is reachable.
var usableAddresses = map[string]bool{
	corev1beta1.AdvertisedAddressExternal:             true,
	corev1beta1.AdvertisedAddressInternal:             true,
	corev1beta1.AdvertisedAddressUnmanaged:            true,
	corev1beta1.AdvertisedAddressWildcardTLSSeedBound: true,
}

func (r *kubeconfigREST[T]) issue(
	ctx context.Context, s *corev1beta1.Shoot, caller user.Info, lifetime time.Duration,
) ([]byte, time.Time, error) {
	var addresses []corev1beta1.ShootAdvertisedAddress
	for _, address := range s.Status.AdvertisedAddresses {
		if usableAddresses[address.Name] {
			addresses = append(addresses, address)
		}
	}
	if len(addresses) == 0 {
		return nil, time.Time{}, errors.NewInvalid(corev1beta1.Kind("Shoot"), s.Name, field.ErrorList{field.Invalid(
			field.NewPath("status", "advertisedAddresses"), s.Status.AdvertisedAddresses, "the API server has no address yet")})
	}
	data, err := r.issuer.CA(ctx, s.Namespace, s.Name+"."+corev1beta1.ShootSuffixCAClient)
	if err != nil {
		return nil, time.Time{}, unreadable(err, "client CA", s.Name)
	}
	ca, err := pki.LoadCA(data[corev1beta1.DataKeyCertificateCA], data[corev1beta1.DataKeyPrivateKeyCA], r.issuer.Clock)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read client CA of Shoot %q: %w", s.Name, err)
	}
	bundle, err := r.issuer.Bundle(ctx, s.Namespace, s.Name+"."+corev1beta1.ShootSuffixCACluster)
	if err != nil {
		return nil, time.Time{}, unreadable(err, "CA", s.Name)
	}
	pair, err := ca.Issue(pki.Request{
		CommonName:    r.audience.userPrefix + caller.GetName(),
		Organizations: []string{r.group(ctx, caller)},
		Usage:         pki.Client,
		Validity:      lifetime,
	})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("issue client certificate for Shoot %q: %w", s.Name, err)
	}
	expiration := r.issuer.Clock.Now().Add(lifetime)
	if ca.Cert().NotAfter.Before(expiration) {
		expiration = ca.Cert().NotAfter
	}
	servers := make([]server, 0, len(addresses))
	for _, address := range addresses {
		servers = append(servers, r.issuer.server(ctx, address))
	}
	kubeconfig, err := render(s, servers, pair, bundle)
	return kubeconfig, expiration, err
}

// unreadable returns status 503 with the advice to retry if the object does not exist yet.
func unreadable(err error, what, shoot string) error {
	if errors.IsNotFound(err) {
		return errors.NewServiceUnavailable(fmt.Sprintf("the %s of Shoot %q has not been published yet; try again when its control plane has been created", what, shoot))
	}
	return fmt.Errorf("read %s of Shoot %q: %w", what, shoot, err)
}

// server is one address of an API server.
type server struct{ name, url, tlsName string }

// server keeps the advertised URL unless its host name is to be resolved and can be.
func (i KubeconfigIssuer) server(ctx context.Context, address corev1beta1.ShootAdvertisedAddress) server {
	named := server{name: address.Name, url: address.URL}
	parsed, err := url.Parse(address.URL)
	if i.Resolve == nil || err != nil || net.ParseIP(parsed.Hostname()) != nil {
		return named
	}
	ip, err := i.Resolve(ctx, parsed.Hostname())
	if err != nil { // Users whose resolver knows the name can still use it.
		return named
	}
	named.tlsName = parsed.Hostname()
	if port := parsed.Port(); port != "" {
		ip = net.JoinHostPort(ip, port)
	} else if strings.Contains(ip, ":") {
		ip = "[" + ip + "]"
	}
	parsed.Host = ip
	named.url = parsed.String()
	return named
}

// render writes a kubeconfig with one cluster and context per address. The first is the current context.
func render(s *corev1beta1.Shoot, servers []server, pair *pki.KeyPair, bundle []byte) ([]byte, error) {
	prefix := s.Namespace + "--" + s.Name + "-"
	user := prefix + servers[0].name
	config := clientcmdapi.NewConfig()
	config.CurrentContext = user
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.CertPEM, ClientKeyData: pair.KeyPEM}
	for _, one := range servers {
		cluster := &clientcmdapi.Cluster{Server: one.url, TLSServerName: one.tlsName, CertificateAuthorityData: bundle}
		if one.name == corev1beta1.AdvertisedAddressWildcardTLSSeedBound {
			cluster.CertificateAuthorityData = nil // A public CA signs its certificate.
		}
		config.Clusters[prefix+one.name] = cluster
		config.Contexts[prefix+one.name] = &clientcmdapi.Context{Cluster: prefix + one.name, AuthInfo: user}
	}
	out, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("write kubeconfig of Shoot %q: %w", s.Name, err)
	}
	return out, nil
}

// group returns the caller's group in the Shoot, which corresponds to the caller's permissions in the garden.
func (r *kubeconfigREST[T]) group(ctx context.Context, caller user.Info) string {
	attributes := r.audience.reads
	attributes.User = caller
	if decision, _, err := r.issuer.Authorizer.Authorize(ctx, attributes); err == nil &&
		decision == authorizer.DecisionAllow {
		return r.audience.system
	}
	return r.audience.project
}
