#!/usr/bin/env python3
"""Measures delayq and other delay queues by the same work, each alone on a fresh redis-server, and prints a table of medians with
the least and the most of the runs.

    compare.py [--only NAME ...] [--rows ROW ...] [--runs N] [--into FILE] [--built] [--lmstfy PATH]

The peers take turns, run by run. A run that delivers counts only if each message came exactly once. With --into, the figures are
added to those that the file has, and the table shows all of them: so rows can be measured in parts. Needs redis-server, cargo,
node with npm, go, java with maven; a peer whose tools are missing is left out by name. README.md describes what differs
between the peers.
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
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILT = ROOT / "target" / "peers"

# The runs of each figure, by peer; and these by row.
Runs = dict[str, dict[str, list[float]]]
Taken = dict[str, Runs]

# The kinds of ids, with their names in tables. A table omits a peer without groups, or without own ids, for that kind.
KINDS = {
    "own": "own ids",
    "grouped": "own ids and groups",
    "generated": "generated ids",
}


class Row(NamedTuple):
    """Work of the programs, with the table's names and units of its figures. Without kinds of ids, each peer uses its first."""

    work: str
    count: int
    kinds: list[str]
    figures: dict[str, tuple[str, str]]
    bytes: int = 200

    @property
    def name(self) -> str:
        return self.work if self.bytes == 200 else f"{self.work}_{self.bytes // 1024}k"

    def title(self, figure: str, kind: str | None) -> str:
        name, unit = self.figures[figure]
        size = f"{self.bytes // 1024} KiB" if self.bytes != 200 else None
        return ", ".join(filter(None, [name, size, kind and KINDS[kind], unit]))


PUT_BULK = {"put_bulk": ("put in bulk", "/s")}
PUT_SINGLE = {"put_single": ("put, 64 single callers", "/s")}
TAKE = {"take": ("reserve + ack, 64 workers", "/s")}
ROWS = [
    Row("put_bulk", 50_000, list(KINDS), PUT_BULK),
    Row("put_single", 50_000, list(KINDS), PUT_SINGLE),
    Row("take", 30_000, list(KINDS), TAKE),
    Row("put_bulk", 10_000, ["own"], PUT_BULK, 4096),
    Row("put_single", 10_000, ["own"], PUT_SINGLE, 4096),
    Row("take", 10_000, ["own"], TAKE, 4096),
    Row("put_bulk", 2_000, ["own"], PUT_BULK, 65536),
    Row("put_single", 2_000, ["own"], PUT_SINGLE, 65536),
    Row("take", 2_000, ["own"], TAKE, 65536),
    Row("memory", 50_000, list(KINDS), {"memory": ("a pending message", "B")}),
    Row("storm", 50_000, [], {
        "storm": ("50,000 due at one instant → all ready", "s"),
        "ping_p99": ("PING meanwhile, p99", "ms"),
        "ping_max": ("PING meanwhile, max", "ms"),
    }),
    Row("lateness", 10_000, [], {
        "p50": ("1,000/s, due → worker, p50", "ms"),
        "p99": ("1,000/s, due → worker, p99", "ms"),
        "max": ("1,000/s, due → worker, max", "ms"),
        "early": ("… of 10,000 early", ""),
    }),
]


def build_delayq() -> None:
    run("cargo", "build", "--quiet", "--release", "-p", "delayq-bench", "--bin", "peer", cwd=ROOT)


def build_bullmq() -> None:
    run("npm", "install", "--silent", cwd=HERE / "bullmq")


def build_bunqueue() -> None:
    run("npm", "install", "--silent", cwd=HERE / "bunqueue")


def build_asynq() -> None:
    run("go", "build", "-o", str(BUILT / "asynq"), ".", cwd=HERE / "asynq")


def build_redisson() -> None:
    jars = BUILT / "redisson"
    run("mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={jars}", cwd=HERE / "redisson")
    run("javac", "-cp", f"{jars}/*", "-d", str(jars), str(HERE / "redisson" / "Bench.java"))


def build_lmstfy() -> None:
    run("go", "build", "-o", str(BUILT / "lmstfy"), ".", cwd=HERE / "lmstfy")


