"""The clock of the whole program: the machine's, whose leaps are not believed at once."""

import logging
import time
from collections.abc import Callable
from functools import partial

from rowcast.core.clock import LeapGuard

log = logging.getLogger("rowcast.clock")


def guarded_clock() -> LeapGuard:
    """Return the machine's clock, guarded by the time that has passed, sleep included."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)  # of Linux: it goes on while the machine sleeps
    steady: Callable[[], float] = (
        time.monotonic if boot is None else partial(time.clock_gettime, boot)
    )
    guard = LeapGuard(time.time, steady)
    guard.tell = _warn
    return guard


def _warn(ahead: float, believed: bool) -> None:
    what = f"the clock was set by {ahead:+.0f} seconds"
    if believed:
        log.warning("%s and has stayed so: that is the time from now on", what)
    else:
        log.warning("%s; the time goes on as before unless it stays so for a minute", what)
