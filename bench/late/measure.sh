#!/usr/bin/env bash
# Prints how late messages with own ids, a thousand a second, reach the handler of a worker that pumps, of each client:
# measure.sh [COUNT]. One shard on a fresh redis-server without a timer; the time counts from the due time to the handler.
set -euo pipefail
cd "$(dirname "$0")/../.."
count=${1:-20000}
delayq=${DELAYQ_COMMAND:-${CARGO_TARGET_DIR:-target}/debug/delayq}
work=$(mktemp -d)
trap 'kill "$redis"; wait "$redis" 2> /dev/null || true; rm -rf "$work"' EXIT
redis-server --port 0 --unixsocket "$work/s" --dir "$work" --save '' > /dev/null & redis=$!
until redis-cli -s "$work/s" ping > /dev/null 2>&1; do sleep 0.1; done

# late NAME COMMAND...: in a deployment of its own.
late() {
    local name=$1
    shift
    "$delayq" --redis "unix://$work/s" --namespace "$name" init --shards 1 > /dev/null
    "$@" "unix://$work/s" "$name" "$count"
}

(cd clients/go && go build -o "$work/late" ./testdata/late)
late go "$work/late"
late node node clients/node/dist/test/late.js
late python clients/python/.venv/bin/python clients/python/tests/late.py
