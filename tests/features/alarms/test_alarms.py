"""Alarms: rows, topics, rights, and what a start computes (V5, M11)."""

import asyncio
import json
import re

import pytest
from alarm_server import NOW, ROW, TOLD, TOPIC, AlarmServer, sensor

from build import ANN, KEY, Listener, refusal
from rightful import ROOT, person
from rowcast.core import alarm_limits
from rowcast.core.alarms import alarmed_topic
from rowcast.core.callers import Caller, Grants
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PUT, Event
from rowcast.core.freshness import told_of
from rowcast.core.queries import Query
from rowcast.core.query_text import parse_query
from rowcast.core.tables import Table
from rowcast.core.topics import TopicFilter
from rowcast.features.alarms.alarm_facts import MEMBERS
from rowcast.features.alarms.alarm_states import AlarmStates
from rowcast.schema import parse_schema
from rowcast.store.store import Keep
from rowcast.subscriptions.live_query import step_of
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription

READER = Caller("rita", Grants(read=True, write=True), "http")


async def server(*tables, **settings):
    return await AlarmServer(*tables, **settings).start()


async def test_v5_it_is_pending_then_raised_then_cleared_then_normal():
    it = await server()
    await it.write(85)
    assert (["pending"], []) == ([row["state"] for row in await it.rows()], it.told())
    await it.after(5.2)
    assert [] == it.told()
    await it.after(0.2)
    assert ["raised"] == it.states()
    row = await it.row()
    assert {
        "id": "hot/Sensor/1", "name": "hot", "topic": TOPIC, "state": "raised", "active": True,
        "severity": "major", "when": "temp=gt=80", "since": "2023-11-14T22:13:25.300Z",
        "raised_at": "2023-11-14T22:13:25.300Z", "cleared_at": None, "acknowledged_at": None,
        "shelved_until": None, "acknowledged_by": None, "shelved_by": None, "count": 1,
        "flapping": False,
    } == row == await it.retained()  # fmt: skip
    assert MEMBERS == tuple(row)
    await it.write(78)
    assert "raised" == (await it.row())["state"]  # hysteresis
    await it.write(70)
    assert "cleared" == (await it.row())["state"]
    await it.after(100.2)
    assert ([], None, ["raised", "cleared", None]) == (
        await it.rows(), await it.retained(), it.states()
    )  # fmt: skip


async def test_a_break_begins_the_hold_anew():
    it = await server()
    for _ in range(5):
        await it.write(85)
        await it.after(5)
        await it.write(79)
        await it.after(1)
    assert ([], []) == (it.told(), await it.rows())


async def test_a_deleted_record_clears_its_alarm():
    it = await server(sensor(0))
    await it.write(85)
    await it.delete()
    await it.turn()
    assert "cleared" == (await it.retained())["state"]


async def test_it_is_acknowledged_and_shelved_by_a_patch_of_its_row():
    it = await server(sensor(0))
    await it.write(85)
    await it.patch({"acknowledged": True})
    assert ("acknowledged", "ann") == tuple(
        it.told()[-1][name] for name in ("state", "acknowledged_by")
    )
    await it.patch({"shelved_until": "2023-11-14T22:23:20Z"})
    await it.write(70)
    await it.write(85)
    assert ["raised", "acknowledged", "shelved"] == it.states()
    await it.patch({"shelved_until": None})
    await it.patch({"shelved_for": "1h"})
    await it.after(3_600)
    assert ["raised", "shelved", "raised"] == it.states()[3:]
    await it.write(70)
    await it.patch({"acknowledged": True})
    assert ([], None) == (await it.rows(), await it.retained())


@pytest.mark.parametrize(
    "value",
    [{}, {"acknowledged": False}, {"shelved_until": "soon"}, {"shelved_for": "2x"}, "x",
     {"shelved_for": "31d"}, {"shelved_until": "2020-01-01T00:00:00Z"},
     {"acknowledged": True, "shelved_for": "1h"}],
)  # fmt: skip
async def test_another_patch_is_refused(value):
    it = await server(sensor(0))
    await it.write(85)
    assert Code.UNPROCESSABLE is await refusal(it.patch(value))


