"""Who may read and watch is decided, or nobody may; several stages are one behind the other."""

import pytest

from build import ANN, Server, code_of, refusal
from rowcast.core.callers import SERVER
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.core.queries import Query
from rowcast.core.topics import TopicFilter
from rowcast.seams.authorizer import Authorizer
from rowcast.seams.seams import Seams
from rowcast.subscriptions.stage import chained
from rowcast.subscriptions.subscribed_filters import SubscribedFilter
from rowcast.subscriptions.subscription import Subscription


@pytest.fixture
async def bare():
    """A kernel into which no feature that decides was installed."""
    room = Server()
    await room.kernel.write(Event("u/1", "put", b"x", None, 1, True), ANN)
    room.kernel.rights = Authorizer()
    return room


def test_a_new_kernel_allows_nothing():
    """M9: what decides is installed; that it is missing allows nobody anything."""
    assert type(Seams().rights) is Authorizer


@pytest.mark.parametrize("caller", [ANN, SERVER])
async def test_without_rights_nothing_is_read(bare, caller):
    table = next(iter(bare.registry.shapes.values())).table
    asked = [
        bare.kernel.read("u/1", caller),
        bare.kernel.search(table, Query(), caller),
        bare.kernel.count(table, Query(), caller),
    ]
    assert [Code.DENIED] * 3 == [await refusal(item) for item in asked]
    assert Code.DENIED == code_of(lambda: bare.kernel.peek("u/1", caller))


@pytest.mark.parametrize("caller", [ANN, SERVER])
async def test_without_rights_nothing_is_watched(bare, caller):
    subscription = Subscription(bare.reader, "me")
    interest = SubscribedFilter(TopicFilter("u/#"))
    assert Code.DENIED == code_of(lambda: bare.kernel.watch(subscription, interest, caller))
    assert (0, 0) == (bare.bus.subscriptions, len(subscription.interests))
    assert Code.DENIED == code_of(bare.kernel.rights.check_watch, TopicFilter("u/1"), caller)


@pytest.mark.parametrize("caller", [ANN, SERVER])
async def test_without_rights_nothing_is_sent_to_a_resource_class(bare, caller):
    assert Code.DENIED == code_of(bare.kernel.rights.check_resource, "Lamp", caller)
    assert Code.DENIED == code_of(bare.kernel.rights.check_writer, "Lamp", caller)


async def test_without_rights_no_session_goes_on(bare):
    subscription = Subscription(bare.reader, "me")
    with pytest.raises(Error, match="no rights are installed"):
        bare.kernel.resume(subscription, 0, [SubscribedFilter(TopicFilter("u/#"))], ANN)
    assert [] == subscription.take(9)


class Marking:
    """A stage that writes its name behind what it is shown, and keeps its own kind back."""

    def __init__(self, name, compares=False):
        self.name, self.compares = name, compares

    def counts(self, event):
        return self.name not in event.topic

    def show(self, event, granted):
        if not self.counts(event):
            return None
        return event.changed(payload=event.payload + self.name.encode() + b"%d" % granted)

    def pass_on(self, pairs):
        shown = [(self.show(event, interest.qos), interest) for event, interest in pairs]
        return [(event, interest) for event, interest in shown if event is not None]


def test_stages_are_asked_one_behind_the_other():
    both = chained((Marking("a"), None, Marking("b", compares=True)))
    interest = SubscribedFilter(TopicFilter("#"), qos=1)
    events = [Event(topic, "put", b"") for topic in ("x", "xa", "xb")]
    passed = both.pass_on([(event, interest) for event in events])
    assert [("x", b"a1b1")] == [(event.topic, event.payload) for event, _ in passed]
    shown = [both.show(event, 2) for event in events]
    assert [b"a2b2", None, None] == [event and event.payload for event in shown]
    assert ([True, False, False], True) == ([both.counts(event) for event in events], both.compares)


def test_one_stage_stands_for_itself_and_none_for_nothing():
    one = Marking("a")
    assert (one, None) == (chained((None, one)), chained((None, None)))
