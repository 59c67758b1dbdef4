#!/usr/bin/env bash
# Builds the Debian package into target/debian, of the programs of a cargo profile: `release` unless another is named.
# `--no-build` takes the programs as they are.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v cargo-deb > /dev/null || cargo install --locked --quiet cargo-deb
scripts/package-files.sh "$@" > /dev/null
profile=release
for argument in "$@"; do [ "$argument" = --no-build ] || profile=$argument; done
# A package of unoptimised programs is one for a check: not worth compressing well.
fast=$([ "$profile" = dev ] && echo --fast || true)
cargo deb --quiet $fast --no-build --no-strip --profile "$profile" --package delayq-cli
