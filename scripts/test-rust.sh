#!/usr/bin/env bash
# Runs the tests of the workspace, with these options of cargo test. What tests say of themselves that is neither passed nor
# failed is repeated at the end: SKIPPED, where the machine does not allow them; INCONCLUSIVE, where it was too busy.
set -euo pipefail
cd "$(dirname "$0")/.."

said=$(mktemp)
trap 'rm -f "$said"' EXIT
status=0
{ cargo test "$@" 2>&1 >&3 | tee "$said" >&2; } 3>&1 || status=$?
echo "tests: $(grep -c '^SKIPPED ' "$said" || true) skipped, $(grep -c '^INCONCLUSIVE ' "$said" || true) inconclusive"
grep -E '^(SKIPPED|INCONCLUSIVE) ' "$said" || true
exit $status
