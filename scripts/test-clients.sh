#!/usr/bin/env bash
# Runs the tests of every client in clients/, then the outages of Redis; or the outages alone: `test-clients.sh
# outages`. `test-clients.sh install` only installs the packages that a client needs, for other tests, and `test-clients.sh
# installed` tests beside these without installing again. Clients without a runtime are skipped by name.
set -euo pipefail
cd "$(dirname "$0")/.."

passed=() failed=() skipped=() outages=()
what=${1:-all}
installs() { [ "$what" != installed ]; }
tests() { [ "$what" = all ] || [ "$what" = installed ]; }

has() {
    case $1 in
        python3-venv) python3 -c 'import ensurepip, venv' 2> /dev/null ;; # a package of its own on Debian
        *) command -v "$1" > /dev/null ;;
    esac
}

# client NAME "RUNTIME..." COMMAND...: in clients/NAME, if all the runtimes are installed.
client() {
    local name=$1 runtimes=$2 runtime
    shift 2
    [ -d "clients/$name" ] || return 0
    for runtime in $runtimes; do
        if ! has "$runtime"; then
            echo "clients/$name: skipped, $runtime is missing"
            skipped+=("$name")
            return 0
        fi
    done
    if [ "$what" = install ]; then echo "clients/$name: installing"; else echo "clients/$name: testing"; fi
    # Not as the condition of an `if`: there a failing command would not end the function.
    set +e
    (set -e && cd "clients/$name" && "$@")
    local status=$?
    set -e
    if [ $status -eq 0 ]; then passed+=("$name"); else failed+=("$name"); fi
}

# A suite that hangs is interrupted, so that it prints where, as go test does by itself.
limited() { timeout --foreground --signal=INT --kill-after=1m 25m "$@"; }

# Each function installs the dependencies of a lock file, into the client's folder.
python_tests() {
    if installs; then
        [ -x .venv/bin/python ] || python3 -m venv .venv
        .venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
    fi
    tests || return 0
    .venv/bin/python -m mypy
    limited .venv/bin/python -m pytest -q -rfEs
}

node_tests() {
    if installs; then
        npm ci --silent
        npm run build --silent
    fi
    tests || return 0
    limited npm test --silent
}

go_tests() {
    go mod download
    [ "$what" = install ] && return
    mkdir -p "$built/clients"
    go build -o "$built/clients/go-outages" ./testdata/outages
    tests || return 0
    [ -z "$(gofmt -l .)" ] || { echo "not formatted: $(gofmt -l .)" >&2; return 1; }
    go vet ./... ./testdata/outages
    go test -count=1 ./...
}

# program CLIENT NAME=COMMAND: the client's program goes through outages too, unless skipped or failed.
program() {
    local client
    for client in ${passed[@]+"${passed[@]}"}; do
        if [ "$client" = "$1" ]; then outages+=("$2"); fi
    done
}

# Workers are tested with the real timer, and on groups of Redises that the harness starts and between which delayq
# moves shards.
built=${CARGO_TARGET_DIR:-$PWD/target}/debug
export DELAYQ_TIMER=${DELAYQ_TIMER:-$built/delayq-timer} DELAYQ_REDIS_GROUP=${DELAYQ_REDIS_GROUP:-$built/redis-group}
export DELAYQ_COMMAND=${DELAYQ_COMMAND:-$built/delayq} # prints the users that clients are tested as
if [ "$what" != install ]; then
    [ -x "$DELAYQ_TIMER" ] || cargo build --quiet -p delayq-timer
    [ -x "$DELAYQ_COMMAND" ] || cargo build --quiet -p delayq-cli --bin delayq
    [ -x "$DELAYQ_REDIS_GROUP" ] || cargo build --quiet -p delayq-tests --bin redis-group
    [ -x "$built/client-outages" ] || cargo build --quiet -p delayq-tests --bin client-outages
fi

client python "python3 python3-venv redis-server" python_tests
client node "node npm redis-server" node_tests
client go "go redis-server" go_tests

program python "python=clients/python/.venv/bin/python clients/python/tests/outages.py blocking"
program python "python-asyncio=clients/python/.venv/bin/python clients/python/tests/outages.py asyncio"
program node "node=node clients/node/dist/test/outages.js"
program go "go=$built/clients/go-outages"
if [ ${#outages[@]} -gt 0 ] && [ "$what" != install ]; then
    echo "clients: outages of their Redis"
    "$built/client-outages" "${outages[@]}" || failed+=(outages)
fi

if [ "$what" = install ]; then done=installed; else done=passed; fi
echo "clients: ${#passed[@]} $done, ${#failed[@]} failed, ${#skipped[@]} skipped"
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}" >&2; exit 1; }
