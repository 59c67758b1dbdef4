#!/usr/bin/env bash
# test-binary.sh PROGRAM ARGUMENT...: runs a test binary, as cargo's runner, with as many threads as suit its tests, and has it
# say how long each test took.
set -euo pipefail

program=$1
shift
name=$(basename "$program")
name=${name%-*}
case $program in
    */deps/*) ;;
    *) exec "$program" "$@" ;; # of a documentation's example
esac
case $name in
    # These wait for servers to start, to fail over, or to be noticed as gone; the others compute, or measure times.
    compensator | intake | shapes) threads=$((2 * $(nproc))) ;;
    *) threads=$(nproc) ;;
esac
echo "binary $name"
# libtest hides the option from stable toolchains.
RUST_TEST_THREADS=${RUST_TEST_THREADS:-$threads} RUSTC_BOOTSTRAP=1 exec "$program" -Z unstable-options --report-time "$@"
