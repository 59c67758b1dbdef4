#!/usr/bin/env python3
"""Measures delayq beside other delay queues on Redis, each alone on a fresh redis-server, and prints a table.

    compare.py [--only NAME ...] [--rows ROW ...] [--runs N] [--into FILE] [--built]

With --into the figures are kept in a file beside those it has already, and the table shows all of them: so the rows can
be measured in parts. Needs redis-server, cargo, node with npm, go, java with maven; a peer whose tools are missing is left out by name.
Every peer does the same work with its own public client; what differs is told in README.md.
"""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
BUILT = ROOT / "target" / "peers"

# Row of the programs, messages, what the table calls it, the figures it prints with their units.
ROWS = [
    ("put_bulk", 50_000, {"put_bulk": ("put in bulk", "/s")}),
    ("put_single", 50_000, {"put_single": ("put, 64 single callers", "/s")}),
    ("take", 30_000, {"take": ("reserve + ack, 64 workers", "/s")}),
    ("memory", 50_000, {"memory": ("a pending message", "B")}),
    ("storm", 50_000, {
        "storm": ("50,000 due at one instant → all ready", "s"),
        "ping_p99": ("PING meanwhile, p99", "ms"),
        "ping_max": ("PING meanwhile, max", "ms"),
    }),
    ("lateness", 10_000, {
        "p50": ("1,000/s, due → worker, p50", "ms"),
        "p99": ("1,000/s, due → worker, p99", "ms"),
        "max": ("1,000/s, due → worker, max", "ms"),
        "early": ("… of 10,000 early", ""),
    }),
]


def build_delayq() -> None:
    run("cargo", "build", "--quiet", "--release", "-p", "delayq-cli", "--example", "peer", cwd=ROOT)


def build_bullmq() -> None:
    run("npm", "install", "--silent", cwd=HERE / "bullmq")


def build_asynq() -> None:
    run("go", "build", "-o", str(BUILT / "asynq"), ".", cwd=HERE / "asynq")


def build_redisson() -> None:
    jars = BUILT / "redisson"
    run("mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={jars}", cwd=HERE / "redisson")
    run("javac", "-cp", f"{jars}/*", "-d", str(jars), str(HERE / "redisson" / "Bench.java"))


TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
# Of each peer: how it is built, the tools it needs, how it is called.
PEERS = {
    "delayq": (build_delayq, ["cargo"], [str(TARGET / "release" / "examples" / "peer")]),
    "BullMQ": (build_bullmq, ["node", "npm"], ["node", str(HERE / "bullmq" / "bench.js")]),
    "asynq": (build_asynq, ["go"], [str(BUILT / "asynq")]),
    "Redisson": (build_redisson, ["javac", "mvn"],
                 ["java", "-cp", f"{BUILT / 'redisson'}:{BUILT / 'redisson'}/*", "Bench"]),
}


def run(*command: str, cwd: Path | None = None) -> None:
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL)


class Redis:
    """A redis-server of its own: append-only file, fsync each second."""

    def __enter__(self) -> "Redis":
        self.folder = tempfile.TemporaryDirectory(prefix="delayq-peers-")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.server = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--dir", self.folder.name, "--save", "",
             "--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory-policy", "noeviction"],
            stdout=subprocess.DEVNULL)
        while True:
            try:
                self.connection = socket.create_connection(("127.0.0.1", self.port))
                break
            except ConnectionRefusedError:
                if self.server.poll() is not None:
                    raise SystemExit("redis-server did not start") from None
                time.sleep(0.02)
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()
        self.server.kill()
        self.server.wait()
        self.folder.cleanup()

    def used_bytes(self) -> int:
        self.connection.sendall(b"INFO memory\r\n")
        text = self.connection.recv(65536).decode()
        return int(text.split("used_memory:")[1].split("\r\n")[0])


class Pings:
    """PINGs one Redis each millisecond until it is told to stop."""

    def __init__(self, port: int) -> None:
        self.took_ms: list[float] = []
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.ping, args=(port,))
        self.thread.start()

    def ping(self, port: int) -> None:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            while not self.stopped.wait(0.001):
                start = time.perf_counter()
                connection.sendall(b"PING\r\n")
                connection.recv(64)
                self.took_ms.append((time.perf_counter() - start) * 1000)

    def stop(self) -> dict[str, float]:
        self.stopped.set()
        self.thread.join()
        ordered = sorted(self.took_ms)
        return {"ping_p99": ordered[int(len(ordered) * 0.99)], "ping_max": ordered[-1]}


def measure(command: list[str], row: str, count: int) -> dict[str, float]:
    with Redis() as redis:
        before = redis.used_bytes()
        pings = Pings(redis.port) if row == "storm" else None
        done = subprocess.run([*command, str(redis.port), row, str(count)], stdout=subprocess.PIPE, text=True,
                              timeout=300)
        figures = pings.stop() if pings else {}
        if done.returncode != 0:
            return {}
        if row == "memory":
            figures["memory"] = (redis.used_bytes() - before) / count
        return figures | json.loads(done.stdout.splitlines()[-1])


def number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--rows", nargs="+", choices=[row for row, _, _ in ROWS], default=[row for row, _, _ in ROWS])
    parser.add_argument("--runs", type=int, default=3, help="the median of so many runs is told (3)")
    parser.add_argument("--into", type=Path, help="keep the figures in this file, beside those it has already")
    parser.add_argument("--built", action="store_true", help="nothing is built: all of it was before")
    wanted = parser.parse_args()
    BUILT.mkdir(parents=True, exist_ok=True)
    commands = {}
    for name in wanted.only:
        build, tools, command = PEERS[name]
        missing = [tool for tool in tools if not shutil.which(tool)]
        if missing:
            print(f"{name} is left out: no {', '.join(missing)}", file=sys.stderr)
            continue
        if not wanted.built:
            build()
        commands[name] = command
    # Of each row, of each peer: its figures, by name.
    taken = json.loads(wanted.into.read_text()) if wanted.into and wanted.into.exists() else {}
    for row, count, _ in ROWS:
        for name, command in commands.items() if row in wanted.rows else ():
            runs = [measure(command, row, count) for _ in range(wanted.runs)]
            taken.setdefault(row, {})[name] = {
                figure: statistics.median(one[figure] for one in runs if figure in one)
                for figure in {figure for one in runs for figure in one}
            }
            if wanted.into:
                wanted.into.write_text(json.dumps(taken, indent=1))
    print_table(taken)


def print_table(taken: dict[str, dict[str, dict[str, float]]]) -> None:
    names = [name for name in PEERS if any(name in row for row in taken.values())]
    print("| work | " + " | ".join(names) + " |")
    print("| --- |" + " ---: |" * len(names))
    for row, _, figures in ROWS:
        for figure, (title, unit) in figures.items() if row in taken else ():
            cells = [number(taken[row].get(name, {}).get(figure)) for name in names]
            print(f"| {title}{', ' + unit if unit else ''} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
