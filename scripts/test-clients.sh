#!/usr/bin/env bash
# Runs the tests of every client in clients/. One whose runtime is missing is skipped by name.
set -euo pipefail
cd "$(dirname "$0")/.."

passed=() failed=() skipped=()

# client NAME "RUNTIME..." COMMAND...: in clients/NAME, if all the runtimes are there.
client() {
    local name=$1 runtimes=$2 runtime
    shift 2
    [ -d "clients/$name" ] || return 0
    for runtime in $runtimes; do
        if ! command -v "$runtime" > /dev/null; then
            echo "clients/$name: skipped, $runtime is missing"
            skipped+=("$name")
            return 0
        fi
    done
    echo "clients/$name: testing"
    if (cd "clients/$name" && "$@"); then passed+=("$name"); else failed+=("$name"); fi
}

python_tests() {
    [ -x .venv/bin/python ] || python3 -m venv .venv
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
    .venv/bin/python -m pytest -q
}

node_tests() {
    npm install --silent --no-audit --no-fund
    npm test --silent
}

client python python3 python_tests
client node "node npm" node_tests
client go go go test ./...

echo "clients: ${#passed[@]} passed, ${#failed[@]} failed, ${#skipped[@]} skipped"
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}" >&2; exit 1; }
