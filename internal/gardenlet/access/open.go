package access

import (
	"context"
	"crypto/x509"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/gardenlet/config"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/internal/reconnect"
)

// Access is the connection to the garden. Only its Reconciler changes it.
type Access struct {
	// Config is for clients of the garden.
	Config *rest.Config

	kubeconfig string            // Path of the file; empty if there is none.
	secret     *client.ObjectKey // In the seed; nil if there is none.
	seed       client.Client
	transport  *Transport
	// used is the certificate in use; nil if the kubeconfig has none, or names a file with one, which others renew.
	used atomic.Pointer[x509.Certificate]
}

// NotAfter is when the certificate in use expires; nil if it is not known to the gardenlet.
func (a *Access) NotAfter() *metav1.Time {
	cert := a.used.Load()
	if cert == nil {
		return nil
	}
	return ptr.To(metav1.NewTime(cert.NotAfter))
}

// Open finds the kubeconfig and the certificate. The garden's address is the one in the kubeconfig file, if there is a
// file; of the certificates in the file and in the Secret, the one that was issued last is used. If there is neither
// file nor Secret, Open requests the first certificate with the bootstrap kubeconfig and waits until the garden has
// issued it.
func Open(
	ctx context.Context, c *config.GardenClientConnection, seedName string, seed client.Client, userAgent string,
	clock clock.PassiveClock,
) (*Access, error) {
	a := &Access{kubeconfig: c.Kubeconfig, seed: seed}
	if ref := c.KubeconfigSecret; ref != nil {
		a.secret = &client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	}
	if c.BootstrapKubeconfig != nil {
		joined, err := kube.Exists(ctx, seed, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: a.secret.Namespace, Name: a.secret.Name,
		}})
		if err != nil {
			return nil, fmt.Errorf("read kubeconfig of the garden: %w", err)
		}
		if !joined {
			if err := a.join(ctx, *c.BootstrapKubeconfig, seedName, validityOf(c)); err != nil {
				return nil, err
			}
		}
	}
	base, err := a.base(ctx)
	if err != nil {
		return nil, err
	}
	base.QPS, base.Burst, base.UserAgent = c.QPS, c.Burst, userAgent
	reconnect.Bound(base)
	if len(base.CertData) == 0 {
		a.Config = base
		return a, nil
	}
	pair := pki.KeyPair{CertPEM: base.CertData, KeyPEM: base.KeyData}
	cert, err := pki.ParseCert(pair.CertPEM)
	if err != nil {
		return nil, fmt.Errorf("read certificate in kubeconfig of the garden: %w", err)
	}
	base.CertData, base.KeyData = nil, nil
	if !strings.Contains(base.Host, "://") {
		base.Host = "https://" + base.Host // The scheme that clients with a certificate default to.
	}
	stored, storedCert, err := a.stored(ctx)
	if err != nil {
		return nil, err
	}
	now := clock.Now()
	if storedCert != nil && newer(storedCert, cert, now) {
		pair, cert = *stored, storedCert
	}
	a.used.Store(cert)
	if now.After(cert.NotAfter) {
		ctrl.LoggerFrom(ctx).Error(nil, "Certificate for the garden has expired. Give the gardenlet a new kubeconfig.",
			"notAfter", cert.NotAfter)
	}
	if a.transport, err = NewTransport(base, pair); err != nil {
		return nil, err
	}
	a.Config = a.transport.Config()
	return a, nil
}

// validityOf returns the validity to request for certificates; nil leaves it to the signer.
func validityOf(c *config.GardenClientConnection) *time.Duration {
	if c.KubeconfigValidity == nil || c.KubeconfigValidity.Validity == nil {
		return nil
	}
	return &c.KubeconfigValidity.Validity.Duration
}

// base reads the kubeconfig of the file, or that of the Secret if there is no file.
func (a *Access) base(ctx context.Context) (*rest.Config, error) {
	if a.kubeconfig != "" || a.secret == nil {
		c, err := clientcmd.BuildConfigFromFlags("", a.kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("load kubeconfig of the garden: %w", err)
		}
		return c, nil
	}
	secret := &corev1.Secret{}
	if err := a.seed.Get(ctx, *a.secret, secret); err != nil {
		return nil, fmt.Errorf("read kubeconfig of the garden: %w", err)
	}
	c, err := clientcmd.RESTConfigFromKubeConfig(secret.Data[keyKubeconfig])
	if err != nil {
		return nil, fmt.Errorf("load kubeconfig of the garden from Secret %s: %w", a.secret, err)
	}
	return c, nil
}

// keyKubeconfig is the key of the kubeconfig in its Secret.
const keyKubeconfig = "kubeconfig"

// stored returns the certificate in the Secret, nil if there is none. What cannot be read there is replaced by a
// renewal.
func (a *Access) stored(ctx context.Context) (*pki.KeyPair, *x509.Certificate, error) {
	if a.secret == nil {
		return nil, nil, nil
	}
	secret := &corev1.Secret{}
	if err := a.seed.Get(ctx, *a.secret, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil, nil
		}
		return nil, nil, fmt.Errorf("read stored certificate: %w", err)
	}
	c, err := clientcmd.RESTConfigFromKubeConfig(secret.Data[keyKubeconfig])
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Stored kubeconfig cannot be read", "Secret", a.secret)
		return nil, nil, nil
	}
	cert, err := pki.ParseCert(c.CertData)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Stored certificate cannot be read", "Secret", a.secret)
		return nil, nil, nil
	}
	return &pki.KeyPair{CertPEM: c.CertData, KeyPEM: c.KeyData}, cert, nil
}
