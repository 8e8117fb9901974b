"""A batch between its encoding, on any thread, and its append by the writer thread.

Its events and changes are for the tail. It knows no log: number and term come with the append.
"""

from collections.abc import Sequence
from typing import NamedTuple

from rowcast.core.events import Event
from rowcast.core.facts import Change
from rowcast.log.batch import Body


class Packed(NamedTuple):
    """The encoded content of a batch, and what the tail keeps of it."""

    body: Body
    events: Sequence[Event]
    changes: Sequence[Change]
