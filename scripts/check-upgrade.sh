#!/usr/bin/env bash
# Replaces timers and workers of an earlier version by today's, and then back again, while both versions put messages.
# check-upgrade.sh PROGRAMS EARLIER: two folders of programs; a commit as EARLIER is built in a separate worktree.
set -euo pipefail
cd "$(dirname "$0")/.."

new=$(realpath "$1")
work=$(mktemp -d)

clean_up() {
    # The system may have reused the numbers of ended jobs.
    { jobs -pr | xargs --no-run-if-empty kill -KILL && wait; } 2> /dev/null || true
    if [ -d "$work/tree" ]; then git worktree remove --force "$work/tree"; fi
    rm -rf "$work"
}
trap clean_up EXIT

fail() { # MESSAGE
    tail -n 5 "$work"/*.log >&2
    echo "check-upgrade: $1" >&2
    exit 1
}

if [ -d "$2" ]; then
    old=$(realpath "$2")
else
    git worktree add --quiet --detach "$work/tree" "$2"
    old=$PWD/target/upgrade/debug
    (cd "$work/tree" && CARGO_TARGET_DIR=${old%/debug} cargo build -p delayq-cli -p delayq-timer --bins)
fi

start() { # NAME COMMAND...: in the background; its process is $!
    "${@:2}" >> "$work/$1.log" 2>&1 &
}

await() { # WHAT COMMAND...: within a minute
    local deadline=$((SECONDS + 60))
    until "${@:2}" > /dev/null 2>&1; do
        [ $SECONDS -lt $deadline ] || fail "not within a minute: $1"
        sleep 0.1
    done
}

stop() { # PROCESS
    kill -TERM "$1"
    wait "$1" || fail "process $1 ended with $?"
}

read_json() { # EXPRESSION over `found`: is it true?
    python3 -c "import json, sys; found = json.load(sys.stdin); sys.exit(not ($1))"
}

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

owns_shards() { # TIMER
    "$new/delayq" timers --json | read_json "any(m['name'] == '$1' and m['claimed'] for m in found['fleet']['members'])"
}

start_timer() { # FOLDER NAME
    start "timer-$2" env DELAYQ__TIMER__NAME="$2" "$1/delayq-timer"
    timers[$2]=$!
    await "timer $2 of $1 owns shards" owns_shards "$2"
}

put() { # FOLDER: five hundred messages with ids of their own, due within a second
    "$1/delayq" put orders --from <(awk -v from="$sent" 'BEGIN {
        for (i = from; i < from + 500; i++) printf "{\"id\":\"order-%d\",\"due\":\"+%dms\",\"payload\":{}}\n", i, i % 500 * 2
    }') >> "$work/put.log" 2>&1 || fail "a put by $1"
    sent=$((sent + 500))
}

is_done() {
    "$new/delayq" count orders --json | read_json "found['delivered'] == $sent"
}

start redis redis-server --port 0 --unixsocket "$work/redis.sock" --save '' --appendonly yes --dir "$work"
client=http://127.0.0.1:$(free_port) peer=http://127.0.0.1:$(free_port)
start etcd etcd --data-dir "$work/etcd" --listen-client-urls "$client" --advertise-client-urls "$client" \
    --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "default=$peer"
# Both versions set the number, whatever the defaults, and each of two timers has some shards.
export DELAYQ__DEPLOYMENT__SHARDS=4
export DELAYQ__REDIS__URL=unix://$work/redis.sock DELAYQ__ETCD__ENDPOINTS="[\"$client\"]" DELAYQ__ADMIN__LISTEN=127.0.0.1:0
await "Redis answers" "$old/delayq" init

declare -A timers
sent=0
start_timer "$old" one
start_timer "$old" two
start worker "$old/delayq" work orders --concurrency 16
worker=$!
for step in "$new one" "$new two" "$old one" "$old two"; do
    read -r folder timer <<< "$step"
    put "$old"
    put "$new"
    stop "${timers[$timer]}"
    put "$folder"
    start_timer "$folder" "$timer"
    put "$new"
    if [ "$timer" = two ]; then
        replaced=$worker
        start worker "$folder/delayq" work orders --concurrency 16
        worker=$!
        stop "$replaced"
    fi
done
await "all $sent messages are delivered" is_done
"$new/delayq" audit > /dev/null || fail "the books do not balance"
echo "check-upgrade: $sent messages through four replacements of timers and two of workers: each delivered, and the books balance"
