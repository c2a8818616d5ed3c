package csr

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
	"net/netip"
	"strings"
	"testing"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/resourcemanager/machineaccess"
)

type wish struct {
	cn    string
	orgs  []string
	dns   []string
	ips   []string
	email string
}

func request(
	t *testing.T, signer, user string, groups []string, w wish, usages ...certificatesv1.KeyUsage,
) *certificatesv1.CertificateSigningRequest {
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
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: signer, Username: user, Groups: groups, Usages: usages,
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		},
	}
}

var serving = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}

// nodeWith returns a Node as its kubelet has written it.
func nodeWith(name string, addresses ...corev1.NodeAddress) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Addresses: append([]corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}}, addresses...),
	}}
}

func internalIP(ip string) corev1.NodeAddress {
	return corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip}
}

func externalIP(ip string) corev1.NodeAddress {
	return corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: ip}
}

func theNode() *corev1.Node { return nodeWith("n", internalIP("10.0.0.1"), externalIP("1.2.3.4")) }

// reporting is a machine whose provider reports addresses.
func reporting(name, node string, addresses ...string) machine {
	m := machine{name: name, node: node}
	for _, a := range addresses {
		if ip, err := netip.ParseAddr(a); err == nil {
			m.addresses = append(m.addresses, ip)
		} else {
			m.dnsNames = append(m.dnsNames, a)
		}
	}
	return m
}

