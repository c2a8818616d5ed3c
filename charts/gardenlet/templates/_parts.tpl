{{/* The gardenlet's connections, as labels that the network policies of seeds select. The garden may be anywhere. */}}
{{- define "gardenlet.reaches" -}}
networking.gardener.cloud/to-dns: allowed
networking.gardener.cloud/to-runtime-apiserver: allowed
networking.gardener.cloud/to-public-networks: allowed
networking.gardener.cloud/to-private-networks: allowed
networking.gardener.cloud/to-blocked-cidrs: allowed
networking.resources.gardener.cloud/to-all-shoots-kube-apiserver-tcp-443: allowed
networking.resources.gardener.cloud/to-all-shoots-etcd-main-tcp-2379: allowed
networking.resources.gardener.cloud/to-all-shoots-etcd-main-tcp-2382: allowed
{{- end }}

{{/* Replicas run in different zones and on different nodes, if possible. */}}
{{- define "gardenlet.spread" -}}
{{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" -}}
- maxSkew: 1
  topologyKey: {{ . }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {app: gardenlet}
  matchLabelKeys: [pod-template-hash]
{{ end }}
{{- end }}

{{/* The token with which Prometheus authenticates: that of a Secret, otherwise its own. */}}
{{- define "gardenlet.metricsToken" -}}
{{- with .Values.monitoring.tokenSecret -}}
authorization:
  type: Bearer
  credentials: {name: {{ required "monitoring.tokenSecret.name: required" .name }}, key: {{ .key | default "token" }}}
{{- else -}}
bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
{{- end }}
{{- end }}
