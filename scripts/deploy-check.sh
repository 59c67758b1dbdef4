#!/usr/bin/env bash
# Checks what is in deploy/ as far as the tools at hand can. A missing tool is skipped by name, a fault fails.
set -euo pipefail
cd "$(dirname "$0")/.."
shopt -s nullglob globstar

passed=0 failed=0 skipped=0

# look TOOL WHAT COMMAND...: runs the command if the tool is there.
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

# systemd-analyze says an unknown key on its standard error only, and ends with 0: any word is a fault.
# The programs and manual pages need not be installed for it, and the drop-ins beside the units count.
verify_unit() {
    local words copy
    copy=$(mktemp -d)
    cp -r deploy/systemd/. "$copy"
    sed -i 's#^ExecStart=/usr/bin/delayq-[a-z]*#ExecStart=/bin/true#' "$copy"/*.service
    words=$(systemd-analyze verify --man=no "$copy/${1##*/}" 2>&1) || words+=" (it failed)"
    rm -r "$copy"
    [ -z "$words" ] || { echo "$words"; return 1; }
}

compose_files() { docker-compose "$@" config --quiet; }

for file in deploy/compose/*.yaml; do
    look docker-compose "$file" compose_files -f "$file"
done
for file in deploy/**/*.service deploy/**/*.target; do look systemd-analyze "$file" verify_unit "$file"; done
for file in deploy/**/*rules*.y{a,}ml; do look promtool "$file" promtool check rules "$file"; done
for file in deploy/**/Dockerfile; do look hadolint "$file" hadolint "$file"; done
for file in deploy/**/kustomization.yaml; do
    look kubectl "$file" kubectl kustomize "$(dirname "$file")"
done
for file in scripts/*.sh .ci/run; do look bash "$file" bash -n "$file"; done

echo "deploy: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
