"""What is packed can work without the repository."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from delayq.scripts import LUA

HERE = Path(__file__).resolve().parents[1]


def test_a_wheel_brings_every_script(tmp_path):
    """Built from the source archive alone, so that neither needs the repository."""
    setup = [sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", str(tmp_path)]
    subprocess.run([*setup, "sdist", "--dist-dir", str(tmp_path)], cwd=HERE, check=True)
    archive = next(tmp_path.glob("*.tar.gz"))
    tarfile.open(archive).extractall(tmp_path)
    source = next(path for path in tmp_path.iterdir() if (path / "setup.py").is_file())
    pip = [sys.executable, "-m", "pip", "--quiet", "wheel", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", str(tmp_path), str(source)], check=True)
    packed = set(zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist())
    scripts = {f"delayq/lua/{path.relative_to(LUA).as_posix()}" for path in LUA.rglob("*.lua")}
    assert scripts and scripts <= packed and "delayq/py.typed" in packed
