#!/usr/bin/env bash
# Runs the tests of the workspace, with these options of cargo test. Finally repeats the tests' remarks (SKIPPED: the
# machine does not allow the test; INCONCLUSIVE: the machine was too busy), and names the slowest tests.
set -euo pipefail
cd "$(dirname "$0")/.."

said=$(mktemp) passed=$(mktemp)
trap 'rm -f "$said" "$passed"' EXIT
status=0
{
    { cargo --config "target.'cfg(all())'.runner = '$PWD/scripts/test-binary.sh'" test "$@" 2>&1 >&3 | tee "$said" >&2; } 3>&1 |
        tee "$passed"
} || status=$?
echo "tests: the slowest"
awk '/^binary / { binary = $2 }
    /^test .* <[0-9.]+s>$/ { printf "%8.1f s  %s %s\n", substr($NF, 2), binary, $2 }' "$passed" | sort -rn | sed -n 1,30p
echo "tests: $(grep -c '^SKIPPED ' "$said" || true) skipped, $(grep -c '^INCONCLUSIVE ' "$said" || true) inconclusive"
grep -E '^(SKIPPED|INCONCLUSIVE) ' "$said" || true
exit $status
