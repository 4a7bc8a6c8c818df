{{/* Labels and annotations, names of accounts and images: what several templates have in common. */}}

{{/* metadata's labels. Takes {root, name (optional)}. */}}
{{- define "slipway.labels" -}}
{{- with .name }}
app.kubernetes.io/name: {{ . }}
{{- end }}
app.kubernetes.io/part-of: slipway
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* metadata's annotations, as a whole field; nothing where there are none. Takes {root, keep, own (optional)}. */}}
{{- define "slipway.annotations" -}}
{{- $all := merge (dict) (.own | default dict) .root.Values.commonAnnotations }}
{{- if .keep }}
{{- $all = merge (dict "helm.sh/resource-policy" "keep") $all }}
{{- end }}
{{- if $all }}
annotations:
  {{- toYaml $all | nindent 2 }}
{{- end }}
{{- end }}

{{/* metadata of an object. Takes {root, named, namespace (optional), name (the label, optional), keep, own (optional)}. */}}
{{- define "slipway.metadata" -}}
metadata:
  name: {{ .named }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "slipway.labels" . | trim | nindent 4 }}
  {{- with include "slipway.annotations" . | trim }}
  {{- . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* The pod template's metadata. Takes {root, name, of (its part of the values)}. */}}
{{- define "slipway.podMetadata" -}}
metadata:
  labels:
    app.kubernetes.io/name: {{ .name }}
    app.kubernetes.io/part-of: slipway
    {{- with merge (dict) .of.podLabels .root.Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with merge (dict) .of.podAnnotations .root.Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* Where a pod may run. Takes a part of the values. */}}
{{- define "slipway.placement" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The reference of one of Slipway's images. Takes {root, image}. */}}
{{- define "slipway.image" -}}
{{- $images := .root.Values.images }}
{{- $base := printf "%s/%s" $images.registry .image }}
{{- with index $images.digests .image }}
{{- printf "%s@%s" $base . }}
{{- else }}
{{- printf "%s:%s" $base ($images.tag | default .root.Chart.AppVersion) }}
{{- end }}
{{- end }}

{{/* imagePullSecrets, as a whole field. */}}
{{- define "slipway.pullSecrets" -}}
{{- with .Values.images.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Variables of a proxy, as items of `env`. */}}
{{- define "slipway.proxy" -}}
{{- range $name, $value := dict "HTTP_PROXY" .Values.proxy.http "HTTPS_PROXY" .Values.proxy.https "NO_PROXY" .Values.proxy.noProxy }}
{{- with $value }}
- name: {{ $name }}
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* What a container of the chart may do: nothing beyond its program. */}}
{{- define "slipway.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* The annotations of a team's service account. Takes {root, team, account: pods or serving}. */}}
{{- define "slipway.accountAnnotations" -}}
{{- $own := dig "annotations" .account nil .team }}
{{- toYaml ($own | default (index .root.Values.serviceAccounts .account).annotations) }}
{{- end }}

{{/* The namespaces of every team's models, each once, as a list of YAML. */}}
{{- define "slipway.servingNamespaces" -}}
{{- $names := list }}
{{- range .Values.teams }}
{{- $names = append $names .servingNamespace }}
{{- end }}
{{- toYaml ($names | uniq) }}
{{- end }}
