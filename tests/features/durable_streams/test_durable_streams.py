"""Durable streams: what is appended is read, over restarts, by whoever may (V7)."""

import random
from dataclasses import dataclass, field, replace

import pytest

from build import ANN, BEN, Server
from memory_store import MemoryStore
from rowcast.core.callers import NONE, Caller
from rowcast.core.durable_stream_limits import DURABLE_PRODUCERS_MAX
from rowcast.core.errors import Code, Error
from rowcast.features.durable_streams.appends import OWNER, Append
from rowcast.features.durable_streams.feature import StreamsOfTopics
from rowcast.features.durable_streams.offsets import offset_of
from rowcast.features.durable_streams.producers import Refusal
from rowcast.features.durable_streams.reading import read_part
from rowcast.features.durable_streams.settings import DurableStreamsSection
from rowcast.features.durable_streams.stream import Options, ProducerNumber
from rowcast.features.durable_streams.streams import DurableStreams
from rowcast.features.undeclared_topics.topic_tables import TopicSettings

TEXT = Options("text/plain")
NUMBERS = Options("application/json")
STRANGER = Caller("eve", NONE, "http")


def open_room(store=None, **limits):
    """Return a server and its streams; with the store of another, after its end."""
    room = Server(store=store or MemoryStore(), topics=TopicSettings())
    StreamsOfTopics(DurableStreamsSection(**limits)).install(room.kernel)
    streams = room.kernel.service(DurableStreams)
    streams.restore(room.store.states(OWNER))
    return room, streams


async def create(streams, topic, options=TEXT, caller=ANN, ends=None, content=()):
    return await streams.create(topic, options, ends, Append(content), caller)


async def refused(work):
    """Return the code with which work is refused."""
    with pytest.raises((Error, Refusal)) as caught:
        await work
    error = caught.value
    return (error.error if isinstance(error, Refusal) else error).code


async def content(room, stream, after=0, **bounds):
    part = await read_part(room.kernel, stream, after, ANN, **bounds)
    return [event.payload for event in part.events]


@dataclass
class Model:
    """What a stream should be."""

    messages: list = field(default_factory=list)
    producers: dict = field(default_factory=dict)
    closed: bool = False


def expected(model, append):
    """Return what an append should give, and change the model accordingly."""
    mark = append.mark
    if mark is not None:
        epoch, last = model.producers.get(mark.producer, (mark.epoch, -1))
        if mark.epoch < epoch:
            return Code.DENIED
        if mark.epoch > epoch and mark.number:
            return Code.INVALID
        if mark.epoch == epoch and mark.number <= last:
            return "repeat"
        if mark.epoch == epoch and mark.number > last + 1 and not model.closed:
            return Code.CONFLICT
    if model.closed:
        return Code.CONFLICT if append.messages or mark else "repeat"
    model.messages += append.messages
    model.closed = append.closes
    if mark is not None:
        model.producers[mark.producer] = (mark.epoch, mark.number)
    return "new"


async def outcome(streams, topic, append):
    try:
        done = await streams.append(topic, append, ANN)
    except Refusal as refusal:
        return refusal.error.code
    return "repeat" if done.repeat else "new"


def some_append(rng, count):
    messages = tuple(b"%d.%d" % (count, n) for n in range(rng.randint(0, 3)))
    mark = None
    if rng.random() < 0.7:
        mark = ProducerNumber(rng.choice("pq"), rng.randint(0, 2), rng.randint(0, 4))
    return Append(messages, mark, closes=not messages or rng.random() < 0.02)


@pytest.mark.parametrize("seed", range(20))
async def test_v7_streams_are_what_a_model_says_over_restarts(seed):
    """V7: appends, repeats, gaps, epochs, closing, deleting, forks and restarts, at random."""
    rng = random.Random(seed)
    room, streams = open_room()
    models = {}
    for count in range(80):
        topic = rng.choice(("s/1", "s/2"))
        chance = rng.random()
        if topic not in models:
            stream, is_new = await create(streams, topic, NUMBERS)
            assert is_new
            models[topic] = Model()
        elif chance < 0.04:
            await streams.delete(topic, ANN)
            del models[topic]
        elif chance < 0.1:
            room, streams = open_room(room.store)
        elif chance < 0.2:
            await room.say(topic, b"no part of it", qos=1)
        else:
            append = some_append(rng, count)
            assert expected(models[topic], append) == await outcome(streams, topic, append)
        for name, model in models.items():
            stream = streams.get(name)
            assert model.messages == await content(room, stream), name
            assert model.closed == stream.closed


