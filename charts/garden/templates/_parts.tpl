{{/* How every container of Hortus runs: no privileges, read-only root. */}}
{{- define "garden.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* The member that etcd is, and that a restored data directory is made for. */}}
{{- define "garden.etcdMember" -}}
- --name=hortus-etcd
- --initial-advertise-peer-urls=http://127.0.0.1:2380
- --initial-cluster=hortus-etcd=http://127.0.0.1:2380
{{- end }}

{{/* Where the backups of etcd are, and whose they are. */}}
{{- define "garden.etcdBackupStore" -}}
- --store-credentials=/etc/etcd-backup/store
- --prefix={{ .Values.etcd.backup.prefix }}
- --holder={{ .Values.etcd.backup.holder }}
- --epoch={{ int64 .Values.etcd.backup.epoch }}
{{- end }}
