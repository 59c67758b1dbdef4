#!/usr/bin/env bash
# Counts the lines of code of each client, without tests, generated tables, blank lines and comments (docstrings are
# comments), and the lines that only close brackets.
set -euo pipefail
cd "$(dirname "$0")/../clients"

lines() {
    awk '
        /^[[:space:]]*$/ { next }
        inside { if (/"""[[:space:]]*$|\*\//) inside = 0; next }
        /^[[:space:]]*(#|\/\/)/ { next }
        /^[[:space:]]*"""/ { inside = !/""".*"""/; next }
        /^[[:space:]]*\/\*/ { inside = !/\*\//; next }
        { n++ }
        /^[[:space:]]*[])}]+[;,]?$/ { closing++ }
        END { print n " (" closing + 0 " close brackets)" }
    ' "$@"
}

# The files that no test of delayq-core writes.
written() {
    grep -L 'from the tables of delayq-core' "$@"
}

echo "python $(lines $(written python/delayq/*.py))"
echo "node $(lines $(written node/src/*.ts))"
echo "go $(find go -name '*.go' ! -name '*_test.go' ! -path '*/testdata/*' ! -name protocol.go -exec cat {} + | lines)"
