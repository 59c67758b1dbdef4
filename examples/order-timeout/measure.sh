#!/usr/bin/env bash
# Prints how many timeouts a second each library puts and works on, delayq also with groups: measure.sh [COUNT [RUNS]]. The libraries
# take turns, each on a fresh redis-server on port 16379 (append-only file, fsync each second); a line has the median of the runs,
# with the least and the most. Needs delayq on the PATH, and the packages that README.md installs.
set -euo pipefail
cd "$(dirname "$0")"
count=${1:-20000} runs=${2:-5}
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

# measured LANGUAGE LIBRARY COMMAND...
measured() {
    local language=$1 library=$2
    shift 2
    fresh
    "$@" "$library" "$count" 2> /dev/null | sed -n "s,^\(.*\): \(.*\) \(.*\)/s$,$language \2 \1 \3,p" >> "$work/figures"
}

(cd go && go build -o "$work/measure" ./measure)
for _ in $(seq "$runs"); do
    for library in delayq grouped bullmq; do measured Node "$library" node node/measure.js; done
    for library in delayq grouped asynq; do measured Go "$library" "$work/measure"; done
    for library in delayq grouped celery; do measured Python "$library" python3 python/measure.py; done
done
sort -k1,3 -k4n "$work/figures" | awk '
    { key = $1 " " $2 " " $3; rates[key] = rates[key] " " $4 }
    key != last { keys[++n] = key; last = key }
    END {
        for (i = 1; i <= n; i++) {
            many = split(rates[keys[i]], rate)
            printf "%-22s %7d/s (%d to %d)\n", keys[i], rate[int((many + 1) / 2)], rate[1], rate[many]
        }
    }'
