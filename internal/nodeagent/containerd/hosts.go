package containerd

import (
	"fmt"
	"strings"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// hostsHeader marks directories of the node agent: those without it belong to users.
const hostsHeader = "# Managed by gardener-node-agent. Changes are lost; configure registries in the Shoot or its extensions.\n"

// Hosts renders the hosts.toml of a registry.
func Hosts(registry extensionsv1alpha1.RegistryConfig) []byte {
	var out strings.Builder
	out.WriteString(hostsHeader)
	if registry.Server != nil {
		fmt.Fprintf(&out, "server = %q\n", *registry.Server)
	}
	for _, host := range registry.Hosts {
		fmt.Fprintf(&out, "\n[host.%q]\n", host.URL)
		capabilities := host.Capabilities
		if len(capabilities) == 0 {
			capabilities = []extensionsv1alpha1.RegistryCapability{
				extensionsv1alpha1.PullCapability, extensionsv1alpha1.ResolveCapability,
			}
		}
		fmt.Fprintf(&out, "  capabilities = %s\n", stringList(capabilities))
		if len(host.CACerts) > 0 {
			fmt.Fprintf(&out, "  ca = %s\n", stringList(host.CACerts))
		}
		if host.OverridePath != nil {
			fmt.Fprintf(&out, "  override_path = %t\n", *host.OverridePath)
		}
	}
	return []byte(out.String())
}

func stringList[T ~string](list []T) string {
	quoted := make([]string, len(list))
	for i, item := range list {
		quoted[i] = fmt.Sprintf("%q", string(item))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
