"""Late writes: a write that says when and where it was first made (E26).

A writer may give a write the version and the origin that it had elsewhere. Of two retained writes
the greater one wins, in whatever order they arrive (``kernel/last_write_wins.py``): the late one
changes nothing, and only its writer is told. A message that is not retained is never late (E27).
"""

from typing import Final

from rowcast.core.clock import WallClock, seconds_of, version_at
from rowcast.core.errors import Code, Error
from rowcast.core.events import PATCH, RETAINED, Event
from rowcast.core.limits import ORIGIN_CHARS_MAX, STAMP_AHEAD_SECONDS_MAX
from rowcast.kernel.decide import check_newer
from rowcast.kernel.last_write_wins import ORIGIN
from rowcast.kernel.write import Step, Write

_HINT: Final = "it is microseconds since 1970, or a time such as 2026-01-31T12:00:00.25Z"


def put_stamp(event: Event, version: str, origin: str) -> None:
    """Give an event the stamp that its writer says; raises INVALID for what is none.

    Without an origin its writer is taken for it.
    """
    moment = int(version) if version.isascii() and version.isdigit() else version_at(version)
    if moment is None or not 0 < moment < 1 << 53:
        raise Error(Code.INVALID, f"{version[:80]!r} is no version; {_HINT}")
    if len(origin) > ORIGIN_CHARS_MAX:
        raise Error(Code.INVALID, f"an origin has at most {ORIGIN_CHARS_MAX} characters")
    event.version = moment
    event.properties = {**(event.properties or {}), ORIGIN: origin or event.client or "?"}


def check_stamp(event: Event, now_seconds: float) -> None:
    """Raise INVALID for a stamp too far ahead of the clock, which nobody here could write after."""
    ahead = seconds_of(event.version) - now_seconds
    if ahead > STAMP_AHEAD_SECONDS_MAX:
        raise Error(
            Code.INVALID,
            f"the version is {ahead:.0f} seconds ahead of this server's clock; at most "
            f"{STAMP_AHEAD_SECONDS_MAX} are accepted, so set the clock of the writer",
        )
    if event.kind == PATCH:
        raise Error(Code.INVALID, "a patch cannot bring a version with it; put the whole record")


def late_write_step(now: WallClock) -> Step:
    """Return the step for a write that brings its version: it is decided whether it is late."""

    def step(write: Write) -> None:
        check_stamp(write.event, now())
        write.versioned = True
        if write.event.kind in RETAINED:
            write.check(check_newer)

    return step