async def test_a_pending_alarm_is_changed_by_nobody_and_a_normal_one_is_not_there():
    it = await server()
    await it.write(85)
    for value in ({"acknowledged": True}, {"shelved_for": 60}):
        assert Code.CONFLICT is await refusal(it.patch(value))
    with pytest.raises(Error, match="lists those that are not normal") as told:
        await it.patch({"acknowledged": True}, f"{ROW}0")
    assert Code.NOT_FOUND is told.value.code


async def test_flapping_is_bounded_and_ends_with_calm():
    it = await server(sensor(0))
    for _ in range(100):
        await it.write(85)
        await it.after(0.1)
        await it.write(70)
        await it.after(0.1)
    most = alarm_limits.ALARM_FLAPS_MAX
    assert ["raised", "cleared"] * (most - 1) + ["raised", "raised"] == it.states()
    assert [False, True] == [item["flapping"] for item in it.told()[-2:]]
    await it.after(61)
    assert "cleared" == it.states()[-1]


async def test_flapping_is_bounded_where_the_record_is_deleted_each_time():
    it = await server(sensor(0))
    for _ in range(100):
        await it.write(85)
        await it.after(0.1)
        await it.delete()
        await it.after(0.1)
    most = alarm_limits.ALARM_FLAPS_MAX
    assert ["raised", "cleared"] * (most - 1) + ["raised", "raised"] == it.states()
    await it.after(61)
    assert "cleared" == it.states()[-1]


async def test_rows_are_watched_and_queried_like_others():
    """M11: by a filter below the path, and over REST."""
    it = await server(sensor(0))
    seen = Listener(it.server, "$SYS/alarms/#")
    await it.write(85)
    await it.write(60, "Sensor/2")
    await it.write(90, "Sensor/3")
    await it.turn()
    assert ["hot/Sensor/1", "hot/Sensor/3"] == [
        json.loads(event.payload)["id"] for event in seen.events
    ]
    table = Table("alarms", None)
    query = parse_query("topic==Sensor/3", table)
    found = await it.server.kernel.resource("$SYS/alarms/", ANN).get(query)
    assert ["Sensor/3"] == [row["topic"] for row in found]


# -- rights ----------------------------------------------------------------------------------------


async def submit(it, row, caller):
    """Patch as a door does, through the access step."""
    event = Event(row, "patch", b'{"acknowledged": true}', "application/json", 1)
    task = it.server.kernel.write(event, caller)
    return await refusal(task)


async def test_only_who_may_administer_changes_it():
    it = await server(sensor(0))
    await it.write(85)
    assert Code.DENIED is await submit(it, ROW, READER)


async def put_rule(it, rule):
    event = Event("$SYS/rules/one", PUT, json.dumps(rule).encode(), qos=1, retain=True)
    await it.server.kernel.write(event, ROOT)


async def test_a_rule_lets_an_operator_do_it():
    it = await server(sensor(0))
    operator = person("olga", "operator")
    await it.write(85)
    await it.turn()
    rule = {
        "filter": "$SYS/alarms/#",
        "effect": "allow",
        "roles": ["operator"],
        "actions": ["read", "administer"],
    }
    await put_rule(it, rule)
    task = asyncio.ensure_future(submit(it, ROW, operator))
    await it.turn()
    assert (None, "acknowledged") == (await task, (await it.row())["state"])


SECRET = """
type Sensor @table @export @auth(read: "owner == $user")
  @alarm(name: "hot", when: "temp=gt=80") @alarm(name: "cold", when: "temp=lt=0", severity: minor)
{ id: ID @primaryKey temp: Int owner: String }
"""


async def test_only_who_may_read_the_record_hears_of_its_alarm():
    it = await server(*parse_schema(SECRET).tables)
    ben = person("ben")
    for number, owner in (("1", "ben"), ("2", "eve")):
        value = json.dumps({"temp": 90, "owner": owner}).encode()
        event = Event(f"Sensor/{number}", PUT, value, qos=1, retain=True)
        await it.server.kernel.write(event, ROOT)
    await it.turn()
    assert Code.DENIED is await refusal(it.rows(ben))
    await put_rule(it, {"filter": "$SYS/alarms/#", "effect": "allow", "actions": ["read"]})
    assert ["Sensor/1"] == [row["topic"] for row in await it.rows(ben)]
    rights = it.server.kernel.rights
    for prefix in ("$alarms", "$SYS/alarms"):
        shown = [
            rights.shown(ben, Event(f"{prefix}/hot/Sensor/{number}", PUT, b"{}")) is not None
            for number in (1, 2)
        ]
        assert [True, False] == shown


