"""Dependencies of features: the components of a server that are created before the kernel."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rowcast.core.clock import WallClock
from rowcast.features.hooks.hooks import Hooks
from rowcast.journal.journaled_store import JournaledStore
from rowcast.net.fork_server import Processes
from rowcast.program.config import Config
from rowcast.program.identity import Identity
from rowcast.schema.schema import Schema
from rowcast.seams.seams import Facts


@dataclass(frozen=True, slots=True)
class Parts:
    """The components of one server."""

    config: Config
    schema: Schema
    store: JournaledStore
    facts: Callable[[str], Awaitable[Facts]]
    """Reads what an owner stored beside the records, on the writer thread."""
    identity: Identity
    now: WallClock
    hooks: Hooks
    """What files in ``resources/`` and settings have registered."""
    processes: Processes
    """Start child processes."""
