"""What hooks let a reader have: on subscriptions, reads and counts (G4, G6, G8, G19)."""

from build import ANN, BEN, DOG, Server, code_of, refusal
from rowcast.core.callers import SERVER
from rowcast.core.conditions import Condition as Comparison
from rowcast.core.conditions import Operator
from rowcast.core.errors import Code, Error
from rowcast.core.events import CURRENT, MESSAGE, PUT, SNAPSHOT, Event
from rowcast.core.queries import Query
from rowcast.core.topics import TopicFilter
from rowcast.features.hooks.hook import DROP, Hook
from rowcast.features.hooks.hooks import Hooks
from rowcast.reads.record_cache import Unknown
from rowcast.subscriptions.subscribed_filters import SubscribedFilter
from rowcast.subscriptions.subscription import Subscription


class Blinds(Hook):
    """Ann sees all, others nothing whose topic has ``secret``."""

    def can_read(self, caller, topic):
        return caller.user == "ann" or "secret" not in topic


class Editor(Hook):
    """Makes copies for Ben, drops ``noise`` for him."""

    def on_publish_deliver(self, caller, event):
        if caller is not BEN:
            return None
        if "noise" in event.topic:
            return DROP
        return event.changed(payload=b'"for ben"', content_type="application/json")


class Vandal(Hook):
    """Writes into what it is shown."""

    def on_publish_deliver(self, caller, event):
        if caller is BEN:
            event.payload = b"scribble"
            event.properties["user_property"].append(["a", "b"])


def hooked(*hooks, **options):
    known = Hooks()
    for hook in hooks:
        known.add(hook)
    return Server(hooks=known, **options)


def watch(room, caller, text="#", qos=1, **options):
    subscription = Subscription(room.reader, caller.client_id)
    interest = SubscribedFilter(TopicFilter(text), qos, marks=False)
    room.kernel.watch(subscription, interest, caller, **({"current": False} | options))
    return subscription


def topics(subscription):
    return [event.topic for event, _ in subscription.take(100)]


# -- delivery -------------------------------------------------------------------------------------


async def test_g6_what_a_caller_may_not_read_is_not_delivered():
    room = hooked(Blinds())
    ann, ben = watch(room, ANN), watch(room, BEN)
    for topic in ("u/1", "u/secret", "u/2"):
        await room.put(topic)
    assert ["u/1", "u/secret", "u/2"] == topics(ann)
    assert ["u/1", "u/2"] == topics(ben)
    assert 3 == ben.settled


async def test_g6_nor_is_it_in_the_snapshot_or_in_the_log():
    room = hooked(Blinds())
    for topic in ("u/1", "u/secret"):
        await room.put(topic)
    now, then = watch(room, BEN, current=True), watch(room, BEN, since=0)
    for subscription, kind in ((now, SNAPSHOT), (then, PUT)):
        assert [(kind, "u/1")] == [
            (item.kind, item.topic) for item, _ in await subscription.batch(9)
        ]


async def test_g8_a_changed_copy_is_for_one_reader_only():
    """The encodings of the event are shared; those of the copy are its own."""
    room = hooked(Editor())
    ann, ben = watch(room, ANN), watch(room, BEN)
    await room.put("u/1", b'"original"')
    ((shared, _),) = ann.take(9)
    shared.encodings = {"frame": b"shared"}
    ((own, _),) = ben.take(9)
    assert (b'"original"', b'"for ben"') == (shared.payload, own.payload)
    assert (None, 1) == (own.encodings, own.seq)
    assert "for ben" == room.kernel.transcoder.value(own)
    assert "original" == room.kernel.transcoder.value(shared)


async def test_g8_an_unchanged_event_stays_the_shared_one():
    room = hooked(Editor())
    one, two = watch(room, ANN), watch(room, ANN, qos=0)
    await room.put("u/1")
    ((first, _),), ((second, _),) = one.take(9), two.take(9)
    assert first is second


async def test_g8_scribbling_on_what_is_shown_spoils_only_ones_own_copy():
    room = hooked(Vandal())
    ann, ben = watch(room, ANN), watch(room, BEN)
    properties = {"user_property": [["x", "y"]]}
    await room.say("u/1", b"clean", properties=properties)
    ((shared, _),), ((own, _),) = ann.take(9), ben.take(9)
    assert (b"clean", {"user_property": [["x", "y"]]}) == (shared.payload, shared.properties)
    assert (b"scribble", 2) == (own.payload, len(own.properties["user_property"]))


async def test_d65_the_hook_sees_the_qos_that_is_granted():
    seen = []

    class Look(Hook):
        def on_publish_deliver(self, caller, event):
            seen.append(event.qos)

    room = hooked(Look())
    subscriptions = [watch(room, ANN, qos=qos) for qos in (0, 1)]
    await room.put("u/1")
    await room.say("u/1", qos=0)
    for subscription in subscriptions:
        subscription.take(9)
    assert [0, 0, 1, 0] == seen


