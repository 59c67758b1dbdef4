#!/usr/bin/env python3
"""Two signs of comments that are hard to read, counted in each tree and held to one limit.

stand-ins  words that refer to another word, such as "it" or "those", as a share of all words in comments: the
           reader has to look back for the noun
questions  sentences that begin with a question word, such as "What" or "Whether", as a share of all sentences: the
           subject comes late

A comment names the thing, puts the subject before the verb, and says one thing per sentence. Text in backticks is
code and does not count, nor does a sentence of one or two words.
Usage: prose.py [FILE or FOLDER…]: checks every tree against LIMIT, or names the worst sentences of what is given
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

# Maximum percent of stand-ins and of questions in a tree.
LIMIT = (3.0, 5.0)

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


def sentences(path):
    """Each sentence of three words or more: where, its text, its words, its stand-ins, and whether it is a question."""
    for line, text in comments(path):
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
        trees.setdefault(tree_of(file.relative_to(ROOT)), []).extend(sentences(file))
    faults = []
    for tree, found in sorted(trees.items()):
        counted = shares(found)
        if any(share > most for share, most in zip(counted, LIMIT)):
            faults.append(
                f"{tree}: {counted[0]} % stand-ins and {counted[1]} % questions in comments, at most {LIMIT[0]} "
                f"and {LIMIT[1]}; scripts/prose.py FILE names the sentences to rewrite"
            )
    return faults


def show(paths):
    found = [s for file in files(paths) for s in sentences(file)]
    worst = sorted((s for s in found if s[3] or s[4]), key=lambda s: (s[4] + s[3]) / s[2], reverse=True)
    for where, sentence, *_ in worst[:SHOWN]:
        print(f"{where}: {sentence}")
    print("{} % stand-ins, {} % questions".format(*shares(found)))


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
