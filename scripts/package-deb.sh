#!/usr/bin/env bash
# Builds the Debian package into target/debian, of the programs of a cargo profile: `release` unless another is named.
# `--no-build` takes the programs as they are.
set -euo pipefail
cd "$(dirname "$0")/.."

profile=release build=yes
for argument in "$@"; do
    case $argument in
        --no-build) build=no ;;
        *) profile=$argument ;;
    esac
done
target=${CARGO_TARGET_DIR:-target}
folder=$target/$([ "$profile" = dev ] && echo debug || echo "$profile")

command -v cargo-deb > /dev/null || cargo install --locked --quiet cargo-deb
if [ $build = yes ]; then
    cargo build --profile "$profile" --bins \
        --features delayq-cli/all-sinks,delayq-forwarder/all-sinks,delayq-cli/otlp,delayq-forwarder/otlp
fi

rm -rf target/package
mkdir -p target/package/completions
"$folder/delayq" man target/package/man
"$folder/delayq" completions bash > target/package/completions/delayq.bash
"$folder/delayq" completions zsh > target/package/completions/_delayq
"$folder/delayq" completions fish > target/package/completions/delayq.fish
# A package of unoptimised programs is one for a check: not worth compressing well.
fast=$([ "$profile" = dev ] && echo --fast || true)
cargo deb --quiet $fast --no-build --no-strip --profile "$profile" --package delayq-cli
