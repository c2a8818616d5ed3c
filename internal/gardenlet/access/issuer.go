package access

import (
	"context"
	"fmt"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/pki"
)

// answerTimeout is the time after which an open request is replaced by a new one: it may have been removed.
const answerTimeout = 15 * time.Minute

// Issuer requests certificates for gardenlets: for this one, which renews its certificate, and the first ones for those
// that it installs. The garden approves requests for the Seed itself, and for Seeds of ManagedSeeds whose Shoots have
// their control planes in the Seed.
type Issuer struct {
	Garden client.Client // Direct.
	Clock  clock.PassiveClock

	mu      sync.Mutex
	pending map[string]*request // By Seed.
}

// request is one that has been created in the garden. Its key is nowhere else: after a restart another request is made.
type request struct {
	name string
	key  []byte
	made time.Time
}

// Certificate returns a new certificate for the gardenlet of a Seed, or nil while the garden has not answered the
// request: call it again after a second. It returns the same certificate until Forget is called.
func (i *Issuer) Certificate(ctx context.Context, seed string, validity *time.Duration) (*pki.KeyPair, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	pending := i.pending[seed]
	if pending == nil || i.Clock.Since(pending.made) > answerTimeout {
		return nil, i.request(ctx, seed, validity)
	}
	answer := &certificatesv1.CertificateSigningRequest{}
	if err := i.Garden.Get(ctx, client.ObjectKey{Name: pending.name}, answer); err != nil {
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) { // The seed authorizer has not seen the request yet.
			return nil, nil
		}
		return nil, fmt.Errorf("read request for a certificate: %w", err)
	}
	switch what, why := answered(answer); what {
	case waiting:
		return nil, nil
	case refused:
		delete(i.pending, seed)
		return nil, fmt.Errorf("request %q for the certificate of the gardenlet of Seed %q: %s", answer.Name, seed, why)
	}
	return &pki.KeyPair{CertPEM: answer.Status.Certificate, KeyPEM: pending.key}, nil
}

// Forget ends a request whose certificate has been stored.
func (i *Issuer) Forget(seed string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.pending, seed)
}

func (i *Issuer) request(ctx context.Context, seed string, validity *time.Duration) error {
	o, key, err := newRequest(seed, validity)
	if err != nil {
		return err
	}
	if err := i.Garden.Create(ctx, o); err != nil {
		return fmt.Errorf("request certificate for the gardenlet of Seed %q: %w", seed, err)
	}
	ctrl.LoggerFrom(ctx).Info("Requested certificate of a gardenlet", "Seed", seed, "request", o.Name)
	if i.pending == nil {
		i.pending = map[string]*request{}
	}
	i.pending[seed] = &request{name: o.Name, key: key, made: i.Clock.Now()}
	return nil
}

// newRequest makes a key and the request for a certificate of the gardenlet of a Seed. Without a validity the signer
// decides how long it lives.
func newRequest(seed string, validity *time.Duration) (*certificatesv1.CertificateSigningRequest, []byte, error) {
	wish, key, err := pki.NewRequest(corev1beta1.SeedUserPrefix+seed, []string{corev1beta1.SeedsGroup})
	if err != nil {
		return nil, nil, err
	}
	o := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "gardenlet-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: wish, SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
	if validity != nil {
		o.Spec.ExpirationSeconds = csr.DurationToExpirationSeconds(*validity)
	}
	return o, key, nil
}
