"""The server that is attacked, and what it uses: memory, descriptors, sessions, tasks."""

import base64
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bench.proc import PAGE_BYTES, Process, free_port
from securing import Authority, ServerFiles

SCHEMA = """\
type Probe @table @export { id: ID @primaryKey v: Long }
type Free @table @export
type Wide @table @export { id: ID @primaryKey name: String text: String n: Long }
type Indexed @table @export { id: ID @primaryKey n: Long @indexed text: String }
"""
SETTLE_SECONDS_MAX = 45.0
"""For what was used to come back: above every time that a door gives a silent peer."""
SAMPLE_SECONDS = 0.1
PROGRAM = """
import asyncio, json, os, signal, sys, time
from pathlib import Path

FACTS = Path(sys.argv.pop(1))
longest = 0.0
if "ABUSE_UVLOOP" not in os.environ:
    sys.modules["uvloop"] = None  # its calls cannot be timed
run = asyncio.events.Handle._run

def timed(handle):
    global longest
    begun = time.thread_time()
    run(handle)
    longest = max(longest, time.thread_time() - begun)

def tell(*_):
    global longest
    try:
        tasks = len(asyncio.all_tasks())
    except RuntimeError:
        return
    part = FACTS.with_suffix(".part")
    part.write_text(json.dumps({"tasks": tasks, "longest": longest}))
    longest = 0.0
    part.replace(FACTS)

asyncio.events.Handle._run = timed
signal.signal(signal.SIGUSR2, tell)
from rowcast.program.cli import main
main()
"""
"""The server's own program, which also says, when it is asked, how many tasks there are, and how
much CPU the longest call within the loop took since: that stopped all others, on any machine."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where the server is, for those who attack it in a process of their own."""

    mqtt_port: int
    http_port: int
    tls_port: int
    authority: str
    pid: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What the server uses at a moment."""

    rss: int
    descriptors: int
    sessions: int
    tasks: int
    longest: float
    """CPU seconds of the longest call within the loop since the last look."""


class Victim:
    """A server that runs; ``stop`` ends it."""

    def __init__(
        self, folder: Path, settings: list[str], people: Mapping[str, str] | None = None
    ) -> None:
        self._people = people or {}
        """Administrators and their passwords, who are made before it starts."""
        self.signs_in = False
        """Whether figures are asked for as one of them: rules hide them from others."""
        self._facts = folder / "facts.json"
        schema = folder / "schema.graphql"
        schema.write_text(SCHEMA)
        authority = Authority(folder)
        files = ServerFiles(folder, authority.issue("localhost", "127.0.0.1"))
        ports = [free_port() for _ in range(3)]
        given = {
            "http.port": ports[0],
            "mqtt.network.port": ports[1],
            "mqtt.network.securePort": ports[2],
            "http.securePort": "off",
            "tls.certificate": files.certificate,
            "tls.privateKey": files.key,
        }
        for name, password in self._people.items():
            program = [
                sys.executable,
                "-c",
                "from rowcast.program.cli import main; main()",
                "user",
                "add",
                name,
            ]
            subprocess.run(
                [*program, "--role", "admin", "--data", folder / "data"],
                input=password.encode() + b"\n",
                cwd=folder,
                check=True,
                stdout=subprocess.DEVNULL,
            )
        command: list[str | Path] = [sys.executable, "-c", PROGRAM, self._facts, "serve"]
        command += ["--schema", schema, "--data", folder / "data"]
        command += [f"--set={name}={value}" for name, value in given.items()]
        command += [f"--set={setting}" for setting in settings]
        self.process = Process(command, folder / "server.log")
        self.process.wait_ready(ports)
        self.target = Target(ports[1], ports[0], ports[2], str(authority.file), self.process.pid)

    def usage(self) -> Usage:
        """Look at what it uses now."""
        pid = self.process.pid
        tasks, longest = self._loop()
        return Usage(
            rss(pid), len(list(Path(f"/proc/{pid}/fd").iterdir())), self._sessions(), tasks, longest
        )

    def settled(self, before: Usage) -> Usage:
        """Wait until descriptors, sessions and tasks are no more than before; say what is."""
        limit = time.monotonic() + SETTLE_SECONDS_MAX
        while True:
            now = self.usage()
            back = (
                now.descriptors <= before.descriptors + 2
                and now.sessions <= before.sessions
                and now.tasks <= before.tasks + 2
            )
            if back or time.monotonic() > limit:
                return now
            time.sleep(0.5)

    def _sessions(self) -> int:
        (line,) = re.findall(rb"^broker_clients_total (\d+)", self.get("/metrics"), re.MULTILINE)
        return int(line)

    def get(self, path: str) -> bytes:
        """Return what is at a path."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.target.http_port}{path}")
        for name, password in self._people.items() if self.signs_in else ():
            shown = base64.b64encode(f"{name}:{password}".encode()).decode()
            request.add_header("Authorization", f"Basic {shown}")
        with urllib.request.urlopen(request, timeout=SETTLE_SECONDS_MAX) as answer:
            data: bytes = answer.read()
        return data

    def _loop(self) -> tuple[int, float]:
        self._facts.unlink(missing_ok=True)
        os.kill(self.process.pid, signal.SIGUSR2)
        limit = time.monotonic() + SETTLE_SECONDS_MAX
        while not self._facts.exists():
            if time.monotonic() > limit:
                return -1, SETTLE_SECONDS_MAX
            time.sleep(0.01)
        said = json.loads(self._facts.read_text())
        return int(said["tasks"]), float(said["longest"])

    def stop(self) -> None:
        """End it."""
        self.process.stop()


def rss(pid: int) -> int:
    """Return the resident memory of a process and of its children."""
    pids = [str(pid)]
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            pids += (thread / "children").read_text().split()
    pages = 0
    for one in dict.fromkeys(pids):
        with suppress(OSError):
            pages += int(Path(f"/proc/{one}/statm").read_text().split()[1])
    return pages * PAGE_BYTES


class Peak:
    """The most memory that a process had while this was watching."""

    def __init__(self, pid: int) -> None:
        self.most = 0
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            try:
                self.most = max(self.most, rss(self._pid))
            except OSError:
                return
