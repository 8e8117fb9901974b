"""The retainer's eight calls as tests: run on every store that can keep retained messages (E4).

A test module gives a fixture ``keeper`` with ``start()``, which opens everything anew as after a
restart.
"""

import pytest

from build import ANN, BEN, Code, Listener, refusal
from rowcast.core.callers import SERVER
from rowcast.core.errors import Error
from rowcast.core.events import CURRENT, DELETE, MESSAGE, PUT, SNAPSHOT, Event
from rowcast.core.topics import TopicFilter
from rowcast.features.hooks.hook import Hook
from rowcast.features.hooks.hooks import Hooks
from rowcast.features.retained.retainer import Retained, Retainer
from rowcast.subscriptions.subscribed_filters import SubscribedFilter
from rowcast.subscriptions.subscription import Subscription

CALLS = (
    "delete_message", "store_retained", "read_message", "page_read",
    "match_messages", "clear_expired", "clean", "size",
)  # fmt: skip


def message(topic, payload=b"x", **facts):
    return Event(topic, PUT, payload, qos=1, retain=True, **facts)


def topics(matched):
    return [record.topic for record in matched.messages]


async def filled(room, *names):
    retainer = room.retainer
    for name in names:
        await retainer.store_retained(message(name, name.encode()))
    return retainer


async def followed(retainer, text):
    """Return the topics of each step of ``match_messages`` to its end."""
    steps, cursor = [], ""
    while True:
        matched = await retainer.match_messages(text, cursor)
        steps.append(topics(matched))
        cursor = matched.cursor
        if not cursor:
            return steps


async def heard(subscription, count):
    """Return the first events of a subscription, as topics and kinds."""
    pairs = []
    while len(pairs) < count:
        pairs += await subscription.batch(count - len(pairs))
    return [(event.topic, event.kind) for event, _ in pairs]


class Veil(Hook):
    """Shows nobody what is below ``secret``."""

    def can_read(self, caller, topic):
        return not topic.startswith("secret/")


