//go:build landscape

package e2e

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"hortus.dev/hortus/local/clouddaemon/fabric/linux"
)

// sshMachine is a machine to log in to, from the gateway of its network, which is on the host of the local cloud.
type sshMachine struct {
	name, network, address string
	// hostKey is the host key of the first connection; another one is refused.
	hostKey string
}

// logsInToNode logs in with the valid keys of a Shoot, and with unknown and former ones. The Shoot has one node, since
// changes take minutes to reach several. It returns the machine.
func logsInToNode(t *testing.T, kubeconfig, shoot string) *sshMachine {
	t.Helper()
	before := nodeOfPool(t, kubeconfig, "pool")
	machine := &sshMachine{name: before.Name}
	machine.locate(t)
	instance, kubelet := instanceOf(t, before.Name), machine.inside(t, "init", "ctl", "status", "kubelet.service")

	first := sshKey(t, shoot+".ssh-keypair")
	machine.letsIn(t, "the key of the Shoot", first)
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	machine.refuses(t, "an unknown key", "gardener", ssh.PublicKeys(stranger))
	machine.refuses(t, "the key of the Shoot for root", "root", ssh.PublicKeys(first))
	machine.refuses(t, "a password", "gardener", ssh.Password(""))

	second := rotateSSHKey(t, shoot)
	machine.letsIn(t, "the new key", second)
	machine.letsIn(t, "the key before", sshKey(t, shoot+".ssh-keypair.old"))
	machine.letsIn(t, "the first key, which is the previous one", first)
	third := rotateSSHKey(t, shoot)
	machine.letsIn(t, "the newest key", third)
	machine.letsIn(t, "the key before it", second)
	machine.refuses(t, "the key before the last two rotations", "gardener", ssh.PublicKeys(first))

	session, err := machine.connect("gardener", ssh.PublicKeys(third))
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	access := func(enabled bool) {
		t.Helper()
		patchShoot(t, shoot, fmt.Sprintf(`{"spec":{"provider":{"workersSettings":{"sshAccess":{"enabled":%t}}}}}`, enabled))
	}
	access(false)
	_ = session.Wait() // Returns when the machine has closed the connection.
	c, err := machine.connect("gardener", ssh.PublicKeys(third))
	if err == nil {
		c.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("without access a login ends with %v, want a refused connection", err)
	}
	const look = "ls -d /var/lib/gardener-user-* /etc/systemd/system/sshd.service 2>/dev/null || true"
	if left := machine.inside(t, "sh", "-c", look); left != "" {
		t.Errorf("without access the machine has\n%s", left)
	}
	access(true)
	machine.letsIn(t, "the key of the Shoot, with access again", sshKey(t, shoot+".ssh-keypair"))
	machine.refuses(t, "the key from before access ended", "gardener", ssh.PublicKeys(third))

	after := nodeOfPool(t, kubeconfig, "pool")
	if after.UID != before.UID || instanceOf(t, after.Name) != instance {
		t.Errorf("the node %s (%s, %s) was followed by %s (%s, %s)",
			before.Name, before.UID, instance, after.Name, after.UID, instanceOf(t, after.Name))
	}
	if now := machine.inside(t, "init", "ctl", "status", "kubelet.service"); now != kubelet {
		t.Errorf("the kubelet was restarted:\n%s\nafter\n%s", now, kubelet)
	}
	return machine
}

// keepsHostKey reboots a machine and logs in to it again.
func keepsHostKey(t *testing.T, machine *sshMachine, shoot string) {
	t.Helper()
	before := instanceOf(t, machine.name)
	machine.inside(t, "init", "ctl", "reboot")
	eventually(t, "a reboot", func() error {
		if now := instanceOf(t, machine.name); now == before {
			return fmt.Errorf("the instance is still %s", now)
		}
		return nil
	})
	machine.letsIn(t, "the key of the Shoot, after a reboot", sshKey(t, shoot+".ssh-keypair"))
}

