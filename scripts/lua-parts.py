#!/usr/bin/env python3
"""Checks the headers of the parts of long scripts: lua/lib/SCRIPT/PART.lua is a part of lua/SCRIPT.lua.

A part is text of the script and shares the script's locals, so the header declares which:

NEEDS      names that the part borrows from the script before the include line
CHANGES    borrowed names that the part assigns
GIVES      names that the part defines and the script uses afterwards

luacheck finds the names: a borrowed name is undefined in the part alone, a given name is undefined in the script without
the part. Run by scripts/lint-lua.sh, which leaves the assembled scripts in target/lua. Every file of lua/ is held to
MOST_LINES.
Usage: lua-parts.py [--write] (by scripts/lint-lua.sh): names every wrong header, or writes the headers
"""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LUA = ROOT / "lua"
ASSEMBLED = ROOT / "target/lua"
WITHOUT = ROOT / "target/lua-without"
MOST_LINES = 130
LABELS = ("NEEDS", "CHANGES", "GIVES")
FORM = re.compile(r"((?:-- [^\n]+\n)+)(?:--\n(?:-- [^\n]+\n)+)?\n(.+)", re.S)


def undefined(files):
    """For each file, the names that are set although they are undefined, and all undefined names."""
    found = {file: (set(), set()) for file in files}
    run = subprocess.run(
        ["luacheck", "--no-color", "--codes", "--formatter", "plain", "--only", "0..", "11.", "--", *map(str, files)],
        capture_output=True, text=True, cwd=ROOT,
    )
    for line in run.stdout.splitlines():
        file, code, text = re.match(r"(.*?):\d+:\d+: \((.\d+)\) (.*)", line).groups()
        if not code.startswith("W11"):
            sys.exit(f"{line}: a part is whole statements")
        assigned, all_names = found[Path(file)]
        name = re.search(r"'(\w+)'", text)[1]
        all_names.add(name)
        if code == "W111":
            assigned.add(name)
    return found


def header(needs, changes, gives):
    """The lines of a header; a list without names has no line."""
    lines = []
    for label, names in zip(LABELS, (needs, changes, gives)):
        if names:
            text = f"-- {label:<8} " + ", ".join(sorted(names, key=lambda name: (name.isupper(), name)))
            lines += textwrap.wrap(text, 120, subsequent_indent="--" + " " * 10)
    return "".join(line + "\n" for line in lines)


def wanted_headers(parts):
    """The header of each part, by what luacheck says."""
    WITHOUT.mkdir(exist_ok=True)
    without = {}
    for part in parts:
        script = (ASSEMBLED / f"{part.parent.name}.lua").read_text()
        if script.count(part.read_text()) != 1:
            sys.exit(f"{part.relative_to(ROOT)} is not once in lua/{part.parent.name}.lua")
        without[part] = WITHOUT / f"{part.parent.name}-{part.name}"
        without[part].write_text(script.replace(part.read_text(), ""))
    inside, outside = undefined(parts), undefined(list(without.values()))
    return {part: header(inside[part][1], inside[part][0], outside[without[part]][1]) for part in parts}


def with_header(part, wanted):
    """The text of a part with another header: the title, the header, a blank line, the code."""
    form = FORM.fullmatch(part.read_text())
    start = f"-- {part.parent.name}/{part.stem}: "
    if not form or not form[1].startswith(start):
        sys.exit(f"{part.relative_to(ROOT)} begins with `{start}`, its subject, and a blank line before the code")
    return f"{form[1]}--\n{wanted}\n{form[2]}"


def main():
    parts = sorted(LUA.glob("lib/*/*.lua"))
    faults = []
    for part, wanted in wanted_headers(parts).items():
        text = with_header(part, wanted)
        if sys.argv[1:] == ["--write"]:
            part.write_text(text)
        elif text != part.read_text():
            faults.append(f"{part.relative_to(ROOT)} has another header than its code (scripts/lint-lua.sh --write):\n{wanted}")
    for file in sorted(LUA.rglob("*.lua")):
        lines = file.read_text().count("\n")
        if lines > MOST_LINES:
            faults.append(f"{file.relative_to(ROOT)} has {lines} lines, {MOST_LINES} at most: cut it into parts")
    if faults:
        sys.exit("\n".join(faults))


main()
