"""What is packed is whole, and the same each time it is packed."""

import os
import shutil
import zipfile

from packing import HERE, wheel

from delayq.scripts import LUA


def test_a_wheel_brings_every_script_its_types_its_licence_and_its_changes(packed):
    names = set(zipfile.ZipFile(packed[1]).namelist())
    scripts = {f"delayq/lua/{path.relative_to(LUA).as_posix()}" for path in LUA.rglob("*.lua")}
    assert scripts and scripts <= names and "delayq/py.typed" in names
    assert any(name.endswith("/LICENSE") for name in names)
    assert (packed[0] / "CHANGELOG.md").is_file()
    assert (HERE / "LICENSE").read_bytes() == (LUA.parent / "LICENSE").read_bytes()


def test_a_wheel_is_the_same_each_time_it_is_built(packed, tmp_path):
    source, first = packed
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(source, elsewhere, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    for path in elsewhere.rglob("*"):
        os.utime(path, (0, 10**9))
    assert wheel(elsewhere, tmp_path / "wheel").read_bytes() == first.read_bytes()
