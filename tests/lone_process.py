"""Programs in a process of their own, with one thread, as only that may fork."""

import os
import subprocess
import sys
from pathlib import Path


def run(program: str, *arguments: object) -> list[str]:
    """Run a program that imports what a test can, and return its lines."""
    path = {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        env=os.environ | path,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=180,
    )
    return done.stdout.splitlines()


def has_ended(pid: str) -> bool:
    """Whether a process has ended, even if nobody has asked how."""
    try:
        return ") Z " in Path("/proc", pid, "stat").read_text()
    except OSError:
        return True
