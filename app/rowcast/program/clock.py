"""The clock of the program: the system clock, guarded against jumps."""

import logging
import time
from collections.abc import Callable
from functools import partial

from rowcast.core.clock import LeapGuard

log = logging.getLogger("rowcast.clock")


def guarded_clock() -> LeapGuard:
    """Return the system clock, guarded by a monotonic clock that includes sleep."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)  # Linux only: it advances while the machine sleeps
    steady: Callable[[], float] = (
        time.monotonic if boot is None else partial(time.clock_gettime, boot)
    )
    guard = LeapGuard(time.time, steady)
    guard.on_leap = _warn
    return guard


def _warn(ahead: float, believed: bool) -> None:
    what = f"the clock was set by {ahead:+.0f} seconds"
    if believed:
        log.warning("%s and has stayed so: that is the time from now on", what)
    else:
        log.warning("%s; the time goes on as before unless it stays so for a minute", what)
