"""Loss accounts: gaps that a session has not been notified of yet (M4).

QoS 0 messages in transit are lost with the connection, and so are unlogged messages while the
client is offline. Both are counted, and reported when it returns. Flights and logged events are not
lost.
"""

from collections.abc import Iterable

from rowcast.doors.mqtt.delivery.notice_frame import NoticeFrame
from rowcast.doors.mqtt.sessions.session import Session
from rowcast.kernel.kernel import Kernel
from rowcast.subscriptions.gaps import Gap, GapCause, together
from rowcast.subscriptions.subscription import Subscription

_KIND_AND_QOS = 0xF6
_PUBLISH_QOS_0 = 0x30


def close(session: Session, subscription: Subscription, frames: Iterable[bytes]) -> None:
    """Count the losses of a closed connection, before its subscription is suspended.

    ``frames`` are packets that were not written.
    """
    session.gaps.unreported += session.gaps.take() + subscription.unreported_gaps()
    unwritten = Gap(GapCause.AWAY)
    for frame in frames:
        if isinstance(frame, NoticeFrame):
            session.gaps.unreported += [frame.gap] if frame.gap is not None else []
        elif frame[0] & _KIND_AND_QOS == _PUBLISH_QOS_0:
            unwritten.count = (unwritten.count or 0) + 1
    if unwritten.count:
        session.gaps.losses.add(GapCause.AWAY, unwritten.count)
        session.gaps.unreported.append(unwritten)
    session.gaps.unreported = together(session.gaps.unreported)


def begin_absence(
    kernel: Kernel, session: Session, subscription: Subscription | None = None
) -> None:
    """Start counting an offline session's losses; ``subscription`` is the suspended one.

    If read hooks apply, they are applied as for the reader; after a restart the reader is unknown,
    and nothing is counted.
    """
    counts = None
    if subscription is not None:
        if subscription.stage is not None or any(item.no_local for item in session.filters):
            counts = subscription.counts
    elif kernel.hooks.delivering or kernel.rights.active:
        return
    if session.filters:
        filters = [interest.topics for interest in session.filters]
        session.away = kernel.bus.absences.begin(filters, counts)


def end_absence(kernel: Kernel, session: Session) -> None:
    """Stop counting when the client returns, or the session ends."""
    if session.away is None:
        return
    missed = kernel.bus.absences.end(session.away)
    session.away = None
    if missed:
        session.gaps.losses.add(GapCause.AWAY, missed)
        session.gaps.unreported = together([*session.gaps.unreported, Gap(GapCause.AWAY, missed)])


def gap_facts(session: Session) -> dict[str, int]:
    """Return the pending gaps, for storage."""
    facts: dict[str, int] = {}
    for gap in session.gaps.unreported:
        facts[gap.why.value] = facts.get(gap.why.value, 0) + (gap.count or 0)
    if session.away is not None and session.away.missed:
        facts[GapCause.AWAY.value] = facts.get(GapCause.AWAY.value, 0) + session.away.missed
    return facts


def gaps_of(facts: dict[str, int]) -> list[Gap]:
    """Restore pending gaps from storage."""
    return [Gap(GapCause(why), count) for why, count in facts.items()]
