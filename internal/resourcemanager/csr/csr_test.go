package csr

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"strings"
	"testing"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

type wish struct {
	cn    string
	orgs  []string
	dns   []string
	ips   []string
	email string
}

func request(t *testing.T, signer, user string, groups []string, w wish, usages ...certificatesv1.KeyUsage) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: w.cn, Organization: w.orgs}, DNSNames: w.dns}
	for _, ip := range w.ips {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(ip))
	}
	if w.email != "" {
		template.EmailAddresses = []string{w.email}
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: certificatesv1.CertificateSigningRequestSpec{
		SignerName: signer, Username: user, Groups: groups, Usages: usages,
		Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})}}
}

var serving = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}

func theNode() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "n"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeExternalIP, Address: "1.2.3.4"}}}}
}

func TestKubeletServing(t *testing.T) {
	good := wish{cn: "system:node:n", orgs: []string{"system:nodes"}, dns: []string{"n"}, ips: []string{"10.0.0.1"}}
	with := func(change func(*wish)) wish { w := good; change(&w); return w }
	one := []machine{{"m", "n"}}
	for name, tc := range map[string]struct {
		user     string
		wish     wish
		node     *corev1.Node
		machines []machine
		usages   []certificatesv1.KeyUsage
		denied   string // Part of the message; empty is approved.
	}{
		"as it should be":        {wish: good, node: theNode(), machines: one},
		"requester is no node":   {user: "admin", wish: good, node: theNode(), machines: one, denied: "not a node"},
		"for another node":       {wish: with(func(w *wish) { w.cn = "system:node:m" }), node: theNode(), machines: one, denied: "common name"},
		"another organization":   {wish: with(func(w *wish) { w.orgs = []string{"system:nodes", "system:masters"} }), node: theNode(), machines: one, denied: "organization"},
		"node does not exist":    {wish: good, machines: one, denied: "does not exist"},
		"no machine":             {wish: good, node: theNode(), denied: "0 machines"},
		"two machines":           {wish: good, node: theNode(), machines: []machine{{"a", "n"}, {"b", "n"}}, denied: "2 machines"},
		"a foreign DNS name":     {wish: with(func(w *wish) { w.dns = []string{"n", "kubernetes.default"} }), node: theNode(), machines: one, denied: "DNS names"},
		"a foreign address":      {wish: with(func(w *wish) { w.ips = []string{"10.0.0.2"} }), node: theNode(), machines: one, denied: "IP addresses"},
		"an address is missing":  {wish: with(func(w *wish) { w.ips = nil }), node: theNode(), machines: one, denied: "IP addresses"},
		"external address":       {wish: with(func(w *wish) { w.ips = []string{"10.0.0.1", "1.2.3.4"} }), node: theNode(), machines: one, denied: "IP addresses"},
		"no names at all":        {wish: with(func(w *wish) { w.ips, w.dns = nil, nil }), node: theNode(), machines: one, denied: "missing"},
		"email":                  {wish: with(func(w *wish) { w.email = "a@b" }), node: theNode(), machines: one, denied: "email"},
		"usable as a client":     {wish: good, node: theNode(), machines: one, usages: append([]certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}, serving...), denied: "usages"},
		"not usable as a server": {wish: good, node: theNode(), machines: one, usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature}, denied: "usages"},
		"order does not matter":  {wish: with(func(w *wish) { w.dns = []string{"n", "n"} }), node: theNode(), machines: one},
	} {
		t.Run(name, func(t *testing.T) {
			user, usages := "system:node:n", serving
			if tc.user != "" {
				user = tc.user
			}
			if tc.usages != nil {
				usages = tc.usages
			}
			got, message := kubeletServing(request(t, certificatesv1.KubeletServingSignerName, user, nil, tc.wish, usages...), tc.node, tc.machines)
			if (got == approve) != (tc.denied == "") || !strings.Contains(message, tc.denied) {
				t.Errorf("kubeletServing() = %v, %q; want denial %q", got, message, tc.denied)
			}
		})
	}
	r := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{Request: []byte("x")}}
	if got, _ := kubeletServing(r, theNode(), one); got != deny {
		t.Error("an unreadable request was not denied")
	}
}

const (
	// token is the ID of the bootstrap token of the machine "pool-z1-abcde": the last five characters in hex, cut.
	token       = "616263"
	machineName = "pool-z1-abcde"
)

var (
	bootstrappers = []string{bootstrapGroup}
	clientOnly    = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
)

