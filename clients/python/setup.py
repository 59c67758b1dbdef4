"""Packs the scripts: the build gets a copy of the repository's lua/, the repository none."""

import atexit
import shutil
import tempfile
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).resolve().parent
# An unpacked source archive already has the scripts in the package.
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


def elsewhere() -> dict[str, dict[str, str]]:
    """Keeps intermediate files out of this folder."""
    folder = tempfile.mkdtemp(prefix="delayq-build-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return {"build": {"build_base": folder}, "egg_info": {"egg_base": folder}}


setup(cmdclass={"build_py": BuildWithScripts, "sdist": ArchiveWithScripts}, options=elsewhere())
