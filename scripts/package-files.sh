#!/usr/bin/env bash
# Adds generated files to every package: builds the programs of a cargo profile (`release` by default; `--no-build` uses
# existing programs) and writes manual pages and completions into target/packed. Prints the folder of the programs.
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

if [ $build = yes ]; then
    cargo build --locked --profile "$profile" --bins \
        --features delayq-cli/full,delayq-forwarder/full,delayq-compensator/full >&2
fi
rm -rf target/packed
mkdir -p target/packed/completions
"$folder/delayq" man target/packed/man >&2
"$folder/delayq" completions bash > target/packed/completions/delayq.bash
"$folder/delayq" completions zsh > target/packed/completions/_delayq
"$folder/delayq" completions fish > target/packed/completions/delayq.fish
echo "$folder"
