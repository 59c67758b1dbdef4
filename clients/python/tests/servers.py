"""The servers that tests start: redis-server, groups of it, and delayq's own timer."""

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest
import redis

BUILT = Path(__file__).resolve().parents[3] / "target" / "debug"
# The log is written before each answer, which no sync delays: a kill loses nothing.
LOGGED = ("--appendonly", "yes", "--appendfsync", "no")


def program(name, variable, package):
    """A program of the repository."""
    path = Path(os.environ.get(variable, BUILT / name))
    return path if path.exists() else pytest.skip(f"{path} is missing: cargo build -p {package} --bin {name}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class RedisServer:
    """A redis-server on a unix socket, and on a port where one is given; a Sentinel if given the configuration of one."""

    def __init__(self, folder, *options, port=0, name="s", sentinel=None):
        self.socket, self.port = f"{folder}/{name}", port
        files = ["--unixsocket", self.socket, "--dir", folder, "--dbfilename", f"{name}.rdb", "--save", ""]
        given = [] if sentinel is None else [sentinel, "--sentinel"]
        self._ready = "ready to accept connections" if sentinel is None else "+monitor master"
        self._command = ["redis-server", *given, "--port", str(port), "--bind", "127.0.0.1", *files, *options]
        self.start()

    def start(self):
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        said = []
        for line in self._process.stdout:  # ends with the server, where it does not start
            said.append(line)
            if self._ready in line.lower():
                return
        raise AssertionError("".join(said))

    def connect(self):
        return redis.Redis(unix_socket_path=self.socket)

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def freeze(self):
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self._process.send_signal(signal.SIGCONT)

    def __enter__(self):
        return self

    def __exit__(self, *fault):
        self.kill()


class RedisGroup:
    """A master with its replicas and Sentinels, the nodes of a cluster, or a master with a replica, of redis-server or of
    another program (tests/src/bin/redis-group.rs)."""

    def __init__(self, *kind):
        command = [program("redis-group", "DELAYQ_REDIS_GROUP", "delayq-tests"), *kind]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = self._line()

    def does(self, what, key="x"):
        """Has something done to the master that has a key, or to the replica: `kill`, `freeze`, `thaw`, `move`."""
        print(what, key, file=self._process.stdin, flush=True)
        assert self._line() == "done"

    def end(self):
        self._process.communicate()

    def _line(self):
        return self._process.stdout.readline().strip()


def valkey_server():
    """A server with WAITAOF, or None: the path in DELAYQ_TEST_VALKEY, or else the `valkey-server` on the PATH."""
    return os.environ.get("DELAYQ_TEST_VALKEY") or shutil.which("valkey-server")


class Timer:
    """delayq-timer, which owns every shard of a deployment."""

    def __init__(self, folder, redis_socket, namespace, shards):
        timer = program("delayq-timer", "DELAYQ_TIMER", "delayq-timer")
        config = Path(folder) / f"{namespace}.toml"
        config.write_text(
            f'[deployment]\nnamespace = "{namespace}"\nshards = {shards}\n'
            f'[redis]\nurl = "unix://{redis_socket}"\n[etcd]\nenabled = false\n[admin]\nlisten = "127.0.0.1:0"\n'
        )
        log = open(config.with_suffix(".log"), "w")
        self._process = subprocess.Popen([timer, config], stdout=log, stderr=log)
        log.close()

    def end(self):
        self._process.terminate()
        self._process.wait()