def test_the_record_of_an_alarm_is_known_by_its_topics():
    assert ("Sensor/1", "Sensor/1") == (alarmed_topic(TOLD), alarmed_topic(ROW))
    assert ("Sensor/1", "Sensor/1") == (told_of(TOLD), told_of("$stale/Sensor/1"))
    assert (None, None, None) == (told_of(ROW), alarmed_topic("Sensor/1"), told_of("Sensor/1"))


# -- the start -------------------------------------------------------------------------------------


async def test_a_new_alarm_is_computed_from_the_records():
    it = AlarmServer(Table("Sensor", "Sensor", sensor().attributes))
    await it.start()
    await it.write(85)
    await it.write(60, "Sensor/2")
    await it.after(3)
    it.tables = (sensor(),)
    await it.restart()
    assert ["pending"] == [row["state"] for row in await it.rows()]
    await it.after(2.4)
    assert ("raised", "2023-11-14T22:13:25.300Z") == tuple(
        it.told()[-1][name] for name in ("state", "raised_at")
    )


async def test_a_changed_alarm_is_computed_anew_and_what_its_record_says_counts():
    it = await server(sensor(0))
    for number, temp in (("1", 85), ("2", 95), ("3", 95)):
        await it.write(temp, f"Sensor/{number}")
    await it.turn()
    it.tables = (sensor(0, when="temp=gt=90", clear=""),)
    it.kill()
    event = Event("Sensor/3", DELETE, b"", qos=1, retain=True, table=it.tables[0])
    event.seq = it.server.committer.announced + 10
    it.store.commit([event])
    await it.restart()
    states = {row["topic"]: row["state"] for row in await it.rows()}
    assert {"Sensor/1": "cleared", "Sensor/2": "raised", "Sensor/3": "cleared"} == states


async def test_an_alarm_that_is_no_longer_declared_is_gone():
    it = await server(sensor(0))
    await it.write(85)
    await it.turn()
    it.tables = (Table("Sensor", "Sensor", sensor().attributes),)
    await it.restart()
    assert (None, [], []) == (
        await it.retained(), await it.rows(), it.store.states("alarms/states")
    )  # fmt: skip


async def test_a_log_that_was_trimmed_too_far_is_not_needed():
    """The records say what holds; what happened in between is gone with the log."""
    it = await server(sensor(0))
    await it.write(85)
    await it.turn()
    it.kill()
    table = it.tables[0]
    seq = it.server.committer.announced + 10
    for number, temp in enumerate((70, 85, 70)):
        value = json.dumps({"temp": temp}).encode()
        event = Event(TOPIC, PUT, value, "application/json", 1, True, table)
        event.seq, event.version, event.decoded = seq + number, 0, {"id": "1", "temp": temp}
        it.store.commit([event])
    it.store.trim(table, Keep(events=1), NOW, 100)
    await it.restart()
    assert ["raised", "cleared"] == it.states()


async def test_many_changes_are_stored_in_parts_and_in_order():
    it = await server(sensor(0))
    it.alarms.changes_per_commit = 3
    it.alarms._writing = 1  # the disk is busy
    for number in range(10):
        await it.write(85, f"Sensor/{number}")
    it.alarms._writing = 0
    it.alarms._flush()
    it.timers.soon.clear()
    assert 10 == len(it.alarms.states.journal)
    for _ in range(8):
        await it.turn()
    await it.restart()
    raised = [len(it.told(f"$alarms/hot/Sensor/{number}")) for number in range(10)]
    assert [1] * 10 == raised


async def test_what_the_disk_refuses_is_stored_later():
    it = await server(sensor(0))
    faults = [Error(Code.BUSY, "the disk is full")]

    def fault(_what):
        if faults:
            raise faults.pop()

    await it.write(85)
    it.store.fault = fault
    await it.turn()
    assert [] == it.told()
    await it.after(1.1)
    assert ["raised"] == it.states()