class RetainerContract:
    async def test_the_eight_calls_have_their_names(self, keeper):
        """E4"""
        assert [True] * 8 == [callable(getattr(Retainer, name, None)) for name in CALLS]
        kept: Retainer = keeper.start().retainer
        assert [True] * 8 == [callable(getattr(kept, name)) for name in CALLS]

    async def test_one_message_for_each_topic_the_last(self, keeper):
        """E4, E5, E6: what was before is history, and that is in the log."""
        retainer = await filled(keeper.start(), "a/b", "a/b")
        await retainer.store_retained(message("a/b", b"new"))
        assert [b"new"] == [record.payload for record in await retainer.read_message("a/b")]
        assert (1, []) == (await retainer.size(), list(await retainer.read_message("a/c")))

    async def test_an_empty_body_is_a_tombstone(self, keeper):
        """E3: whoever listens hears of it, and after a restart it is still gone."""
        room = keeper.start()
        retainer = await filled(room, "a/b", "a/c")
        listener = Listener(room)
        await retainer.store_retained(message("a/b", b""))
        assert [("a/b", DELETE)] == [(event.topic, event.kind) for event in listener.events]
        again = keeper.start().retainer
        assert ([], 1) == (list(await again.read_message("a/b")), await again.size())

    async def test_delete_tells_whether_there_was_one(self, keeper):
        retainer = await filled(keeper.start(), "a/b")
        assert (True, False) == (
            await retainer.delete_message("a/b"), await retainer.delete_message("a/b"),
        )  # fmt: skip

    async def test_match_gives_what_the_filter_selects_in_order(self, keeper):
        retainer = await filled(keeper.start(), "b/x/c", "a/2/c", "a/1/c", "a/1/d", "a/1/c/e", "a")
        assert [["a/1/c", "a/2/c"]] == await followed(retainer, "a/+/c")
        assert [["a/1/c", "a/1/c/e", "a/2/c"]] == await followed(retainer, "a/+/c/#")
        assert [["b/x/c"]] == await followed(retainer, "b/x/c")
        assert [6] == [len(step) for step in await followed(retainer, "#")]
        assert [[]] == await followed(retainer, "z/#")

    @pytest.mark.parametrize("limit", [1, 2, 3, 100])
    async def test_match_goes_on_from_its_cursor(self, keeper, limit):
        """E9: nothing twice, nothing left out, in steps of ``retainer.batch_read_number``."""
        room = keeper.start()
        names = [f"a/{n:02}/c" for n in range(7)]
        retainer = await filled(room, *names, "a/00/d")
        room.reader.scan_records = limit
        steps = await followed(retainer, "a/+/c")
        assert names == [name for step in steps for name in step]
        assert max(map(len, steps)) <= limit

    async def test_a_cursor_survives_a_restart_and_what_is_written_meanwhile(self, keeper):
        """E9: its place is a topic, not a row: also when that topic is gone."""
        room = keeper.start()
        retainer = await filled(room, "a/1", "a/2", "a/3")
        room.reader.scan_records = 2
        first = await retainer.match_messages("a/+")
        await retainer.delete_message("a/2")
        await filled(room, "a/15", "a/25", "a/4")
        again = keeper.start().retainer
        then = await again.match_messages("a/+", first.cursor)
        assert (["a/1", "a/2"], ["a/25", "a/3", "a/4"]) == (topics(first), topics(then))

    @pytest.mark.parametrize("cursor", ["é", "!", "_____w"])
    async def test_what_is_no_cursor_is_refused(self, keeper, cursor):
        retainer = keeper.start().retainer
        assert Code.INVALID == await refusal(retainer.match_messages("#", cursor))

    async def test_pages_by_cursor_and_by_number(self, keeper):
        """E10: a dashboard scrolls ``#``; each page costs a page."""
        room = keeper.start()
        names = [f"t/{n}" for n in range(5)]
        retainer = await filled(room, *names)
        first = await retainer.page_read("#", 1, 2)
        second = await retainer.page_read("#", first.cursor, 2)
        third = await retainer.page_read("#", 3, 2)
        assert [names[:2], names[2:4], names[4:]] == [*map(topics, (first, second, third))]
        assert (second.cursor, "") == (
            (await retainer.page_read("#", 2, 2)).cursor, third.cursor,
        )  # fmt: skip
        assert [] == topics(await retainer.page_read("#", 9, 2))
        for page, limit in ((0, 1), (1, 0), ("", -1)):
            assert Code.INVALID == await refusal(retainer.page_read("#", page, limit))

    async def test_a_page_reads_no_more_than_it_gives(self, keeper):
        """E10: O(page), also where the filter is ``#`` and there are many."""
        room = keeper.start()
        retainer = await filled(room, *(f"t/{n}" for n in range(50)))
        read, scan = [], room.store.scan
        room.store.scan = lambda *args: read.append(args[3]) or scan(*args)
        await retainer.page_read("#", "", 5)
        assert [5] == read

    async def test_size_asks_the_store_for_its_count_only(self, keeper):
        """E10: O(1)."""
        room = keeper.start()
        retainer = await filled(room, "a/1", "a/2")
        room.reader.scan = None  # a walk would fail
        assert 2 == await retainer.size()

    async def test_a_filter_has_the_actual_data_and_all_the_ongoing_updates(self, keeper):
        """E14: for any filter, in one sequence: no gap, and nothing twice."""
        room = keeper.start()
        retainer = await filled(room, "a/x/1", "b/x/2/3", "c/y/4")
        wanted = Subscription(room.reader)
        room.kernel.watch(wanted, SubscribedFilter(TopicFilter("+/x/#")), ANN)
        known = await heard(wanted, 3)
        await retainer.store_retained(message("a/x/1", b"later"))
        await retainer.delete_message("b/x/2/3")
        await room.say("b/x/5")
        assert [("a/x/1", SNAPSHOT), ("b/x/2/3", SNAPSHOT), ("", CURRENT)] == known
        assert [("a/x/1", PUT), ("b/x/2/3", DELETE), ("b/x/5", MESSAGE)] == await heard(wanted, 3)

    async def test_expired_ones_are_not_shown_and_then_cleared(self, keeper):
        """E17: clear_expired; whoever listens hears of it."""
        room = keeper.start()
        properties = {"message_expiry_interval": 10}
        await room.put("a/1", b"x", properties=properties)
        retainer = await filled(room, "a/2")
        room.time += 11
        listener = Listener(room)
        assert [["a/2"]] == await followed(retainer, "#")
        assert [] == list(await retainer.read_message("a/1"))
        assert (1, 0) == (await retainer.clear_expired(), await retainer.clear_expired())
        assert (["a/1"], 1) == (listener.topics, await retainer.size())

    async def test_clean_forgets_all_or_what_a_filter_selects(self, keeper):
        room = keeper.start()
        retainer = await filled(room, "a/1", "a/2", "b/1", "b/2", "c")
        room.reader.scan_records = 2
        assert (2, 3) == (await retainer.clean("a/+"), await retainer.clean())
        assert (0, 0) == (await retainer.size(), await keeper.start().retainer.size())

    async def test_what_tables_have_is_not_listed_nor_cleaned(self, keeper):
        room = keeper.start()
        await room.put("Dog/1", b'{"name":"a"}')
        retainer = await filled(room, "a/1")
        assert (1, [["a/1"]]) == (await retainer.size(), await followed(retainer, "#"))
        await retainer.clean()
        assert 1 == len(await retainer.read_message("Dog/1"))

    async def test_a_reader_is_shown_what_it_may_read_also_in_counts_and_pages(self, keeper):
        """L12"""
        hooks = Hooks()
        hooks.add(Veil())
        room = keeper.start(hooks=hooks)
        await filled(room, "a/1", "secret/1", "secret/2", "z/1")
        room.reader.scan_records = 2
        seen = Retained(room.kernel, room.now, BEN)
        assert (2, 4) == (await seen.size(), await room.retainer.size())
        assert ["a/1", "z/1"] == topics(await seen.page_read("#", 1, 2))
        assert ["a/1", "z/1"] == [name for step in await followed(seen, "#") for name in step]
        assert Code.DENIED == await refusal(seen.read_message("secret/1"))
        assert (2, 2) == (await seen.clean(), await room.retainer.size())

    async def test_a_refused_store_is_told(self, keeper):
        retainer = keeper.start().retainer
        for topic in ("a/#", "", "Dog"):
            with pytest.raises(Error):
                await retainer.store_retained(message(topic))

    async def test_what_the_server_keeps_for_itself_is_none_of_them(self, keeper):
        room = keeper.start()
        retainer = await filled(room, "a/1")
        await room.put("$SYS/broker/uptime", b"1", caller=SERVER)
        assert (1, [["a/1"]], 1) == (
            await retainer.size(), await followed(retainer, "#"), await retainer.clean(),
        )  # fmt: skip
        assert 1 == len(await retainer.read_message("$SYS/broker/uptime"))
