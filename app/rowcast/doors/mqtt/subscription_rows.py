"""Rows of ``$SYS/subscriptions``: one for each filter of each session (M11).

An id has the client id and the filter, percent-encoded because neither need be a topic:
``sensor-7/home/%23``. Deleting a row ends the subscription, as if its client had.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from rowcast.core.errors import Code, Error
from rowcast.doors.mqtt.session_rows import subscription_facts, subscriptions_of
from rowcast.doors.mqtt.sessions.observers import SUBSCRIPTIONS, client_id_and_filter
from rowcast.routes.system_rows import SystemRows

if TYPE_CHECKING:
    from rowcast.doors.mqtt.broker import Broker
    from rowcast.doors.mqtt.sessions.session import Session

Facts = dict[str, object]


def subscription_rows(broker: "Broker") -> type[SystemRows]:
    """Return the resource class that lists and ends the subscriptions of a broker's clients."""

    class SubscriptionRows(SystemRows):
        """One row for each filter of each client, connected or not."""

        path = SUBSCRIPTIONS

        def names(self) -> Sequence[str]:
            return list(_names(broker))

        def row(self, name: str, *, whole: bool) -> Facts | None:  # noqa: ARG002 - it is short
            return _row(broker, name)

        async def delete(self) -> None:
            """End a client's subscription."""
            session, text = _meant(broker, self.id)
            if session is None or not _end(broker, session, text):
                raise Error(Code.NOT_FOUND, f"there is no subscription {self.id!r}")
            await self.durable()

    return SubscriptionRows


def _row(broker: "Broker", name: str) -> Facts | None:
    session, text = _meant(broker, name)
    found = dict(subscriptions_of(session)).get(text) if session is not None else None
    if session is None or found is None:
        return None
    return {
        "id": name,
        "client_id": session.client_id,
        "user": session.user,
        "connected": session.client is not None,
        **subscription_facts(text, found),
    }


def _end(broker: "Broker", session: "Session", text: str) -> bool:
    """End a subscription; return whether it existed."""
    sharing = session.sharing
    if sharing is not None and text in sharing.shares:
        return broker.forget_share(sharing, text)
    interest = next((item for item in session.interests if item.topics.text == text), None)
    if interest is None:
        return False
    if session.subscription is not None:
        broker.kernel.unwatch(session.subscription, interest.topics)
    else:
        session.filters.remove(interest)
    broker.forget_filter(session, interest)
    if session.client is not None and session.client.caller is not None:
        broker.kernel.listeners.notify("unsubscribed", session.client.caller, filter=text)
    return True


def _names(broker: "Broker") -> Iterator[str]:
    for session in broker.sessions:
        for text, _ in subscriptions_of(session):
            yield client_id_and_filter(session.client_id, text)


def _meant(broker: "Broker", name: str) -> tuple["Session | None", str]:
    client_id, _, text = name.partition("/")
    return broker.sessions.get(unquote(client_id)), unquote(text)