func TestKubeletServing(t *testing.T) {
	good := wish{cn: "system:node:n", orgs: []string{"system:nodes"}, dns: []string{"n"}, ips: []string{"10.0.0.1"}}
	with := func(change func(*wish)) wish { w := good; change(&w); return w }
	one := []machine{{name: "m", node: "n"}}
	taken := with(func(w *wish) { w.ips = []string{"10.0.0.1", "10.0.0.2"} })
	// called has another host name in its status.
	called := func(name string) *corev1.Node {
		return nodeWith("n", internalIP("10.0.0.1"), corev1.NodeAddress{Type: corev1.NodeHostName, Address: name})
	}
	// liar has the address of another Node in its status.
	liar := func(notation string) *corev1.Node { return nodeWith("n", internalIP("10.0.0.1"), internalIP(notation)) }
	for name, tc := range map[string]struct {
		user     string
		wish     wish
		node     *corev1.Node // Default: that of the machine.
		missing  bool         // The node does not exist.
		others   []corev1.Node
		machines []machine // Default: that of the node.
		usages   []certificatesv1.KeyUsage
		left     bool
		denied   string // Part of the message; empty means approved.
	}{
		"as it should be":      {wish: good},
		"requester is no node": {user: "admin", wish: good, denied: "requester"},
		"for another node":     {wish: with(func(w *wish) { w.cn = "system:node:m" }), denied: "common name"},
		"another organization": {
			wish: with(func(w *wish) { w.orgs = []string{"system:nodes", "system:masters"} }), denied: "organization",
		},
		"node does not exist": {wish: good, missing: true, denied: "does not exist"},
		"no machine":          {wish: good, machines: []machine{{name: "m", node: "other"}}, left: true},
		"no machine, by the node of one": {
			user: "system:node:other", wish: good, machines: []machine{{name: "m", node: "other"}}, denied: "common name",
		},
		"no machine, by an administrator": {user: "admin", wish: good, machines: []machine{{name: "m"}}, left: true},
		"two machines": {
			wish: good, machines: []machine{{name: "a", node: "n"}, {name: "b", node: "n"}}, denied: "2 machines",
		},
		"a foreign DNS name": {
			wish: with(func(w *wish) { w.dns = []string{"n", "kubernetes.default"} }), denied: `"kubernetes.default"`,
		},
		"the name of another node in its own status": {
			wish: with(func(w *wish) { w.dns = []string{"n", "o"} }),
			node: called("o"), others: []corev1.Node{*nodeWith("o")}, denied: `"o"`,
		},
		"a host name other than the node's": {
			wish: with(func(w *wish) { w.dns = []string{"host"} }), node: called("host"), others: []corev1.Node{*nodeWith("o")},
		},
		"a host name of another node, in other case": {
			wish: with(func(w *wish) { w.dns = []string{"host"} }), node: called("host"),
			others: []corev1.Node{*nodeWith("o", corev1.NodeAddress{Type: corev1.NodeInternalDNS, Address: "HOST"})},
			denied: `node "o"`,
		},
		"a host name that is a machine": {
			wish: with(func(w *wish) { w.dns = []string{"host"} }), node: called("host"),
			machines: append(one, machine{name: "host"}), denied: `machine "host"`,
		},
		"a host name that is the node of another machine": {
			wish: with(func(w *wish) { w.dns = []string{"host"} }), node: called("host"),
			machines: append(one, machine{name: "o", node: "host"}), denied: `machine "o"`,
		},
		"a host name that another machine reports": {
			wish: with(func(w *wish) { w.dns = []string{"host"} }), node: called("host"),
			machines: append(one, reporting("o", "", "host")), denied: `machine "o"`,
		},
		"a wildcard as host name": {
			wish: with(func(w *wish) { w.dns = []string{"*.internal"} }), node: called("*.internal"), denied: "not a host name",
		},
		"a host name, though the provider reports addresses": {
			wish: with(func(w *wish) { w.dns = []string{"host"} }), node: called("host"),
			machines: []machine{reporting("m", "n", "10.0.0.1")}, denied: `"host" is not one of the machine`,
		},
		"a foreign address": {
			wish: with(func(w *wish) { w.ips = []string{"10.0.0.2"} }), denied: "10.0.0.2 is not an internal one",
		},
		"an address is missing": {wish: with(func(w *wish) { w.ips = nil }), denied: "IP addresses"},
		"external address":      {wish: with(func(w *wish) { w.ips = []string{"10.0.0.1", "1.2.3.4"} }), denied: "1.2.3.4"},
		"two addresses":         {wish: taken, node: liar("10.0.0.2")},
		"an address of another node in its own status": {
			wish: taken, node: liar("10.0.0.2"), others: []corev1.Node{*nodeWith("o", internalIP("10.0.0.2"))},
			denied: `node "o"`,
		},
		"the same in another notation": {
			wish: taken, node: liar("::ffff:10.0.0.2"), others: []corev1.Node{*nodeWith("o", internalIP("10.0.0.2"))},
			denied: `node "o"`,
		},
		"an external address of another node": {
			wish: taken, node: liar("10.0.0.2"), others: []corev1.Node{*nodeWith("o", externalIP("10.0.0.2"))},
			denied: `node "o"`,
		},
		"an address of a machine that has not joined": {
			wish: taken, node: liar("10.0.0.2"), machines: append(one, reporting("o", "", "10.0.0.2")), denied: `machine "o"`,
		},
		"reported": {wish: good, machines: []machine{reporting("m", "n", "10.0.0.1")}},
		"reported, but another node has it, too": {
			wish: good, machines: []machine{reporting("m", "n", "10.0.0.1")},
			others: []corev1.Node{*nodeWith("o", internalIP("10.0.0.1"))},
		},
		"more than is reported": {
			wish: taken, node: liar("10.0.0.2"), machines: []machine{reporting("m", "n", "10.0.0.1")}, denied: "10.0.0.2",
		},
		"a reported name": {
			wish:     with(func(w *wish) { w.dns = []string{"n", "n.internal"} }),
			machines: []machine{reporting("m", "n", "10.0.0.1", "n.internal")},
		},
		"no names at all": {wish: with(func(w *wish) { w.ips, w.dns = nil, nil }), denied: "missing"},
		"email":           {wish: with(func(w *wish) { w.email = "a@b" }), denied: "email"},
		"usable as a client": {
			wish: good, usages: append([]certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}, serving...), denied: "usages",
		},
		"not usable as a server": {
			wish: good, usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature}, denied: "usages",
		},
		"the name twice": {wish: with(func(w *wish) { w.dns = []string{"n", "n"} })},
	} {
		t.Run(name, func(t *testing.T) {
			user, usages := "system:node:n", serving
			if tc.user != "" {
				user = tc.user
			}
			if tc.usages != nil {
				usages = tc.usages
			}
			f := facts{machines: one, node: theNode()}
			if tc.machines != nil {
				f.machines = tc.machines
			}
			if tc.node != nil {
				f.node = tc.node
			}
			f.nodes = append(tc.others, *f.node)
			if tc.missing {
				f.node, f.nodes = nil, nil
			}
			want := approve
			if tc.left {
				want = ignore
			} else if tc.denied != "" {
				want = deny
			}
			got := kubeletServing(request(t, certificatesv1.KubeletServingSignerName, user, nil, tc.wish, usages...), f)
			if got.decision != want || !strings.Contains(got.message, tc.denied) {
				t.Errorf("kubeletServing() = %+v; want %v, %q", got, want, tc.denied)
			}
		})
	}
	r := &certificatesv1.CertificateSigningRequest{
		Spec: certificatesv1.CertificateSigningRequestSpec{Request: []byte("x")},
	}
	if got := kubeletServing(r, facts{machines: one, node: theNode()}); got.decision != deny {
		t.Error("an unreadable request was not denied")
	}
}