func TestNodeAgent(t *testing.T) {
	agent := corev1beta1.NodeAgentUserPrefix + machineName
	good := wish{cn: agent, orgs: []string{corev1beta1.NodeAgentsGroup}}
	known := &machine{machineName, "n"}
	for name, tc := range map[string]struct {
		user    string
		groups  []string
		wish    wish
		machine *machine
		joined  bool
		usages  []certificatesv1.KeyUsage
		want    decision // Zero is deny.
		message string
	}{
		"renewal": {user: agent, wish: good, machine: known, joined: true, want: approve},
		"renewal for another machine": {
			user: corev1beta1.NodeAgentUserPrefix + "other", wish: good, machine: known, message: "may not",
		},
		"bootstrap": {
			user: bootstrapUserPrefix + token, groups: bootstrappers, wish: good, machine: known, want: approve,
		},
		"bootstrap before the node": {
			user: bootstrapUserPrefix + token, groups: bootstrappers, wish: good, machine: &machine{machineName, ""},
			want: later,
		},
		"token of another machine": {
			user: bootstrapUserPrefix + "616264", groups: bootstrappers, wish: good, machine: known,
			message: "not that of machine",
		},
		"another's token, node unknown": {
			user: bootstrapUserPrefix + "616264", groups: bootstrappers, wish: good, machine: &machine{machineName, ""},
			message: "not that of machine",
		},
		"token after joining": {
			user: bootstrapUserPrefix + token, groups: bootstrappers, wish: good, machine: known, joined: true,
			message: "has joined",
		},
		"bootstrap without the group": {user: bootstrapUserPrefix + token, wish: good, machine: known, message: "may not"},
		"the machine's node":          {user: "system:node:n", wish: good, machine: known, joined: true, want: approve},
		"another node":                {user: "system:node:o", wish: good, machine: known, message: "may not"},
		"a node before it is known":   {user: "system:node:", wish: good, machine: &machine{machineName, ""}, message: "may not"},
		"no such machine":             {user: agent, wish: good, message: "does not exist"},
		"more organizations": {
			user: agent, wish: wish{cn: agent, orgs: []string{corev1beta1.NodeAgentsGroup, "system:masters"}},
			machine: known, message: "organization",
		},
		"alternative names": {
			user: agent, wish: wish{cn: agent, orgs: good.orgs, dns: []string{"x"}}, machine: known,
			message: "alternative names",
		},
		"for a server": {user: agent, wish: good, machine: known, usages: serving, message: "usages"},
		"anybody else": {user: "admin", wish: good, machine: known, message: "may not"},
	} {
		t.Run(name, func(t *testing.T) {
			usages := clientOnly
			if tc.usages != nil {
				usages = tc.usages
			}
			r := request(t, certificatesv1.KubeAPIServerClientSignerName, tc.user, tc.groups, tc.wish, usages...)
			got, message := nodeAgent(r, tc.machine, tc.joined)
			if want := orDeny(tc.want); got != want || !strings.Contains(message, tc.message) {
				t.Errorf("nodeAgent() = %v, %q; want %v, %q", got, message, want, tc.message)
			}
		})
	}
}

func orDeny(d decision) decision {
	if d == ignore {
		return deny
	}
	return d
}

func TestKubeletClient(t *testing.T) {
	good := wish{cn: "system:node:n", orgs: []string{nodesGroup}}
	with := func(change func(*wish)) wish { w := good; change(&w); return w }
	mine := candidates{having: []machine{{machineName, "n"}}}
	bootstrap := bootstrapUserPrefix + token
	for name, tc := range map[string]struct {
		user    string
		groups  []string
		wish    wish
		of      candidates
		joined  bool
		usages  []certificatesv1.KeyUsage
		want    decision // Zero is deny.
		message string
	}{
		"bootstrap": {user: bootstrap, groups: bootstrappers, wish: good, of: mine, want: approve},
		"node not known yet": {
			user: bootstrap, groups: bootstrappers, wish: good, of: candidates{undecided: []machine{{machineName, ""}}},
			want: later,
		},
		"token of another machine": {
			user: bootstrapUserPrefix + "000000", groups: bootstrappers, wish: good, of: mine,
			message: "not that of machine",
		},
		"undecided, but not the token's": {
			user: bootstrap, groups: bootstrappers, wish: good, of: candidates{undecided: []machine{{"pool-z1-zzzzz", ""}}},
			message: "no machine has the node",
		},
		"no machine": {user: bootstrap, groups: bootstrappers, wish: good, message: "no machine has the node"},
		"two machines": {
			user: bootstrap, groups: bootstrappers, wish: good, of: candidates{having: []machine{{"a", "n"}, {"b", "n"}}},
			message: "2 machines",
		},
		"token after joining": {
			user: bootstrap, groups: bootstrappers, wish: good, of: mine, joined: true, message: "has joined",
		},
		"token without the group":   {user: bootstrap, wish: good, of: mine, message: "may not"},
		"renewal":                   {user: "system:node:n", wish: good, of: mine, joined: true, want: approve},
		"renewal without a machine": {user: "system:node:n", wish: good, joined: true, message: "any more"},
		"for another node":          {user: "system:node:m", wish: good, of: mine, message: "may not"},
		"by a node agent": {
			user: corev1beta1.NodeAgentUserPrefix + machineName, groups: []string{corev1beta1.NodeAgentsGroup}, wish: good,
			of: mine, message: "may not",
		},
		"no node": {
			user: bootstrap, groups: bootstrappers, wish: with(func(w *wish) { w.cn = "admin" }), of: mine,
			message: "not that of a node",
		},
		"more organizations": {
			user: bootstrap, groups: bootstrappers,
			wish: with(func(w *wish) { w.orgs = []string{nodesGroup, "system:masters"} }), of: mine, message: "organization",
		},
		"alternative names": {
			user: bootstrap, groups: bootstrappers, wish: with(func(w *wish) { w.dns = []string{"x"} }), of: mine,
			message: "alternative names",
		},
		"for a server": {
			user: bootstrap, groups: bootstrappers, wish: good, of: mine, usages: serving, message: "usages",
		},
	} {
		t.Run(name, func(t *testing.T) {
			usages := clientOnly
			if tc.usages != nil {
				usages = tc.usages
			}
			r := request(t, certificatesv1.KubeAPIServerClientKubeletSignerName, tc.user, tc.groups, tc.wish, usages...)
			m, got, message := kubeletClient(r, tc.of, tc.joined)
			if want := orDeny(tc.want); got != want || !strings.Contains(message, tc.message) {
				t.Errorf("kubeletClient() = %v, %q; want %v, %q", got, message, want, tc.message)
			}
			if got == approve && m.name != machineName {
				t.Errorf("the certificate is for machine %q", m.name)
			}
		})
	}
}

