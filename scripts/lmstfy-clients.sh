#!/usr/bin/env bash
# Fetches lmstfy and its clients, each at the commit whose tests pass, into target/lmstfy/NAME: `lmstfy-clients.sh [SOURCE]`,
# where SOURCE/NAME is a repository that git can clone.
set -euo pipefail
cd "$(dirname "$0")/.."

source=${1:-https://github.com/bitleak}
while read -r name commit; do
    folder=target/lmstfy/$name
    test -d "$folder" || git clone --quiet --no-checkout "$source/$name" "$folder"
    git -C "$folder" -c advice.detachedHead=false checkout --quiet --force "$commit"
done << 'END'
lmstfy 725f59efd2f79f01446a5aa56a2263dc5b146cf4
go-lmstfy-client 6ea62f90d15b1581db3bf59a3dc2cca59ee21bf2
rust-lmstfy-client abb6df686d0a2fb8c4fe088d55bcf2c83cbc7108
php-lmstfy-client d93c80209dda93fb2754a8058d288cf6fe427c43
END
