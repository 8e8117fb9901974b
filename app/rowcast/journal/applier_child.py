"""The process of the applier, as the server holds it: started, with the handles of its pipes."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rowcast.journal.pipes import SharedNumber
from rowcast.net.fork_server import Interpreters, Process, Processes

NAME: Final = "rowcast-applier"
PROGRAM: Final = "rowcast.journal.applier_main:main"


@dataclass(frozen=True)
class Child:
    """A process that waits for its first message, or works."""

    process: Process
    read: int
    """The handle of its reports."""
    write: int
    """The handle of what it is told."""
    wanted: SharedNumber
    """The number of the last batch that it is to apply."""

    def close(self) -> None:
        """Close the handles, which ends a process that was never told anything."""
        os.close(self.read)
        os.close(self.write)
        self.wanted.close()


Spawn = Callable[[], Child]
"""Starts an applier."""


def spawn_applier(processes: Processes | None = None) -> Child:
    """Start an applier; in a new interpreter unless somebody else starts processes."""
    (child_read, write), (read, child_write) = os.pipe(), os.pipe()
    wanted = SharedNumber()
    try:
        process = (processes or Interpreters()).start(
            NAME, PROGRAM, (child_read, child_write, wanted.handle)
        )
    finally:
        os.close(child_read)
        os.close(child_write)
    return Child(process, read, write, wanted)
