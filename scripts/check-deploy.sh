#!/usr/bin/env bash
# Tries deploy/ on real software; each stage runs alone. Needs root for units and docker; touches nothing outside its
# temporary folder and target/.
#
#   units   the Debian package installed, used, upgraded and removed in a system of its own (make check-units)
#   docker  the image is built, `compose up` with the host's network, and a message goes through it; the health check,
#           the alerts in Prometheus, a Redis that is away, a stop within the grace period; then the test suite in a container
#   cluster a real API server with its controllers: the chart installed, upgraded, rolled back and removed in a restricted
#           namespace. Needs no root
#
# Usage: check-deploy.sh [STAGE]; by default all stages. A missing tool is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d /var/tmp/delayq-deploy.XXXXXX)
export PATH=$PWD/target/deploy-tools/bin:$PATH
passed=0 started=() cleanups=()

finish() {
    local status=$?
    for cleanup in "${cleanups[@]}"; do $cleanup; done
    [ ${#started[@]} -eq 0 ] || kill "${started[@]}" 2> /dev/null || true
    wait 2> /dev/null || true
    umount "$work/docker/exec/netns/default" 2> /dev/null || true
    [ $status -eq 0 ] || tail -n 20 "$work"/*.log 2> /dev/null || true
    rm -rf --one-file-system "$work"
}
trap finish EXIT

claim() { passed=$((passed + 1)); echo "ok:      $1"; }
fail() { echo "FAILED:  $1"; exit 1; }
need() { command -v "$1" > /dev/null || fail "$1 is missing: $2"; }
# holds WHAT COMMAND...: the command succeeds; a failure shows the output.
holds() {
    local what=$1 output
    shift
    output=$("$@" 2>&1) || { echo "$output"; fail "$what"; }
    claim "$what"
}
# soon WHAT COMMAND...: the command succeeds within a minute.
soon() {
    local what=$1 deadline=$((SECONDS + 60))
    shift
    until "$@" > /dev/null 2>&1; do
        [ $SECONDS -lt $deadline ] || fail "$what"
        sleep 0.2
    done
    claim "$what"
}
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
start() { # LOG COMMAND...
    local log=$work/$1.log
    shift
    "$@" > "$log" 2>&1 &
    started+=($!)
}

[ $# -gt 0 ] || set -- units docker cluster
# The needs of every stage come first: a stage takes minutes, and the next one would fail after all of them.
for stage in "$@"; do
    [ -e "scripts/check-deploy/$stage.sh" ] || { echo "usage: $0 [units|docker|cluster] ..." >&2; exit 64; }
    # shellcheck source=/dev/null
    if [ -e "scripts/check-deploy/needs/$stage.sh" ]; then . "scripts/check-deploy/needs/$stage.sh"; fi
done
for stage in "$@"; do
    echo "=== $stage"
    # shellcheck source=/dev/null
    . "scripts/check-deploy/$stage.sh"
done
echo "deploy: $passed passed, 0 failed"
