"""The facts without which a figure says nothing: machine, versions, method."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.runner import WARMUP_SHARE, Settings
from bench.servers import PEERS_VENV, ROOT, mosquitto_binary
from rowcast.core.compiled import CODE

PACKAGES = ("rowcast", "fastapi", "uvicorn", "uvloop", "sqlmodel", "sse-starlette", "websockets")


PEERS_FACT = (
    "Mosquitto: one listener, anonymous, persistence off (sessions and queues in memory), "
    "everything else its default (max_queued_messages 1000, listen backlog 100); "
    "mosquitto-unlimited: also max_inflight_messages 0. amqtt: one listener, anonymous. uvicorn: "
    "defaults (uvloop and httptools where installed), no access log."
)
CPU_FACT = (
    "CPU us each: the CPU time of all processes of the server for each message, ours / peer; "
    "steadier than throughput when the machine is busy. A server that loses more than 0.1 % of "
    "the messages is not judged."
)


def facts(settings: Settings) -> list[str]:
    """Return the facts as sentences."""
    machine = f"{processor()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}"
    load = f"load average {os.getloadavg()[0]:.1f} after the run"
    warmup = f"{settings.seconds * WARMUP_SHARE:g} s of warm-up"
    rounds = f"{settings.rounds} interleaved rounds of {settings.seconds:g} s after {warmup}"
    processes = f"every server and the generator a process of its own{cores(settings)}"
    return [
        f"Machine: {machine}; Python {platform.python_version()}; {load}.",
        f"Versions: {', '.join(versions())}; revision {revision()}.",
        f"Rowcast's hot modules are {CODE}.",
        f"Medians of {rounds}; {processes}. Only ratios inside one run mean something.",
        PEERS_FACT,
        CPU_FACT,
    ]


def cores(settings: Settings) -> str:
    """Return which cores are whose."""
    placement = settings.placement
    if not placement.generator:
        return ""
    servers, generator = sorted(placement.servers), sorted(placement.generator)
    return f", servers on cores {servers}, generator on {generator}"


def processor() -> str:
    """Return the processor's name."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def versions() -> list[str]:
    """Return name and version of everything under load."""
    out = [f"{name} {package_version(name)}" for name in PACKAGES]
    binary = mosquitto_binary()
    if binary:
        words = first_output([binary, "-h"]).split()
        out.append(f"Mosquitto {words[-1] if words else 'unknown'}")
    metadata = sorted(PEERS_VENV.glob("lib/python*/site-packages/amqtt-*.dist-info"))
    return out + [f"amqtt {path.name.split('-')[1].removesuffix('.dist')}" for path in metadata]


def package_version(name: str) -> str:
    """Return a package's version."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def revision() -> str:
    """Return the commit that is measured."""
    return first_output(["git", "-C", str(ROOT), "describe", "--always", "--dirty"]) or "unknown"


def first_output(command: list[str]) -> str:
    """Return the first line a command prints."""
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    return done.stdout.partition("\n")[0].strip()
