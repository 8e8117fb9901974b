"""Values as what has changed of them, on SSE and WebSocket, for those who ask (C16)."""

import json
import random

import pytest

from http_server import HttpServer
from rowcast.codecs import CBOR, JSON, MSGPACK, decode, encode
from rowcast.core.events import DELETE, MESSAGE, PUT, RESET, Event
from rowcast.core.merge_patch import merge_patch
from rowcast.doors.http.streams.deltas import Deltas
from rowcast.doors.http.streams.frames import Frames

BIG = {"note": "x" * 200, "n": 0, "place": {"x": 1.0, "y": 2.0}}


@pytest.fixture
async def doors():
    async with HttpServer() as running:
        yield running


class Reader:
    """Keeps what envelopes say, whole or by patches."""

    def __init__(self):
        self.state, self.deltas, self.values = {}, 0, 0

    def take(self, envelope):
        topic = envelope["topic"]
        if envelope["kind"] == "reset":
            self.state.clear()
        elif envelope["kind"] in {"delete", "leave"}:
            self.state.pop(topic, None)
        elif "delta" in envelope:
            self.deltas += 1
            self.state[topic] = merge_patch(self.state[topic], envelope["delta"])
        elif "value" in envelope and envelope["kind"] != "message":
            self.values += 1
            self.state[topic] = envelope["value"]


async def test_c16_an_event_stream_sends_what_has_changed(doors):
    """C16: after the whole value; with a live query, and after a deletion, too."""
    reader = Reader()
    await doors.write("Dog/1", value=BIG)
    async with doors.sse("/Dog/?delta=true") as stream:
        for item in await stream.next(2):
            reader.take(json.loads(item["data"]))
        await doors.write("Dog/1", value=BIG | {"n": 1})
        await doors.write("Dog/1", MESSAGE, value={"hello": 1})
        await doors.write("Dog/1", value=BIG | {"n": 1, "place": {"x": 3.0, "y": 2.0}})
        told = [json.loads(item["data"]) for item in await stream.next(3)]
        assert [{"n": 1}, {"place": {"x": 3.0}}] == [told[0]["delta"], told[2]["delta"]]
        assert {"hello": 1} == told[1]["value"]
        assert "value" not in told[0]
        await doors.write("Dog/1", DELETE)
        await doors.write("Dog/1", value=BIG)
        last = [json.loads(item["data"]) for item in await stream.next(2)]
        assert BIG == last[1]["value"]


async def test_c16_readers_who_do_not_ask_get_whole_values(doors):
    """C16: frames are not shared with those who ask."""
    await doors.write("Dog/1", value=BIG)
    async with doors.sse("/Dog/?delta=true") as asks, doors.sse("/Dog/") as not_:
        for stream in (asks, not_):
            await stream.next(2)
        await doors.write("Dog/1", value=BIG | {"n": 1})
        with_, without = [json.loads((await s.next(1))[0]["data"]) for s in (asks, not_)]
    assert ({"n": 1}, BIG | {"n": 1}) == (with_["delta"], without["value"])
    same = ("cursor", "topic", "kind", "version")
    assert [with_[name] for name in same] == [without[name] for name in same]


@pytest.mark.parametrize("media_type", [JSON, CBOR, MSGPACK])
async def test_c16_each_subscription_of_a_socket_has_its_own(doors, media_type):
    """C16: a patch is from what this subscription was sent, in every format."""
    name = {JSON: "json", CBOR: "cbor", MSGPACK: "msgpack"}[media_type]
    await doors.write("Dog/1", value=BIG)
    readers = {None: Reader(), 1: Reader()}
    async with doors.ws(f"/Dog/?delta=true&meta=true&format={name}") as peer:

        async def take():
            told = decode(_bytes(await peer.recv()), media_type)
            if "ack" not in told:
                readers[told.get("subscription")].take(told)
            return told

        for _ in range(2):
            await take()
        command = encode({"id": 1, "op": "subscribe", "topic": "Dog/1"}, media_type)
        await peer.send(command.decode() if media_type == JSON else command)
        for _ in range(3):  # the answer, the record, the mark
            await take()
        await doors.write("Dog/1", value=BIG | {"n": 1})
        told = [await take(), await take()]
    assert [{"n": 1}, {"n": 1}] == [item["delta"] for item in told]
    assert {None, 1} == {item.get("subscription") for item in told}
    assert all("_seq" in item for item in told)
    assert all({"Dog/1": BIG | {"n": 1}} == reader.state for reader in readers.values())