async def test_silent_changes_are_stored_after_some_seconds_and_the_position_now_and_then():
    it = await server()
    await it.write(85)
    assert [] == it.store.states("alarms/states")
    await it.after(5.1)
    assert 1 == len(it.store.states("alarms/states"))
    it.alarms.checkpoint_events = 5
    before = it.alarms._stored_position
    for _ in range(10):
        await it.write(86)
    await it.turn()
    assert it.alarms._stored_position > before


async def test_too_many_are_counted_and_not_raised():
    states = AlarmStates((table := sensor(0),), rows_max=2)
    for number in range(4):
        states.observe(table.alarms[0], f"Sensor/{number}", NOW, {"temp": 90}, str(number))
    assert (2, 2, 2) == (len(states), states.overflow, len(states.journal))


async def test_a_topic_that_would_be_too_long_has_a_row_only():
    it = await server(sensor(0))
    topic = "Sensor/" + "x" * 65_520
    await it.write(85, topic)
    await it.turn()
    assert [topic] == [row["topic"] for row in await it.rows()]


async def test_the_query_is_a_plain_list_without_rules():
    it = await server(Table("Plain", "Plain", (KEY,)))
    assert [] == await it.server.kernel.resource("$SYS/alarms/", ANN).get(Query())


@pytest.mark.parametrize("below", ["$alarms", "$SYS/alarms"])
@pytest.mark.parametrize("rest", ["hto/#", "hto", "hto/Sensor/1"])
async def test_p5_a_filter_of_an_alarm_that_no_table_has_is_refused(below, rest):
    """P5, V5: nothing would ever come at its topics, or of its rows; with those that there are."""
    it, filter_ = await server(), f"{below}/{rest}"
    words = "no alarm is called 'hto'; did you mean \"hot\"?; there are hot"
    with pytest.raises(Error, match=re.escape(words)) as told:
        it.server.kernel.authorise_watch(TopicFilter(filter_), READER)
    assert Code.NOT_FOUND == told.value.code
    for end in ("", "/#", "/+/Sensor/1", "/hot/#", "/hot"):
        it.server.kernel.authorise_watch(TopicFilter(below + end), READER)
    bare = await server(Table("Dog", "Dog", (KEY,)))
    with pytest.raises(Error, match="the schema declares none"):
        bare.server.kernel.authorise_watch(TopicFilter(filter_), READER)


async def test_v5_m3_alarms_that_satisfy_conditions_are_followed():
    """V5, M3: a live query holds what a list with the same conditions has."""
    it = await server()
    kernel = it.server.kernel
    reader, held, steps = Subscription(kernel.reader), {}, []
    conditions = "severity==major&active==true"
    kernel.watch(reader, SubscribedFilter(TopicFilter(f"$query/$SYS/alarms/{conditions}")), ANN)

    async def check():
        await it.turn()
        for event, _ in reader.take(100):
            kind = str(step_of(event) or event.kind)
            steps.append(kind)
            if kind == "leave":
                del held[event.topic]
            elif event.topic:
                held[event.topic] = json.loads(event.payload)
        rows = await kernel.resource("$SYS/alarms/", ANN).get(
            parse_query(conditions, Table("$SYS/alarms", None))
        )
        assert list(held.values()) == rows

    await check()
    for work in (
        it.write(85), it.after(5.2), it.after(0.2), it.patch({"acknowledged": True}),
        it.patch({"shelved_for": "9s"}), it.after(9.2), it.write(70), it.after(100.2),
    ):  # fmt: skip
        await work
        await check()
    assert ["current", "enter", "change", "change", "change", "leave"] == steps


async def test_a_read_that_fails_for_a_moment_is_tried_again(monkeypatch):
    """What a result has written is read from the log; alarms do not stop for a slow disk."""
    it = await server()
    it.alarms.retry_seconds = 0
    read, errors = it.server.kernel.reader.page, [Error(Code.BUSY, "the disk is slow")] * 2

    async def page(*arguments):
        if errors:
            raise errors.pop()
        return await read(*arguments)

    monkeypatch.setattr(it.server.kernel.reader, "page", page)
    it.alarms.fall_behind(None)
    await it.write(85)
    await it.turn()
    assert ([], 1) == (errors, len(it.feature._states))
    await it.write(70)
    assert 0 == len(it.feature._states)
