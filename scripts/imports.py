#!/usr/bin/env python3
"""One import style: a `use` for each module, with all that is imported from it, and no blank lines between them.

rustfmt sorts them; what it cannot do without unstable settings is done here. So an import is one line that can be
searched for, and two changes of a file's imports seldom touch the same line. `pub use` and imports behind an attribute
stay as they are.
Usage: imports.py [--check] [FILE…], by default every Rust file of the repository
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def split(list_text):
    """The members of a list in braces, which may hold lists themselves."""
    depth, member = 0, ""
    for char in list_text:
        depth += {"{": 1, "}": -1}.get(char, 0)
        if char == "," and depth == 0:
            yield member.strip()
            member = ""
        else:
            member += char
    if member.strip():
        yield member.strip()


def expand(path, prefix=()):
    """Every single path of an import: of `a::{b, c::D}` these are a::b and a::c::D."""
    if "{" not in path:
        yield prefix + tuple(part.strip() for part in path.split("::"))
        return
    head, rest = path.split("{", 1)
    inside = prefix + tuple(part for part in head.strip().split("::") if part)
    for member in split(rest.rstrip()[:-1]):
        yield from expand(member, inside)


def joined(statements):
    """The imports of one place, a statement for each module."""
    modules = {}
    for statement in statements:
        for path in expand(" ".join(statement.split())):
            modules.setdefault(path[:-1], set()).add(path[-1])
    for module in list(modules):
        parent = module[:-1]
        if module and module[-1] in modules.get(parent, ()):
            modules[parent].remove(module[-1])
            modules[module].add("self")
    for module, names in sorted(modules.items()):
        path = "::".join(module)
        if not module:
            yield from sorted(names)
        elif names == {"self"}:
            yield path
        elif len(names) == 1:
            yield f"{path}::{min(names)}"
        elif names:
            yield f"{path}::{{{', '.join(sorted(names))}}}"


def rewritten(text):
    lines, out, at = text.split("\n"), [], 0
    while at < len(lines):
        begin = re.match(r"\s*(?=use )", lines[at])
        if not begin or (at and lines[at - 1].lstrip().startswith("#[")):
            out.append(lines[at])
            at += 1
            continue
        indent, statements, end = begin[0], [], at
        while at < len(lines) and (not lines[at] or lines[at].startswith(indent + "use ")):
            if lines[at]:
                statement = lines[at]
                while ";" not in statement:
                    at += 1
                    statement += "\n" + lines[at]
                statements.append(statement.strip().removeprefix("use ").rstrip(";"))
                end = at + 1
            at += 1
        out += [f"{indent}use {path};" for path in joined(statements)]
        at = end
    return "\n".join(out)


def formatted(text):
    command = ["rustfmt", "--edition", "2024", "--emit", "stdout", "--config-path", str(ROOT)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return done.stdout


def main():
    check = "--check" in sys.argv
    files = [Path(file) for file in sys.argv[1:] if file != "--check"]
    if not files:
        listed = subprocess.run(["git", "ls-files", "*.rs"], cwd=ROOT, capture_output=True, text=True, check=True)
        files = [ROOT / file for file in listed.stdout.split()]
    wrong = []
    for file in files:
        text = file.read_text()
        # The order within a list and the width of a line are rustfmt's.
        if (other := rewritten(text)) != text and (other := formatted(other)) != text:
            wrong.append(file)
            if not check:
                file.write_text(other)
    if check and wrong:
        sys.exit("imports.py: run scripts/imports.py, which rewrites " + ", ".join(map(str, wrong)))


if __name__ == "__main__":
    main()
