#!/usr/bin/env bash
# Runs luacheck over every script as Redis gets it: with the files of lua/lib in the place of its include line.
# A function of lua/lib that one script does not use is no fault; anything else unused is.
set -euo pipefail
cd "$(dirname "$0")/.."

assembled=target/lua
rm -rf $assembled
mkdir -p $assembled
for script in lua/*.lua; do
    awk '
        /^--# include / {
            sub(/^--# include /, "")
            count = split($0, names, /, */)
            for (i = 1; i <= count; i++) {
                part = "lua/lib/" names[i] ".lua"
                while ((got = (getline line < part)) > 0) print line
                if (got < 0) { print part " is not there" > "/dev/stderr"; exit 1 }
                close(part)
            }
            next
        }
        { print }
    ' "$script" > "$assembled/$(basename "$script")"
done

# The names that lua/lib defines at its top level: `local function NAME`, `local NAME, NAME = …`.
mapfile -t names < <(sed -nE 's/^local function ([A-Za-z_0-9]+).*/\1/p; s/^local ([A-Za-z_0-9, ]+).*/\1/p' lua/lib/*.lua |
    tr ', ' '\n\n' | grep -v '^$' | sort -u)
ignored=()
for name in "${names[@]}"; do ignored+=("2[123]./^$name\$"); done

luacheck --quiet --no-color --ignore "${ignored[@]}" -- $assembled
