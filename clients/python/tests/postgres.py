"""A private PostgreSQL for a test."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import psycopg
import pytest
from servers import free_port


def _program(name):
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    found = places[0] if places else shutil.which(name)
    return str(found) if found else pytest.skip(f"{name} is missing: apt-get install postgresql")


class Postgres:
    """A server on a loopback port. It refuses to run as root, so root lends it the user `postgres`."""

    def __init__(self, folder):
        initdb, postgres, port = _program("initdb"), _program("postgres"), free_port()
        user = []
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
            user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
        data, self.url = f"{folder}/data", f"postgresql://postgres@127.0.0.1:{port}/postgres"
        options = ["-A", "trust", "-U", "postgres", "--no-sync"]
        subprocess.run([*user, initdb, "-D", data, *options], check=True, capture_output=True, cwd=folder)
        command = [*user, postgres, "-D", data, "-k", folder, "-h", "127.0.0.1", "-p", str(port)]
        self._process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
        said = []
        for line in self._process.stderr:  # ends with the server, where it does not start
            said.append(line)
            if "ready to accept connections" in line:
                return
        raise AssertionError("".join(said))

    def connect(self):
        return psycopg.connect(self.url, autocommit=True)

    def end(self):
        self._process.send_signal(signal.SIGINT)
        self._process.communicate()