const (
	// token is the ID of the bootstrap token of the machine "pool-z1-abcde": the last five characters in hex, cut.
	token       = "616263"
	machineName = "pool-z1-abcde"
)

var (
	bootstrappers = []string{corev1beta1.BootstrappersGroup}
	clientOnly    = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
)

func TestNodeAgent(t *testing.T) {
	agent, bootstrap := corev1beta1.NodeAgentUserPrefix+machineName, corev1beta1.BootstrapUserPrefix+token
	foreign := corev1beta1.BootstrapUserPrefix + "616264"
	good := wish{cn: agent, orgs: []string{corev1beta1.NodeAgentsGroup}}
	known, unknown := []machine{{name: machineName, node: "n"}}, []machine{{name: machineName}}
	for name, tc := range map[string]struct {
		user     string
		groups   []string
		wish     wish
		machines []machine
		joined   bool
		usages   []certificatesv1.KeyUsage
		want     decision // Default: deny.
		message  string
	}{
		"renewal": {user: agent, wish: good, machines: known, joined: true, want: approve},
		"renewal for another machine": {
			user: corev1beta1.NodeAgentUserPrefix + "other", wish: good, machines: known, message: "may not",
		},
		"bootstrap":                 {user: bootstrap, groups: bootstrappers, wish: good, machines: known, want: approve},
		"bootstrap before the node": {user: bootstrap, groups: bootstrappers, wish: good, machines: unknown, want: later},
		"token of another machine": {
			user: foreign, groups: bootstrappers, wish: good, machines: known, message: "not that of machine",
		},
		"another's token, node unknown": {
			user: foreign, groups: bootstrappers, wish: good, machines: unknown, message: "not that of machine",
		},
		"token after joining": {
			user: bootstrap, groups: bootstrappers, wish: good, machines: known, joined: true, message: "has joined",
		},
		"bootstrap without the group": {user: bootstrap, wish: good, machines: known, message: "may not"},
		"the machine's node":          {user: "system:node:n", wish: good, machines: known, joined: true, want: approve},
		"another node":                {user: "system:node:o", wish: good, machines: known, message: "may not"},
		"a node before it is known":   {user: "system:node:", wish: good, machines: unknown, message: "may not"},
		"no such machine":             {user: agent, wish: good, message: "does not exist"},
		"more organizations": {
			user: agent, wish: wish{cn: agent, orgs: []string{corev1beta1.NodeAgentsGroup, "system:masters"}},
			machines: known, message: "organization",
		},
		"alternative names": {
			user: agent, wish: wish{cn: agent, orgs: good.orgs, dns: []string{"x"}}, machines: known,
			message: "alternative names",
		},
		"for a server": {user: agent, wish: good, machines: known, usages: serving, message: "usages"},
		"anybody else": {user: "admin", wish: good, machines: known, message: "may not"},
	} {
		t.Run(name, func(t *testing.T) {
			usages := clientOnly
			if tc.usages != nil {
				usages = tc.usages
			}
			r := request(t, certificatesv1.KubeAPIServerClientSignerName, tc.user, tc.groups, tc.wish, usages...)
			check(t, nodeAgent(r, factsOf(tc.machines, tc.joined)), orDeny(tc.want), tc.message)
		})
	}
}

func factsOf(machines []machine, joined bool) facts {
	f := facts{machines: machines}
	if joined {
		f.node = theNode()
	}
	return f
}

// check expects a verdict; an approval must be for the machine of the test.
func check(t *testing.T, got verdict, want decision, message string) {
	t.Helper()
	if got.decision != want || !strings.Contains(got.message, message) {
		t.Errorf("got %+v, want %v, %q", got, want, message)
	}
	if got.decision == approve && got.machine != machineName {
		t.Errorf("the certificate is for machine %q", got.machine)
	}
}

