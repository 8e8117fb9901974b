"""Sessions on a disk that refuses now and then, and over kills at bad moments (D16, D27, D31)."""

import pytest

from mqtt_server import Connect, Disconnect, Puback, Publish, Pubrec, payloads, topics
from rowcast.core.errors import Code, Error
from rowcast.core.topic_tables import TopicRoot
from rowcast.mqtt.packets import Pubcomp, Pubrel, Will
from rowcast.store.store import Keep

HOUR = {"session_expiry_interval": 3600}


@pytest.fixture
def refusing(world, monkeypatch):
    """Return a switch: the disk refuses what it is asked as long as it is a true function."""
    commit, switch = world.store.commit, {"when": None}

    def guarded(events, changes=()):
        if switch["when"] is not None and switch["when"](events, changes):
            raise Error(Code.BUSY, "the disk is full")
        return commit(events, changes)

    monkeypatch.setattr(world.store, "commit", guarded)
    return switch


async def connected(world, client_id="d", clean_start=False, properties=HOUR, **options):
    """Return a connection with a durable session; what came at once is left in ``later``."""
    peer = world.peer()
    await peer.connect(client_id, clean_start=clean_start, properties=properties, **options)
    return peer


def everything(_events, _changes):
    return True


async def test_what_was_not_saved_is_saved_later(world, refusing):
    """D27: also for a session whose client is away."""
    peer = await connected(world)
    await peer.subscribe("a", qos=1)
    await world.pass_time(10)
    refusing["when"] = everything
    peer.send(Disconnect())
    await peer.hear()
    refusing["when"] = None
    await world.pass_time(1)
    about = {name: value for _, name, value in world.store.states("session/d")}
    assert b"expires" in about["session"]


async def test_an_older_save_does_not_undo_a_newer_one(world, refusing):
    """MQTT-3.10.4-1: the end of a subscription that could be written stays the end."""
    peer = await connected(world)
    refusing["when"] = lambda _events, changes: any(item.value for item in changes)
    world.writer.hold()
    world.broker.keeper.put_filter(*_filter_of(world))
    world.broker.keeper.save(world.broker.sessions.get("d"))
    await world.turn()
    world.broker.keeper.drop_filter(world.broker.sessions.get("d"), "a")
    world.broker.keeper.save(world.broker.sessions.get("d"))
    world.writer.release()
    await world.turn()
    refusing["when"] = None
    await world.pass_time(1)
    assert "filter/a" not in [name for _, name, _ in world.store.states("session/d")]
    assert not peer.closed


def _filter_of(world):
    from rowcast.core.topics import TopicFilter
    from rowcast.subscriptions.subscription import SubscribedFilter

    form = world.broker.deliveries.forms.form(5, None, tells_seq=False)
    return world.broker.sessions.get("d"), SubscribedFilter(TopicFilter("a"), 1, form=form)


@pytest.mark.parametrize("anew", [False, True])
async def test_a_session_that_ended_is_gone_from_the_disk(world, refusing, anew):
    """MQTT-3.1.2-4, MQTT-4.1.0-2: if it cannot be removed at once, then later, and for ever."""
    peer = await connected(world)
    await peer.subscribe("a", qos=1)
    peer.lose()
    await world.turn()
    refusing["when"] = lambda events, changes: [item.name for item in changes] == [""]
    if anew:
        peer = await connected(world, clean_start=True)
        await peer.subscribe("b", qos=1)
    else:
        peer = await connected(world, clean_start=True, properties=None)
    peer.lose()
    refusing["when"] = None
    await world.pass_time(1)
    names = [name for _, name, _ in world.store.states("session/d")]
    assert (["filter/b", "place", "session"] if anew else []) == names


