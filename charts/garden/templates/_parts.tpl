{{/* How every container of Hortus runs: no privileges, read-only root. */}}
{{- define "garden.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}
