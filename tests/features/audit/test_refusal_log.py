"""Who was refused what stands in the log, and fills no disk (L9, L15)."""

import json

import pytest

from build import turns
from rightful import ANN, BEN, Rightful, person
from rowcast.core.audit_limits import REFUSALS_OF_ONE_BURST, REFUSALS_RATED_MAX
from rowcast.core.callers import ALL, NONE, Caller
from rowcast.core.errors import Error
from rowcast.core.events import PUT, Event
from rowcast.core.topics import TopicFilter
from rowcast.features.audit.refusals import TABLE, RefusalLog
from rowcast.writes.write import FireAndForget


class World(Rightful):
    """A kernel that writes refusals down."""

    def __init__(self):
        super().__init__()
        self.refusals = RefusalLog(self.kernel, self.now)
        self.kernel.listeners.refusals.append(self.refusals)
        self.kernel.committer.on_denied.append(self.kernel.listeners.refused)
        self.store.define(TABLE)

    async def told(self, what="+"):
        """Return what is in the log, the oldest first."""
        await turns(5)
        found = self.store.read(0, 9_999, [TABLE.branch])
        wanted = TopicFilter(f"$AUDIT/refused/{what}")
        return [json.loads(item.payload) for item in found if wanted.matches(item.topic)]

    def refuse(self, caller, count=1):
        for _ in range(count):
            with pytest.raises(Error):
                self.kernel.authorise_read("$SYS/users/", caller)


def stranger(number):
    return Caller("anonymous", NONE, "http", peer=f"192.0.2.{number}")


async def test_l9_what_is_refused_by_rights_rules_and_auth_is_told():
    world = World()
    await world.rule("shut", filter="home/#", effect="deny", actions=["write"])
    await world.write("Dog/1", {"owner": "ann", "name": "Rex"})
    with pytest.raises(Error):
        await world.write("home/lamp", {}, ANN)
    with pytest.raises(Error):  # the record decides, on the writer thread
        await world.write("Dog/1", {"owner": "ben"}, BEN)
    with pytest.raises(Error):
        await world.write("$SYS/users/ben", {"roles": ["admin"]}, BEN)
    with pytest.raises(Error):
        world.watch("$AUDIT/#", BEN)
    world.kernel.hooks.auth_failed(Caller("eve", NONE, "mqtt", "c1", "192.0.2.9"), "wrong password")
    keys = ("user", "door", "action", "topic", "outcome")
    assert [
        ("ann", "http", "write", "home/lamp", "denied"),
        ("ben", "http", "write", "Dog/1", "denied"),
        ("ben", "http", "administer", "$SYS/users/ben", "denied"),
        ("ben", "http", "read", "$AUDIT/#", "denied"),
        ("eve", "mqtt", "sign-in", None, "unauthenticated"),
    ] == [tuple(item.get(key) for key in keys) for item in await world.told()]
    (signing_in,) = await world.told("sign-in")
    assert ("c1", "192.0.2.9", "wrong password") == tuple(
        signing_in[key] for key in ("client_id", "peer", "reason")
    )


async def test_l15_one_that_is_refused_all_day_is_counted():
    world = World()
    world.refuse(ANN, 1_000)
    world.refuse(BEN)
    world.time += 100
    world.refuse(ANN, 1_000)
    told = await world.told()
    assert ["ann"] * REFUSALS_OF_ONE_BURST + ["ann"] == [item["user"] for item in told]
    assert 995 == told[-1]["more"]


async def test_l15_all_strangers_together_are_bounded():
    world = World()
    for number in range(1_000):  # each from an address of its own
        world.refuse(stranger(number))
    assert 5 == len(await world.told())
    for number in range(1_000, REFUSALS_RATED_MAX + 2_000):
        world.refuse(stranger(number))
    assert REFUSALS_RATED_MAX >= len(world.refusals._known)
    world.time += 1
    world.refuse(person("zoe"))
    (*_, last) = await world.told()
    assert ("zoe", True) == (last["user"], last["others"] > 1_000)


async def test_l15_a_stranger_cannot_write_what_is_no_text():
    world = World()
    odd = Caller("\ud800" * 1_000, NONE, "http", peer="192.0.2.1")
    world.kernel.hooks.auth_failed(odd, "no\ud800" * 1_000)
    (told,) = await world.told()
    assert len(told["user"]) == len(told["reason"]) == 500


# -- what is not taken because of what it is (P5) ------------------------------------------------


async def test_p5_a_value_that_does_not_fit_is_told_with_client_topic_and_reason(caplog):
    """A client of 3.1.1, or of QoS 0, hears nothing of it: the log and the output say it."""
    world = World()
    sensor = Caller("ben", ALL, "mqtt", "sensor-7", "192.0.2.7")
    event = Event("Dog/1", PUT, b"hello", None, 0, True, None, "sensor-7")
    world.kernel.submit(event, sensor, FireAndForget(lambda _error: None))
    (told,) = await world.told("write")
    assert ("sensor-7", "Dog/1", "invalid") == tuple(
        told[name] for name in ("client_id", "topic", "outcome")
    )
    [line] = [item.getMessage() for item in caplog.records if item.name == "rowcast.refused"]
    assert f"a write of sensor-7 at Dog/1 is refused: {told['reason']}" == line


async def test_p5_a_write_below_dollar_is_told(caplog):
    """A misspelt ``$topic`` is acknowledged to a client of 3.1.1: it is not silent either."""
    world = World()
    sensor = Caller("ben", ALL, "mqtt", "sensor-7", "192.0.2.7")
    event = Event("$delay/5/Dog/1", PUT, b"{}", None, 1, True, None, "sensor-7")
    world.kernel.submit(event, sensor, FireAndForget(lambda _error: None))
    (told,) = await world.told("write")
    assert ("sensor-7", "$delay/5/Dog/1", "denied") == tuple(
        told[name] for name in ("client_id", "topic", "outcome")
    )
    [line] = [item.getMessage() for item in caplog.records if item.name == "rowcast.refused"]
    assert f"a write of sensor-7 at $delay/5/Dog/1 is refused: {told['reason']}" == line


async def test_p5_many_of_them_are_few_lines_and_hide_no_attempt(caplog):
    world = World()
    for _ in range(1_000):
        with pytest.raises(Error):
            await world.kernel.write(Event("Dog/1", PUT, b"hello\n"), BEN)
    world.refuse(BEN)
    lines = [item for item in caplog.records if item.name == "rowcast.refused"]
    assert REFUSALS_OF_ONE_BURST == len(lines)
    assert 1 == len(await world.told("read"))
