//go:build landscape

package e2e

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"k8s.io/client-go/tools/clientcmd"
)

// logsInThroughBastion has a member of the project log in with 'hortus ssh', tries a Bastion from an address that it
// does not allow, and lets one expire. Nothing of them remains in the cloud.
func logsInThroughBastion(t *testing.T, kubeconfig, shoot string) {
	t.Helper()
	garden := kubeconfigOf("garden")
	kubectl(t, garden, "patch", "project", "dev", "--type=merge", "-p",
		fmt.Sprintf(`{"spec": {"members": [%s]}}`, member("mia", "admin")))
	mia := impersonating(t, garden, "mia")
	eventually(t, "the permissions of a member", func() error {
		if out, err := kubectlE(t, mia, "-n", projectNS, "get", "bastions"); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})

	machine, known := nodeOfPool(t, kubeconfig, "pool").Name, filepath.Join(t.TempDir(), "known_hosts")
	logIn := func(command ...string) (string, error) {
		return run(t, filepath.Join(repository, ".build", "hortus"), append([]string{
			"ssh", shoot, machine, "-n", projectNS, "--kubeconfig", mia, "--known-hosts", known, "--",
		}, command...)...)
	}
	out, err := logIn("cat /etc/hostname; id -un")
	if want := machine + "\ngardener\n"; err != nil || !strings.Contains(out, want) {
		t.Errorf("the command on the node ends with %v and says %q, want %q", err, out, want)
	}
	if text, err := os.ReadFile(known); err != nil || !strings.Contains(string(text), "/"+machine+" ssh-") {
		t.Errorf("the host key that the node publishes is not recorded (%v): %s", err, text)
	}
	var exit *exec.ExitError
	if out, err := logIn("exit 7"); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("a command with exit code 7 ends with %v: %s", err, out)
	}
	if left := kubectl(t, garden, "-n", projectNS, "get", "bastions", "-o", "name"); left != "" {
		eventually(t, "the end of the Bastions of the command", func() error {
			return nothing(kubectl(t, garden, "-n", projectNS, "get", "bastions", "-o", "name"))
		})
	}
	noBastionInTheCloud(t)
	admitsOnlyItsRanges(t, garden, kubeconfig, shoot)
}

func nothing(left string) error {
	if left = strings.TrimSpace(left); left != "" {
		return fmt.Errorf("left: %s", left)
	}
	return nil
}

// impersonating returns a kubeconfig with which an administrator acts as a user.
func impersonating(t *testing.T, kubeconfig, user string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range config.AuthInfos {
		one.Impersonate = user
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// noBastionInTheCloud waits until the instances and load balancers of Bastions are gone.
func noBastionInTheCloud(t *testing.T) {
	t.Helper()
	eventually(t, "a cloud without bastions", func() error {
		for _, kind := range []string{"instances", "load-balancers"} {
			var list struct {
				Items []struct{ Name string }
			}
			out := hortus(t, "cloud", kind, "list", "-o", "json")
			if err := json.Unmarshal([]byte(out), &list); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			for _, one := range list.Items {
				if strings.HasPrefix(one.Name, "bastion-") {
					return fmt.Errorf("there are the %s %s", kind, one.Name)
				}
			}
		}
		return nil
	})
}

// admitsOnlyItsRanges has a Bastion for addresses elsewhere, then for those of this machine, and lets it expire.
func admitsOnlyItsRanges(t *testing.T, garden, kubeconfig, shoot string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	const bastion, elsewhere = "elsewhere", "192.0.2.0/24"
	manifest := fmt.Sprintf(`{"apiVersion": "operations.gardener.cloud/v1alpha1", "kind": "Bastion",
		"metadata": {"name": %q, "namespace": %q}, "spec": {"shootRef": {"name": %q}, "sshPublicKey": %q,
		"ingress": [{"ipBlock": {"cidr": %q}}]}}`, bastion, projectNS, shoot,
		strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key.PublicKey()))), elsewhere)
	if out, err := applyText(t, garden, manifest); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	in := func(args ...string) string { return kubectl(t, garden, append([]string{"-n", projectNS}, args...)...) }
	in("wait", "bastion", bastion, "--for=condition=BastionReady", withPatience)
	address := net.JoinHostPort(in("get", "bastion", bastion, "-o", "jsonpath={.status.ingress.ip}"), "22")
	dial := func(as ssh.Signer) (*ssh.Client, error) {
		return ssh.Dial("tcp", address, &ssh.ClientConfig{
			User: "gardener", Auth: []ssh.AuthMethod{ssh.PublicKeys(as)}, Timeout: 10 * time.Second,
			HostKeyCallback: ssh.InsecureIgnoreHostKey(), // It is new.
		})
	}
	if _, err := dial(key); err == nil || strings.Contains(err.Error(), "unable to authenticate") {
		t.Errorf("a bastion for %s answers this machine: %v", elsewhere, err)
	}

	own, err := net.Dial("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	source := netip.MustParseAddrPort(own.LocalAddr().String()).Addr()
	own.Close()
	in("patch", "bastion", bastion, "--type=merge", "-p",
		fmt.Sprintf(`{"spec": {"ingress": [{"ipBlock": {"cidr": "%s/32"}}]}}`, source))
	var client *ssh.Client
	eventually(t, "a connection from an allowed address", func() (err error) {
		client, err = dial(key)
		return err
	})
	defer client.Close()
	node := nodeOfPool(t, kubeconfig, "pool")
	conn, err := client.Dial("tcp", net.JoinHostPort(addressOf(t, node.Name), "22"))
	if err != nil {
		t.Errorf("the SSH server of the node: %v", err)
	} else {
		conn.Close()
	}
	if conn, err := client.Dial("tcp", net.JoinHostPort(addressOf(t, node.Name), "10250")); err == nil {
		conn.Close()
		t.Error("the bastion leads to the kubelet")
	}
	if session, err := client.NewSession(); err == nil {
		if out, err := session.Output("id"); err == nil {
			t.Errorf("the bastion runs a command: %s", out)
		}
	}
	if _, err := dial(sshKey(t, shoot+".ssh-keypair")); err == nil {
		t.Error("the bastion lets the key of the nodes in")
	}

	in("patch", "bastion", bastion, "--subresource=status", "--type=merge", "-p",
		`{"status": {"expirationTimestamp": "2020-01-01T00:00:00Z"}}`)
	eventually(t, "the end of an expired Bastion", func() error { return nothing(in("get", "bastions", "-o", "name")) })
	_ = client.Wait() // Returns when the connection has been closed.
	noBastionInTheCloud(t)
}

// addressOf is the address of a node's instance.
func addressOf(t *testing.T, name string) string {
	t.Helper()
	machine := &sshMachine{name: name}
	machine.locate(t)
	return machine.address
}
