#!/usr/bin/env bash
# Prints how many timeouts a second each library puts and works on: measure.sh [COUNT]. Every figure is of a fresh
# redis-server on port 16379 (append-only file, fsync each second). Needs delayq on the PATH, and the packages that
# README.md installs.
set -euo pipefail
cd "$(dirname "$0")"
count=${1:-20000}
work=$(mktemp -d)
export REDIS_URL=redis://127.0.0.1:16379

stop() { [ -z "${redis:-}" ] || { kill "$redis"; wait "$redis" || true; } 2> /dev/null; redis=''; }
trap 'stop; rm -rf "$work"' EXIT

fresh() {
    stop
    rm -rf "$work/redis" && mkdir "$work/redis"
    redis-server --port 16379 --dir "$work/redis" --appendonly yes --save '' > /dev/null & redis=$!
    until redis-cli -p 16379 ping > /dev/null 2>&1; do sleep 0.1; done
    delayq --redis "$REDIS_URL" init > /dev/null
}

(cd go && go build -o "$work/measure" ./measure)
for library in delayq bullmq; do fresh; node node/measure.js "$library" "$count" | sed 's/^/Node    /'; done
for library in delayq asynq; do fresh; "$work/measure" "$library" "$count" | sed 's/^/Go      /'; done
for library in delayq celery; do fresh; python3 python/measure.py "$library" "$count" 2> /dev/null | grep '/s$' | sed 's/^/Python  /'; done
