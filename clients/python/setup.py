"""Packs the scripts: a copy of the repository's lua/ goes into what is built, never into the repository."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).resolve().parent
# In an unpacked source archive they are in the package already.
LUA = next(folder for folder in (HERE / "delayq" / "lua", HERE.parents[1] / "lua") if folder.is_dir())


def pack(package: Path) -> None:
    shutil.copytree(LUA, package / "lua", dirs_exist_ok=True)


class BuildWithScripts(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            pack(Path(self.build_lib) / "delayq")


class ArchiveWithScripts(sdist):
    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        pack(Path(base_dir) / "delayq")


setup(cmdclass={"build_py": BuildWithScripts, "sdist": ArchiveWithScripts})
