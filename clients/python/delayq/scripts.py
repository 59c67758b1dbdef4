"""The scripts: the files of lua/, put together with the functions they include."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_INCLUDE = "--# include "


@dataclass(frozen=True)
class Script:
    source: str
    #: The SHA-1 of the source in hex: its name in EVALSHA.
    sha: str


def assemble(verb: str, folder: Path) -> Script:
    """Puts one script together: an include line stands for the text of the files that it names."""
    source = ""
    for line in (folder / f"{verb}.lua").read_text("utf-8").splitlines():
        if line.startswith(_INCLUDE):
            names = line[len(_INCLUDE) :].split(", ")
            line = "".join((folder / "lib" / f"{name}.lua").read_text("utf-8") for name in names)
        source += line + "\n"
    return Script(source, hashlib.sha1(source.encode()).hexdigest())


def folder() -> Path:
    """Where the scripts are: packed with this package, or in the repository that it is developed in."""
    here = Path(__file__).resolve().parent
    for candidate in (here / "lua", here.parents[2] / "lua"):
        if (candidate / "put.lua").is_file():
            return candidate
    raise FileNotFoundError(f"delayq's Lua files are neither in {here} nor in the repository around it")


@cache
def script(verb: str) -> Script:
    """A published script."""
    return assemble(verb, folder())
