"""Packs the client as for publication."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
#: The time stamp of packed files.
EPOCH = {"SOURCE_DATE_EPOCH": "1767225600"}
PIP = "-m", "pip", "--quiet", "--disable-pip-version-check"


def run(*command, **options):
    subprocess.run(command, check=True, env=os.environ | EPOCH, **options)


def archive(folder):
    """A source archive, unpacked."""
    run(sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", folder, "sdist", "--dist-dir", folder, cwd=HERE)
    tarfile.open(next(folder.glob("*.tar.gz"))).extractall(folder)
    return next(path for path in folder.iterdir() if (path / "setup.py").is_file())


def wheel(source, folder):
    """A wheel, built from an unpacked source archive alone."""
    run(sys.executable, *PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source)
    return next(folder.glob("*.whl"))


def environment(wheel, folder):
    """Returns the Python of an environment with only a wheel and the dependencies of the wheel."""
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin" / "python", *PIP, "install", wheel)
    return folder / "bin" / "python"
