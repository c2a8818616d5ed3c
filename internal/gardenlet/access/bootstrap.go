package access

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/gardenlet/config"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/internal/reconnect"
)

// joinPeriod is how often a gardenlet without a certificate looks for the answer to its request.
const joinPeriod = time.Second

// join gets the first certificate of a gardenlet with the token in its bootstrap kubeconfig, and stores it. It returns
// when the garden has answered.
func (a *Access) join(ctx context.Context, ref config.SecretReference, seedName string, validity *time.Duration) error {
	secret, key := &corev1.Secret{}, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	if err := a.seed.Get(ctx, key, secret); err != nil {
		return fmt.Errorf("read bootstrap kubeconfig: %w", err)
	}
	base, err := clientcmd.RESTConfigFromKubeConfig(secret.Data[keyKubeconfig])
	if err != nil {
		return fmt.Errorf("load bootstrap kubeconfig from Secret %s: %w", key, err)
	}
	if err := reconnect.Wait(ctx, base, "/version"); err != nil {
		return joinError(seedName, err)
	}
	garden, err := client.New(base, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return joinError(seedName, err)
	}
	o, private, err := newRequest(seedName, validity)
	if err != nil {
		return err
	}
	if err := garden.Create(ctx, o); err != nil {
		return joinError(seedName, err)
	}
	ctrl.LoggerFrom(ctx).Info("Requested the first certificate for the garden", "request", o.Name)
	certificate, err := awaitAnswer(ctx, garden, o.Name)
	if err != nil {
		return joinError(seedName, err)
	}
	return a.storeInSecret(ctx, base, pki.KeyPair{CertPEM: certificate, KeyPEM: private})
}

func joinError(seedName string, err error) error {
	if apierrors.IsUnauthorized(err) {
		return fmt.Errorf("the garden does not know the token of the bootstrap kubeconfig: it has been used, or has expired. "+
			"Make another one with \"hortus garden bootstrap-kubeconfig %s\"", seedName)
	}
	return fmt.Errorf("request the first certificate for the garden: %w", err)
}

// awaitAnswer returns the certificate that a request gets.
func awaitAnswer(ctx context.Context, garden client.Reader, name string) ([]byte, error) {
	for {
		o := &certificatesv1.CertificateSigningRequest{}
		if err := garden.Get(ctx, client.ObjectKey{Name: name}, o); err != nil {
			return nil, err
		}
		switch what, why := answered(o); what {
		case refused:
			return nil, fmt.Errorf("request %q: %s", name, why)
		case waiting:
		default:
			return o.Status.Certificate, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(joinPeriod):
		}
	}
}
