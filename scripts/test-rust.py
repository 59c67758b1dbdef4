#!/usr/bin/env python3
"""Builds and runs the tests of the workspace, with these options of cargo test: two test binaries at a time, since most
tests wait for servers, then one by one those that measure times. With `--clients`, the tests of the clients in other languages
run beside the former. The output of each is printed when it has ended. Finally come the slowest tests, the tests' remarks
(SKIPPED: the machine does not allow the test; INCONCLUSIVE: the machine was too busy), and the failures.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
AT_ONCE = int(os.environ.get("DELAYQ_TEST_BINARIES", "2"))
# The longest start first, so that none of them runs alone at the end.
FIRST = ["cli", "intake", "sinks", "outbox", "integration", "shapes", "protocol"]
# Most of their tests measure times.
ALONE = {"crowd", "timer"}
# Threads a core, where tests wait for servers to start, to fail over, or to be noticed as gone. Fewer where they measure times.
THREADS = {"compensator": 2, "intake": 2, "shapes": 2, "timer": 1.5}
SLOWEST = 30
# Lines of a failed test that the summary repeats.
SHOWN = 12
CLIENTS = "clients in other languages"


def binaries(options):
    """Builds the test binaries; the name, program and package folder of each."""
    command = ["cargo", "test", "--no-run", "--message-format=json-render-diagnostics", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as cargo:
        for line in cargo.stdout:
            message = json.loads(line)
            if message.get("executable") and message["profile"]["test"]:
                yield message["target"]["name"], message["executable"], Path(message["manifest_path"]).parent
    if cargo.returncode:
        sys.exit(cargo.returncode)


def run(name, program, folder, arguments):
    """As `heard`, of a test binary."""
    threads = int(os.cpu_count() * THREADS.get(name, 1))
    # libtest hides the option from stable toolchains.
    environment = {"RUST_TEST_THREADS": str(threads), **os.environ, "RUSTC_BOOTSTRAP": "1"}
    return heard([program, "-Z", "unstable-options", "--report-time", *arguments], folder, environment)


def heard(command, folder=ROOT, environment=None):
    """The exit code of a command, what it printed, its seconds, and the processor's seconds, those of its servers included."""
    start = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=said, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        return process.returncode, said.read(), time.monotonic() - start, used.ru_utime + used.ru_stime


def failures(name, text):
    """The tests that failed: of Rust with what they printed from their panic on, of other languages by their runner's line."""
    if name == CLIENTS:
        named = r"^(?:FAILED|ERROR) .*|^✖ .*ms\)$|^\s*--- FAIL: .*|^thread .* panicked at .*"
        yield from dict.fromkeys(re.findall(named, text, re.M))
    for test in re.findall(r"^test (\S+) .*\.\.\. FAILED", text, re.M):
        output = re.search(rf"^---- {re.escape(test)} stdout ----\n(.*?)(?=^---- |^failures:)", text, re.M | re.S)
        panic = re.search(r"^[^\n]* panicked at .*", output[1], re.M | re.S) if output else None
        shown = panic[0].splitlines()[:SHOWN] if panic else []
        yield "\n    ".join([f"FAILED {name} {test}", *shown])


def summary(outputs):
    """The slowest tests, all remarks, and the failures, from the output of each binary."""
    times, failed, remarks = [], [], []
    for name, text in outputs.items():
        for test, seconds in re.findall(r"^test (\S+) .*<([0-9.]+)s>$", text, re.M):
            times.append((float(seconds), name, test))
        failed += failures(name, text)
        remarks += re.findall(r"^(?:SKIPPED|INCONCLUSIVE) .*", text, re.M)
    print("tests: the slowest")
    for seconds, name, test in sorted(times, reverse=True)[:SLOWEST]:
        print(f"{seconds:8.1f} s  {name} {test}")
    skipped = sum(remark.startswith("SKIPPED") for remark in remarks)
    print(f"tests: {len(times)} ran, {len(failed)} failed, {skipped} skipped, {len(remarks) - skipped} inconclusive")
    print("\n".join(remarks + failed))


def run_all(found, arguments, with_clients):
    """The output of each of these binaries, and the names of those that failed."""
    outputs, failed = {}, []
    for is_alone, at_once in (False, AT_ONCE), (True, 1):
        clients = {CLIENTS: ["scripts/test-clients.sh", "installed"]} if with_clients and not is_alone else {}
        with ThreadPoolExecutor(at_once + len(clients)) as pool:
            running = {pool.submit(heard, command): name for name, command in clients.items()}
            some = [binary for binary in found if (binary[0] in ALONE) == is_alone]
            running |= {pool.submit(run, *binary, arguments): binary[0] for binary in some}
            for ended in as_completed(running):
                name, (status, text, seconds, used) = running[ended], ended.result()
                outputs[name] = outputs.get(name, "") + text
                print(f"=== {name}: {seconds:.0f} s, {used:.0f} s of processors\n{text}", flush=True)
                if status:
                    failed.append(name)
    return outputs, failed


def main(options):
    cut = options.index("--") if "--" in options else len(options)
    options, arguments = options[:cut], options[cut + 1 :]
    with_clients = "--clients" in options
    options = [option for option in options if option != "--clients"]
    found = sorted(binaries(options), key=lambda binary: FIRST.index(binary[0]) if binary[0] in FIRST else len(FIRST))
    outputs, failed = run_all(found, arguments, with_clients)
    if not {"--test", "--lib", "--bins"}.intersection(options):
        if subprocess.call(["cargo", "test", "--doc", *options, "--", *arguments], cwd=ROOT):
            failed.append("examples of the documentation")
    summary(outputs)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


main(sys.argv[1:])