class Peer(NamedTuple):
    """How a peer is built, the tools that it needs, how it is called, and the kinds of ids that it has."""

    build: Callable[[], None]
    tools: list[str]
    command: list[str]
    kinds: list[str]
    # Arguments of the command after the row's.
    more: list[str] = []
    # The Redis of `scripts/servers.sh`; else that of the system.
    server: str | None = None


TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
DELAYQ = [str(TARGET / "release" / "peer")]
BUN = [str(HERE / "bunqueue" / "node_modules" / ".bin" / "bun"), str(HERE / "bunqueue" / "bench.js")]
NEWER = "redis-8.6"
PEERS = {
    "delayq": Peer(build_delayq, ["cargo"], DELAYQ, list(KINDS)),
    "delayq, 64 shards": Peer(build_delayq, ["cargo"], DELAYQ, list(KINDS), ["64"]),
    "delayq, Redis 8.6": Peer(build_delayq, ["cargo"], DELAYQ, list(KINDS), server=NEWER),
    "BullMQ": Peer(build_bullmq, ["node", "npm"], ["node", str(HERE / "bullmq" / "bench.js")], ["own", "generated"]),
    "BullMQ, Redis 8.6": Peer(build_bullmq, ["node", "npm"], ["node", str(HERE / "bullmq" / "bench.js")], ["own", "generated"],
                              server=NEWER),
    "bunqueue, memory": Peer(build_bunqueue, ["npm"], BUN, ["own", "generated"]),
    "bunqueue, SQLite": Peer(build_bunqueue, ["npm"], BUN, ["own", "generated"], ["durable"]),
    "asynq": Peer(build_asynq, ["go"], [str(BUILT / "asynq")], ["own", "generated"]),
    "Redisson": Peer(build_redisson, ["javac", "mvn"],
                     ["java", "-cp", f"{BUILT / 'redisson'}:{BUILT / 'redisson'}/*", "Bench"], ["generated"]),
    "lmstfy": Peer(build_lmstfy, ["go"], [str(BUILT / "lmstfy")], ["generated"]),
}


def run(*command: str, cwd: Path | None = None) -> None:
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL)