@pytest.mark.parametrize("properties", [None, HOUR])
async def test_connack_waits_until_the_session_before_is_gone_from_the_disk(world, properties):
    """MQTT-3.1.2-4: or a kill brings back what a clean start has ended."""
    peer = await connected(world)
    await peer.subscribe("a", qos=1)
    peer.lose()
    await world.turn()
    world.writer.hold()
    again = world.peer()
    again.send(Connect(5, "d", True, properties=properties))
    assert [] == await again.hear()
    world.writer.release()
    assert not (await again.hear())[0].session_present
    there = await world.killed()
    assert [] == [name for _, name, _ in there.store.states("session/d") if name == "filter/a"]


async def test_a_clean_start_is_refused_while_the_session_before_is_on_the_disk(world, refusing):
    """MQTT-3.1.2-4: or a kill brings it back; a second try finds no session, but its facts."""
    peer = await connected(world)
    await peer.subscribe("a", qos=1)
    peer.lose()
    await world.turn()
    refusing["when"] = everything
    for _ in range(2):
        again = world.peer()
        assert 0x89 == (await again.connect("d")).reason
    refusing["when"] = None
    assert 0 == (await world.peer().connect("d")).reason
    there = await world.killed()
    assert [] == there.store.states("session/d")


@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
async def test_who_takes_over_keeps_what_could_not_be_saved_for_the_one_before(
    world, refusing, known
):
    """MQTT-3.1.4-3: the session is the last one's, and so is the will in it."""
    if known:
        (await connected(world)).lose()
        await world.pass_time(1)
    failures = [True]
    refusing["when"] = lambda _events, _changes: bool(failures) and failures.pop()
    world.writer.hold()
    first, second = world.peer(), world.peer()
    first.send(Connect(5, "d", False, properties=HOUR))
    await world.turn()
    second.send(Connect(5, "d", False, will=Will("w", b"gone", 1), properties=HOUR))
    await world.turn()
    world.writer.release()
    assert (await second.hear())[0].session_present
    await world.pass_time(1)
    session = world.broker.sessions.get("d")
    assert second.client.session is session and session.will is not None
    assert 1 == len(world.store.states("will/d"))
    assert "session" in [name for _, name, _ in world.store.states("session/d")]


async def test_a_will_that_the_disk_refuses_is_published_later(world, refusing):
    """MQTT-3.1.2-8: it is due, also when its client is back meanwhile."""
    heir = await connected(world, "heir")
    await heir.subscribe("w", qos=1)
    peer = await connected(world, will=Will("w", b"gone", 1))
    refusing["when"] = everything
    peer.lose()
    await world.turn()
    refusing["when"] = None
    await connected(world, will=Will("w", b"the next", 1))
    await world.pass_time(1)
    assert [b"gone"] == payloads(await heir.hear())
    there = await world.killed()
    again = await connected(there, "heir")
    heard = [*again.later, *await again.hear()]
    assert [b"gone", b"the next"] == sorted(payloads(heard))


async def test_a_will_that_is_due_stays_on_disk_beside_the_next(world, refusing):
    """MQTT-3.1.2-8: the disk refuses it, its client comes back with another, and a kill follows."""
    heir = await connected(world, "heir")
    await heir.subscribe("w", qos=1)
    peer = await connected(world, will=Will("w", b"gone", 1))
    refusing["when"] = everything
    peer.lose()
    await world.turn()
    refusing["when"] = None
    await connected(world, will=Will("w", b"the next", 1))
    there = await world.killed()
    again = await connected(there, "heir")
    assert [b"gone", b"the next"] == payloads([*again.later, *await again.hear()])
    assert [] == there.store.states("will/")
    await world.pass_time(1)


async def test_a_will_that_is_due_outlives_its_session(world, refusing):
    """MQTT-3.1.2-8: the end of the session could be written, the will could not; a kill follows."""
    heir = await connected(world, "heir")
    await heir.subscribe("w", qos=1)
    peer = await connected(world, properties=None, will=Will("w", b"gone", 1))
    refusing["when"] = lambda events, _changes: bool(events)
    peer.lose()
    await world.turn()
    refusing["when"] = None
    again = await connected(await world.killed(), "heir")
    assert [b"gone"] == payloads([*again.later, *await again.hear()])
    await world.pass_time(1)


