package bastion

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/local/machineinit"
	machineunit "hortus.dev/hortus/local/machineinit/unit"
)

type policies = []extensionsv1alpha1.BastionIngressPolicy

func policy(cidr string, except ...string) extensionsv1alpha1.BastionIngressPolicy {
	return extensionsv1alpha1.BastionIngressPolicy{IPBlock: networkingv1.IPBlock{CIDR: cidr, Except: except}}
}

func TestAllowed(t *testing.T) {
	for name, tc := range map[string]struct {
		ingress policies
		want    []string
		refused string
	}{
		"one address":                 {ingress: policies{policy("192.0.2.7/32")}, want: []string{"192.0.2.7/32"}},
		"bits of hosts do not matter": {ingress: policies{policy("192.0.2.7/24")}, want: []string{"192.0.2.0/24"}},
		"several, sorted and once": {
			ingress: policies{policy("192.0.2.9/32"), policy("192.0.2.7/32"), policy("192.0.2.9/32")},
			want:    []string{"192.0.2.7/32", "192.0.2.9/32"},
		},
		"an exception is cut out": {
			ingress: policies{policy("10.0.0.0/8", "10.64.0.0/10")}, want: []string{"10.0.0.0/10", "10.128.0.0/9"},
		},
		"two exceptions": {
			ingress: policies{policy("10.0.0.0/30", "10.0.0.1/32", "10.0.0.2/32")}, want: []string{"10.0.0.0/32", "10.0.0.3/32"},
		},
		"an exception elsewhere": {
			ingress: policies{policy("10.0.0.0/8", "192.0.2.0/24")}, want: []string{"10.0.0.0/8"},
		},
		"IPv6": {
			ingress: policies{policy("2001:db8::/126", "2001:db8::1/128")}, want: []string{"2001:db8::/128", "2001:db8::2/127"},
		},
		"an exception of all": {
			ingress: policies{policy("10.0.0.0/8", "10.0.0.0/8")}, refused: "spec.ingress: Required value",
		},
		"nobody": {refused: "spec.ingress: Required value"},
		"not a prefix": {
			ingress: policies{policy("10.0.0.1")}, refused: "spec.ingress[0].ipBlock.cidr: Invalid value",
		},
		"an exception is not a prefix": {
			ingress: policies{policy("10.0.0.0/8", "x")}, refused: "spec.ingress[0].ipBlock.except[0]: Invalid value",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, errs := allowed(tc.ingress)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("allowed() mismatch (-want +got):\n%s", diff)
			}
			if tc.refused == "" && len(errs) > 0 || len(errs) == 0 && tc.refused != "" {
				t.Errorf("allowed() reports %v, want %q", errs, tc.refused)
			}
			if len(errs) > 0 && !strings.HasPrefix(errs.ToAggregate().Error(), tc.refused) {
				t.Errorf("allowed() reports %v, want %q", errs, tc.refused)
			}
		})
	}
}

const machineTypes = `"machineTypes":[{"name":"large","cpu":"4","memory":"8Gi"},{"name":"old","cpu":"1","memory":"1Gi","usable":false},
{"name":"arm","cpu":"1","memory":"1Gi","architecture":"arm64"},{"name":"small","cpu":"2","memory":"2Gi","architecture":"amd64"}],
"machineImages":[{"name":"os","versions":[{"version":"1.9.0"},{"version":"1.10.0"},{"version":"2.0.0","classification":"preview"},
{"version":"1.11.0","architectures":["arm64"]}]}],
"providerConfig":{"machineImages":[{"name":"os","versions":[{"version":"1.9.0","image":"i:1.9.0"},{"version":"1.10.0","image":"i:1.10.0"}]}]}`