class Redis:
    """A redis-server of its own: append-only file, fsync each second."""

    def __init__(self, program: str) -> None:
        self.program = program

    def __enter__(self) -> "Redis":
        self.folder = tempfile.TemporaryDirectory(prefix="delayq-peers-")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.server = subprocess.Popen(
            [self.program, "--port", str(self.port), "--dir", self.folder.name, "--save", "",
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


@cache
def program(server: str | None) -> str:
    if not server:
        return "redis-server"
    return subprocess.run([ROOT / "scripts" / "servers.sh", server], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def measure(name: str, peer: Peer, row: Row, kind: str) -> dict[str, float]:
    """The figures of one run; none, if the peer has no such row, or has lost or repeated a message."""
    with Redis(program(peer.server)) as redis:
        before = redis.used_bytes()
        pings = Pings(redis.port) if row.work == "storm" else None
        command = [*peer.command, str(redis.port), row.work, str(row.count), kind, str(row.bytes), *peer.more]
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300)
            failed = f"exit code {done.returncode}" if done.returncode else None
        except subprocess.TimeoutExpired:
            failed = "no end in 300 s"
        figures = pings.stop() if pings else {}
        if failed:
            print(f"{name}, {row.name}, {kind}: {failed}", file=sys.stderr)
            return {}
        if row.work == "memory":
            figures["memory"] = (redis.used_bytes() - before) / row.count
        figures |= json.loads(done.stdout.splitlines()[-1])
        if (distinct := figures.pop("distinct", row.count)) != row.count:
            print(f"{name}, {row.name}, {kind}: only {distinct:.0f} of the first {row.count} deliveries were not repeated", file=sys.stderr)
            return {}
        return figures


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.2f}"


def cell(runs: list[float] | None) -> str:
    """The median, with the least and the most of several runs."""
    if not runs:
        return "–"
    text = number(statistics.median(runs))
    return f"{text} ({number(min(runs))} to {number(max(runs))})" if min(runs) < max(runs) else text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(PEERS), help="these alone (all but lmstfy)")
    parser.add_argument("--rows", nargs="+", choices=[row.name for row in ROWS], default=[row.name for row in ROWS])
    parser.add_argument("--runs", type=int, default=5, help="print the median of so many runs (5)")
    parser.add_argument("--into", type=Path, help="add the figures to those of this file")
    parser.add_argument("--built", action="store_true", help="build nothing: all of it was before")
    parser.add_argument("--lmstfy", type=Path, help="an lmstfy-server, to measure it too")
    wanted = parser.parse_args()
    BUILT.mkdir(parents=True, exist_ok=True)
    if wanted.lmstfy:
        PEERS["lmstfy"] = PEERS["lmstfy"]._replace(more=[str(wanted.lmstfy.resolve())])
    names = wanted.only or [name for name in PEERS if name != "lmstfy" or wanted.lmstfy]
    if "lmstfy" in names and not wanted.lmstfy:
        parser.error("lmstfy is a server of its own: name it by --lmstfy")
    peers = ready([(name, PEERS[name]) for name in names], wanted.built)
    # The runs by row and kind, then by peer, then by figure.
    taken: Taken = json.loads(wanted.into.read_text()) if wanted.into and wanted.into.exists() else {}
    for row in (row for row in ROWS if row.name in wanted.rows):
        for kind in row.kinds or [None]:
            runs: dict[str, dict[str, list[float]]] = {}
            measured = [(name, peer) for name, peer in peers if not kind or kind in peer.kinds]
            for name, peer in measured * wanted.runs:
                for figure, value in measure(name, peer, row, kind or peer.kinds[0]).items():
                    runs.setdefault(name, {}).setdefault(figure, []).append(value)
            taken.setdefault(key(row, kind), {}).update(runs)
            if wanted.into:
                wanted.into.write_text(json.dumps(taken, indent=1))
    print_table(taken)


def ready(peers: list[tuple[str, Peer]], built: bool) -> list[tuple[str, Peer]]:
    """The peers whose tools are there, built."""
    usable, built_ones = [], set()
    for name, peer in peers:
        missing = [tool for tool in peer.tools if not shutil.which(tool)]
        if missing:
            print(f"{name} is left out: no {', '.join(missing)}", file=sys.stderr)
            continue
        if not built and peer.build not in built_ones:
            peer.build()
            built_ones.add(peer.build)
        usable.append((name, peer))
    return usable


def key(row: Row, kind: str | None) -> str:
    return f"{row.name}, {kind}" if kind else row.name


def print_table(taken: Taken) -> None:
    names = [name for name in PEERS if any(name in row for row in taken.values())]
    print("| work | " + " | ".join(names) + " | delayq ÷ best peer on Redis | ÷ best peer |")
    print("| --- |" + " ---: |" * (len(names) + 2))
    for row in ROWS:
        for kind in row.kinds or [None]:
            of_peers = taken.get(key(row, kind), {})
            # No peer has groups: there delayq does more work.
            others = taken.get(key(row, "own"), {}) if kind == "grouped" else of_peers
            for figure in row.figures if of_peers else ():
                cells = [cell(of_peers.get(name, {}).get(figure)) for name in names]
                cells += [ratio(row, of_peers, others, figure, is_on_redis) for is_on_redis in (True, False)]
                print(f"| {row.title(figure, kind)} | " + " | ".join(cells) + " |")


def ratio(row: Row, of_peers: Runs, others: Runs, figure: str, on_redis: bool) -> str:
    """What delayq has of the best peer's rate, median by median, on the Redis of the system."""
    ours = of_peers.get("delayq", {}).get(figure)
    peers = [of[figure] for name, of in others.items()
             if figure in of and "delayq" not in name and not PEERS[name].server and not (on_redis and "bunqueue" in name)]
    if row.figures[figure][1] != "/s" or not ours or not peers:
        return ""
    return f"{statistics.median(ours) / max(map(statistics.median, peers)):.1f}"


if __name__ == "__main__":
    main()
