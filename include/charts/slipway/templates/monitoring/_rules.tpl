{{/* A file of alerts/ below `spec`. Takes {root, file}. */}}
{{- define "slipway.alerts" -}}
{{- .root.Files.Get .file | replace "https://git.example.com/slipway/blob/main" (trimSuffix "/" .root.Values.monitoring.rules.repositoryUrl) }}
{{- end }}

{{/* metadata of an object that a Prometheus selects. Takes {root, named}. */}}
{{- define "slipway.monitored" -}}
metadata:
  name: {{ .named }}
  namespace: {{ .root.Values.monitoring.namespace }}
  labels:
    {{- include "slipway.labels" . | trim | nindent 4 }}
    {{- with .root.Values.monitoring.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with include "slipway.annotations" . | trim }}
  {{- . | nindent 2 }}
  {{- end }}
{{- end }}