async def test_a_refused_connection_leaves_no_will(world, refusing):
    """MQTT-3.1.2-8: a will is that of a connection that was accepted."""
    heir = await world.subscribed("w", qos=1)
    refusing["when"] = everything
    peer = world.peer()
    connack = await peer.connect("d", properties=HOUR, will=Will("w", b"gone", 1))
    assert 0x89 == connack.reason
    peer.lose()
    refusing["when"] = None
    await world.pass_time(5)
    assert [] == payloads(await heir.hear())
    assert [] == [*world.store.states("session/d"), *world.store.states("will/")]


@pytest.mark.parametrize("failure", [Error(Code.BUSY, "unreadable"), RuntimeError("a mistake")])
async def test_a_connection_that_cannot_go_on_leaves_no_will(world, monkeypatch, failure):
    """MQTT-3.1.2-8: nor does one whose flights cannot be read again."""
    peer = await connected(world)
    await peer.subscribe("a", qos=1)
    await world.say("a", b"x")
    await peer.hear()
    await world.pass_time(1)
    there = await world.killed()
    heir = await there.subscribed("w", qos=1)

    def unreadable(*_arguments, **_options):
        raise failure

    monkeypatch.setattr(there.store, "read", unreadable)
    again = there.peer()
    connack = await again.connect("d", clean_start=False, properties=HOUR, will=Will("w", b"no"))
    assert connack.reason in {0x80, 0x89}
    await there.pass_time(5)
    assert [] == payloads(await heir.hear())
    assert [] == there.store.states("will/")


async def test_what_the_log_has_no_more_holds_no_identifier(world):
    """MQTT-4.3.3-8, D16: the client may hold it, and took the next message for this one."""
    peer = await connected(world)
    await peer.subscribe("a", qos=2)
    speaker = await world.connected("speaker")
    speaker.publish("a", b"gone", 2)
    (held,) = await peer.hear()
    peer.lose()
    speaker.publish("a", b"next", 2, packet_id=2)
    await world.pass_time(1)
    there = await world.killed()
    there.store.trim(TopicRoot(None), Keep(events=1), world.time, 100)
    again = await connected(there)
    pubrel = next(item for item in [*again.later, *await again.hear()] if type(item) is Pubrel)
    assert held.packet_id == pubrel.packet_id
    again.send(Pubcomp(pubrel.packet_id))
    await again.hear()
    assert held.packet_id not in dict(there.broker.sessions.get("d").window)


async def test_sent_again_while_the_first_is_refused(world, refusing):
    """D16: PUBREC never says that a message is stored which is not."""
    message = Publish("Dog/1", b'{"age":1}', 2, packet_id=5)
    peer = await connected(world)
    world.writer.hold()
    peer.send(message)
    peer.lose()
    again = world.peer()
    world.writer.release()
    await again.connect("d", clean_start=False, properties=HOUR)
    world.writer.hold()
    refusing["when"] = lambda events, _changes: bool(events)
    for dup in (False, True):
        again.send(Publish("Dog/1", b'{"age":1}', 2, dup=dup, packet_id=6))
    world.writer.release()
    for pubrec in await again.hear():
        assert (Pubrec, 6, 0x97) == (type(pubrec), pubrec.packet_id, pubrec.reason)


