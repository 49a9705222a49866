{{- define "rm.namespace" -}}
{{ .Values.namespace | default .Release.Namespace }}
{{- end }}

{{- define "rm.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "rm.refuse" -}}
{{- if and (gt (int .Values.brain.replicas) 1) (ne .Values.overlay "production") }}
{{- fail (printf "brain.replicas is %v: more than one brain needs overlay production, in which kube-schedulers find the leading one (overlay is %s)" .Values.brain.replicas .Values.overlay) }}
{{- end }}
{{- end }}
