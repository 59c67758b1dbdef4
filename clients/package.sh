#!/usr/bin/env bash
# Packs every client, each with its copy of lua/, into target/clients. One whose runtime is missing is skipped by name.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$PWD/target/clients
mkdir -p "$out"

have() { command -v "$1" > /dev/null || { echo "clients: $2 is not packed, $1 is missing"; return 1; }; }

if have python3 python; then
    rm -rf "$out/python"
    mkdir "$out/python"
    cp -R clients/python/{delayq,pyproject.toml,setup.py,README.md} "$out/python"
    rm -rf "$out/python/delayq/__pycache__"
    cp -R lua "$out/python/delayq/lua"
    python3 -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$out" "$out/python"
    rm -rf "$out/python"
fi
if have npm node; then
    (cd clients/node && npm ci --silent && npm pack --silent --pack-destination "$out")
fi
if have go go; then
    rm -rf "$out/go"
    cp -R clients/go "$out/go"
    rm -f "$out"/go/*_test.go "$out/go/.gitignore"
    cp -R lua/. "$out/go/lua"
    (cd "$out/go" && go vet ./...)
fi
ls -d "$out"/*
