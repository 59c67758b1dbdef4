{{/* The release's name, or release-delayq. */}}
{{- define "delayq.name" -}}
{{- if contains "delayq" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-delayq" (.Release.Name | trunc 33 | trimSuffix "-") }}{{ end }}
{{- end }}

{{- define "delayq.selector" -}}
app.kubernetes.io/name: delayq
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "delayq.labels" -}}
{{ include "delayq.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "delayq.image" -}}
{{- $image := .Values.image -}}
{{ $image.repository }}{{ if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* What the variables leave of delayq.toml. */}}
{{- define "delayq.config" -}}
delayq.toml: |
  {{- .Values.config | nindent 2 }}
{{- end }}

{{/* Those of timer.horizons and of KEDA, the nearest first, as JSON; nothing without any. */}}
{{- define "delayq.horizons" -}}
{{- $keda := .Values.forwarder.keda }}
{{- $bySeconds := dict }}
{{- range concat .Values.timer.horizons (ternary (list $keda.horizon) list $keda.enabled) }}
{{- $seconds := mul (regexFind "[0-9]+" .) (get (dict "s" 1 "m" 60 "h" 3600) (regexFind "[a-z]$" .)) }}
{{- $_ := set $bySeconds (printf "%05d" $seconds) . }}
{{- end }}
{{- $horizons := list }}
{{- range $bySeconds }}{{ $horizons = append $horizons . }}{{ end }}
{{- if $horizons }}
{{- if gt (len $horizons) 4 }}
{{- fail "a timer has at most 4 horizons, that of forwarder.keda included" }}
{{- end }}
{{- if regexMatch `(?m)^[^#]*\bhorizons\s*=` .Values.config }}
{{- fail "`config` has horizons, which timer.horizons and forwarder.keda would override: name them in timer.horizons" }}
{{- end }}
{{- toJson $horizons }}
{{- end }}
{{- end }}

{{/* Variables that every program shares; they override delayq.toml. */}}
{{- define "delayq.environment" -}}
- name: DELAYQ__ADMIN__LISTEN
  value: "{{ .Values.adminAddress }}:9440"
# What `delayq top` and `delayq bundle` ask each process at.
- name: DELAYQ__ADMIN__ADVERTISE
  valueFrom: { fieldRef: { fieldPath: status.podIP } }
- name: DELAYQ__SHUTDOWN__DRAIN_DEADLINE
  value: {{ printf "%ds" (int .Values.drainSeconds) }}
- name: DELAYQ__LOG__FORMAT
  value: json
{{- with .Values.redis }}
- name: DELAYQ__REDIS__URL
  {{- if .urlSecret.name }}
  valueFrom:
    secretKeyRef: { name: {{ .urlSecret.name }}, key: {{ .urlSecret.key }} }
  {{- else }}
  value: {{ .url | quote }}
  {{- end }}
{{- if .username }}
- name: DELAYQ__REDIS__USERNAME
  value: {{ .username | quote }}
{{- end }}
{{- if .passwordSecret.name }}
- name: DELAYQ__REDIS__PASSWORD__FILE
  value: /run/secrets/delayq/redis-password/{{ .passwordSecret.key }}
{{- end }}
{{- if .tlsSecret.name }}
- name: DELAYQ__REDIS__CA
  value: /run/secrets/delayq/redis-tls/ca.crt
{{- if .tlsSecret.clientCertificate }}
- name: DELAYQ__REDIS__CERT
  value: /run/secrets/delayq/redis-tls/tls.crt
- name: DELAYQ__REDIS__KEY
  value: /run/secrets/delayq/redis-tls/tls.key
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.etcd }}
- name: DELAYQ__ETCD__ENABLED
  value: {{ .enabled | quote }}
{{- if .enabled }}
- name: DELAYQ__ETCD__ENDPOINTS
  value: {{ .endpoints | toJson | quote }}
{{- if .username }}
- name: DELAYQ__ETCD__USERNAME
  value: {{ .username | quote }}
{{- end }}
{{- if .passwordSecret.name }}
- name: DELAYQ__ETCD__PASSWORD__FILE
  value: /run/secrets/delayq/etcd-password/{{ .passwordSecret.key }}
{{- end }}
{{- if .tlsSecret.name }}
- name: DELAYQ__ETCD__CA
  value: /run/secrets/delayq/etcd-tls/ca.crt
{{- if .tlsSecret.clientCertificate }}
- name: DELAYQ__ETCD__CERT
  value: /run/secrets/delayq/etcd-tls/tls.crt