func TestChooseMachine(t *testing.T) {
	const pool = `{"spec":{"provider":{"workers":[{"machine":{"architecture":"amd64","image":{"name":"os","version":"1.9.0"}}}]}}}`
	for name, tc := range map[string]struct {
		profile, shoot string
		want           machine
		failed         string
	}{
		"the smallest type and the pool's image": {`{"spec":{` + machineTypes + `}}`, pool, machine{"small", "i:1.9.0"}, ""},
		"a type of the profile": {
			`{"spec":{"bastion":{"machineType":{"name":"large"}},` + machineTypes + `}}`, pool, machine{"large", "i:1.9.0"}, "",
		},
		"the newest version of an image": {
			`{"spec":{"bastion":{"machineImage":{"name":"os"},"machineType":{"name":"small"}},` + machineTypes + `}}`, `{}`,
			machine{"small", "i:1.10.0"}, "",
		},
		"a version of an image": {
			`{"spec":{"bastion":{"machineImage":{"name":"os","version":"1.9.0"},"machineType":{"name":"small"}},` + machineTypes + `}}`,
			`{}`, machine{"small", "i:1.9.0"}, "",
		},
		"an image that the cloud does not have": {
			`{"spec":{"bastion":{"machineImage":{"name":"os","version":"3.0.0"},"machineType":{"name":"small"}},` + machineTypes + `}}`,
			`{}`, machine{"small", ""}, "maps no image",
		},
		"no image": {`{"spec":{` + machineTypes + `}}`, `{}`, machine{}, "names a machine image"},
		"no type":  {`{"spec":{}}`, pool, machine{}, "no usable machine type"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &extension.Cluster{Shoot: &corev1beta1.Shoot{}, CloudProfile: &corev1beta1.CloudProfile{}}
			for text, into := range map[string]any{tc.profile: cluster.CloudProfile, tc.shoot: cluster.Shoot} {
				if err := json.Unmarshal([]byte(text), into); err != nil {
					t.Fatal(err)
				}
			}
			got, err := chooseMachine(cluster)
			if got != tc.want {
				t.Errorf("chooseMachine() = %v, want %v", got, tc.want)
			}
			if (err == nil) != (tc.failed == "") || err != nil && !strings.Contains(err.Error(), tc.failed) {
				t.Errorf("chooseMachine() reports %v, want %q", err, tc.failed)
			}
		})
	}
}

// The user data is read by the machine's process 1, and its commands by the shell.
func TestUserData(t *testing.T) {
	const script = "#!/bin/sh\necho \"'x'\" ${HOME}\n"
	raw, err := userData([]byte(script), "10.250.0.0/16", "10.250.0.1")
	if err != nil {
		t.Fatal(err)
	}
	data, err := machineinit.ParseUserData(raw)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, file := range data.Files {
		content, err := file.Content.Inline.Decode()
		if err != nil {
			t.Fatal(err)
		}
		files[file.Path] = string(content)
	}
	if files[userScriptPath] != script {
		t.Errorf("the machine gets the user data %q, want %q", files[userScriptPath], script)
	}
	rest := files[firewallPath]
	for _, rule := range []string{ // In this order: the gateway is in the network.
		"ip saddr 10.250.0.1 tcp dport 22 accept", "ct state established,related accept", "ip daddr 10.250.0.1 drop",
		"ip daddr 10.250.0.0/16 tcp dport 22 accept",
	} {
		var found bool
		if _, rest, found = strings.Cut(rest, rule); !found {
			t.Errorf("the firewall has no rule %q after those before it:\n%s", rule, files[firewallPath])
		}
	}
	check := exec.Command("sh", "-n")
	check.Stdin = strings.NewReader(files[scriptPath])
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("the shell refuses the commands: %v\n%s", err, out)
	}
	dir, unit := t.TempDir(), data.Units[0]
	if err := os.WriteFile(filepath.Join(dir, unit.Name), []byte(*unit.Content), 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := machineunit.Load(unit.Name, []string{dir})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{scriptPath}, read.ExecStart[0].Args(nil, unit.Name)); diff != "" {
		t.Errorf("command mismatch (-want +got):\n%s", diff)
	}
}