async def test_sent_again_while_the_disk_refuses(world, refusing):
    """D16: PUBREC does not refuse what is stored: the identifier would stay taken."""
    peer = await connected(world)
    assert 0 == (await peer.ask(Publish("Dog/1", b"{}", 2, packet_id=5)))[0].reason
    peer.lose()
    again = await connected(world)
    refusing["when"] = everything
    world.writer.hold()
    again.send(Publish("Dog/1", b"{}", 2, dup=True, packet_id=5))
    again.send(Publish("Dog/2", b"{}", 1, packet_id=6))
    world.writer.release()
    heard = await again.hear()
    assert [] == [item for item in heard if isinstance(item, Pubrec) and item.reason]
    assert 5 in world.broker.sessions.get("d").inbound


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [1, 2])
async def test_a_node_that_takes_no_writes_any_more_answers_none(world, refusing, version, qos):
    """K14: an answer with a reason would end the message; without one it is sent elsewhere."""
    peer = world.peer(version)
    properties = HOUR if version == 5 else None
    await peer.connect("d", clean_start=False, properties=properties)

    def fenced(_events, _changes):
        raise Error(Code.BUSY, "another node has appended", elsewhere=True)

    refusing["when"] = fenced
    peer.send(Publish("Dog/1", b"{}", qos, packet_id=5))
    heard = await peer.hear()
    assert [] == [item for item in heard if isinstance(item, Puback | Pubrec)]
    assert peer.closed


async def test_a_page_for_qos_1_obeys_the_receive_maximum(world):
    """MQTT-3.3.4-7: also when the filter has QoS 0 by the time that it is sent."""
    peer = await connected(world)
    await peer.subscribe("Open/+", qos=1)
    peer.lose()
    for number in range(6):
        await world.say(f"Open/{number}", b"x")
    again = await connected(world, properties={**HOUR, "receive_maximum": 1})
    heard = [*again.later, *await again.hear()]
    await again.subscribe("Open/+", qos=0)
    heard += [*again.later, *await again.hear()]
    assert 1 == len([item for item in heard if isinstance(item, Publish) and item.qos])


async def test_current_records_do_not_come_again_after_a_kill(world):
    """D16, D27: of QoS 2 that would be twice."""
    for number in range(3):
        await world.put(f"Dog/{number}", b"{}")
    peer = await connected(world)
    await peer.subscribe("Dog/+", qos=1)
    heard = [item for item in (*peer.later, *await peer.hear()) if isinstance(item, Publish)]
    peer.send(*(Puback(item.packet_id) for item in heard))
    await peer.hear()
    await world.pass_time(1)
    again = await connected(await world.killed())
    assert (3, []) == (len(heard), [*again.later, *await again.hear()])


@pytest.mark.parametrize(("qos", "there"), [(0, []), (1, ["Dog/1"])])
async def test_qos_0_does_not_come_twice_over_a_kill(world, qos, there):
    """MQTT 5, 4.3.1: at most once; QoS 1 comes again, because nobody knows."""
    peer = await connected(world)
    await peer.subscribe("Dog/+", qos=qos)
    await world.pass_time(1)
    await world.put("Dog/1", b"{}")
    assert ["Dog/1"] == topics(await peer.hear())
    again = await connected(await world.killed())
    assert there == topics([*again.later, *await again.hear()])


async def test_another_kill_gives_no_more_time(world):
    """X12: the Session Expiry Interval counts from the first one."""
    await connected(world, properties={"session_expiry_interval": 100})
    there = world
    for _ in range(4):
        there = await there.killed(40)
        await there.pass_time(1)
    peer = there.peer()
    assert not (await peer.connect("d", clean_start=False, properties=HOUR)).session_present


async def test_only_what_needs_a_trimmed_part_begins_anew(world):
    """D27, C11: the messages of a table whose log is whole are not lost with another's."""
    peer = await connected(world)
    await peer.subscribe("Dog/+", "Open/+", qos=1)
    peer.lose()
    for number in range(4):
        await world.put("Dog/1", b'{"age":%d}' % number)
        await world.say("Open/1", b"%d" % number)
    table = world.kernel.registry.route("Dog/1").table
    world.store.trim(table, Keep(events=1), world.time, 100)
    again = await connected(world)
    heard = [item for item in (*again.later, *await again.hear()) if isinstance(item, Publish)]
    assert [b"0", b"1", b"2", b"3"] == payloads(p for p in heard if p.topic == "Open/1")
    assert [b'{"age":3}'] == payloads(p for p in heard if p.topic == "Dog/1")
