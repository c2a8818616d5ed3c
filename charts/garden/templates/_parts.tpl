{{/* Security context of every container of Hortus: no privileges, read-only root file system. */}}
{{- define "garden.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Security context of every pod of Hortus: it runs as nobody, who owns its files. */}}
{{- define "garden.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* Replicas run on different nodes, if possible. */}}
{{- define "garden.spread" -}}
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {app: {{ . }}}
  matchLabelKeys: [pod-template-hash]
{{- end }}

{{/* The flags of etcd that identify its member, for which a restored data directory is created, too. */}}
{{- define "garden.etcdMember" -}}
{{- if eq (include "garden.etcdReplicas" .) "1" -}}
- --name=hortus-etcd
- --initial-advertise-peer-urls=http://127.0.0.1:2380
- --initial-cluster=hortus-etcd=http://127.0.0.1:2380
{{- else -}}
- --name=$(POD_NAME)
- --initial-advertise-peer-urls=https://$(POD_NAME).hortus-etcd-peer.{{ .Release.Namespace }}.svc:2380
{{- end }}
{{- end }}

{{/* The number of members of etcd. */}}
{{- define "garden.etcdReplicas" -}}
{{- $replicas := .Values.etcd.replicas | toString }}
{{- if not (has $replicas (list "1" "3")) }}
{{- fail (printf "etcd.replicas: invalid value: %s (1 or 3)" $replicas) }}
{{- end }}
{{- $replicas }}
{{- end }}

{{/* The addresses of etcd for the API server, which notices itself which of several members answer. */}}
{{- define "garden.etcdServers" -}}
{{- if eq (include "garden.etcdReplicas" .) "1" -}}
https://hortus-etcd.{{ .Release.Namespace }}.svc:2379
{{- else -}}
{{- $urls := list }}
{{- range $i := until 3 }}
{{- $urls = append $urls (printf "https://hortus-etcd-%d.hortus-etcd-peer.%s.svc:2379" $i $.Release.Namespace) }}
{{- end }}
{{- join "," $urls }}
{{- end }}
{{- end }}

{{/* Secret of the certificates of API server and etcd. */}}
{{- define "garden.certificatesSecret" -}}
{{ ternary "hortus-given-certificates" "hortus-certificates" (ne .Values.caCrt "") }}
{{- end }}

{{/* Puts these certificates into .Values.certificates, in base64: the given ones, the existing ones, or new ones. */}}
{{- define "garden.certificates" -}}
{{- if not .Values.certificates }}
{{- $certificates := dict }}
{{- if .Values.caCrt }}
{{- $given := dict "ca.crt" .Values.caCrt
  "apiserver.crt" .Values.apiserver.tlsCrt "apiserver.key" .Values.apiserver.tlsKey
  "etcd.crt" .Values.etcd.serverCrt "etcd.key" .Values.etcd.serverKey
  "etcd-client.crt" .Values.etcd.clientCrt "etcd-client.key" .Values.etcd.clientKey }}
{{- range $name, $value := $given }}{{ $_ := set $certificates $name (b64enc $value) }}{{ end }}
{{- else if not (lookup "v1" "Namespace" "" "kube-system") }}
{{- fail "caCrt: required where the chart is rendered without a cluster, else each time would make other certificates" }}
{{- else }}
{{- $certificates = (lookup "v1" "Secret" .Release.Namespace "hortus-certificates").data }}
{{- if not $certificates }}
{{- $ca := genCA "hortus-garden" 3650 }}
{{- $certificates = dict "ca.crt" (b64enc $ca.Cert) "ca.key" (b64enc $ca.Key) }}
{{- range $name, $host := dict "apiserver" "hortus-apiserver" "etcd" "hortus-etcd" "etcd-client" "hortus-apiserver" }}
{{- $names := list (printf "%s.%s.svc" $host $.Release.Namespace) "localhost" }}
{{- if eq $name "etcd" }}{{ $names = append $names (printf "*.hortus-etcd-peer.%s.svc" $.Release.Namespace) }}{{ end }}
{{- $leaf := genSignedCert $host nil $names 365 $ca }}
{{- $_ := set $certificates (printf "%s.crt" $name) (b64enc $leaf.Cert) }}
{{- $_ := set $certificates (printf "%s.key" $name) (b64enc $leaf.Key) }}
{{- end }}
{{- end }}
{{- end }}
{{- $_ := set .Values "certificates" $certificates }}
{{- end }}
{{- end }}

{{/* The token with which Prometheus authenticates: that of a Secret, otherwise its own. */}}
{{- define "garden.metricsToken" -}}
{{- with .Values.monitoring.tokenSecret -}}
authorization:
  type: Bearer
  credentials: {name: {{ required "monitoring.tokenSecret.name: required" .name }}, key: {{ .key | default "token" }}}
{{- else -}}
bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
{{- end }}
{{- end }}
