"""Rounds: every server of a case in turn, the order rotating, each generator a fresh process."""

import json
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.case import Case
from bench.proc import BenchError, Placement, child_setup
from bench.servers import OURS, Server, start

ROOT = Path(__file__).resolve().parents[1]
WARMUP_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line asked for."""

    rounds: int
    seconds: float
    directory: str | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    """How many connections, sessions, messages or clients instead of what a case says."""
    against: str | None = None
    peers: frozenset[str] | None = None
    placement: Placement = field(default_factory=Placement)


@dataclass(slots=True)
class Outcome:
    """What came of a case: figures of each round by server, and why a server has none."""

    case: Case
    rounds: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


def run_case(case: Case, settings: Settings) -> Outcome:
    """Run all rounds of a case."""
    names = [OURS, *case.peers]
    if settings.peers is not None:
        names = [name for name in names if name in settings.peers]
    if settings.against:
        names.append(f"{OURS}@{settings.against}")
    outcome = Outcome(case, {name: [] for name in names})
    with TemporaryDirectory(prefix="rowcast-bench-", dir=settings.directory) as directory:
        Path(directory).chmod(0o755)  # Mosquitto reads its files as a user of its own
        with ExitStack() as stack:
            running: dict[str, Server] = {}
            for number in range(min(settings.rounds, case.rounds_max or settings.rounds)):
                turn = number % len(names)
                for name in names[turn:] + names[:turn]:
                    place = Path(directory) / f"{name.replace('/', '-')}-{number}"
                    _one_round(outcome, settings, name, place, running, stack)
    return outcome


def _one_round(
    outcome: Outcome,
    settings: Settings,
    name: str,
    place: Path,
    running: dict[str, Server],
    stack: ExitStack,
) -> None:
    if name in outcome.failures:
        return
    case = outcome.case
    try:
        if case.fresh and name in running:
            running.pop(name).process.stop()
        if name not in running:
            cores = settings.placement.servers
            running[name] = start(name, place, cores, case.undeclared, case.features)
            stack.callback(running[name].process.stop)
        outcome.rounds[name].append(generate(case, settings, running[name]))
    except (BenchError, OSError, subprocess.SubprocessError) as error:
        outcome.failures[name] = str(error)
        print(f"bench: {case.name}: {name} LEFT OUT: {error}", file=sys.stderr, flush=True)
        if name in running:
            running[name].process.stop()
            print(running[name].process.tail(), file=sys.stderr, flush=True)


def load_of(case: Case, settings: Settings, server: Server) -> dict[str, Any]:
    """Return what the generator is told."""
    load = {**case.load, **case.peer_load.get(server.name, {})}
    sizes = {name: size for name, size in settings.sizes.items() if name in load}
    return {
        **load,
        **sizes,
        "pid": server.process.pid,
        "mqtt_port": server.mqtt_port,
        "http_port": server.http_port,
        "data": str(server.data or ""),
        "seconds": settings.seconds,
        "warmup": settings.seconds * WARMUP_SHARE,
    }


def generate(case: Case, settings: Settings, server: Server) -> dict[str, float]:
    """Run the generator once and return its figures."""
    command = [sys.executable, "-m", "bench.generator"]
    child = subprocess.Popen(
        [*command, json.dumps(load_of(case, settings, server))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        start_new_session=True,
        preexec_fn=child_setup(settings.placement.generator),  # noqa: PLW1509 - no threads here
    )
    try:
        out, errors = child.communicate(timeout=2 * settings.seconds + case.spare_seconds)
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
    if child.returncode:
        raise BenchError(f"generator: {errors.decode()[-800:].strip()}")
    figures: dict[str, float] = json.loads(out)
    if not figures.get(case.metric):
        raise BenchError(f"no {case.metric} was measured: {figures}")
    return figures
