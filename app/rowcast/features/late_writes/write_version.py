"""Late writes: writes with the version and origin of their first write (E26).

A writer may set the version and the origin that a write had elsewhere. Of two retained writes the
greater one wins, in any order of arrival (``writes/last_write_wins.py``): the late one has no
effect, and only its writer is notified. A message that is not retained is never late (E27).
"""

from rowcast.core.clock import WallClock, seconds_of
from rowcast.core.errors import Code, Error
from rowcast.core.events import PATCH, RETAINED, Event, Record
from rowcast.core.limits import STAMP_AHEAD_SECONDS_MAX
from rowcast.writes.last_write_wins import is_late, stamp_of
from rowcast.writes.write import Current, Step, Write


def check_stamp(event: Event, now_seconds: float) -> None:
    """Raise INVALID for a stamp too far ahead of the clock, which would block later writes here."""
    ahead = seconds_of(event.version) - now_seconds
    if ahead > STAMP_AHEAD_SECONDS_MAX:
        raise Error(
            Code.INVALID,
            f"the version is {ahead:.0f} seconds ahead of this server's clock; at most "
            f"{STAMP_AHEAD_SECONDS_MAX} are accepted, so set the clock of the writer",
        )
    if event.kind == PATCH:
        raise Error(Code.INVALID, "a patch cannot bring a version with it; put the whole record")


def check_newer(write: Write, record: Record | None, current: Current) -> int:
    """Return the version that wins over a stamped write; 0 if it is the newest."""
    event = write.event
    known = current.tombstones.get(event.topic, (0, ""))
    if record is not None:
        known = stamp_of(record, current.epoch)
    return known[0] if is_late(event, known) and known[0] <= current.ceiling else 0


def late_write_step(now: WallClock) -> Step:
    """Return the step for stamped writes, which adds the decision whether they are late."""

    def step(write: Write) -> None:
        check_stamp(write.event, now())
        write.versioned = True
        if write.event.kind in RETAINED:
            write.check(check_newer)

    return step
