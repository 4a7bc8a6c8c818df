{{/* Rules of egress that several policies have. */}}

{{- define "slipway.policyMetadata" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
{{ include "slipway.metadata" . }}
{{- end }}

{{- define "slipway.toNames" -}}
# Names.
- to:
    - namespaceSelector:
        matchLabels:
          kubernetes.io/metadata.name: {{ .Values.network.dns.namespace }}
      podSelector:
        matchLabels:
          {{- toYaml .Values.network.dns.podLabels | nindent 10 }}
  ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
{{- end }}

{{- define "slipway.toObjectStore" -}}
# S3 and STS.
- to:
    {{- range .Values.network.objectStore }}
    - ipBlock:
        {{- toYaml . | nindent 8 }}
    {{- end }}
  ports:
    - {protocol: TCP, port: 443}
{{- if .Values.network.podIdentity }}
# The agent of EKS Pod Identity on the node.
- to:
    - ipBlock: {cidr: 169.254.170.23/32}
  ports:
    - {protocol: TCP, port: 80}
{{- end }}
{{- with .Values.network.extraEgress }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "slipway.ofStage" -}}
podSelector:
  matchLabels:
    app.kubernetes.io/part-of: slipway
    slipway.dev/stage: {{ . }}
policyTypes: [Ingress, Egress]
{{- end }}
