"""Assembles the scripts of lua/ from the files and the functions included."""

import hashlib
import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
#: In the package, or in the repository.
LUA = next((lua for lua in (HERE / "lua", HERE.parents[2] / "lua") if lua.is_dir()), HERE / "lua")


@cache
def script(verb: str, lua: Path = LUA) -> tuple[str, str]:
    """Returns a script and the SHA-1 in hex, the name in EVALSHA. Include lines are replaced by files."""

    def included(line: re.Match[str]) -> str:
        return "".join((lua / "lib" / f"{name}.lua").read_text("utf-8") for name in line[1].split(", "))

    file = (lua / f"{verb}.lua").read_text("utf-8").removesuffix("\n") + "\n"
    source = re.sub("^--# include (.*)$", included, file, flags=re.M)
    return source, hashlib.sha1(source.encode()).hexdigest()
