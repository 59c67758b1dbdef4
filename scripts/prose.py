#!/usr/bin/env python3
"""Two signs of text that is hard to read, counted in the comments and in the strings of each tree and held to limits.

stand-ins  words that refer to another word, such as "it" or "those", as a share of all words in comments: the
           reader has to look back for the noun
questions  sentences that begin with a question word, such as "What" or "Whether", as a share of all sentences: the
           subject comes late

A comment names the thing, puts the subject before the verb, and says one thing per sentence. Text in backticks is
code and does not count, nor does a sentence of one or two words. Strings are those of the programs, which users read as
errors, advice and log lines: short texts, in which "it" is often next to its noun, so their limit is higher.
Usage: prose.py [FILE or FOLDER…]: checks every tree against LIMITS, or names the worst sentences of what is given
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

STAND_INS = set(
    "it its they them their one ones those such others what who whose whom".split()
)
QUESTIONS = set("what who which where when how whether".split())

MARKS = {".rs": r"//[/!]?", ".go": "//", ".ts": r"//|/?\*+", ".lua": "--", ".py": "#", ".sh": "#"}

# Maximum percent of stand-ins and of questions in the comments and in the strings of a tree.
LIMITS = {"comments": (3.0, 5.0), "strings": (5.0, 5.0)}

# A comment, a string with its text, or a character, which may be a quotation mark, in Rust.
TOKEN = re.compile(r"""//[^\n]*|r(#*)"(?P<raw>.*?)"\1|"(?P<text>(?:\\.|[^"\\])*)"|'(?:\\.|[^'\\])'""", re.DOTALL)
QUERY = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|CREATE|TRUNCATE|LOCK|SET SESSION|SET LOCAL|PRAGMA)\b")

SHOWN = 20


def tree_of(path):
    """The tree of a file: the sources of a crate or a client, the tests of all crates or clients, or a top folder."""
    parts = Path(path).parts
    if parts[0] not in ("crates", "clients"):
        return parts[0]
    if any(part in ("tests", "test", "tests.rs") or part.endswith("_test.go") for part in parts[2:]):
        return f"{parts[0]} tests"
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def comments(path):
    """Each run of comment lines as one text, with the number of its first line."""
    mark = re.compile(rf"\s*(?:{MARKS[path.suffix]})\s?(.*)")
    text, first = [], 0
    for number, line in enumerate(path.read_text(errors="replace").splitlines() + [""], 1):
        found = None if line.startswith("#!") else mark.fullmatch(line)
        if found:
            first = first if text else number
            text.append(found[1].strip())
        elif text:
            yield first, " ".join(text)
            text = []


def strings(path):
    """Each string of a Rust program but those of its tests, with the number of its line."""
    if path.suffix != ".rs" or tree_of(path.relative_to(ROOT)).count("/") == 0:
        return
    program = path.read_text().split("\n#[cfg(test)]\nmod tests")[0]
    for found in TOKEN.finditer(program):
        text = found["raw"] or found["text"]
        if text and not QUERY.search(text):
            text = re.sub(r"\\\n\s*", "", text)
            text = re.sub(r"\{[^}]*\}", "`value`", re.sub(r"\\[nt\"]", " ", text))
            yield program.count("\n", 0, found.start()) + 1, text


KINDS = {"comments": comments, "strings": strings}


def sentences(path, kind):
    """Each sentence of three words or more: where, its text, its words, its stand-ins, and whether it is a question."""
    for line, text in KINDS[kind](path):
        for sentence in re.split(r"(?<=[.;:!?])\s+", text):
            words = re.findall(r"[a-z']+", re.sub(r"`[^`]*`", "", sentence).lower())
            if len(words) > 2:
                stand_ins = sum(word in STAND_INS for word in words)
                yield f"{path.relative_to(ROOT)}:{line}", sentence, len(words), stand_ins, words[0] in QUESTIONS


def files(paths):
    listed = subprocess.run(["git", "ls-files", *paths], cwd=ROOT, check=True, capture_output=True, text=True)
    return [ROOT / name for name in listed.stdout.splitlines() if Path(name).suffix in MARKS]


def percent(part, whole):
    return round(100 * part / whole, 1) if whole else 0.0


def shares(found):
    words, stand_ins = sum(s[2] for s in found), sum(s[3] for s in found)
    return percent(stand_ins, words), percent(sum(s[4] for s in found), len(found))


def check():
    trees = {}
    for file in files([]):
        for kind in KINDS:
            trees.setdefault((tree_of(file.relative_to(ROOT)), kind), []).extend(sentences(file, kind))
    faults = []
    for (tree, kind), found in sorted(trees.items()):
        counted, limit = shares(found), LIMITS[kind]
        if any(share > most for share, most in zip(counted, limit)):
            faults.append(
                f"{tree}: {counted[0]} % stand-ins and {counted[1]} % questions in {kind}, at most {limit[0]} "
                f"and {limit[1]}; scripts/prose.py FILE names the sentences to rewrite"
            )
    return faults


def show(paths):
    for kind in KINDS:
        found = [s for file in files(paths) for s in sentences(file, kind)]
        worst = sorted((s for s in found if s[3] or s[4]), key=lambda s: (s[4] + s[3]) / s[2], reverse=True)
        for where, sentence, *_ in worst[:SHOWN]:
            print(f"{where}: {sentence}")
        print("{}: {} % stand-ins, {} % questions".format(kind, *shares(found)))


def main(arguments):
    if arguments:
        show(arguments)
        return 0
    faults = check()
    for fault in faults:
        print(fault, file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
