{{/* What the Tritons of the chart have in common: staging and the servers of users. */}}

{{/* Probes at an HTTP port. Triton listens only after every model of its repository is loaded and warmed up. */}}
{{- define "slipway.tritonProbes" -}}
startupProbe:
  # Until it has loaded and warmed up, no other probe counts.
  httpGet: {path: /v2/health/ready, port: {{ .port }}}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: {{ max 1 (div (add (int .root.Values.triton.loadSeconds) 4) 5) }}
readinessProbe:
  httpGet: {path: /v2/health/ready, port: {{ .port }}}
  periodSeconds: 5
  timeoutSeconds: 5
  successThreshold: 1
  failureThreshold: 3
livenessProbe:
  httpGet: {path: /v2/health/live, port: {{ .port }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end }}

{{/* What its container may do. Its root file system can be written: Triton unpacks models and environments there. */}}
{{- define "slipway.tritonContext" -}}
runAsNonRoot: true
# triton-server, in NVIDIA's image.
runAsUser: 1000
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* Shared memory, which models of the Python backend use. */}}
{{- define "slipway.sharedMemory" -}}
- name: shared-memory
  emptyDir:
    medium: Memory
    sizeLimit: {{ .Values.triton.sharedMemory }}
{{- end }}