- name: DELAYQ__ETCD__KEY
  value: /run/secrets/delayq/etcd-tls/tls.key
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Variables of the gateway. The admin port of lmstfy's API stays on the pod's loopback: kubectl port-forward reaches it. */}}
{{- define "delayq.gatewayEnvironment" -}}
{{- $address := .Values.adminAddress -}}
- name: DELAYQ__GATEWAY__LISTEN
  value: "{{ $address }}:9480"
{{- with .Values.gateway }}
{{- if .tokensSecret.name }}
- name: DELAYQ__GATEWAY__TOKENS
  value: /run/secrets/delayq/gateway-tokens/{{ .tokensSecret.key }}
{{- else }}
- name: DELAYQ__GATEWAY__INSECURE
  value: "true"
{{- end }}
{{- if .oidcSecret.name }}
- name: DELAYQ__GATEWAY__OIDC__CLIENT_SECRET__FILE
  value: /run/secrets/delayq/gateway-oidc/{{ .oidcSecret.key }}
{{- end }}
{{- if .tlsSecret.name }}
- name: DELAYQ__GATEWAY__CERT
  value: /run/secrets/delayq/gateway-tls/tls.crt
- name: DELAYQ__GATEWAY__KEY
  value: /run/secrets/delayq/gateway-tls/tls.key
{{- else }}
- name: DELAYQ__GATEWAY__CLEARTEXT
  value: "true"
{{- end }}
{{- if .clientCaSecret.name }}
- name: DELAYQ__GATEWAY__CA
  value: /run/secrets/delayq/gateway-clients/{{ .clientCaSecret.key }}
{{- end }}
{{- if .lmstfy }}
- name: DELAYQ__LMSTFY__ENABLED
  value: "true"
- name: DELAYQ__LMSTFY__LISTEN
  value: "{{ $address }}:7777"
{{- end }}
{{- end }}
{{- end }}

{{/* What a pod needs to write into the spool of its node. */}}
{{- define "delayq.spoolEnvironment" -}}
- name: DELAYQ__SPOOL__DIR
  value: /var/lib/delayq/spool
{{- end }}

{{- define "delayq.spoolMount" -}}
- { name: spool, mountPath: /var/lib/delayq/spool }
{{- end }}

{{- define "delayq.spoolVolume" -}}
{{- with .Values.compensator.spool -}}
- name: spool
  hostPath: { path: {{ .hostPath }}, type: {{ ternary "DirectoryOrCreate" "Directory" .prepare }} }
{{- end }}
{{- end }}

{{/* Gives the folder to the user of the pods; nothing if the operator does. */}}
{{- define "delayq.spoolPrepared" -}}
{{- if .Values.compensator.spool.prepare -}}
{{- $user := int .Values.runAsUser -}}
- name: prepare
  image: {{ include "delayq.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [sh, -euc, "chown {{ $user }}:{{ $user }} /var/lib/delayq/spool"]
  resources: {{ toJson .Values.compensator.resources }}
  securityContext:
    runAsNonRoot: false
    runAsUser: 0
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: { drop: [ALL], add: [CHOWN] }
  volumeMounts:
    {{- include "delayq.spoolMount" . | nindent 4 }}
{{- end }}
{{- end }}

{{/* The Secrets that are files, those of `secrets` where `all` is true: a list of name (of the folder) and secret. */}}
{{- define "delayq.secrets" -}}
{{- $all := .all }}
{{- with .root }}
{{- with .Values.redis.passwordSecret.name }}
- { name: redis-password, secret: {{ . }} }
{{- end }}
{{- with .Values.redis.tlsSecret.name }}
- { name: redis-tls, secret: {{ . }} }
{{- end }}
{{- if .Values.etcd.enabled }}
{{- with .Values.etcd.passwordSecret.name }}
- { name: etcd-password, secret: {{ . }} }
{{- end }}
{{- with .Values.etcd.tlsSecret.name }}
- { name: etcd-tls, secret: {{ . }} }
{{- end }}
{{- end }}
{{- if $all }}
{{- range .Values.secrets }}
- { name: {{ . }}, secret: {{ . }} }
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Of a pod: root, configMap, all. */}}
{{- define "delayq.volumes" -}}
- name: config
  configMap: { name: {{ .configMap }} }
{{- range include "delayq.secrets" . | fromYamlArray }}
- name: secret-{{ .name }}
  secret: { secretName: {{ .secret }}, defaultMode: 0440 }
{{- end }}
{{- end }}

{{- define "delayq.volumeMounts" -}}
- { name: config, mountPath: /etc/delayq, readOnly: true }
{{- range include "delayq.secrets" . | fromYamlArray }}
- { name: secret-{{ .name }}, mountPath: /run/secrets/delayq/{{ .name }}, readOnly: true }
{{- end }}
{{- end }}