// sshKey reads the private key in a Secret of the project.
func sshKey(t *testing.T, secret string) ssh.Signer {
	t.Helper()
	encoded := kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "get", "secret", secret, "-o",
		"jsonpath={.data.id_rsa}")
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(key)
	if err != nil {
		t.Fatalf("Secret %s: %v", secret, err)
	}
	return signer
}

// rotateSSHKey returns the new key.
func rotateSSHKey(t *testing.T, shoot string) ssh.Signer {
	t.Helper()
	last := func(o *unstructured.Unstructured) string {
		time, _, _ := unstructured.NestedString(o.Object, "status", "credentials", "rotation", "sshKeypair",
			"lastCompletionTime")
		return time
	}
	before := last(awaitSucceeded(t, shoot))
	kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "annotate", "shoot", shoot,
		"gardener.cloud/operation=rotate-ssh-keypair")
	awaitShoot(t, shoot, "a rotated SSH key", func(o *unstructured.Unstructured) bool {
		return succeeded(o) && last(o) != before && last(o) != ""
	})
	return sshKey(t, shoot+".ssh-keypair")
}

func (m *sshMachine) locate(t *testing.T) {
	t.Helper()
	var instance struct {
		NetworkID string `json:"networkID"`
		Address   string `json:"address"`
	}
	out := hortus(t, "cloud", "instances", "get", m.name, "-o", "json")
	if err := json.Unmarshal([]byte(out), &instance); err != nil || instance.NetworkID == "" || instance.Address == "" {
		t.Fatalf("instance %s: %v\n%s", m.name, err, out)
	}
	m.network, m.address = instance.NetworkID, instance.Address
}

// inside runs a command on the machine, without its network.
func (m *sshMachine) inside(t *testing.T, command ...string) string {
	t.Helper()
	return hortus(t, append([]string{"cloud", "instances", "exec", m.name, "--"}, command...)...)
}

var errHostKey = errors.New("the machine has another host key than before")

// connect logs in.
func (m *sshMachine) connect(user string, by ssh.AuthMethod) (*ssh.Client, error) {
	address, err := netip.ParseAddr(m.address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := (&linux.Fabric{}).Dial(ctx, m.network, netip.AddrPortFrom(address, 22))
	if err != nil {
		return nil, err
	}
	client, channels, requests, err := ssh.NewClientConn(conn, m.name, &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{by},
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			shown := ssh.FingerprintSHA256(key)
			if m.hostKey != "" && m.hostKey != shown {
				return errHostKey
			}
			m.hostKey = shown
			return nil
		},
	})
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return ssh.NewClient(client, channels, requests), nil
}

// letsIn logs in and runs a command as the user of machines. It waits until the server listens.
func (m *sshMachine) letsIn(t *testing.T, what string, key ssh.Signer) {
	t.Helper()
	eventually(t, "a login on "+m.name+" with "+what, func() error {
		client, err := m.connect("gardener", ssh.PublicKeys(key))
		if errors.Is(err, errHostKey) {
			t.Fatal(err)
		}
		if err != nil {
			return err
		}
		defer client.Close()
		session, err := client.NewSession()
		if err != nil {
			return err
		}
		out, err := session.CombinedOutput("id -un; cat /etc/hostname; pwd")
		if want := "gardener\n" + m.name + "\n/home/gardener\n"; err != nil || string(out) != want {
			return fmt.Errorf("the command ends with %v and says %q, want %q", err, out, want)
		}
		return nil
	})
}

// refuses expects the server to reject the login.
func (m *sshMachine) refuses(t *testing.T, what, user string, by ssh.AuthMethod) {
	t.Helper()
	client, err := m.connect(user, by)
	if err == nil {
		client.Close()
		t.Errorf("%s lets %s in", what, user)
	} else if !strings.Contains(err.Error(), "unable to authenticate") {
		t.Errorf("%s: a login as %s ends with %v, want a rejection", what, user, err)
	}
}
