package ssh

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	"hortus.dev/hortus/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func TestArguments(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		dash int
		want target
		err  string
	}{
		"a shell":                {[]string{"demo"}, -1, target{shoot: "demo"}, ""},
		"a shell on a node":      {[]string{"demo", "n"}, -1, target{shoot: "demo", node: "n"}, ""},
		"a command":              {[]string{"demo", "uname", "-a"}, 1, target{shoot: "demo", command: "uname -a"}, ""},
		"a command on a node":    {[]string{"demo", "n", "id"}, 2, target{shoot: "demo", node: "n", command: "id"}, ""},
		"nothing":                {nil, -1, target{}, "SHOOT is required"},
		"only a command":         {[]string{"id"}, 0, target{}, "SHOOT is required"},
		"no command":             {[]string{"demo"}, 1, target{}, "after --"},
		"a command without dash": {[]string{"demo", "n", "id"}, -1, target{}, `too many arguments: "id"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseArgs(tc.args, tc.dash)
			if got != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("parseArgs() = %+v, %v, want %+v, %q", got, err, tc.want, tc.err)
			}
		})
	}
}

func aNode(name, address string, ready corev1.ConditionStatus) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	if address != "" {
		n.Status.Addresses = []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: address},
		}
	}
	return n
}

func TestChooseNode(t *testing.T) {
	nodes := []corev1.Node{
		aNode("c", "10.0.0.3", corev1.ConditionTrue), aNode("b", "10.0.0.2", corev1.ConditionTrue),
		aNode("a", "10.0.0.1", corev1.ConditionFalse), aNode("d", "", corev1.ConditionTrue),
	}
	for name, tc := range map[string]struct {
		nodes  []corev1.Node
		wanted string
		want   node
		err    string
	}{
		"the first that is ready":       {nodes, "", node{name: "b", address: "10.0.0.2"}, ""},
		"by name, even if it is broken": {nodes, "a", node{name: "a", address: "10.0.0.1"}, ""},
		"by address":                    {nodes, "10.0.0.3", node{name: "c", address: "10.0.0.3"}, ""},
		"without address":               {nodes, "d", node{}, "no internal address"},
		"unknown":                       {nodes, "x", node{}, `node not found: "x" (available: a, b, c, d)`},
		"none is ready":                 {nodes[2:3], "", node{}, "no node of the Shoot is ready"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := chooseNode(append([]corev1.Node(nil), tc.nodes...), tc.wanted)
			if got.name != tc.want.name || got.address != tc.want.address || (err == nil) != (tc.err == "") ||
				err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("chooseNode() = %+v, %v, want %+v, %q", got, err, tc.want, tc.err)
			}
		})
	}
}

func newKey(t *testing.T) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	return signerOf(t, private, err)
}

// signerOf is the signer of a key that was generated.
func signerOf(t *testing.T, private any, err error) ssh.Signer {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

func TestHostKeys(t *testing.T) {
	k := knownHosts{path: filepath.Join(t.TempDir(), "folder", "known_hosts")}
	published := func(key ssh.PublicKey) publication { return publication{key: key} }
	none, silent := publication{missing: "None"}, publication{err: errors.New("no answer")}
	first, second := newKey(t).PublicKey(), newKey(t).PublicKey()
	for _, tc := range []struct {
		name      string
		nodes     []string
		published publication
		seen      ssh.PublicKey
		err       string
	}{
		{"the first key", []string{"uid/b", "uid/10.0.0.2"}, none, first, ""},
		{"the recorded key", []string{"uid/b"}, none, first, ""},
		{"another than the recorded key", []string{"uid/b"}, none, second, "recorded in "},
		{"a node whose name begins alike", []string{"uid/b1"}, none, second, ""},
		{"a first key without an answer", []string{"uid/a"}, silent, first, "no answer. The host key cannot be checked"},
		{"another than the published key", []string{"uid/a"}, published(first), second, "published by the node"},
		{"the published key", []string{"uid/a", "uid/10.0.0.2"}, published(second), second, ""},
		{"a key that was published", []string{"uid/a"}, none, second, ""},
		{"another than was published", []string{"uid/a"}, none, first, "recorded in "},
		{"the new key of an address", []string{"uid/10.0.0.2"}, silent, second, ""},
		{"the former key of an address", []string{"uid/10.0.0.2"}, silent, first, "recorded in "},
		{"the address in another Shoot", []string{"other/10.0.0.2"}, silent, second, "none is recorded"},
		{"the published key counts", []string{"uid/b"}, published(second), second, ""},
	} {
		check, err := k.check(tc.nodes, tc.published, io.Discard)
		if err == nil {
			err = check.callback("", nil, tc.seen)
		}
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.err)
		}
	}
	before, err := os.ReadFile(k.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.record([]string{"uid/a", "uid/10.0.0.2"}, second); err != nil {
		t.Error(err)
	}
	if after, err := os.ReadFile(k.path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("a key that is recorded already changes the file to %q (%v)", after, err)
	}
	info, err := os.Stat(k.path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
}

// A folder that cannot be written prevents no connection to a node that publishes its key.
func TestPublishedKeyNeedsNoRecord(t *testing.T) {
	k, key := knownHosts{path: t.TempDir()}, newKey(t).PublicKey()
	var notices bytes.Buffer
	check, err := k.check([]string{"uid/a"}, publication{key: key}, &notices)
	if err == nil {
		err = check.callback("", nil, key)
	}
	if err != nil || !strings.Contains(notices.String(), "recorded host keys") {
		t.Errorf("the published key is checked with %v and the notice %q", err, notices.String())
	}
}

// server is an SSH server with host keys of several types. It forwards connections, or runs the commands "code N",
// "cat" and "hang".
type server struct {
	keys    []ssh.Signer
	address netip.AddrPort
}

// admits is true for one key.
func admits(key ssh.PublicKey) func(ssh.PublicKey) bool {
	return func(other ssh.PublicKey) bool { return bytes.Equal(key.Marshal(), other.Marshal()) }
}

func serve(t *testing.T, address, port string, allowed func(ssh.PublicKey) bool, forwards bool) *server {
	t.Helper()
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s := &server{keys: []ssh.Signer{newKey(t), signerOf(t, curve, err)}}
	primes, err := rsa.GenerateKey(rand.Reader, 2048)
	s.keys = append(s.keys, signerOf(t, primes, err))
	listener, err := net.Listen("tcp", net.JoinHostPort(address, port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	s.address = netip.MustParseAddrPort(listener.Addr().String())
	config := &ssh.ServerConfig{PublicKeyCallback: func(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if c.User() != "gardener" || !allowed(key) {
			return nil, errors.New("unknown")
		}
		return nil, nil
	}}
	for _, key := range s.keys {
		config.AddHostKey(key)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, channels, requests, err := ssh.NewServerConn(conn, config)
				if err != nil {
					return
				}
				go ssh.DiscardRequests(requests)
				for channel := range channels {
					if forwards {
						go forward(channel)
					} else {
						go execute(channel)
					}
				}
			}()
		}
	}()
	return s
}

func forward(request ssh.NewChannel) {
	var to struct {
		Host   string
		Port   uint32
		Origin string
		From   uint32
	}
	if request.ChannelType() != "direct-tcpip" || ssh.Unmarshal(request.ExtraData(), &to) != nil {
		_ = request.Reject(ssh.Prohibited, "")
		return
	}
	conn, err := net.Dial("tcp", net.JoinHostPort(to.Host, fmt.Sprint(to.Port)))
	if err != nil {
		_ = request.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	defer conn.Close()
	channel, requests, err := request.Accept()
	if err != nil {
		return
	}
	defer channel.Close()
	go ssh.DiscardRequests(requests)
	go func() {
		_, _ = io.Copy(conn, channel)
		_ = conn.Close() // The client has ended.
	}()
	_, _ = io.Copy(channel, conn)
}

func execute(request ssh.NewChannel) {
	channel, requests, err := request.Accept()
	if err != nil {
		return
	}
	defer channel.Close()
	for r := range requests {
		var command struct{ Text string }
		if r.Type != "exec" || ssh.Unmarshal(r.Payload, &command) != nil {
			_ = r.Reply(false, nil)
			continue
		}
		_ = r.Reply(true, nil)
		code := uint32(0)
		switch {
		case command.Text == "cat":
			_, _ = io.Copy(channel, channel)
		case command.Text == "hang":
			_, _ = io.WriteString(channel, "hangs")
			continue
		default:
			_, _ = fmt.Sscanf(command.Text, "code %d", &code)
		}
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{code}))
		return
	}
}

func TestLogInThroughABastion(t *testing.T) {
	bastionKey, nodeKey := newKey(t), newKey(t)
	bastion := serve(t, "127.0.0.1", "0", admits(bastionKey.PublicKey()), true)
	port := fmt.Sprint(bastion.address.Port())
	// The node has another loopback address and the same port, as in reality.
	on := serve(t, "127.0.0.2", port, admits(nodeKey.PublicKey()), false)
	publishes := func(key ssh.PublicKey) hostKeyCheck { return checkFor(key, "published by the node", func() {}) }
	way := route{
		bastion: "127.0.0.1", bastionKey: bastionKey, nodeKey: nodeKey, port: port,
		node: node{name: "a", address: "127.0.0.2"},
	}
	var err error
	for _, key := range on.keys { // Whichever of its keys the node publishes.
		way.node.hostKey = publishes(key.PublicKey())
		var out bytes.Buffer
		err = logIn(t.Context(), way, session{
			command: "cat", streams: streams{in: strings.NewReader("hello"), out: &out, err: io.Discard},
		})
		if err != nil || out.String() != "hello" {
			t.Errorf("the command ends with %v and says %q, with %s", err, out.String(), key.PublicKey().Type())
		}
	}

	silent, never := io.Pipe() // Input without end.
	defer never.Close()
	quiet := streams{in: silent, out: io.Discard, err: io.Discard}
	err = logIn(t.Context(), way, session{command: "code 7", streams: quiet})
	var code exitCode
	if !errors.As(err, &code) || code.Code() != 7 {
		t.Errorf("a command with exit code 7 ends with %v", err)
	}

	other := way
	other.node.hostKey = publishes(newKey(t).PublicKey())
	err = logIn(t.Context(), other, session{command: "cat", streams: quiet})
	if err == nil || !strings.Contains(err.Error(), "host key differs") {
		t.Errorf("another host key ends with %v", err)
	}
	other = way
	other.nodeKey = newKey(t)
	err = logIn(t.Context(), other, session{command: "cat", streams: quiet})
	if err == nil || !strings.Contains(err.Error(), "log in to node a (127.0.0.2:"+port+")") {
		t.Errorf("another key for the node ends with %v", err)
	}

	// Ctrl-C ends a command that hangs.
	ctx, cancel := context.WithCancel(t.Context())
	begun, write := io.Pipe()
	defer write.Close()
	go func() {
		_, _ = begun.Read(make([]byte, 1))
		cancel()
		_, _ = io.Copy(io.Discard, begun)
	}()
	err = logIn(ctx, way, session{command: "hang", streams: streams{in: silent, out: write, err: io.Discard}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a command that is interrupted ends with %v", err)
	}
}

func newGarden(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := operationsv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&operationsv1alpha1.Bastion{}).Build()
}

// becomesReady has a gardenlet report an address for each generation.
func becomesReady(t *testing.T, b *bastion, address string) {
	t.Helper()
	b.object.Status = operationsv1alpha1.BastionStatus{
		Ingress: &corev1.LoadBalancerIngress{IP: address}, ObservedGeneration: ptr.To(b.object.Generation),
		Conditions: []corev1beta1.Condition{{Type: operationsv1alpha1.BastionReady, Status: corev1beta1.ConditionTrue}},
	}
	if err := b.garden.Status().Update(t.Context(), b.object); err != nil {
		t.Fatal(err)
	}
}

func cidrsOf(b *bastion) []string {
	var out []string
	for _, p := range b.object.Spec.Ingress {
		out = append(out, p.IPBlock.CIDR)
	}
	return out
}

func TestLifeOfABastion(t *testing.T) {
	c := &command{
		clock: clock.RealClock{}, namespace: "garden-dev", timeout: time.Minute, out: io.Discard,
		config: &rest.Config{Host: "https://192.0.2.1"}, garden: newGarden(t), cidrs: []string{"203.0.113.0/24"},
	}
	b, err := c.createBastion(t.Context(), "demo", "ssh-ed25519 AAAA\n")
	if err != nil {
		t.Fatal(err)
	}
	if s := b.object.Spec; s.ShootRef.Name != "demo" || s.SSHPublicKey != "ssh-ed25519 AAAA" {
		t.Errorf("the Bastion is %+v", s)
	}
	becomesReady(t, b, "127.0.0.1")
	address, err := b.await(t.Context())
	if err != nil || address != "127.0.0.1" {
		t.Errorf("await() = %q, %v", address, err)
	}
	if diff := cmp.Diff([]string{"203.0.113.0/24"}, cidrsOf(b)); diff != "" {
		t.Errorf("networks that were given mismatch (-want +got):\n%s", diff)
	}

	// Without --cidr the address from which the Bastion is reached can connect, too.
	c.cidrs = nil
	if unchanged, err := b.admit(t.Context()); unchanged || err != nil {
		t.Errorf("admit() = %t, %v", unchanged, err)
	}
	if unchanged, err := b.admit(t.Context()); !unchanged || err != nil {
		t.Errorf("admit() again = %t, %v", unchanged, err)
	}
	if diff := cmp.Diff([]string{"203.0.113.0/24", "127.0.0.1/32"}, cidrsOf(b)); diff != "" {
		t.Errorf("networks mismatch (-want +got):\n%s", diff)
	}

	ended, stop := context.WithCancel(t.Context())
	stop()
	if err := b.delete(context.WithoutCancel(ended)); err != nil {
		t.Error(err)
	}
	list := &operationsv1alpha1.BastionList{}
	if err := c.garden.List(t.Context(), list); err != nil || len(list.Items) > 0 {
		t.Errorf("the Bastions %v remain (%v)", list.Items, err)
	}
	if _, err := b.await(t.Context()); err == nil {
		t.Error("a Bastion that was deleted is ready")
	}
}

func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &command{
			clock: clock.RealClock{}, namespace: "garden-dev", garden: newGarden(t), cidrs: []string{"203.0.113.0/24"},
		}
		b, err := c.createBastion(t.Context(), "demo", "key")
		if err != nil {
			t.Fatal(err)
		}
		asked := func() bool {
			t.Helper()
			if err := c.garden.Get(t.Context(), client.ObjectKeyFromObject(b.object), b.object); err != nil {
				t.Fatal(err)
			}
			return b.object.Annotations[corev1beta1.AnnotationOperation] == corev1beta1.OperationKeepalive
		}
		go b.keepAlive(t.Context())
		if synctest.Wait(); asked() {
			t.Error("a new Bastion is kept alive at once")
		}
		for range 2 {
			b.object.Annotations = nil // The API server does it.
			if err := c.garden.Update(t.Context(), b.object); err != nil {
				t.Fatal(err)
			}
			time.Sleep(operationsv1alpha1.BastionTimeToLive / 2)
			if synctest.Wait(); !asked() {
				t.Error("the Bastion is not kept alive")
			}
		}
	})
}

func TestBastionThatIsNotReady(t *testing.T) {
	c := &command{
		clock: clock.RealClock{}, namespace: "garden-dev", timeout: 10 * time.Millisecond, out: io.Discard,
		garden: newGarden(t), cidrs: []string{"203.0.113.0/24"},
	}
	b, err := c.createBastion(t.Context(), "demo", "key")
	if err != nil {
		t.Fatal(err)
	}
	b.object.Status.Conditions = []corev1beta1.Condition{{
		Type: operationsv1alpha1.BastionReady, Status: corev1beta1.ConditionFalse, Message: "The Shoot is hibernated.",
	}}
	if err := b.garden.Status().Update(t.Context(), b.object); err != nil {
		t.Fatal(err)
	}
	_, err = b.await(t.Context())
	if err == nil || !strings.Contains(err.Error(), "--timeout") || !strings.Contains(err.Error(), "hibernated") {
		t.Errorf("await() reports %v", err)
	}
	becomesReady(t, b, "192.0.2.7")
	if !isReady(b.object) {
		t.Error("the status of the present generation does not make a Bastion ready")
	}
	b.object.Generation++
	if isReady(b.object) {
		t.Error("the status of an older generation makes a Bastion ready")
	}
}

func TestOwnAddress(t *testing.T) {
	if got, err := sourceFor("127.0.0.1:22"); err != nil || only(got) != "127.0.0.1/32" {
		t.Errorf("the address towards this machine is %v, %v", got, err)
	}
	if got := only(netip.MustParseAddr("2001:db8::1")); got != "2001:db8::1/128" {
		t.Errorf("only() = %s", got)
	}
	// An address that only this machine knows is no use to a Bastion.
	if got, err := ownAddress("https://127.0.0.1:6443"); err == nil && got.IsLoopback() {
		t.Errorf("the address of this machine is %v", got)
	}
}
