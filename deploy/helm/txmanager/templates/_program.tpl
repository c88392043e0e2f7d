{{/* The ConfigMap with txmanager.toml. */}}
{{- define "txmanager.config" -}}
{{- if .Values.config }}{{ .Release.Name }}-config{{ else }}{{ .Values.configMap | default (printf "%s-config" .Release.Name) }}{{ end -}}
{{- end -}}

{{- define "txmanager.redisSecret" -}}
{{ .Values.redisSecret | default (printf "%s-redis" .Release.Name) }}
{{- end -}}

{{/*
One program as a Deployment. Arguments: root; name; grace (seconds to stop); env (YAML text); container (YAML text: ports,
probes, lifecycle); port (where Prometheus scrapes); keys (mounts the key files); oneByOne (a rolling update that keeps every pod until its
successor is ready).
*/}}
{{- define "txmanager.program" -}}
{{- $name := printf "%s-%s" .root.Release.Name .name -}}
{{- $one := index .root.Values .name -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  labels: { app.kubernetes.io/name: {{ $name }} }
spec:
  replicas: {{ $one.replicas }}
  {{- if .oneByOne }}
  strategy:
    rollingUpdate: { maxUnavailable: 0, maxSurge: 1 }
  {{- end }}
  selector:
    matchLabels: { app.kubernetes.io/name: {{ $name }} }
  template:
    metadata:
      labels: { app.kubernetes.io/name: {{ $name }} }
      {{- if or .port .root.Values.config }}
      annotations:
        {{- if .port }}
        prometheus.io/scrape: "true"
        prometheus.io/port: {{ .port | quote }}
        {{- end }}
        {{- if .root.Values.config }}
        txmanager/config: {{ .root.Values.config | sha256sum }}
        {{- end }}
      {{- end }}
    spec:
      {{- if .grace }}
      terminationGracePeriodSeconds: {{ .grace }}
      {{- end }}
      automountServiceAccountToken: false
      securityContext:
        runAsNonRoot: true
        runAsUser: 10001
        {{- if .keys }}
        fsGroup: 10001
        {{- end }}
        seccompProfile: { type: RuntimeDefault }
      containers:
        - name: {{ .name }}
          image: {{ .root.Values.image.repository }}:{{ .root.Values.image.tag }}
          {{- with .root.Values.image.pullPolicy }}
          imagePullPolicy: {{ . }}
          {{- end }}
          args: [{{ .name }}]
          env:
            - name: TXMANAGER__LEDGER__PASSWORD
              valueFrom: { secretKeyRef: { name: {{ include "txmanager.redisSecret" .root }}, key: password } }
            {{- with .env }}
            {{- . | nindent 12 }}
            {{- end }}
            {{- with $one.env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- with .container }}
          {{- . | nindent 10 }}
          {{- end }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: { drop: [ALL] }
          resources:
            {{- toYaml $one.resources | nindent 12 }}
          volumeMounts:
            - { name: config, mountPath: /etc/txmanager/txmanager.toml, subPath: txmanager.toml }
            {{- if .keys }}
            - { name: keys, mountPath: /etc/txmanager/keys, readOnly: true }
            {{- end }}
      volumes:
        - name: config
          configMap: { name: {{ include "txmanager.config" .root }} }
        {{- if .keys }}
        - name: keys
          secret: { secretName: {{ .root.Values.keysSecret | default (printf "%s-keys" .root.Release.Name) }}, defaultMode: 0440 }
        {{- end }}
{{- end -}}

{{/* Environment, port and probes of a program that serves its metrics. Arguments: section (of the settings), port. */}}
{{- define "txmanager.metricsEnv" -}}
- { name: TXMANAGER__{{ .section }}__METRICS_HOST, value: 0.0.0.0 }
- { name: TXMANAGER__{{ .section }}__METRICS_PORT, value: {{ .port | quote }} }
{{- end -}}

{{- define "txmanager.metricsProbes" -}}
ports:
  - { name: metrics, containerPort: {{ . }} }
readinessProbe:
  httpGet: { path: /metrics, port: metrics }
  periodSeconds: 5
# Alive means that the process answers. A worker that hangs loses its leases to the others by itself.
livenessProbe:
  httpGet: { path: /metrics, port: metrics }
  periodSeconds: 20
  timeoutSeconds: 10
  failureThreshold: 6
{{- end -}}

{{/* Ports and probes of a program that answers HTTP requests. Arguments: port, ready (path). */}}
{{- define "txmanager.httpProbes" -}}
ports:
  - { name: http, containerPort: {{ .port }} }
startupProbe:
  httpGet: { path: /healthz, port: http }
  periodSeconds: 1
  failureThreshold: 30
readinessProbe:
  httpGet: { path: {{ .ready | quote }}, port: http }
  periodSeconds: 5
  timeoutSeconds: 2
livenessProbe:
  httpGet: { path: /healthz, port: http }
  periodSeconds: 10
  timeoutSeconds: 5
lifecycle:
  preStop:
    exec: { command: [sleep, "5"] }
{{- end -}}

{{/* A Service in front of a program, and a budget that keeps one pod of it. */}}
{{- define "txmanager.front" -}}
{{- $name := printf "%s-%s" .root.Release.Name .name -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
  labels: { app.kubernetes.io/name: {{ $name }} }
spec:
  selector: { app.kubernetes.io/name: {{ $name }} }
  ports:
    - { name: http, port: 80, targetPort: http }
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
spec:
  minAvailable: 1
  selector:
    matchLabels: { app.kubernetes.io/name: {{ $name }} }
{{- end -}}
