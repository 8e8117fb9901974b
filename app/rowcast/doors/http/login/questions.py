"""Permission queries: "may I?", at ``GET /$SYS/me?read=<filter>&administer=<filter>``.

A page can check rights before it shows a control. The answer is the decision of the same act; it
is not recorded as a refusal.
"""

from collections.abc import Sequence

from rowcast.core.authentication_limits import QUESTIONS_MAX
from rowcast.core.callers import Caller
from rowcast.core.errors import Code, Error
from rowcast.core.topics import TopicFilter
from rowcast.doors.http.door import HttpDoor


def readable(edge: HttpDoor, caller: Caller, asked: Sequence[str]) -> dict[str, bool]:
    """Return for each topic whether a caller may read it.

    Raises INVALID for invalid topics or filters, and for too many.
    """
    return {text: _may_read(edge, caller, text) for text in _few(asked)}


def administered(edge: HttpDoor, caller: Caller, asked: Sequence[str]) -> dict[str, bool]:
    """Return likewise whether a caller may administer what is there."""
    return {text: _may_administer(edge, caller, text) for text in _few(asked)}


def _few(asked: Sequence[str], most: int = QUESTIONS_MAX) -> Sequence[str]:
    if len(asked) > most:
        raise Error(Code.INVALID, f"ask about {most} topics at a time, not {len(asked)}")
    return asked


def _may_administer(edge: HttpDoor, caller: Caller, text: str) -> bool:
    text = edge.kernel.registry.named(text)
    TopicFilter(text)  # which refuses what is none
    return edge.kernel.rights.allows(caller, "administer", text)


def _may_read(edge: HttpDoor, caller: Caller, text: str) -> bool:
    text = edge.kernel.registry.named(text)
    exact = TopicFilter(text).exact
    kernel = edge.kernel
    if not kernel.rights.allows(caller, "read" if exact else "subscribe", text):
        return False
    return not exact or kernel.visibility.passes(caller, text)
