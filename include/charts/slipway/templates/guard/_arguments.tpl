{{/* What the guard watches, and how often. */}}
{{- define "slipway.guardArguments" -}}
{{- range include "slipway.servingNamespaces" . | fromYamlArray }}
- --namespace={{ . }}
{{- end }}
- --poll-s={{ .Values.guard.pollSeconds }}
{{- end }}
