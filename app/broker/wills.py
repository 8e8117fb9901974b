"""Wills: the message that a client leaves for when it is lost (MQTT 5, 3.1.2.5).

A will is part of the session, written with it, and removed in the same transaction that publishes
it: a server that is killed publishes it when it is back, and not twice. It waits for its delay,
but no longer than the session lasts (MQTT 5, 3.1.3.2.2), and not at all when the client comes back
in time (MQTT-3.1.3-9).
"""

from typing import TYPE_CHECKING

from app.broker.messages import event_of_will
from app.core.callers import Caller
from app.core.errors import Code, Error
from app.core.limits import WILL_RETRY_SECONDS
from app.engine.write import Outcome
from app.mqtt.packets import Will
from app.store.store import Change

if TYPE_CHECKING:
    from app.broker.broker import Broker
    from app.broker.session import Session

WILL = "will"
"""The name of the fact that a will is on disk."""


def will_delay(session: "Session") -> float:
    """Return how long the will of a session waits after its client was lost, in seconds."""
    if session.will is None:
        return 0.0
    delay = (session.will.properties or {}).get("will_delay_interval", 0)
    return min(delay if isinstance(delay, int) else 0, session.expiry_seconds)


def arm(broker: "Broker", session: "Session", seconds: float) -> None:
    """Publish the will after a delay, at once if there is none."""
    if session.will is None:
        return
    if seconds <= 0:
        publish(broker, session)
    else:
        session.will_timer = broker.loop.call_later(seconds, publish, broker, session)


def disarm(session: "Session") -> None:
    """Let the will wait no longer: the client is back, or the will is published."""
    if session.will_timer is not None:
        session.will_timer.cancel()
        session.will_timer = None


def publish(broker: "Broker", session: "Session") -> None:
    """Publish the will of a session now, once (MQTT-3.1.2-8, MQTT-3.1.2-10)."""
    disarm(session)
    will, caller = session.will, session.will_caller
    session.will = session.will_caller = None
    if will is None or caller is None:
        return
    broker.wills_sent += 1
    _submit(broker, session, will, caller)


def _submit(broker: "Broker", session: "Session", will: Will, caller: Caller) -> None:
    """Publish a will; if the disk refuses, again soon: it is due, whoever comes back meanwhile."""

    def done(outcome: Outcome) -> None:
        if not isinstance(outcome, Error):
            return
        if outcome.code is Code.BUSY and not broker.stopping:
            broker.loop.call_later(WILL_RETRY_SECONDS, _submit, broker, session, will, caller)
        else:
            broker.heard_of_will(outcome)

    # A later will of the session is on disk under the same name.
    over = session.will is None
    changes = (Change(broker.keeper.owner(session), WILL, None),) if over else ()
    broker.engine.submit(event_of_will(will, session.client_id), caller, done, None, changes)


def forget(broker: "Broker", session: "Session") -> None:
    """Drop the will unpublished: the client said goodbye (MQTT-3.14.4-3)."""
    disarm(session)
    if session.will is not None:
        session.will = session.will_caller = None
        session.unsaved.append(Change(broker.keeper.owner(session), WILL, None))
