#!/usr/bin/env bash
# Counts the lines of code of each client, without tests, blank lines and comments (docstrings are comments), and the
# lines that only close brackets.
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

echo "python $(lines python/delayq/*.py)"
echo "node $(lines node/src/*.ts)"
echo "go $(find go -name '*.go' ! -name '*_test.go' ! -path '*/testdata/*' -exec cat {} + | lines)"
