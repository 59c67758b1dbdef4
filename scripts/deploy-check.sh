#!/usr/bin/env bash
# Checks deploy/ without an engine or a cluster. A fault fails; checks without their tool are skipped by name. Tools
# outside Debian are installed into target/deploy-tools.
set -euo pipefail
cd "$(dirname "$0")/.."
shopt -s nullglob globstar

for set in python helm dashboard book; do scripts/deploy-tools.sh $set || true; done
PATH=$PWD/target/deploy-tools/bin:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

passed=0 failed=0 skipped=0

# look TOOL WHAT COMMAND...: runs the command if the tool is installed.
look() {
    local tool=$1 what=$2 output
    shift 2
    if ! command -v "$tool" > /dev/null; then
        echo "skipped: $what ($tool is missing)"
        skipped=$((skipped + 1))
    elif output=$("$@" 2>&1); then
        echo "ok:      $what"
        passed=$((passed + 1))
    else
        printf 'FAILED:  %s\n%s\n' "$what" "$output"
        failed=$((failed + 1))
    fi
}

# kubernetes-validate does not know the objects of operators, and warns.
validate() { kubernetes-validate --strict -k 1.34 "$1"; }

# The chart's rules for the Prometheus operator, in promtool's form.
chart_rules() {
    target/deploy-tools/venv/bin/python -c '
import sys, yaml
rules = [one["spec"] for one in yaml.safe_load_all(sys.stdin) if one and one["kind"] == "PrometheusRule"]
yaml.safe_dump(*rules, sys.stdout)' < "$work/chart/everything.yaml" > "$work/rules.yaml"
    promtool check rules "$work/rules.yaml" && cp deploy/kubernetes/delayq/ci/audit.test.yaml "$work/"
    promtool test rules "$work/audit.test.yaml"
}

# Builds the book; a warning is a fault, as is a page missing from the book.
build_book() {
    local words page
    words=$(mdbook build docs --dest-dir "$work/book" 2>&1) || { echo "$words"; return 1; }
    ! grep -E 'WARN|ERROR' <<< "$words" || return 1
    for page in docs/*.md docs/guides/*.md; do
        page=${page#docs/}
        [ "$page" = SUMMARY.md ] || [ -e "$work/book/${page%.md}.html" ] || { echo "no page of $page"; return 1; }
    done
}

# systemd-analyze reports an unknown key only on standard error, and exits with 0: any output is a fault. The programs
# and manual pages need not be installed, and the drop-ins beside the units count.
verify_unit() {
    local words copy
    copy=$(mktemp -d)
    cp -r deploy/systemd/. "$copy"
    sed -i 's#^ExecStart=/usr/bin/delayq-[a-z]*#ExecStart=/bin/true#' "$copy"/*.service
    words=$(systemd-analyze verify --man=no "$copy/${1##*/}" 2>&1) || words+=" (it failed)"
    rm -r "$copy"
    [ -z "$words" ] || { echo "$words"; return 1; }
}

for file in deploy/**/*Dockerfile; do look hadolint "$file" hadolint "$file"; done
for file in deploy/compose/compose*.yaml; do
    look check-jsonschema "$file" check-jsonschema --builtin-schema vendor.compose-spec "$file"
done
for file in deploy/**/*.service deploy/**/*.target; do look systemd-analyze "$file" verify_unit "$file"; done

look promtool deploy/compose/prometheus.yaml promtool check config --syntax-only deploy/compose/prometheus.yaml
look promtool deploy/prometheus/alerts.yaml promtool check rules deploy/prometheus/alerts.yaml
look promtool "when each alert fires" promtool test rules deploy/prometheus/alerts.test.yaml
look python3 "metrics of alerts, dashboard and runbooks" scripts/check-telemetry.py "$work/queries.yaml"
look promtool "queries of the dashboard" promtool check rules "$work/queries.yaml"

look tsc "the dashboard, by Grafana's types" scripts/check-dashboard.py

look mdbook "the book of docs/" build_book

look helm deploy/kubernetes/delayq scripts/check-chart.sh "$work/chart"
for file in "$work"/chart/*.yaml deploy/kubernetes/*.yaml; do
    look kubernetes-validate "${file#"$work"/}" validate "$file"
done
[ ! -e "$work/chart/everything.yaml" ] || look promtool "alerts of the chart" chart_rules

for file in scripts/*.sh deploy/**/*.sh .ci/run; do look bash "$file" bash -n "$file"; done

echo "deploy: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
