{{- define "namewire.name" -}}
{{- printf "%s-%s" .release .part | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "namewire.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "namewire.selector" -}}
app.kubernetes.io/name: namewire
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "namewire.labels" -}}
{{ include "namewire.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{/* No right beyond those of an ordinary process. */}}
{{- define "namewire.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- with .add }}
  add: {{ toJson . }}
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "namewire.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with .affinity }}
affinity: {{ toJson . }}
{{- end }}
{{- end -}}
