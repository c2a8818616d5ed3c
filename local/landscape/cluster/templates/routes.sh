#!/bin/sh
# Leads to the pods of the other nodes that the cluster has or may get, and masquerades what leaves the pod network. Pods see
# each other's addresses, by which network policies go.
set -eu
{{- range .Routes }}
ip route replace {{ .Pods }} via {{ .Via }}
{{- end }}
nft -f - <<'END'
table ip hortus-masquerade {}
delete table ip hortus-masquerade
table ip hortus-masquerade {
	chain postrouting {
		type nat hook postrouting priority srcnat
		ip saddr {{ .PodCIDR }} ip daddr != {{ .PodCIDR }} masquerade
	}
}
END