func orDeny(d decision) decision {
	if d == ignore {
		return deny
	}
	return d
}

func TestKubeletClient(t *testing.T) {
	good := wish{cn: "system:node:n", orgs: []string{corev1beta1.KubeletsGroup}}
	with := func(change func(*wish)) wish { w := good; change(&w); return w }
	mine, undecided := []machine{{name: machineName, node: "n"}}, []machine{{name: machineName}}
	bootstrap, foreign := corev1beta1.BootstrapUserPrefix+token, corev1beta1.BootstrapUserPrefix+"000000"
	elsewhere := []machine{{name: machineName, node: "elsewhere"}}
	for name, tc := range map[string]struct {
		user     string
		groups   []string
		wish     wish
		machines []machine
		joined   bool
		usages   []certificatesv1.KeyUsage
		left     bool
		want     decision // Default: deny, unless the request is left.
		message  string
	}{
		"bootstrap":          {user: bootstrap, groups: bootstrappers, wish: good, machines: mine, want: approve},
		"node not known yet": {user: bootstrap, groups: bootstrappers, wish: good, machines: undecided, want: later},
		"token of another machine": {
			user: foreign, groups: bootstrappers, wish: good, machines: mine, message: "not that of machine",
		},
		"token of a machine with another node": {
			user: bootstrap, groups: bootstrappers, wish: good, machines: elsewhere, message: `another node than "n"`,
		},
		"two machines": {
			user: bootstrap, groups: bootstrappers, wish: good,
			machines: []machine{{name: "a", node: "n"}, {name: "b", node: "n"}},
			message:  "2 machines",
		},
		"token after joining": {
			user: bootstrap, groups: bootstrappers, wish: good, machines: mine, joined: true, message: "has joined",
		},
		"token without the group": {user: bootstrap, wish: good, machines: mine, message: "may not"},
		"renewal":                 {user: "system:node:n", wish: good, machines: mine, joined: true, want: approve},
		"for another node":        {user: "system:node:m", wish: good, machines: mine, message: "may not"},
		"by a node agent": {
			user: corev1beta1.NodeAgentUserPrefix + machineName, groups: []string{corev1beta1.NodeAgentsGroup},
			wish: good, machines: mine, message: "may not",
		},
		"no node": {
			user: bootstrap, groups: bootstrappers, wish: with(func(w *wish) { w.cn = "admin" }), machines: mine,
			message: "not that of a node",
		},
		"more organizations": {
			user: bootstrap, groups: bootstrappers, machines: mine,
			wish:    with(func(w *wish) { w.orgs = []string{corev1beta1.KubeletsGroup, "system:masters"} }),
			message: "organization",
		},
		"alternative names": {
			user: bootstrap, groups: bootstrappers, wish: with(func(w *wish) { w.dns = []string{"x"} }), machines: mine,
			message: "alternative names",
		},
		"for a server": {
			user: bootstrap, groups: bootstrappers, wish: good, machines: mine, usages: serving, message: "usages",
		},

		"no machine: a token made by hand": {user: bootstrap, groups: bootstrappers, wish: good, left: true},
		"no machine: a token made by hand, another machine undecided": {
			user: bootstrap, groups: bootstrappers, wish: good, machines: []machine{{name: "pool-z1-zzzzz"}}, left: true,
		},
		"no machine: renewal":             {user: "system:node:n", wish: good, machines: elsewhere, joined: true, left: true},
		"no machine: by an administrator": {user: "admin", wish: good, machines: elsewhere, left: true},
		"no machine: by a machine's node": {
			user: "system:node:elsewhere", wish: good, machines: elsewhere, message: "may not",
		},
		"no machine: by a node agent": {
			user: corev1beta1.NodeAgentUserPrefix + machineName, wish: good, machines: elsewhere, message: "may not",
		},
	} {
		t.Run(name, func(t *testing.T) {
			usages := clientOnly
			if tc.usages != nil {
				usages = tc.usages
			}
			want := orDeny(tc.want)
			if tc.left {
				want = ignore
			}
			r := request(t, certificatesv1.KubeAPIServerClientKubeletSignerName, tc.user, tc.groups, tc.wish, usages...)
			check(t, kubeletClient(r, factsOf(tc.machines, tc.joined)), want, tc.message)
		})
	}
}

