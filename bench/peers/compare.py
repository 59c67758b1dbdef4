#!/usr/bin/env python3
"""Measures delayq and other delay queues on Redis by the same work, each alone on a fresh redis-server, and prints a table.

    compare.py [--only NAME ...] [--rows ROW ...] [--runs N] [--into FILE] [--built] [--lmstfy PATH]

With --into, the figures are added to those that the file has, and the table shows all of them: so rows can be measured in
parts. Needs redis-server, cargo, node with npm, go, java with maven; a peer whose tools are missing is left out by name.
README.md describes what differs between the peers.
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
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILT = ROOT / "target" / "peers"

# The kinds of ids, with their names in tables. A table omits a peer without groups, or without own ids, for that kind.
KINDS = {
    "own": "own ids",
    "grouped": "own ids and groups",
    "generated": "generated ids",
}
# Row of the programs, messages, kinds of ids, and the table's names and units of the figures. For a row without kinds,
# each peer uses its first kind.
ROWS = [
    ("put_bulk", 50_000, list(KINDS), {"put_bulk": ("put in bulk", "/s")}),
    ("put_single", 50_000, list(KINDS), {"put_single": ("put, 64 single callers", "/s")}),
    ("take", 30_000, list(KINDS), {"take": ("reserve + ack, 64 workers", "/s")}),
    ("memory", 50_000, list(KINDS), {"memory": ("a pending message", "B")}),
    ("storm", 50_000, [], {
        "storm": ("50,000 due at one instant → all ready", "s"),
        "ping_p99": ("PING meanwhile, p99", "ms"),
        "ping_max": ("PING meanwhile, max", "ms"),
    }),
    ("lateness", 10_000, [], {
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


def build_asynq() -> None:
    run("go", "build", "-o", str(BUILT / "asynq"), ".", cwd=HERE / "asynq")


def build_redisson() -> None:
    jars = BUILT / "redisson"
    run("mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={jars}", cwd=HERE / "redisson")
    run("javac", "-cp", f"{jars}/*", "-d", str(jars), str(HERE / "redisson" / "Bench.java"))


def build_lmstfy() -> None:
    run("go", "build", "-o", str(BUILT / "lmstfy"), ".", cwd=HERE / "lmstfy")


class Peer:
    """How a peer is built, the tools that it needs, how it is called, and the kinds of ids that it has."""

    def __init__(self, build: Callable[[], None], tools: list[str], command: list[str], kinds: list[str],
                 more: list[str] | None = None) -> None:
        self.build, self.tools, self.command, self.kinds = build, tools, command, kinds
        # Arguments of the command after the row.
        self.more = more or []

    def command_of(self, port: int, row: str, count: int, kind: str) -> list[str]:
        return [*self.command, str(port), row, str(count), kind, *self.more]


TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
DELAYQ = [str(TARGET / "release" / "peer")]
PEERS = {
    "delayq": Peer(build_delayq, ["cargo"], DELAYQ, list(KINDS)),
    "delayq, 64 shards": Peer(build_delayq, ["cargo"], DELAYQ, list(KINDS), ["64"]),
    "BullMQ": Peer(build_bullmq, ["node", "npm"], ["node", str(HERE / "bullmq" / "bench.js")], ["own", "generated"]),
    "asynq": Peer(build_asynq, ["go"], [str(BUILT / "asynq")], ["own", "generated"]),
    "Redisson": Peer(build_redisson, ["javac", "mvn"],
                     ["java", "-cp", f"{BUILT / 'redisson'}:{BUILT / 'redisson'}/*", "Bench"], ["generated"]),
    "lmstfy": Peer(build_lmstfy, ["go"], [str(BUILT / "lmstfy")], ["generated"]),
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


def measure(peer: Peer, row: str, count: int, kind: str) -> dict[str, float]:
    with Redis() as redis:
        before = redis.used_bytes()
        pings = Pings(redis.port) if row == "storm" else None
        command = peer.command_of(redis.port, row, count, kind)
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300)
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
    parser.add_argument("--only", nargs="+", choices=list(PEERS), help="these alone (all but lmstfy)")
    parser.add_argument("--rows", nargs="+", choices=[row[0] for row in ROWS], default=[row[0] for row in ROWS])
    parser.add_argument("--runs", type=int, default=3, help="print the median of so many runs (3)")
    parser.add_argument("--into", type=Path, help="add the figures to those of this file")
    parser.add_argument("--built", action="store_true", help="build nothing: all of it was before")
    parser.add_argument("--lmstfy", type=Path, help="an lmstfy-server, to measure it too")
    wanted = parser.parse_args()
    BUILT.mkdir(parents=True, exist_ok=True)
    if wanted.lmstfy:
        PEERS["lmstfy"].more = [str(wanted.lmstfy.resolve())]
    names = wanted.only or [name for name in PEERS if name != "lmstfy" or wanted.lmstfy]
    if "lmstfy" in names and not wanted.lmstfy:
        parser.error("lmstfy is a server of its own: name it by --lmstfy")
    peers = ready([(name, PEERS[name]) for name in names], wanted.built)
    # Figures by row and kind, then by peer, then by name.
    taken = json.loads(wanted.into.read_text()) if wanted.into and wanted.into.exists() else {}
    for row, count, kinds, _ in (row for row in ROWS if row[0] in wanted.rows):
        for key, name, peer, kind in measurements(row, kinds, peers):
            runs = [measure(peer, row, count, kind) for _ in range(wanted.runs)]
            taken.setdefault(key, {})[name] = {
                figure: statistics.median(one[figure] for one in runs if figure in one)
                for figure in {figure for one in runs for figure in one}
            }
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


def measurements(row: str, kinds: list[str], peers: list[tuple[str, Peer]]) -> Iterator[tuple[str, str, Peer, str]]:
    """What to measure for a row: its key, the peer's name, the peer, the kind of ids."""
    for name, peer in peers if not kinds else []:
        yield row, name, peer, peer.kinds[0]
    for kind in kinds:
        for name, peer in peers:
            if kind in peer.kinds:
                yield f"{row}, {kind}", name, peer, kind


def print_table(taken: dict[str, dict[str, dict[str, float]]]) -> None:
    names = [name for name in PEERS if any(name in row for row in taken.values())]
    print("| work | " + " | ".join(names) + " | delayq ÷ best peer |")
    print("| --- |" + " ---: |" * (len(names) + 1))
    for row, _, kinds, figures in ROWS:
        for kind in kinds or [None]:
            of_peers = taken.get(f"{row}, {kind}" if kind else row, {})
            for figure, (title, unit) in figures.items() if of_peers else ():
                values = {name: of_peers.get(name, {}).get(figure) for name in names}
                title += f", {KINDS[kind]}" if kind else ""
                title += f", {unit}" if unit else ""
                # No peer has groups: there delayq does more work.
                others = taken[f"{row}, own"] if kind == "grouped" else of_peers
                cells = [*map(number, values.values()), ratio(values.get("delayq"), figure, unit, others)]
                print(f"| {title} | " + " | ".join(cells) + " |")


def ratio(delayq: float | None, figure: str, unit: str, peers: dict[str, dict[str, float]]) -> str:
    """What delayq has of the best peer's rate."""
    best = max((of[figure] for name, of in peers.items() if "delayq" not in name and figure in of), default=None)
    return f"{delayq / best:.1f}" if unit == "/s" and delayq and best else ""


if __name__ == "__main__":
    main()
