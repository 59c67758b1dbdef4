# shellcheck shell=bash
# The programs of the cluster. Sourced by check-deploy.sh.
scripts/setup.sh cluster
scripts/deploy-tools.sh helm cluster > "$work/tools.log" || fail "there are no Kubernetes programs"
need kubectl "https://kubernetes.io/docs/tasks/tools/ (1.33 to 1.35)"