{{/* What a namespace with the policy `restricted` asks for, and a read-only root. */}}
{{- define "delayq.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{/* What the specifications of all pods share: who they run as, and where. */}}
{{- define "delayq.pod" -}}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: {{ .Values.runAsUser }}
  runAsGroup: {{ .Values.runAsUser }}
  fsGroup: {{ .Values.runAsUser }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: { type: RuntimeDefault }
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{/* A pod's template of one service: root, component, all (of the secrets), values, environment, volumes, volumeMounts, initContainers, drainsBehind
(seconds in which its Service stops sending requests). */}}
{{- define "delayq.service" -}}
{{- $root := .root -}}
metadata:
  labels:
    {{- include "delayq.selector" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
    {{- with $root.Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    # A changed configuration is taken up by new pods.
    checksum/config: {{ include "delayq.config" $root | sha256sum }}
    {{- with $root.Values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  serviceAccountName: {{ include "delayq.name" $root }}
  {{- include "delayq.pod" $root | nindent 2 }}
  {{- if and $root.Values.spread.enabled (ne .component "compensator") }}
  topologySpreadConstraints:
    {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: {{ $root.Values.spread.whenUnsatisfiable }}
      labelSelector:
        matchLabels:
          {{- include "delayq.selector" $root | nindent 10 }}
          app.kubernetes.io/component: {{ $.component }}
      matchLabelKeys: [pod-template-hash]
    {{- end }}
  {{- end }}
  # A pod drains at SIGTERM by itself. Where a Service sends it requests, a preStop hook waits until none does any more;
  # elsewhere it would only use up this time.
  terminationGracePeriodSeconds: {{ add (int $root.Values.drainSeconds) 10 }}
  {{- with .initContainers }}
  initContainers: {{- . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ .component }}
      image: {{ include "delayq.image" $root }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      command: [delayq-{{ .component }}, --config, /etc/delayq/delayq.toml]
      env:
        {{- include "delayq.environment" $root | nindent 8 }}
        {{- with .environment }}{{ . | nindent 8 }}{{ end }}
        {{- with .values.environment }}{{ toYaml . | nindent 8 }}{{ end }}
      {{- with .drainsBehind }}
      lifecycle:
        preStop:
          exec: { command: [sleep, {{ . | quote }}] }
      {{- end }}
      ports:
        - { name: admin, containerPort: 9440 }
      # It may wait for a lock at its start, and for its destinations.
      startupProbe:
        httpGet: { path: /livez, port: admin }
        periodSeconds: 2
        failureThreshold: 30
      # Only a loop that hangs fails this: not Redis, not etcd, not a broker.
      livenessProbe:
        httpGet: { path: /livez, port: admin }
        periodSeconds: 5
        timeoutSeconds: 3
        failureThreshold: 3
      readinessProbe:
        httpGet: { path: /readyz, port: admin }
        periodSeconds: 5
        timeoutSeconds: 3
        failureThreshold: 1
      resources: {{- toYaml .values.resources | nindent 8 }}
      securityContext: {{- include "delayq.containerSecurity" $root | nindent 8 }}
      volumeMounts:
        {{- include "delayq.volumeMounts" . | nindent 8 }}
        {{- with .volumeMounts }}{{ . | nindent 8 }}{{ end }}
        {{- with .values.volumeMounts }}{{ toYaml . | nindent 8 }}{{ end }}
  volumes:
    {{- include "delayq.volumes" (dict "root" $root "all" .all "configMap" (include "delayq.name" $root)) | nindent 4 }}
    {{- with .volumes }}{{ . | nindent 4 }}{{ end }}
    {{- with .values.volumes }}{{ toYaml . | nindent 4 }}{{ end }}
{{- end }}

{{/* A pod's specification that runs the command line once: root, configMap, all, script. */}}
{{- define "delayq.job" -}}
{{- $root := .root -}}
{{- include "delayq.pod" $root }}
restartPolicy: Never
containers:
  - name: delayq
    image: {{ include "delayq.image" $root }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    command: [sh, -euc, {{ .script | quote }}]
    env:
      {{- include "delayq.environment" $root | nindent 6 }}
      - { name: DELAYQ_CONFIG, value: /etc/delayq/delayq.toml }
    resources: {{- toYaml $root.Values.jobResources | nindent 6 }}
    securityContext: {{- include "delayq.containerSecurity" $root | nindent 6 }}
    volumeMounts: {{- include "delayq.volumeMounts" . | nindent 6 }}
volumes: {{- include "delayq.volumes" . | nindent 2 }}
{{- end }}
