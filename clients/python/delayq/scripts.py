"""The scripts: the files of lua/, put together with the functions they include."""

import hashlib
import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
#: Packed with this package, or in the repository that it is developed in.
LUA = next((lua for lua in (HERE / "lua", HERE.parents[2] / "lua") if lua.is_dir()), HERE / "lua")


@cache
def script(verb: str, lua: Path = LUA) -> tuple[str, str]:
    """A script, and the SHA-1 of it in hex: its name in EVALSHA. An include line stands for files."""

    def included(line: re.Match[str]) -> str:
        return "".join((lua / "lib" / f"{name}.lua").read_text("utf-8") for name in line[1].split(", "))

    file = (lua / f"{verb}.lua").read_text("utf-8").removesuffix("\n") + "\n"
    source = re.sub("^--# include (.*)$", included, file, flags=re.M)
    return source, hashlib.sha1(source.encode()).hexdigest()
