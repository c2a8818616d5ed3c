package test

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/internal/resourcemanager/webhook/configuration"
	"hortus.dev/hortus/internal/webhook/certificate"
	"hortus.dev/hortus/test/sim"
)

// The API server trusts the certificate of the webhooks, before and after its renewal, and its CA stays the same.
func TestSimulateWebhookCertificate(t *testing.T) {
	const garden = "garden"
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: garden, Name: configuration.SecretName}}
	sim.Run(t, func(w *sim.World) {
		seed := w.Cluster("seed", sim.Scheme())
		seed.AddNamespaces(garden)
		w.Process("resource-manager", seed, func(p *sim.Process) error {
			k := &certificate.Keeper{
				Client: p.GetClient(), Reader: p.GetAPIReader(), Secrets: p.GetCache(), Clock: clockOf(p), Namespace: garden,
				Secret: configuration.SecretName, Service: configuration.ServiceName, Configuration: configuration.Name,
			}
			return k.AddToManager(p, p.GetCache())
		})
		var ca []byte
		w.Always("the CA stays", func() error {
			s := secret.DeepCopy()
			if !seed.Exists(s) {
				return nil
			}
			if ca == nil {
				ca = s.Data["ca.crt"]
			}
			if !bytes.Equal(ca, s.Data["ca.crt"]) {
				return fmt.Errorf("another CA")
			}
			return nil
		})
		served := func() (*x509.Certificate, error) {
			s, c := secret.DeepCopy(), configuration.ForSeed(garden, nil)
			if !seed.Exists(s) || !seed.Exists(c) {
				return nil, fmt.Errorf("no Secret or no configuration")
			}
			certificate, err := pki.ParseCert(s.Data[corev1.TLSCertKey])
			if err != nil {
				return nil, err
			}
			return certificate, trusted(c, certificate)
		}
		w.Change("the gardenlet announces the webhooks", seed, func(ctx context.Context, c client.Client) error {
			return c.Create(ctx, configuration.ForSeed(garden, nil))
		})
		w.Faults(60)
		var first *x509.Certificate
		w.Eventually(30, "the certificate is trusted", func() (err error) {
			first, err = served()
			return err
		})
		w.Idle(75 * 24 * time.Hour)
		w.Eventually(30, "another certificate is trusted", func() error {
			next, err := served()
			if err == nil && next.Equal(first) {
				err = fmt.Errorf("it has not been renewed")
			}
			return err
		})
	})
}

// trusted verifies a certificate as an API server that calls a webhook does.
func trusted(c *admissionregistrationv1.MutatingWebhookConfiguration, certificate *x509.Certificate) error {
	for _, w := range c.Webhooks {
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(w.ClientConfig.CABundle) {
			return fmt.Errorf("webhook %s has no CA", w.Name)
		}
		name := w.ClientConfig.Service.Name + "." + w.ClientConfig.Service.Namespace + ".svc"
		if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
			return fmt.Errorf("webhook %s: %w", w.Name, err)
		}
	}
	return nil
}
