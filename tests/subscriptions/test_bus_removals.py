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


def said(topic):
    return Event(topic, MESSAGE, b"1")


async def test_a_reader_with_many_filters_is_away_in_slices_and_misses_nothing_uncounted():
    """M4, P2: what comes meanwhile counts once, whichever of its filters select it."""
    room = in_slices_of_one(Server())
    filters = [TopicFilter(f"m/{number}") for number in range(MANY)]
    filters += [TopicFilter(text) for text in ("m/+", "n/#", "q/+/r", "$x/#")]
    away = room.bus.absences.begin(filters)
    assert 0 == len(room.bus.absences._matches.match("m/0"))
    expected = 0
    while room.bus.absences._entering:
        for topic in ("m/0", f"m/{MANY - 1}", "n/1", "n", "q/1/r", "o", "q/1/s"):
            room.bus.publish(said(topic))
        expected += 5
        await turns(40)
    assert expected > 9
    room.bus.publish(said("n/1"))
    assert expected + 1 == away.missed
    assert expected + 1 == room.bus.absences.end(away)
    again = room.bus.absences.begin(filters)
    await turns(40)
    room.bus.publish(said("m/0"))
    assert 1 == room.bus.absences.end(again)
    await turns(9 * MANY)
    assert (0, 0) == (len(room.bus.absences), len(room.bus.absences._matches._trie))


async def test_the_rest_stays_when_the_server_stops():
    room = in_slices_of_one(Server())
    room.kernel.close(watching(room, MANY))
    await turns(4)
    await room.kernel.stop()
    await turns(4)
    assert (0, True) == (len(room.kernel.views.removals._tasks), room.bus.subscriptions > 0)
