{{- define "millrace.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "millrace.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "millrace.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "millrace.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- /* Selectors cannot change after the first install: no version, nothing a user may set freely. */ -}}
{{- define "millrace.selectorLabels" -}}
app.kubernetes.io/name: {{ include "millrace.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "millrace.labels" -}}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{ include "millrace.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: millrace
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "millrace.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- define "millrace.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "millrace.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "millrace.agentsConfigMap" -}}
{{- if .Values.agents.existingConfigMap }}
{{- .Values.agents.existingConfigMap }}
{{- else if .Values.agents.files }}
{{- printf "%s-agents" (include "millrace.fullname" .) }}
{{- end }}
{{- end }}

{{- /* A ConfigMap key cannot hold a slash. */ -}}
{{- define "millrace.agentKey" -}}
{{- . | replace "/" "--" }}
{{- end }}

{{- /*
Seconds that the kubelet waits before it kills. Longer than the grace, because a worker ends itself five seconds after
it; an override that is too short would turn every deploy into a crash of every run in progress.
*/ -}}
{{- define "millrace.terminationGracePeriodSeconds" -}}
{{- $graceMs := int .root.Values.config.SHUTDOWN_GRACE_MS }}
{{- $needed := add (int (ceil (divf $graceMs 1000.0))) (int .preStopSeconds) }}
{{- $given := .values.terminationGracePeriodSeconds }}
{{- if kindIs "invalid" $given }}
{{- add $needed 15 }}
{{- else if le (int $given) (int (add $needed 5)) }}
{{- fail (printf "%s.terminationGracePeriodSeconds is %d: it must be more than %d, the grace of %d ms with its margins" .component (int $given) (int (add $needed 5)) $graceMs) }}
{{- else }}
{{- int $given }}
{{- end }}
{{- end }}

{{- define "millrace.secretEnv" -}}
{{- $secret := required "existingSecret is required: the name of a secret with REDIS_URL, MILLRACE_API_KEYS and OPENAI_API_KEY" .root.Values.existingSecret }}
{{- range $name, $key := .keys }}
{{- if $key }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef:
      name: {{ $secret }}
      key: {{ $key }}
{{- end }}
{{- end }}
{{- end }}

{{- /* What every pod has in common. Takes root, component, values, preStopSeconds. */ -}}
{{- define "millrace.podMetadata" -}}
labels:
  {{- include "millrace.labels" . | trim | nindent 2 }}
annotations:
  checksum/config: {{ include (print .root.Template.BasePath "/configmap.yaml") .root | sha256sum }}
  {{- if ne .component "producer" }}
  checksum/agents: {{ toJson .root.Values.agents.files | sha256sum }}
  checksum/policies: {{ .root.Values.policies | sha256sum }}
  {{- end }}
  {{- with .values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "millrace.podSettings" -}}
serviceAccountName: {{ include "millrace.serviceAccountName" .root }}
automountServiceAccountToken: false
# Otherwise a service called `worker` would set WORKER_PORT to a URL in every pod.
enableServiceLinks: false
terminationGracePeriodSeconds: {{ include "millrace.terminationGracePeriodSeconds" . }}
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
  seccompProfile:
    type: RuntimeDefault
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: {{ .root.Values.topologySpread.topologyKey }}
    whenUnsatisfiable: {{ .root.Values.topologySpread.whenUnsatisfiable }}
    labelSelector:
      matchLabels:
        {{- include "millrace.selectorLabels" . | nindent 8 }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "millrace.containerSettings" -}}
image: {{ include "millrace.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
envFrom:
  - configMapRef:
      name: {{ include "millrace.fullname" .root }}
resources:
  {{- toYaml .values.resources | nindent 2 }}
# Liveness never asks Redis: restarting a pod does not bring Redis back. Readiness does.
startupProbe:
  httpGet: { path: /healthz, port: {{ .port }} }
  periodSeconds: 2
  failureThreshold: 30
livenessProbe:
  httpGet: { path: /healthz, port: {{ .port }} }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: { path: /readyz, port: {{ .port }} }
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
{{- end }}

{{- /* The folder of files and large results; empty where they are elsewhere. */ -}}
{{- define "millrace.artifactFolder" -}}
{{- $store := toString (default "" .Values.config.ARTIFACT_STORE) }}
{{- if hasPrefix "file:" $store }}
{{- $store | trimPrefix "file:" | replace "///" "/" }}
{{- else if .Values.artifactVolume }}
{{- fail "artifactVolume needs config.ARTIFACT_STORE, for instance file:/artifacts" }}
{{- end }}
{{- end }}

{{- define "millrace.artifactMount" -}}
{{- $folder := include "millrace.artifactFolder" .root }}
{{- if .root.Values.artifactVolume }}
- name: artifacts
  mountPath: {{ $folder }}
{{- else if and $folder (not .values.extraVolumeMounts) }}
{{- fail (printf "config.ARTIFACT_STORE names the folder %s: set artifactVolume, so that producers and workers share it" $folder) }}
{{- end }}
{{- end }}

{{- define "millrace.artifactVolume" -}}
{{- with .root.Values.artifactVolume }}
- name: artifacts
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
