"""Live queries of rules: rows of ``$SYS`` that are records (M3, M9, L10)."""

import random

import pytest
from query_readers import Sse, Ws, query_server, turns
from related_dogs import watch
from row_readers import NOTHING, RowMqtt, RowOldMqtt

from build import refusal
from rightful import ANN, ROOT, Rightful, person
from rowcast.core.callers import ALL
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PUT
from rowcast.features.rights.rule_rows import PATH
from rowcast.kernel.reauthorization import stay

DENIALS = f"$query/{PATH}/effect==deny"
ASKED = ("effect==deny", "users==null", "filter=sw=a/&sort(-filter)&limit(2)", "roles=ct=vet")
EVE = person("eve", grants=ALL)
"""She administers, and has no role: a change of the rules may change what she may read."""


def some_rule(chance):
    """Return a random rule, or what removes one."""
    if chance.random() < 0.25:
        return DELETE, None
    rule = {"filter": chance.choice(("a/#", "a/b", "c")), "actions": ["write"]}
    rule |= {"effect": chance.choice(("allow", "deny"))}
    return PUT, rule | chance.choice(({}, {"users": ["x"]}, {"roles": ["vet"]}))


async def change(server, chance, most):
    """Change some rules."""
    for _ in range(chance.randrange(1, most + 1)):
        kind, value = some_rule(chance)
        await refusal(server.kernel_write(f"{PATH}/{chance.choice('1234')}", value, kind))


@pytest.mark.parametrize("seed", range(8))
async def test_m3_l10_each_door_holds_the_rules_that_rest_answers(seed):
    """M3, L10: after each change, and after cuts."""
    chance = random.Random(seed)
    async with query_server(NOTHING, caller=ROOT, rows=PATH) as opened:
        server = opened.server
        server.kernel_write = lambda *parts: Rightful.write(server, *parts[:2], ROOT, parts[2])
        await change(server, chance, 4)
        doors = (Sse, Ws, RowMqtt, RowOldMqtt)
        await opened.open(ASKED[seed % len(ASKED)], doors)
        await opened.check()
        for number in range(16):
            away = [reader for reader in opened.readers if number % 4 == 3]
            for reader in away:
                await reader.cut()
            await turns(12)
            await change(server, chance, 3 if away else 1)
            for reader in away:
                await reader.ask(opened.conditions)
            await opened.settle()
            await opened.check()
        assert 2 <= len({kind for reader in opened.readers for kind in reader.heard})
    assert {} == server.kernel.live.followers == server.live_queries.systems.paths


async def test_m3_l10_a_change_of_a_rule_is_one_step_and_one_event():
    """M3, L10: of a reader with both filters: the event of the log, and the step."""
    server = Rightful()
    reader, heard = await watch(server.kernel, DENIALS, ROOT)
    assert [("current", "")] == await heard()
    _, events = await watch(server.kernel, f"{PATH}/#", ROOT)
    await events()
    for facts in ({"effect": "deny"}, {"effect": "deny", "users": ["x"]}, {"effect": "allow"}):
        await server.rule("1", filter="a/#", actions=["read"], **facts)
    assert ["enter", "change", "leave"] == [kind for kind, _ in await heard()]
    assert [("put", f"{PATH}/1")] * 3 == await events()
    server.kernel.close(reader)
    assert {} == server.kernel.live.followers


async def test_m3_l10_a_plain_filter_begins_with_each_rule_once():
    """L10: its record of the log, and no row beside it."""
    server = Rightful()
    await server.rule("1", filter="a/#", actions=["read"])
    await server.rule("2", filter="b/#", actions=["read"])
    reader = server.watch(f"{PATH}/#", ROOT, current=True)
    found = [topic for _, topic, _ in await server.heard(reader)]
    assert [f"{PATH}/1", f"{PATH}/2"] == found


async def test_m3_m9_rules_are_for_administrators():
    """M3, M9: nobody else follows them; what is hidden from one is in no list of REST either."""
    server = Rightful()
    with pytest.raises(Error) as refused:
        await watch(server.kernel, DENIALS, ANN)
    assert Code.DENIED == refused.value.code
    await server.rule("eve", filter="$SYS/#", actions=["read"], users=["eve"])
    reader, heard = await watch(server.kernel, DENIALS, EVE)
    assert [("current", "")] == await heard()
    await server.rule("1", filter="a/#", effect="deny", actions=["read"])
    stay(server.kernel, reader)
    again = [("reset", ""), ("snapshot", f"{PATH}/1"), ("current", "")]
    assert again == (await heard())[:3]
    hidden = f"{PATH}/1"
    await server.rule("2", filter=hidden, effect="deny", actions=["read"], users=["eve"])
    stay(server.kernel, reader)
    assert [("reset", ""), ("snapshot", f"{PATH}/2"), ("current", "")] == (await heard())[:3]
    listed = await server.kernel.resource(f"{PATH}/", EVE).get()
    assert {"eve", "2"} == {row["id"] for row in listed}


async def test_l10_a_list_of_rules_knows_their_members():
    """L10, P5: those that no rule has now, and no others."""
    async with query_server(NOTHING, caller=ROOT, rows=PATH) as opened:
        rule = {"filter": "a/#", "actions": ["write"], "effect": "allow"}
        await Rightful.write(opened.server, f"{PATH}/1", rule, ROOT)
        assert b'"id":"1"' in (await opened.rest.get(f"/{PATH}/?users==null")).body
        answer = await opened.rest.get(f"/{PATH}/?usrs==ann")
    assert 400 == answer.status
    assert b'did you mean \\"users' in answer.body
