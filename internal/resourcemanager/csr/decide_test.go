package csr

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
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
