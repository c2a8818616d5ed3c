{{/* How every container of Hortus runs: no privileges, read-only root. */}}
{{- define "garden.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* How every pod of Hortus runs: as nobody, to whom its files belong. */}}
{{- define "garden.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* The member that etcd is, and that a restored data directory is made for. */}}
{{- define "garden.etcdMember" -}}
- --name=hortus-etcd
- --initial-advertise-peer-urls=http://127.0.0.1:2380
- --initial-cluster=hortus-etcd=http://127.0.0.1:2380
{{- end }}