func TestAgain(t *testing.T) {
	for open, want := range map[time.Duration]time.Duration{
		-time.Second: time.Second, 0: time.Second, 4 * time.Second: 4 * time.Second, time.Hour: 30 * time.Second,
	} {
		if got := again(open); got != want {
			t.Errorf("again(%s) = %s, want %s", open, got, want)
		}
	}
}

func TestOurs(t *testing.T) {
	agent := request(t, certificatesv1.KubeAPIServerClientSignerName, "u", nil,
		wish{cn: corev1beta1.NodeAgentUserPrefix + "m"})
	user := request(t, certificatesv1.KubeAPIServerClientSignerName, "u", nil, wish{cn: "someone"})
	kubelet := request(t, certificatesv1.KubeletServingSignerName, "u", nil, wish{cn: "x"})
	client := request(t, certificatesv1.KubeAPIServerClientKubeletSignerName, "u", nil, wish{cn: "system:node:n"})
	decided := agent.DeepCopy()
	decided.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
		{Type: certificatesv1.CertificateDenied},
	}
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
	for name, tc := range map[string]struct {
		machine string // Name of its node.
		nodes   []client.Object
		want    certificatesv1.RequestConditionType // Empty: ignored.
	}{
		"known node":   {"n", []client.Object{theNode()}, certificatesv1.CertificateApproved},
		"unknown node": {"n", []client.Object{nodeWith("other")}, certificatesv1.CertificateDenied},
		"another node has the address": {
			"n", []client.Object{theNode(), nodeWith("other", internalIP("10.0.0.1"))}, certificatesv1.CertificateDenied,
		},
		"no machine": {"other", []client.Object{theNode()}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := wish{cn: "system:node:n", orgs: []string{"system:nodes"}, dns: []string{"n"}, ips: []string{"10.0.0.1"}}
			r := request(t, certificatesv1.KubeletServingSignerName, "system:node:n", nil, w, serving...)
			c := reconcilerWith(t, machineObject("m", tc.machine), append(tc.nodes, r)...)
			if got := reconcileOnce(t, c); got != (reconcile.Result{}) {
				t.Errorf("result %+v", got)
			}
			if got := answer(t, c); got != tc.want {
				t.Errorf("answer %q, want %q", got, tc.want)
			}
		})
	}
}

// reads counts requests to an API server, and the objects in its responses.
type reads struct{ requests, objects int }

func (r *reads) of(c client.Client) client.Reader {
	return interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			options ...client.GetOption) error {
			r.requests++
			err := c.Get(ctx, key, o, options...)
			if err == nil {
				r.objects++
			}
			return err
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			r.requests++
			err := c.List(ctx, list, options...)
			r.objects += meta.LenList(list)
			return err
		},
	})
}

