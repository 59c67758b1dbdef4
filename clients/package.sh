#!/usr/bin/env bash
# Packs every client, each with a copy of lua/, into target/clients, with reproducible bytes. Clients without a runtime
# are skipped by name.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$PWD/target/clients
mkdir -p "$out"

have() { command -v "$1" > /dev/null || { echo "clients: $2 is not packed, $1 is missing"; return 1; }; }

if have python3 python; then
    rm -rf "$out/python"
    mkdir "$out/python"
    cp -R clients/python/{delayq,pyproject.toml,setup.py,MANIFEST.in,README.md,CHANGELOG.md,LICENSE} "$out/python"
    rm -rf "$out/python/delayq/__pycache__"
    cp -R lua "$out/python/delayq/lua"
    SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --pretty=%ct)} python3 -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$out" "$out/python"
    rm -rf "$out/python"
fi
if have npm node; then
    (cd clients/node && npm ci --silent && npm pack --silent --pack-destination "$out")
fi
if have go go; then
    diff -r lua clients/go/lua || { echo "clients: run \`go generate\` in clients/go" >&2; exit 1; }
    rm -rf "$out/go"
    cp -R clients/go "$out/go"
    rm -rf "$out"/go/*_test.go "$out/go/testdata"
    (cd "$out/go" && go vet ./...)
fi
ls -d "$out"/*
