{{- /* A Deployment of workers. Takes root, component, values, replicas, queues, concurrency, strategy. */ -}}
{{- define "millrace.workerDeployment" -}}
{{- $pod := merge (dict "port" "metrics" "preStopSeconds" 0) . }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "millrace.fullname" .root }}-{{ .component }}
  labels:
    {{- include "millrace.labels" $pod | trim | nindent 4 }}
spec:
  replicas: {{ .replicas }}
  strategy:
    {{- toYaml .strategy | nindent 4 }}
  selector:
    matchLabels:
      {{- include "millrace.selectorLabels" $pod | nindent 6 }}
  template:
    metadata:
      {{- include "millrace.podMetadata" $pod | nindent 6 }}
    spec:
      {{- include "millrace.podSettings" $pod | nindent 6 }}
      containers:
        - name: worker
          args: [worker]
          {{- include "millrace.containerSettings" $pod | nindent 10 }}
          env:
            {{- include "millrace.secretEnv" (dict "root" .root "keys" (dict "REDIS_URL" .root.Values.secretKeys.redisUrl "REDIS_SENTINEL_PASSWORD" .root.Values.secretKeys.redisSentinelPassword "OPENAI_API_KEY" .root.Values.secretKeys.openaiApiKey)) | trim | nindent 12 }}
            - name: WORKER_QUEUES
              value: {{ join "," .queues | quote }}
            - name: WORKER_CONCURRENCY
              value: {{ .concurrency | quote }}
            {{- if .root.Values.policies }}
            - name: MILLRACE_POLICIES
              value: /etc/millrace/policies.yaml
            {{- end }}
            {{- if .root.Values.toolSecrets.existingSecret }}
            - name: MILLRACE_SECRETS
              value: /run/millrace/secrets
            {{- end }}
            {{- with .values.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - name: metrics
              containerPort: 9464
          volumeMounts:
            - name: tmp
              mountPath: /tmp
            {{- with include "millrace.artifactMount" $pod | trim }}
            {{- . | nindent 12 }}
            {{- end }}
            {{- if include "millrace.agentsConfigMap" .root }}
            - name: agents
              mountPath: /agents
              readOnly: true
            {{- end }}
            {{- if .root.Values.policies }}
            - name: policies
              mountPath: /etc/millrace
              readOnly: true
            {{- end }}
            {{- if .root.Values.toolSecrets.existingSecret }}
            - name: tool-secrets
              mountPath: /run/millrace/secrets
              readOnly: true
            {{- end }}
            {{- with .values.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        - name: tmp
          emptyDir:
            sizeLimit: 64Mi
        {{- with include "millrace.artifactVolume" $pod | trim }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- with include "millrace.agentsConfigMap" .root }}
        - name: agents
          configMap:
            name: {{ . }}
            {{- if not $.root.Values.agents.existingConfigMap }}
            items:
              {{- range $path, $_ := $.root.Values.agents.files }}
              - key: {{ include "millrace.agentKey" $path }}
                path: {{ $path }}
              {{- end }}
            {{- end }}
        {{- end }}
        {{- if .root.Values.policies }}
        - name: policies
          configMap:
            name: {{ include "millrace.fullname" .root }}-policies
        {{- end }}
        {{- with .root.Values.toolSecrets.existingSecret }}
        - name: tool-secrets
          secret:
            secretName: {{ . }}
        {{- end }}
        {{- with .values.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end }}