// TestDirectReads: the direct reads for a decision do not grow with the size of the Shoot, here with 41 machines.
func TestDirectReads(t *testing.T) {
	kubelet := func(node string) wish {
		return wish{cn: "system:node:" + node, orgs: []string{corev1beta1.KubeletsGroup}}
	}
	agent := func(machine string) wish {
		return wish{cn: corev1beta1.NodeAgentUserPrefix + machine, orgs: []string{corev1beta1.NodeAgentsGroup}}
	}
	server := kubelet("n")
	server.dns, server.ips = []string{"n"}, []string{"10.0.0.1"}
	greedy := server
	for i := range 40 {
		greedy.dns = append(greedy.dns, fmt.Sprintf("n-%d", i))
	}
	node, bootstrap := "system:node:n", corev1beta1.BootstrapUserPrefix+token
	const (
		forServing = certificatesv1.KubeletServingSignerName
		forKubelet = certificatesv1.KubeAPIServerClientKubeletSignerName
		forAgent   = certificatesv1.KubeAPIServerClientSignerName
		approved   = certificatesv1.CertificateApproved
		refused    = certificatesv1.CertificateDenied
	)
	for name, tc := range map[string]struct {
		signer, user string
		wish         wish
		want         certificatesv1.RequestConditionType
		reads        reads
	}{
		"serving": {forServing, node, server, approved, reads{2, 2}},
		"serving, with the names of all": {
			forServing, node, greedy, refused, reads{2 + 2*maxConfirmed, 2 + 2*maxConfirmed},
		},
		"kubelet":                          {forKubelet, node, kubelet("n"), approved, reads{2, 2}},
		"kubelet of another node":          {forKubelet, node, kubelet("n-1"), refused, reads{3, 3}},
		"token of a machine that joined":   {forKubelet, bootstrap, kubelet("n"), refused, reads{2, 2}},
		"token, for what cannot be a node": {forKubelet, bootstrap, kubelet(",!"), refused, reads{2, 42}},
		"node agent":                       {forAgent, node, agent(machineName), approved, reads{2, 2}},
		"node agent of no machine":         {forAgent, node, agent("x"), refused, reads{1, 0}},
		"node agent of what cannot be one": {forAgent, node, agent("x/y"), refused, reads{}},
	} {
		t.Run(name, func(t *testing.T) {
			usages := clientOnly
			if tc.signer == forServing {
				usages = serving
			}
			r := request(t, tc.signer, tc.user, bootstrappers, tc.wish, usages...)
			nodes, machines := []client.Object{theNode(), r}, []client.Object{machineObject(machineName, "n")}
			for i := range 40 {
				node := fmt.Sprintf("n-%d", i)
				nodes = append(nodes, nodeWith(node))
				machines = append(machines, machineObject(fmt.Sprintf("pool-z1-%d-zzzzz", i), node))
			}
			c := reconcilerWith(t, machineObject(machineName, "n"), nodes...)
			source := fake.NewClientBuilder().WithScheme(machineScheme(t)).WithObjects(machines...).Build()
			var got reads
			c.Machines, c.Source, c.TargetReader = source, got.of(source), got.of(c.TargetReader.(client.Client))
			if reconcileOnce(t, c); answer(t, c) != tc.want {
				t.Errorf("answer %q, want %q", answer(t, c), tc.want)
			}
			if got != tc.reads {
				t.Errorf("%+v, want %+v", got, tc.reads)
			}
		})
	}
}

// TestStaleCacheDeniesNothing: the reasons against a request are in the caches, but have been removed or changed, or do
// not exist yet.
func TestStaleCacheDeniesNothing(t *testing.T) {
	bootstrap := corev1beta1.BootstrapUserPrefix + token
	servingRequest := request(t, certificatesv1.KubeletServingSignerName, "system:node:n", nil,
		wish{
			cn: "system:node:n", orgs: []string{corev1beta1.KubeletsGroup}, dns: []string{"n"}, ips: []string{"10.0.0.1"},
		}, serving...)
	first := request(t, certificatesv1.KubeAPIServerClientKubeletSignerName, bootstrap, bootstrappers,
		wish{cn: "system:node:n", orgs: []string{corev1beta1.KubeletsGroup}}, clientOnly...)
	former := machineObject("former", "o")
	former.Status.Addresses = []corev1.NodeAddress{internalIP("10.0.0.1")}
	mine := machineObject(machineName, "n")
	for name, tc := range map[string]struct {
		request       *certificatesv1.CertificateSigningRequest
		cached, there []client.Object // Machines.
		cachedNodes   []client.Object
		want          certificatesv1.RequestConditionType
	}{
		"the address of a deleted machine": {
			servingRequest, []client.Object{mine, former}, []client.Object{mine}, nil, certificatesv1.CertificateApproved,
		},
		"the address of a deleted node": {
			servingRequest, []client.Object{mine}, []client.Object{mine}, []client.Object{nodeWith("o", internalIP("10.0.0.1"))},
			certificatesv1.CertificateApproved,
		},
		"the token of a deleted machine": {
			first, []client.Object{machineObject("pool-z2-abcde", "o")}, nil, nil, "",
		},
		"the token of a machine that is not cached yet": {
			first, []client.Object{machineObject("pool-z2-abcde", "o")},
			[]client.Object{machineObject("pool-z2-abcde", "o"), machineObject(machineName, "")}, nil, "",
		},
		"the token of a machine with another node": {
			first, []client.Object{machineObject(machineName, "o")}, []client.Object{machineObject(machineName, "o")}, nil,
			certificatesv1.CertificateDenied,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := reconcilerWith(t, mine, append(tc.cachedNodes, theNode(), tc.request.DeepCopy())...)
			c.TargetReader = fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(theNode()).Build()
			c.Machines = fake.NewClientBuilder().WithScheme(machineScheme(t)).WithObjects(tc.cached...).Build()
			c.Source = fake.NewClientBuilder().WithScheme(machineScheme(t)).WithObjects(tc.there...).Build()
			if reconcileOnce(t, c); answer(t, c) != tc.want {
				t.Errorf("answer %q, want %q", answer(t, c), tc.want)
			}
		})
	}
}