async def test_g8_a_reader_for_whom_all_was_dropped_hears_of_what_comes_next():
    """An empty answer means: wait; so what is left must be announced again."""
    room = hooked(Editor())
    ben = watch(room, BEN)
    for number in range(5):
        await room.say(f"noise/{number}")
    await room.say("u/1")
    got = []
    while not got:
        got = await ben.batch(2)
    assert ["u/1"] == [event.topic for event, _ in got]
    assert [] == ben.take(2)
    await room.say("u/2")
    assert ["u/2"] == [event.topic for event, _ in await ben.batch(2)]


async def test_marks_always_pass():
    class Nothing(Hook):
        def can_read(self, caller, topic):
            return False

        def on_publish_deliver(self, caller, event):
            return DROP

    room = hooked(Nothing())
    await room.put("u/1")
    subscription = Subscription(room.reader)
    room.kernel.watch(subscription, SubscribedFilter(TopicFilter("u/#")), BEN)
    assert [CURRENT] == [event.kind for event, _ in await subscription.batch(9)]


async def test_g16_without_such_hooks_there_is_no_gate():
    class Other(Hook):
        def on_publish(self, caller, event):
            """Only writes."""

    room = hooked(Other())
    assert watch(room, ANN).stage is None


# -- subscribing ----------------------------------------------------------------------------------


class Usher(Hook):
    def on_subscribe(self, caller, interest):
        if "secret" in interest.topics.text:
            raise Error(Code.DENIED, "not that one")
        if interest.topics.text.startswith("mine/"):
            interest.topics = TopicFilter(f"{caller.user}/{interest.topics.text[5:]}")
            interest.qos = 0


async def test_g4_a_refused_filter_leaves_nothing_on_the_bus():
    room = hooked(Usher())
    assert Code.DENIED == code_of(watch, room, ANN, "u/secret")
    assert 0 == room.bus.subscriptions


async def test_g4_a_changed_filter_is_watched_in_place_of_the_one_asked_for():
    room = hooked(Usher())
    subscription = watch(room, ANN, "mine/#")
    await room.say("ann/1", qos=1)
    await room.say("mine/1")
    ((event, interest),) = subscription.take(9)
    assert ("ann/1", 0) == (event.topic, interest.qos)
    assert room.kernel.unwatch(subscription, interest.topics)
    assert 0 == room.bus.subscriptions


async def test_g18_subscribe_and_unsubscribe_are_told_whatever_ends_it():
    hooks, heard = Hooks(), []
    hooks.add(Usher())
    hooks.on("subscribe", lambda given, who: heard.append((given[0].topics.text, who.user)))
    hooks.on("unsubscribe", lambda given, who: heard.append((*given, who.user)))
    room = Server(hooks=hooks)
    one = watch(room, ANN, "mine/#")
    room.kernel.watch(one, SubscribedFilter(TopicFilter("b")), ANN)
    code_of(room.kernel.watch, one, SubscribedFilter(TopicFilter("secret")), ANN)
    room.kernel.unwatch(one, TopicFilter("b"))
    room.kernel.unwatch(one, TopicFilter("never"))
    room.kernel.close(one)
    room.kernel.close(one)
    assert [("ann/#", "ann"), ("b", "ann"), ("b", "ann"), ("ann/#", "ann")] == heard


# -- reads ----------------------------------------------------------------------------------------


async def dogs(room, *names):
    for number, name in enumerate(names):
        await room.put(f"Dog/{name}", b'{"age":%d}' % number)


async def test_g6_a_record_is_read_by_those_who_may():
    room = hooked(Blinds())
    await dogs(room, "secret", "rex")
    assert "Dog/secret" == (await room.kernel.read("Dog/secret", ANN)).topic
    assert Code.DENIED == await refusal(room.kernel.read("Dog/secret", BEN))
    assert isinstance(room.kernel.peek("Dog/secret", BEN), Unknown)
    assert not isinstance(room.kernel.peek("Dog/rex", BEN), Unknown)
    assert Code.DENIED == await refusal(room.kernel.read_value("Dog/secret", BEN, None))
    assert await room.kernel.read("Dog/secret", SERVER)


async def test_g6_a_collection_and_its_count_leave_out_what_may_not_be_read():
    room = hooked(Blinds(), reading={"table_scan_records": 2})
    await dogs(room, "a", "secret1", "b", "secret2", "c")
    older = Query(where=Comparison(("age",), Operator.GE, 1))
    assert (5, 3) == tuple([await room.kernel.count(DOG, Query(), who) for who in (ANN, BEN)])
    assert (4, 2) == tuple([await room.kernel.count(DOG, older, who) for who in (ANN, BEN)])
    page = await room.kernel.search(DOG, Query(), BEN)
    assert ["Dog/a", "Dog/b", "Dog/c"] == [record.topic for record in page.records]
    assert 2 == len(await room.kernel.read_value("Dog", BEN, older))


async def test_g6_an_unlogged_message_is_asked_about_too():
    room = hooked(Blinds())
    ben = watch(room, BEN)
    room.kernel.submit(Event("u/secret", MESSAGE, b""), ANN)
    assert [] == ben.take(9)
