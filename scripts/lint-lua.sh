#!/usr/bin/env bash
# Runs luacheck over every script as sent to Redis: the files of lua/lib replace the include line. An unused function of
# lua/lib is no fault; any other unused name is. Then checks the headers of the parts of long scripts; `--write` writes
# these headers.
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

# The names defined at the top level of lua/lib: `local function NAME`, `local NAME, NAME = …`.
mapfile -t names < <(sed -nE 's/^local function ([A-Za-z_0-9]+).*/\1/p; s/^local ([A-Za-z_0-9, ]+).*/\1/p' lua/lib/*.lua |
    tr ', ' '\n\n' | grep -v '^$' | sort -u)
ignored=()
for name in "${names[@]}"; do ignored+=("2[123]./^$name\$"); done

luacheck --quiet --no-color --ignore "${ignored[@]}" -- $assembled
scripts/lua-parts.py "$@"
