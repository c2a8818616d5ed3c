package main

import (
	"context"
	"crypto/tls"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/pki"
)

// secretName is the Secret with the certificate of the webhooks: a restart must not invalidate what Shoots trust.
const secretName = "tagger-webhooks"

// certificate returns the certificate of the webhooks and its CA, which it makes at the first start.
func certificate(ctx context.Context, c client.Client, namespace string) (tls.Certificate, []byte, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secretName}}
	err := c.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if client.IgnoreNotFound(err) != nil {
		return tls.Certificate{}, nil, fmt.Errorf("read Secret %q: %w", secretName, err)
	}
	if err != nil {
		if secret.Data, err = newCertificate(namespace); err != nil {
			return tls.Certificate{}, nil, err
		}
		if err := c.Create(ctx, secret); err != nil {
			return tls.Certificate{}, nil, fmt.Errorf("create Secret %q: %w", secretName, err)
		}
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("load certificate of Secret %q: %w", secretName, err)
	}
	return pair, secret.Data["ca.crt"], nil
}

func newCertificate(namespace string) (map[string][]byte, error) {
	ca, err := pki.NewCA("tagger", clock.RealClock{})
	if err != nil {
		return nil, fmt.Errorf("make CA: %w", err)
	}
	host := serviceName + "." + namespace
	pair, err := ca.Issue(pki.Request{CommonName: serviceName, DNSNames: []string{host, host + ".svc"}, Usage: pki.Server})
	if err != nil {
		return nil, fmt.Errorf("issue certificate: %w", err)
	}
	return map[string][]byte{
		"ca.crt": ca.CertPEM, corev1.TLSCertKey: pair.CertPEM, corev1.TLSPrivateKeyKey: pair.KeyPEM,
	}, nil
}