func TestOurs(t *testing.T) {
	agent := request(t, certificatesv1.KubeAPIServerClientSignerName, "u", nil, wish{cn: corev1beta1.NodeAgentUserPrefix + "m"})
	user := request(t, certificatesv1.KubeAPIServerClientSignerName, "u", nil, wish{cn: "someone"})
	kubelet := request(t, certificatesv1.KubeletServingSignerName, "u", nil, wish{cn: "x"})
	client := request(t, certificatesv1.KubeAPIServerClientKubeletSignerName, "u", nil, wish{cn: "system:node:n"})
	decided := agent.DeepCopy()
	decided.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied}}
	for name, tc := range map[string]struct {
		r    *certificatesv1.CertificateSigningRequest
		want bool
	}{
		"node-agent": {agent, true}, "someone's client certificate": {user, false}, "kubelet serving": {kubelet, true},
		"kubelet client": {client, true}, "decided": {decided, false},
	} {
		if got := ours(tc.r); got != tc.want {
			t.Errorf("%s: ours() = %v, want %v", name, got, tc.want)
		}
	}
}

func TestReconcileApprovesAndDenies(t *testing.T) {
	ctx := context.Background()
	machines := runtime.NewScheme()
	if err := machinev1alpha1.AddToScheme(machines); err != nil {
		t.Fatal(err)
	}
	m := &machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "cp", Name: "m", Labels: map[string]string{machinev1alpha1.NodeLabelKey: "n"},
	}}
	source := fake.NewClientBuilder().WithScheme(machines).WithObjects(m).Build()
	for name, tc := range map[string]struct {
		node client.Object
		want certificatesv1.RequestConditionType
	}{
		"known node":   {theNode(), certificatesv1.CertificateApproved},
		"unknown node": {&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, certificatesv1.CertificateDenied},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, certificatesv1.KubeletServingSignerName, "system:node:n", nil, wish{cn: "system:node:n", orgs: []string{"system:nodes"}, dns: []string{"n"}, ips: []string{"10.0.0.1"}}, serving...)
			target := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(r, tc.node).WithStatusSubresource(r).Build()
			c := &Reconciler{Target: approvals{target}, TargetReader: target, Source: source, Namespace: "cp", Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0))}
			if _, err := c.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: "r"}}); err != nil {
				t.Fatal(err)
			}
			if err := target.Get(ctx, types.NamespacedName{Name: "r"}, r); err != nil {
				t.Fatal(err)
			}
			if len(r.Status.Conditions) != 1 || r.Status.Conditions[0].Type != tc.want || r.Status.Conditions[0].Status != corev1.ConditionTrue {
				t.Errorf("conditions %+v, want %s", r.Status.Conditions, tc.want)
			}
		})
	}
}

// approvals makes the fake client's status stand in for the approval subresource, which it does not have.
type approvals struct{ client.Client }

func (a approvals) SubResource(string) client.SubResourceClient {
	return a.Client.SubResource("status")
}
