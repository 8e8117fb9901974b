"""A session with many filters goes on without holding the loop (P2)."""

import asyncio

import pytest

from build import ANN, BEN, Server, turns
from rowcast.core.callers import NONE, Caller
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, Event
from rowcast.core.fairness_limits import SUBSCRIPTION_RESUME_TURN_FILTERS
from rowcast.core.topics import TopicFilter
from rowcast.reads.loop_turns import LoopTurns
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription

MANY = SUBSCRIPTION_RESUME_TURN_FILTERS + 5


class Returning:
    """A server to which a session with some filters returns; it counts what is judged."""

    def __init__(self, count=MANY):
        self.room, self.asked, self.refuses = Server(), [], ""
        kernel = self.kernel = self.room.kernel
        kernel.turns = LoopTurns(slice_seconds=0, clock=lambda: 0.0)
        self.interests = [SubscribedFilter(TopicFilter(f"m/{number}")) for number in range(count)]
        judge = kernel.authorise_watch

        def counted(topics, caller):
            self.asked.append(topics.text)
            if topics.text == self.refuses:
                raise Error(Code.DENIED, "it is not yours")
            judge(topics, caller)

        kernel.authorise_watch = counted

    async def judged(self, caller=ANN):
        return await self.kernel.authorise_ahead(self.interests, caller)

    def resume(self, judged, caller=ANN):
        """Go on; return the subscription, and the texts of what is refused."""
        self.asked.clear()
        live = Subscription(self.room.reader, "many")
        refused = self.kernel.resume(live, 0, self.interests, caller, judged)
        return live, [interest.topics.text for interest in refused]


async def test_few_filters_are_judged_when_the_session_goes_on():
    it = Returning(3)
    assert await it.judged() is None
    it.resume(None)
    assert ["m/0", "m/1", "m/2"] == it.asked


async def test_many_filters_are_judged_in_slices_before():
    it = Returning()
    judging = asyncio.ensure_future(it.judged())
    await turns(9)
    assert 0 < len(it.asked) < MANY
    live, refused = it.resume(await judging)
    assert ([], []) == (it.asked, refused)
    assert MANY == it.room.bus.subscriptions
    it.room.bus.publish(Event(f"m/{MANY - 1}", MESSAGE, b"1"))
    heard = []
    for _ in range(5):
        heard += [event.topic for event, _ in live.take(999) if event.topic]  # no marks
        await turns(9)
    assert [f"m/{MANY - 1}"] == heard


async def test_what_is_refused_ahead_is_left_out():
    it = Returning()
    it.refuses = "m/7"
    _, refused = it.resume(await it.judged())
    assert ["m/7"] == refused
    assert MANY - 1 == it.room.bus.subscriptions


@pytest.mark.parametrize("changed", ["rights", "caller"])
async def test_what_was_judged_for_other_rights_is_judged_again(changed):
    it = Returning()
    judged = await it.judged()
    caller = ANN
    if changed == "rights":
        it.kernel.reauthorization.revision += 1
        it.refuses = "m/7"
    else:
        caller = BEN
    it.resume(judged, caller)
    assert len(it.asked) == MANY


async def test_names_of_tables_and_queries_are_judged_when_the_session_goes_on():
    """What is behind a name may change while the others are judged."""
    it = Returning()
    it.interests += [SubscribedFilter(TopicFilter(text)) for text in ("$SYS/#", "mqtt_a/#")]
    it.resume(await it.judged())
    assert ["$SYS/#", "mqtt_a/#"] == it.asked


async def test_nobody_who_may_not_read_gets_in():
    it = Returning()
    nobody = Caller("nobody", NONE, "mqtt")
    _, refused = it.resume(await it.judged(nobody), nobody)
    assert len(refused) == MANY
    assert 0 == it.room.bus.subscriptions
