#!/bin/sh
# Runs `delayq audit` and writes its verdict for node_exporter's textfile collector: from cron, once an hour.
# Usage: audit.sh FOLDER DEPLOYMENT; DELAYQ_CONFIG names the configuration.
set -u
folder=${1:?FOLDER of the textfile collector} deployment=${2:?DEPLOYMENT, the value of the label}

delayq audit > /dev/null
code=$?
file=$folder/delayq_audit_$deployment.prom
cat > "$file.$$" << EOF
# HELP delayq_audit_exit_code What delayq audit ended with: 0, 70 where the books do not balance, others where it could not be done.
# TYPE delayq_audit_exit_code gauge
delayq_audit_exit_code{deployment="$deployment"} $code
# HELP delayq_audit_timestamp_seconds When it ended.
# TYPE delayq_audit_timestamp_seconds gauge
delayq_audit_timestamp_seconds{deployment="$deployment"} $(date +%s)
EOF
mv "$file.$$" "$file"
