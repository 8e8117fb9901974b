"""Permission queries: "may I read this?", at ``GET /$SYS/me?read=<topic or filter>``.

A page can check rights before it shows a control. The answer is the decision of the same read; it
is not recorded as a refusal.
"""

from collections.abc import Sequence

from rowcast.core.callers import Caller
from rowcast.core.entry_limits import QUESTIONS_MAX
from rowcast.core.errors import Code, Error
from rowcast.core.topics import TopicFilter
from rowcast.doors.http.door import HttpDoor


def readable(
    edge: HttpDoor, caller: Caller, asked: Sequence[str], most: int = QUESTIONS_MAX
) -> dict[str, bool]:
    """Return for each topic whether a caller may read it.

    Raises INVALID for invalid topics or filters, and for too many.
    """
    if len(asked) > most:
        raise Error(Code.INVALID, f"ask about {most} topics at a time, not {len(asked)}")
    return {text: _may_read(edge, caller, text) for text in asked}


def _may_read(edge: HttpDoor, caller: Caller, text: str) -> bool:
    text = edge.kernel.registry.named(text)
    exact = TopicFilter(text).exact
    kernel = edge.kernel
    if not kernel.rights.allows(caller, "read" if exact else "subscribe", text):
        return False
    return not exact or kernel.visibility.passes(caller, text)
