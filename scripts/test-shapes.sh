#!/usr/bin/env bash
# test-shapes.sh SHAPE...: runs the tests of delayq, the timer and the forwarder on Redises of each shape. `cluster`:
# starts a Redis Cluster of three masters, used by one test after another; a test that needs a private server gets a
# cluster of one. `sentinel`: each test starts a master and its sentinel.
set -euo pipefail
cd "$(dirname "$0")/.."

built=${CARGO_TARGET_DIR:-target}/debug

suites() {
    echo "=== $1"
    local tests=(scripts/test-rust.py --workspace --all-features) status=0
    export DELAYQ_TEST_REDIS_URL=$2
    "${tests[@]}" --test client -- black_hole:: consumer:: dead_letters:: gathered:: growth:: reserved:: vectors:: waiting:: \
        < /dev/null || status=$?
    "${tests[@]}" --test protocol --test timer --test sinks < /dev/null || status=$?
    return $status
}

failed=()
for shape; do
    case $shape in
        cluster)
            # Ends with its input.
            coproc group { exec "$built/redis-group" cluster; }
            started=$group_PID
            read -r url <&"${group[0]}"
            suites "$shape: $url" "$url" || failed+=("$shape")
            eval "exec ${group[1]}>&-"
            wait "$started"
            ;;
        sentinel) suites "$shape" redis+sentinel:// || failed+=("$shape") ;;
        *) echo "$shape is no shape: cluster or sentinel" >&2 && exit 64 ;;
    esac
done
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}" >&2; exit 1; }
