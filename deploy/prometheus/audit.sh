#!/bin/sh
# Runs `delayq audit` and writes the verdict for node_exporter's textfile collector: from cron, once an hour.
# Usage: audit.sh FOLDER DEPLOYMENT; DELAYQ_CONFIG names the configuration.
set -u
folder=${1:?FOLDER of the textfile collector} deployment=${2:?DEPLOYMENT, the value of the label}

delayq audit > /dev/null
code=$?
file=$folder/delayq_audit_$deployment.prom
cat > "$file.$$" << EOF
# HELP delayq_audit_exit_code Exit code of delayq audit: 0; 70 if the books do not balance; others if the audit failed.
# TYPE delayq_audit_exit_code gauge
delayq_audit_exit_code{deployment="$deployment"} $code
# HELP delayq_audit_timestamp_seconds Time of the audit.
# TYPE delayq_audit_timestamp_seconds gauge
delayq_audit_timestamp_seconds{deployment="$deployment"} $(date +%s)
EOF
mv "$file.$$" "$file"
