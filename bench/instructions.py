"""Counts the instructions of the server for each message, with Valgrind's tool callgrind.

CPU time depends on what else the machine does and on its processor; a count of instructions does
not, so a change of a few per cent is seen on a busy machine, too. It is no speed: the kernel's work
and waits for memory are not in it. Counted is the server's own process, without the applier's.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.case import Case
from bench.cases import CASES
from bench.generator import LOADS
from bench.proc import BenchError
from bench.servers import OURS, start_ours

READY_SECONDS = 300.0
"""A start takes some twenty times as long as without Valgrind, and longer on a busy machine."""
CONTROL_TIMEOUT_SECONDS = 60
LOADS_COUNTED = frozenset({"flow", "one"})
USUAL = (
    "mqtt-1-1-q0",
    "mqtt-100-1-q0",
    "mqtt-one-q0",
    "mqtt-1-1-q1",
    "mqtt-1-1-q2",
    "mqtt-1-1-q0-log",
    "mqtt-retained",
)

Control = Callable[..., None]
"""Tells callgrind in a process what to do: ``control("-i", "on", "1234")``."""


class Callgrind:
    """The instructions of a process since the first call, which begins to count them."""

    def __init__(self, pid: int, folder: Path, control: Control) -> None:
        self._pid, self._folder, self._control = str(pid), folder, control
        self._counts = False

    def __call__(self) -> float:
        """Return 0 and begin to count, or, the second time, end that and return the count."""
        if not self._counts:
            self._counts = True
            self._control("-i", "on", self._pid)
            return 0.0
        self._control("-i", "off", self._pid)
        self._control("-d", self._pid)
        return float(total_in(self._folder, self._pid))


def total_in(folder: Path, pid: str) -> int:
    """Return the instructions in what callgrind has written of a process; BenchError for none."""
    totals = [
        int(line.split()[1])
        for file in folder.glob(f"callgrind.{pid}*")
        for line in file.read_text(errors="replace").splitlines()
        if line.startswith("totals:")
    ]
    if not any(totals):
        raise BenchError(f"callgrind has counted nothing of process {pid}, in {folder}")
    return sum(totals)


def control(*arguments: str) -> None:
    """Run callgrind_control, which belongs to Valgrind."""
    command = ["callgrind_control", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=CONTROL_TIMEOUT_SECONDS
    )
    if done.returncode:
        raise BenchError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")


def count(case: Case, folder: Path, seconds: float) -> float:
    """Return the instructions for each message of a case, counted for so many seconds."""
    output = folder / "callgrind.%p"
    wrapper = ["valgrind", "--tool=callgrind", "--instr-atstart=no"]
    wrapper += [f"--callgrind-out-file={output}", sys.executable]
    folder.mkdir()
    server = start_ours(OURS, folder, frozenset(), case.undeclared, wrapper=wrapper)
    try:
        server.process.wait_ready([server.mqtt_port], READY_SECONDS)
        counter = Callgrind(server.process.pid, folder, control)
        spec = {**case.load, "mqtt_port": server.mqtt_port, "pid": server.process.pid}
        spec |= {"warmup": seconds, "seconds": seconds, "counter": counter}
        figures = LOADS[spec["load"]](spec)
    finally:
        server.process.stop()
    return figures["server_us"] / 1e6


def main() -> int:
    """Print the instructions for each message of the cases that were asked for."""
    options = parse()
    if not shutil.which("valgrind"):
        print("instructions: Valgrind is not installed (Debian package valgrind)", file=sys.stderr)
        return 1
    for case in CASES:
        if case.name not in options.case:
            continue
        with tempfile.TemporaryDirectory() as folder:
            figure = count(case, Path(folder) / "server", options.seconds)
        print(f"{case.title:70} {figure:10,.0f} instructions for each message", flush=True)
    return 0


def parse() -> argparse.Namespace:
    """Read the command line."""
    names = [case.name for case in CASES if case.load["load"] in LOADS_COUNTED]
    parser = argparse.ArgumentParser(prog="instructions", description=__doc__.splitlines()[0])
    parser.add_argument("case", nargs="*", metavar="CASE", choices=names, default=list(USUAL))
    parser.add_argument("--seconds", type=float, default=5.0, help="counted time (5)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
