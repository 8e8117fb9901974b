"""Functions that a child process runs in tests; it imports nothing else of them."""

import os
import threading
from pathlib import Path

from rowcast.core.errors import Code, Error


def refuse(message, place):
    """Raise an Error with all that one may have."""
    error = Error(Code.TOO_LARGE, message, allow=["GET"])
    error.place = place
    raise error


def hang_once(mark):
    """Wait for the end of this process, unless another has waited here."""
    mark = Path(mark)
    if not mark.exists():
        part = mark.with_suffix(".part")
        part.write_text(str(os.getpid()))
        part.rename(mark)
        threading.Event().wait()
    return os.getpid()


def slowly():
    """Take some time."""
    threading.Event().wait(0.02)
    return os.getpid()
