"""Beginning: where in the log an interest starts that goes on after a cursor.

A cursor may be of another log, or beyond the end of this one; then the reader is told once, and
starts anew. It reads nothing itself and knows no protocol.
"""

from rowcast.core.cursors import parse_cursor
from rowcast.subscriptions.subscribed_filters import SubscribedFilter
from rowcast.subscriptions.subscription import Subscription


def position_in(
    log: tuple[str, int],
    subscription: Subscription,
    interest: SubscribedFilter,
    since: str | int | None,
) -> int | None:
    """Return the position to continue after; None when the interest begins with what is there.

    ``log`` is its epoch and the end of what is stored. A cursor that leads nowhere gives the
    subscription one RESET (C11). Raises INVALID for what is no cursor.
    """
    if since is None or isinstance(since, int):
        return since
    cursor, (epoch, stored) = parse_cursor(since), log
    if cursor.epoch != epoch:
        subscription.restart("the cursor is of another log", since, interest)
        return None
    if cursor.seq > stored:  # a page of the log may run ahead of the bus
        subscription.restart("the cursor is beyond the end of the log", since, interest)
        return None
    return cursor.seq
