{{/* Who gets a Role of Airflow's, and which one. Takes {root, role}. */}}
{{- define "slipway.bound" -}}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .role }}
subjects:
  # The accounts of the connection kubernetes_default.
  {{- range .root.Values.airflow.subjects }}
  - kind: {{ .kind }}
    name: {{ .name }}
    {{- if eq .kind "ServiceAccount" }}
    namespace: {{ required (printf "airflow.subjects: the service account %q needs its namespace." .name) .namespace }}
    {{- else }}
    apiGroup: rbac.authorization.k8s.io
    {{- end }}
  {{- end }}
{{- end }}
