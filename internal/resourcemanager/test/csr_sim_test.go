package test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"testing"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/resourcemanager/csr"
	"hortus.dev/hortus/internal/resourcemanager/machineaccess"
	"hortus.dev/hortus/test/sim"
)

// servingRequest is the request of a kubelet for a serving certificate with an address.
func servingRequest(t *testing.T, name, node, address string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	user := corev1beta1.KubeletUserPrefix + node
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: user, Organization: []string{corev1beta1.KubeletsGroup}},
		DNSNames: []string{node}, IPAddresses: []net.IP{net.ParseIP(address)},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeletServingSignerName, Username: user,
			Groups:  []string{corev1beta1.KubeletsGroup},
			Usages:  []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		},
	}
}

// A node gets a certificate for its own address once its machine is known, none for the address of another node though
// it claims to have it, and none after its machine has gone.
func TestSimulateCertificatesOfNodes(t *testing.T) {
	requests := map[string]*certificatesv1.CertificateSigningRequest{
		"own":    servingRequest(t, "own", "new", "10.0.0.2"),
		"stolen": servingRequest(t, "stolen", "new", "10.0.0.1"),
		"late":   servingRequest(t, "late", "new", "10.0.0.2"),
	}
	simulate(t, func(p *sim.Process, target *sim.Connection) error {
		return (&csr.Reconciler{
			Target: target.GetClient(), TargetReader: target.GetAPIReader(), Machines: p.GetClient(),
			Source: p.GetAPIReader(), Namespace: namespace, Clock: clockOf(p),
			Grants: machineaccess.Grants{Target: target.GetClient(), Direct: target.GetAPIReader()},
		}).AddToManager(p, target.GetCache())
	}, func(w *sim.World, seed, shoot *sim.Cluster) {
		machine := func(name string) *machinev1alpha1.Machine {
			return &machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		}
		node := func(name string, addresses ...string) *corev1.Node {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
			for _, a := range addresses {
				n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
			}
			return n
		}
		old := machine("m-old")
		old.Labels = map[string]string{machinev1alpha1.NodeLabelKey: "old"}
		seed.Add(old, machine("m-new"))
		shoot.Add(node("old", "10.0.0.1"))
		w.Idle(time.Second) // They are in the caches.

		decision := func(name string) string {
			r := requests[name].DeepCopy()
			if shoot.Exists(r) && len(r.Status.Conditions) > 0 {
				return string(r.Status.Conditions[0].Type)
			}
			return ""
		}
		for _, name := range []string{"stolen", "late"} {
			w.Always("the certificate "+name+" is not issued", func() error {
				if decision(name) == string(certificatesv1.CertificateApproved) {
					return fmt.Errorf("it is approved")
				}
				return nil
			})
		}
		ask := func(name string) {
			w.Change("request "+name, shoot, func(ctx context.Context, c client.Client) error {
				return c.Create(ctx, requests[name].DeepCopy())
			})
		}
		w.Change("the node comes", shoot, func(context.Context, client.Client) error {
			shoot.Add(node("new", "10.0.0.2", "10.0.0.1"))
			return nil
		})
		ask("own")
		ask("stolen")
		w.Change("its machine is known", seed, func(context.Context, client.Client) error {
			m := machine("m-new")
			return seed.Edit(m, func() { m.Labels = map[string]string{machinev1alpha1.NodeLabelKey: "new"} })
		})
		w.Overlap()
		w.Faults(60)
		w.Eventually(40, "its own address is confirmed, the other one denied", func() error {
			if own, stolen := decision("own"), decision("stolen"); own != string(certificatesv1.CertificateApproved) ||
				stolen != string(certificatesv1.CertificateDenied) {
				return fmt.Errorf("own: %q, stolen: %q", own, stolen)
			}
			return nil
		})
		w.Change("the machine goes", seed, func(ctx context.Context, c client.Client) error {
			return c.Delete(ctx, machine("m-new"))
		})
		ask("late")
		w.Faults(40)
		w.Eventually(40, "nothing is left to do", func() error { return nil })
	})
}
