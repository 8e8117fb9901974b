"""What a slow reader is told it missed: nothing that it did not want (C18)."""

import pytest

from build import ANN, Server
from rowcast.core.events import GAP, MESSAGE, Event
from rowcast.core.topics import TopicFilter
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription


@pytest.mark.parametrize(("client", "lost"), [("me", 0), ("you", 2)])
async def test_c18_ones_own_messages_are_no_gap_for_who_does_not_want_them(client, lost):
    """MQTT-3.8.3-3: No Local."""
    room = Server(reading={"queue_events": 1})
    subscription = Subscription(room.reader, "me")
    interest = SubscribedFilter(TopicFilter("u/#"), no_local=True, marks=False)
    room.kernel.watch(subscription, interest, ANN, current=False)
    for number in range(3):
        room.kernel.submit(Event("u/1", MESSAGE, b"%d" % number, client=client), ANN)
    events = [event for event, _ in subscription.take(10)]
    gaps = [event.count for event in events if event.kind == GAP]
    assert (lost, [lost] if lost else []) == (subscription.losses.total, gaps)


async def test_what_ended_by_itself_is_taken_off_the_bus():
    """C2: its page could not be read; the kernel is told that it is over afterwards, once."""
    room, heard = Server(), []
    room.kernel.hooks.on("unsubscribe", lambda texts, _who: heard.extend(texts))
    subscription = Subscription(room.reader, "me")
    room.kernel.watch(subscription, SubscribedFilter(TopicFilter("u/#")), ANN, current=False)
    subscription.close()
    for _ in range(2):
        room.kernel.close(subscription)
    assert (0, ["u/#"]) == (room.kernel.bus.subscriptions, heard)
