#!/usr/bin/env bash
# test-servers.sh [SERVER...]: the tests of scripts, clients and timers on each of the servers that `servers.sh` can fetch, or on
# the named ones. Each test starts its own.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=()
for server in ${*:-$(scripts/servers.sh names)}; do
    program=$(scripts/servers.sh "$server")
    [ -n "$program" ] || { echo "$server is none of: $(scripts/servers.sh names | xargs)" >&2; exit 64; }
    echo "=== $server: $("$program" --version)"
    DELAYQ_TEST_REDIS_SERVER=$program scripts/test-rust.py --workspace --all-features \
        --test protocol --test client --test timer < /dev/null || failed+=("$server")
done
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}" >&2; exit 1; }
