package access

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/csr"
	"hortus.dev/hortus/internal/gardenlet/config"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/test/sim"
)

// Two replicas of a gardenlet always have a valid certificate, in use and stored for the next start: it is renewed when
// that is due, and when an operator requests it, whose request then ends.
func TestSimulateRenewal(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		garden, cluster := w.Cluster("garden", sim.Scheme()), w.Cluster("seed", sim.Scheme())
		cluster.AddNamespaces("garden")
		seed := &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		garden.Add(seed.DeepCopy())
		ca, err := pki.NewCA("clients", w.Clock())
		if err != nil {
			t.Fatal(err)
		}
		secret := firstKubeconfig(t, ca)
		cluster.Add(secret.DeepCopy())

		replicas := map[string]*Reconciler{}
		for _, name := range []string{"gardenlet-0", "gardenlet-1"} {
			w.Process(name, garden, func(p *sim.Process) error {
				delete(replicas, name)
				access, err := openInSim(p.In(cluster).Direct(), client.ObjectKeyFromObject(secret), w)
				if err != nil {
					return err
				}
				r := &Reconciler{
					Access: access, Garden: p.In(garden).Direct(), Events: p.GetEventRecorder(""), Clock: w.Clock(),
					Chance: func() float64 { return 0.5 }, SeedName: seed.Name, Window: Window{80, 90}, Validity: ptr.To(100 * day),
				}
				replicas[name] = r
				return r.AddToManager(p)
			})
		}
		w.Actor("the garden", garden, func(ctx context.Context, c client.Client) error { return signNext(ctx, c, ca) })

		stored := func() (*x509.Certificate, error) {
			s := secret.DeepCopy()
			if !cluster.Exists(s) {
				return nil, fmt.Errorf("there is no Secret")
			}
			c, err := clientcmd.RESTConfigFromKubeConfig(s.Data[keyKubeconfig])
			if err != nil {
				return nil, err
			}
			return pki.ParseCert(c.CertData)
		}
		w.Always("certificates are valid", func() error {
			cert, err := stored()
			if err != nil {
				return err
			}
			all := map[string]*x509.Certificate{"that is stored": cert}
			for name, r := range replicas {
				all["of "+name] = r.Access.used.Load()
			}
			for which, cert := range all {
				user := corev1beta1.SeedUserPrefix + seed.Name
				if now := w.Clock().Now(); now.After(cert.NotAfter) || cert.Subject.CommonName != user {
					return fmt.Errorf("the certificate %s is for %s and ended at %s", which, cert.Subject, cert.NotAfter)
				}
			}
			return nil
		})
		renewed := func(before *x509.Certificate) func() error {
			return func() error {
				cert, err := stored()
				if err == nil && cert.Equal(before) {
					err = fmt.Errorf("the certificate is the same")
				}
				return err
			}
		}
		w.Faults(40)
		first, err := stored()
		if err != nil {
			t.Fatal(err)
		}
		w.Change("an operator requests another certificate", garden, func(context.Context, client.Client) error {
			s := seed.DeepCopy()
			return garden.Edit(s, func() {
				s.Annotations = map[string]string{corev1beta1.AnnotationOperation: corev1beta1.OperationRenewKubeconfig}
				s.Generation++ // As the API server does.
			})
		})
		w.Faults(60)
		w.Eventually(60, "there is another certificate, and the request has ended", func() error {
			s := seed.DeepCopy()
			if !garden.Exists(s) || s.Annotations[corev1beta1.AnnotationOperation] != "" {
				return fmt.Errorf("annotations %v", s.Annotations)
			}
			return renewed(first)()
		})
		for range 3 {
			before, err := stored()
			if err != nil {
				t.Fatal(err)
			}
			w.Idle(86 * day)
			w.Faults(40)
			w.Eventually(60, "it is renewed in time", renewed(before))
		}
	})
}

// firstKubeconfig is the Secret with the kubeconfig that an operator has made. Its certificate is valid for a year.
func firstKubeconfig(t *testing.T, ca *pki.CA) *corev1.Secret {
	t.Helper()
	pair, err := ca.Issue(pki.Request{
		CommonName: corev1beta1.SeedUserPrefix + "a", Organizations: []string{corev1beta1.SeedsGroup}, Usage: pki.Client,
		Validity: 365 * day,
	})
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := pki.Kubeconfig{
		Name: "garden", Server: "https://garden.example", CAPEM: ca.CertPEM, Client: pair,
	}.Render()
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "gardenlet-kubeconfig"},
		Data:       map[string][]byte{keyKubeconfig: kubeconfig},
	}
}

// openInSim opens the garden. A gardenlet that fails to is started again.
func openInSim(seed client.Client, secret client.ObjectKey, w *sim.World) (access *Access, err error) {
	for range 100 {
		access, err = Open(context.Background(), &config.GardenClientConnection{
			KubeconfigSecret: &config.SecretReference{Namespace: secret.Namespace, Name: secret.Name},
		}, "a", seed, "test", w.Clock())
		if err == nil {
			break
		}
	}
	return access, err
}

// signNext approves and signs a request, with the requested validity.
func signNext(ctx context.Context, c client.Client, ca *pki.CA) error {
	list := &certificatesv1.CertificateSigningRequestList{}
	if err := c.List(ctx, list); err != nil {
		return err
	}
	i := slices.IndexFunc(list.Items, func(r certificatesv1.CertificateSigningRequest) bool {
		return len(r.Status.Certificate) == 0
	})
	if i < 0 {
		return nil
	}
	request := &list.Items[i]
	parsed, err := csr.Parse(request.Spec.Request)
	if err != nil {
		return err
	}
	request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
		{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue},
	}
	request.Status.Certificate, err = ca.Sign(pki.Request{
		CommonName: parsed.Subject.CommonName, Organizations: parsed.Subject.Organization, Usage: pki.Client,
		Validity: time.Duration(*request.Spec.ExpirationSeconds) * time.Second,
	}, parsed.PublicKey)
	if err != nil {
		return err
	}
	return c.Status().Update(ctx, request)
}