def _bytes(frame):
    return frame.encode() if isinstance(frame, str) else frame


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(5))
async def test_c16_ten_thousand_events_leave_the_state_of_whole_values(doors, seed):
    """C16: over resets, deletions, conflated values, and records that are no longer held."""
    rng = random.Random(seed)
    frames = Frames(doors.kernel, JSON)
    deltas, reader, there = Deltas(frames, topics_max=20, bytes_max=5_000), Reader(), {}
    for seq in range(1, 10_001):
        topic = f"Note/{int(rng.random() ** 2 * 40)}"
        if rng.random() < 0.001:
            event = Event("", RESET, b"", seq=seq, decoded={})
            there.clear()
        elif rng.random() < 0.05:
            event = Event(topic, DELETE, b"", seq=seq)
            there.pop(topic, None)
        else:
            there[topic] = value = changed(rng, there.get(topic))
            event = Event(topic, PUT, encode(value, JSON), JSON, seq=seq, version=seq)
        made = deltas.envelope(event, 0)
        whole = frames.envelope(event)
        assert made is None or len(made) < len(whole)
        reader.take(decode(made or whole, JSON))
    assert there == reader.state
    assert reader.deltas > 1_000 < reader.values
    assert len(deltas._sent) <= 20
    assert deltas._bytes == sum(len(event.payload) for event in deltas._sent.values()) <= 5_000


def changed(rng, value):
    value = dict(value or {"text": "x" * 100})
    name = rng.choice("abcd")
    if rng.random() < 0.2:
        value.pop(name, None)
    else:
        value[name] = rng.choice((None, 1, True, 2.5, "y", [1, None], {"deep": rng.random()}))
    return value


async def test_c16_a_patch_is_computed_once_for_all_readers(doors, monkeypatch):
    """C16: a thousand readers of equal values share it."""
    made = []
    frames = Frames(doors.kernel, JSON)
    with_delta = frames.with_delta
    monkeypatch.setattr(frames, "with_delta", lambda *what: made.append(1) or with_delta(*what))
    readers = [Deltas(frames) for _ in range(100)]
    for seq in (1, 2):
        value = encode(BIG | {"n": seq}, JSON)
        event = Event("Note/1", PUT, value, JSON, seq=seq, version=seq)
        told = {deltas.envelope(event, 0) for deltas in readers}
        assert 1 == len(told)
    assert [1] == made


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"$decimal": "1.10"}, {"$date": "2026-01-01T00:00:00Z"}),
        ({"$decimal": "1.10"}, {"$decimal": "1.1"}),
        ({"$decimal": "1.10"}, {"b": 1}),
        ({"b": 1, "c": 2}, {"$float": "NaN"}),
        ({"$date": "q", "b": 1}, {"$date": "r", "b": 1}),
        ({"$map": {"$date": 5}}, {"$date": 5, "b": 1}),
        (0.0, -0.0),
    ],
)
async def test_c16_spellings_are_merged_as_what_is_written(doors, old, new):
    """C16: a reader merges {"$decimal": "1"} like any object, so a patch must say all of it."""
    frames, reader = Frames(doors.kernel, JSON), Reader()
    deltas = Deltas(frames)
    for seq, value in enumerate((old, new), 1):
        payload = json.dumps({"text": "x" * 200, "value": value}).encode()
        event = Event("yard/1", PUT, payload, JSON, seq=seq, version=seq)
        reader.take(json.loads(deltas.envelope(event, 0) or frames.envelope(event)))
    assert 1 == reader.deltas
    assert json.dumps(new) == json.dumps(reader.state["yard/1"]["value"])


async def test_c16_a_patch_is_not_for_who_was_shown_another_value(doors):
    """C16: rights and hooks show readers different values of one event."""
    frames = Frames(doors.kernel, JSON)
    whole, hidden = Deltas(frames), Deltas(frames)
    first = Event("Note/1", PUT, encode(BIG | {"key": 7}, JSON), JSON, seq=1, version=1)
    shown = first.changed(payload=encode(BIG, JSON))
    then = Event("Note/1", PUT, encode(BIG | {"key": 7, "n": 2}, JSON), JSON, seq=2, version=2)
    for deltas, event in ((whole, first), (hidden, shown)):
        assert deltas.envelope(event, 0) is None
    told = [decode(deltas.envelope(then, 0), JSON)["delta"] for deltas in (whole, hidden)]
    assert [{"n": 2}, {"n": 2, "key": 7}] == told
