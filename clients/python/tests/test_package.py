"""The package is complete and reproducible."""

import os
import shutil
import sys
import zipfile
from email.parser import Parser

from packing import HERE, PIP, run, wheel

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


def test_a_wheel_says_what_a_registry_asks_for(packed):
    archive = zipfile.ZipFile(packed[1])
    (path,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
    said = Parser().parsestr(archive.read(path).decode())
    assert (said["Name"], said["License-Expression"], said["Requires-Python"]) == ("delayq", "Apache-2.0", ">=3.10")
    assert said["Description-Content-Type"] == "text/markdown" and said.get_payload().startswith("# delayq for Python")
    urls = dict(url.split(", ") for url in said.get_all("Project-URL"))
    assert {"Homepage", "Documentation", "Repository", "Issues", "Changelog"} == set(urls)
    assert "Typing :: Typed" in said.get_all("Classifier")


def checkout():
    """Lists the folder, without files that Python and the tests create."""
    return {path for path in HERE.rglob("*") if not {".venv", "__pycache__", ".mypy_cache"} & {*path.parts}}


def test_installing_from_the_folder_leaves_nothing_in_it(tmp_path):
    before = checkout()
    run(sys.executable, *PIP, "install", "--no-deps", "--no-build-isolation", "--target", tmp_path, HERE)
    assert (tmp_path / "delayq" / "lua" / "put.lua").is_file()
    assert checkout() <= before
