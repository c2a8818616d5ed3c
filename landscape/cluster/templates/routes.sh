#!/bin/sh
# Leads to the pods of the other nodes that the cluster has or may get.
set -eu
{{- range .Routes }}
ip route replace {{ .Pods }} via {{ .Via }}
{{- end }}