// TestMachineBecomesKnown has a request wait for the machine's node in the cache, and checks that the decision uses
// direct reads.
func TestMachineBecomesKnown(t *testing.T) {
	w := wish{cn: "system:node:n", orgs: []string{corev1beta1.KubeletsGroup}}
	user := corev1beta1.BootstrapUserPrefix + token
	r := request(t, certificatesv1.KubeAPIServerClientKubeletSignerName, user, bootstrappers, w, clientOnly...)
	r.CreationTimestamp = metav1.Unix(90, 0)
	c := reconcilerWith(t, machineObject(machineName, ""), r)
	if got := reconcileOnce(t, c); got.RequeueAfter != 10*time.Second {
		t.Errorf("result %+v, want another check after 10 s", got)
	}
	if got := c.open(t.Context(), nil); len(got) != 1 || got[0].Name != r.Name {
		t.Errorf("open requests: %v", got)
	}
	known := fake.NewClientBuilder().WithScheme(machineScheme(t)).WithObjects(machineObject(machineName, "n")).Build()
	c.Machines = known
	if reconcileOnce(t, c); answer(t, c) != "" {
		t.Error("decided with a cache that is ahead of the direct reads")
	}
	c.Source = known
	if reconcileOnce(t, c); answer(t, c) != certificatesv1.CertificateApproved {
		t.Errorf("answer %q", answer(t, c))
	}
	if got := c.open(t.Context(), nil); len(got) != 0 {
		t.Errorf("open requests: %v", got)
	}
	role := client.ObjectKey{Name: "gardener.cloud:machine:" + machineName}
	if err := c.Target.Get(t.Context(), role, &rbacv1.ClusterRole{}); err != nil {
		t.Errorf("the machine has a certificate, but no permissions: %v", err)
	}
}

func machineObject(name, node string) *machinev1alpha1.Machine {
	m := &machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "cp", Name: name}}
	if node != "" {
		m.Labels = map[string]string{machinev1alpha1.NodeLabelKey: node}
	}
	return m
}

func machineScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := machinev1alpha1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	return s
}

// reconcilerWith has the request "r" in its objects; its clock is at 100 s.
func reconcilerWith(t *testing.T, m *machinev1alpha1.Machine, objects ...client.Object) *Reconciler {
	t.Helper()
	source := fake.NewClientBuilder().WithScheme(machineScheme(t)).WithObjects(m).Build()
	target := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).
		WithStatusSubresource(&certificatesv1.CertificateSigningRequest{}).Build()
	return &Reconciler{
		Target: approvals{target}, TargetReader: target, Machines: source, Source: source, Namespace: "cp",
		Grants: machineaccess.Grants{Target: target, Direct: target},
		Clock:  clocktesting.NewFakePassiveClock(time.Unix(100, 0)),
	}
}

func reconcileOnce(t *testing.T, c *Reconciler) reconcile.Result {
	t.Helper()
	result, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "r"}})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// answer returns the type of the only condition of the request, "" if it has none.
func answer(t *testing.T, c *Reconciler) certificatesv1.RequestConditionType {
	t.Helper()
	r := &certificatesv1.CertificateSigningRequest{}
	if err := c.Target.Get(t.Context(), types.NamespacedName{Name: "r"}, r); err != nil {
		t.Fatal(err)
	}
	if len(r.Status.Conditions) == 0 {
		return ""
	}
	if len(r.Status.Conditions) != 1 || r.Status.Conditions[0].Status != corev1.ConditionTrue {
		t.Errorf("conditions %+v", r.Status.Conditions)
	}
	return r.Status.Conditions[0].Type
}

// approvals replaces the approval subresource, which the fake client does not have, by its status.
type approvals struct{ client.Client }

func (a approvals) SubResource(string) client.SubResourceClient {
	return a.Client.SubResource("status")
}
