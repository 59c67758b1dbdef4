#!/usr/bin/env bash
# Builds the Debian package into target/debian, from the programs of a cargo profile: `release` by default. `--no-build`
# uses existing programs.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v cargo-deb > /dev/null || cargo install --locked --quiet cargo-deb
scripts/package-files.sh "$@" > /dev/null
profile=release
for argument in "$@"; do [ "$argument" = --no-build ] || profile=$argument; done
# A package of unoptimised programs only serves a check: not worth compressing well.
fast=$([ "$profile" = dev ] && echo --fast || true)
cargo deb --quiet $fast --no-build --no-strip --profile "$profile" --package delayq-cli
