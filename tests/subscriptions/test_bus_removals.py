"""A subscription with many filters ends without holding the loop (P2)."""

from build import ANN, Server, turns
from rowcast.core.events import MESSAGE, Event
from rowcast.core.fairness_limits import SUBSCRIPTION_LEAVE_TURN_FILTERS
from rowcast.core.topics import TopicFilter
from rowcast.reads.loop_turns import LoopTurns
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription

MANY = SUBSCRIPTION_LEAVE_TURN_FILTERS + 5


def watching(room, count):
    subscription = Subscription(room.reader, "many")
    for number in range(count):
        room.kernel.watch(subscription, SubscribedFilter(TopicFilter(f"m/{number}")), ANN)
    return subscription


def in_slices_of_one(room):
    room.kernel.views.removals._turns = LoopTurns(slice_seconds=0, clock=lambda: 0.0)
    return room


async def test_few_filters_leave_at_once():
    room = Server()
    room.kernel.close(watching(room, 3))
    assert 0 == room.bus.subscriptions


async def test_many_leave_in_slices_and_are_told_once():
    room, told = in_slices_of_one(Server()), []
    room.kernel.hooks.unsubscribed = lambda _caller, text: told.append(text)
    subscription = watching(room, MANY)
    for _ in range(2):
        room.kernel.close(subscription)
    assert MANY - 1 == room.bus.subscriptions
    room.bus.publish(Event("m/0", MESSAGE, b"1"))
    assert ([], MANY) == (subscription.queue.events, len(told))
    await turns(4)
    assert 0 < room.bus.subscriptions < MANY - 1
    await turns(3 * MANY)
    assert 0 == room.bus.subscriptions


async def test_a_session_comes_back_while_its_last_subscription_leaves():
    room = in_slices_of_one(Server())
    position, interests = room.kernel.suspend(watching(room, MANY))
    again = Subscription(room.reader, "many")
    assert [] == room.kernel.resume(again, position, interests, ANN)
    await turns(3 * MANY)
    assert MANY == room.bus.subscriptions
    room.bus.publish(Event(f"m/{MANY - 1}", MESSAGE, b"1"))
    heard = []
    for _ in range(5):
        heard += [event.topic for event, _ in again.take(999) if event.topic]  # no marks
        await turns(9)
    assert [f"m/{MANY - 1}"] == heard


async def test_the_rest_stays_when_the_server_stops():
    room = in_slices_of_one(Server())
    room.kernel.close(watching(room, MANY))
    await turns(4)
    await room.kernel.stop()
    await turns(4)
    assert (0, True) == (len(room.kernel.views.removals._tasks), room.bus.subscriptions > 0)
