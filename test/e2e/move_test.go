//go:build landscape

package e2e

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
)

// cloudResolver resolves names by the DNS server of the local cloud.
var cloudResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, "198.18.0.1:53")
}}

// dialByName connects to the present address of a name, whatever address a kubeconfig has: hosts that can resolve the
// names of the local cloud would do so.
func dialByName(name string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		addresses, err := cloudResolver.LookupHost(ctx, name)
		if err != nil {
			return nil, err
		}
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(addresses[0], port))
	}
}

// readdress replaces the address in a kubeconfig by the present address of a name; the credentials stay.
func readdress(t *testing.T, kubeconfig, name string) {
	t.Helper()
	addresses, err := cloudResolver.LookupHost(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	cluster := kubectl(t, kubeconfig, "config", "view", "--minify", "-o", "jsonpath={.clusters[0].name}")
	kubectl(t, kubeconfig, "config", "set-cluster", cluster, "--server=https://"+addresses[0], "--tls-server-name="+name)
}

// awaitLeft waits until a seed has no remains of a control plane.
func awaitLeft(t *testing.T, name, seed string) {
	t.Helper()
	eventually(t, "an empty source", func() error {
		out, err := kubectlE(t, adminOf(seed), "get", "namespace", "shoot--dev--"+name, "--ignore-not-found", "-o", "name")
		if err != nil || out != "" {
			return fmt.Errorf("%s (%v)", out, err)
		}
		return nil
	})
}

func seedOf(t *testing.T, name string) string {
	t.Helper()
	return kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "get", "shoot", name, "-o", "jsonpath={.status.seedName}")
}

// adminOf is the administrator's kubeconfig of a seed.
func adminOf(seed string) string {
	if seed == "local-2" {
		return kubeconfigOf("seed-2")
	}
	return kubeconfigOf("garden")
}

func nodeUIDs(t *testing.T, kubeconfig string) string {
	t.Helper()
	uids := strings.Fields(kubectl(t, kubeconfig, "get", "nodes", "-o", "jsonpath={.items[*].metadata.uid}"))
	slices.Sort(uids)
	return strings.Join(uids, " ")
}

// podStarts are the start times and restarts of all pods.
func podStarts(t *testing.T, kubeconfig string) map[string][2]string {
	t.Helper()
	out := map[string][2]string{}
	text := kubectl(t, kubeconfig, "get", "pods", "-A", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.status.startTime} {.status.containerStatuses[*].restartCount}{"\n"}{end}`)
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 2 {
			out[fields[0]] = [2]string{fields[1], strings.Join(fields[2:], ",")}
		}
	}
	return out
}