@pytest.mark.parametrize("seed", range(10))
async def test_v7_a_fork_is_a_part_of_its_source_and_what_is_appended(seed):
    """V7: chains of forks at random places; deleted sources are kept as long as they are used."""
    rng = random.Random(seed)
    room, streams = open_room()
    await create(streams, "f/0", NUMBERS)
    whole = {"f/0": []}
    for number in range(1, 12):
        for topic in rng.sample(sorted(whole), len(whole)):
            said = [b"%d" % rng.randint(0, 99) for _ in range(rng.randint(0, 2))]
            if said:
                await streams.append(topic, Append(tuple(said)), ANN)
                whole[topic] += said
        source = rng.choice(sorted(whole))
        begin = offset_of(room.kernel, 0)
        within = rng.randint(0, len(whole[source]))
        options = Options("", source=source, fork_offset=begin, fork_sub=within)
        await create(streams, f"f/{number}", options)
        whole[f"f/{number}"] = whole[source][:within]
        if rng.random() < 0.3:
            gone = rng.choice(sorted(whole))
            if len(whole) > 1:
                await streams.delete(gone, ANN)
                del whole[gone]
        if rng.random() < 0.3:
            room, streams = open_room(room.store)
        for topic, messages in whole.items():
            assert messages == await content(room, streams.get(topic)), topic
    for topic in whole:
        await streams.delete(topic, ANN)
    assert 0 == len(streams)
    assert [] == list(room.store.states(OWNER))


async def test_v7_a_read_ends_at_a_size_and_goes_on_from_there():
    """V7."""
    room, streams = open_room()
    stream, _ = await create(streams, "s/1")
    sent = [b"%03d" % number for number in range(500)]
    for message in sent:
        await streams.append("s/1", Append((message,)), ANN)
    read, after, whole = [], 0, False
    while not whole:
        part = await read_part(room.kernel, stream, after, ANN, bytes_max=100)
        assert len(part.events) <= 34
        read += [event.payload for event in part.events]
        after, whole = part.next, part.whole
    assert sent == read


async def test_v7_the_number_of_streams_is_bounded():
    """V7: of all, and of one user."""
    _, streams = open_room(most=3, most_per_user=2)
    await create(streams, "s/1")
    await create(streams, "s/2")
    assert Code.BUSY == await refused(create(streams, "s/3"))
    await create(streams, "s/3", caller=BEN)
    assert Code.BUSY == await refused(create(streams, "s/4", caller=BEN))
    await streams.delete("s/1", ANN)
    await create(streams, "s/4", caller=BEN)


async def test_v7_producers_of_a_stream_are_bounded():
    """V7: the least recently active one is forgotten, stored and in memory."""
    room, streams = open_room()
    stream, _ = await create(streams, "s/1")
    stream.producers = {f"p{n}": (0, 0) for n in range(DURABLE_PRODUCERS_MAX)}
    await streams.append("s/1", Append((b"x",), ProducerNumber("new", 0, 0)), ANN)
    assert DURABLE_PRODUCERS_MAX == len(stream.producers)
    assert "p0" not in stream.producers
    _, again = open_room(room.store)
    assert {"new": (0, 0)} == again.get("s/1").producers


async def test_v7_who_may_not_write_creates_appends_and_deletes_nothing():
    """V7."""
    _, streams = open_room()
    assert Code.DENIED == await refused(create(streams, "s/1", caller=STRANGER))
    await create(streams, "s/1")
    assert Code.DENIED == await refused(streams.append("s/1", Append((b"x",)), STRANGER))
    assert Code.DENIED == await refused(streams.delete("s/1", STRANGER))
    options = replace(TEXT, source="s/1")
    writer = Caller("eve", replace(NONE, write=True), "http")
    assert Code.DENIED == await refused(create(streams, "s/2", options, caller=writer))


async def test_v7_a_time_to_live_is_prolonged_by_use_and_ends_the_stream():
    """V7."""
    room, streams = open_room()
    stream, _ = await create(streams, "s/1", replace(TEXT, ttl=10))
    room.time += 8
    streams.touch(stream)
    room.time += 8
    assert room.time + 2 == await streams.expire_due()
    room.time += 2
    await streams.expire_due()
    assert 0 == len(streams)
    await room.turn()
    assert [] == list(room.store.states(OWNER))


async def test_k12_no_stream_ends_by_a_wrong_clock():
    room, streams = open_room()
    right = room.time
    room.kernel.removal_now = lambda: right
    await create(streams, "s/1", replace(TEXT, ttl=10))
    room.time += 100
    await streams.expire_due()
    assert (1, "s/1") == (len(streams), streams.get("s/1").topic)


async def test_v7_an_offset_of_another_log_is_told_apart():
    """V7."""
    room, streams = open_room()
    await create(streams, "s/1", content=(b"x",))
    other = offset_of(room.kernel, 1)[:17] + f"{1:016d}"
    options = replace(TEXT, source="s/1", fork_offset=other)
    assert Code.INVALID == await refused(create(streams, "s/2", options))


async def test_a_stream_that_is_being_created_does_not_expire():
    """V7: a sweep may come while its creation is stored."""
    room, streams = open_room()
    write = streams._write

    async def swept(*what):
        await streams.expire_due()
        assert streams.find("chat/1") is not None
        await write(*what)

    streams._write = swept
    await create(streams, "chat/1", Options("text/plain", ttl=60))
    assert streams.get("chat/1").options.ttl == 60
    await room.stop()
