"""Topic rules as rows, and what explains them (L6, L9, L10, L17, M9)."""

import asyncio
from contextlib import suppress

import pytest

from build import code_of, refusal, turns
from rightful import ANN, BEN, BOTH, ROOT, VET, Rightful, person
from rowcast.core.callers import ALL, Grants
from rowcast.core.conditions import Condition, Operator
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, MESSAGE, PATCH
from rowcast.core.queries import Query
from rowcast.core.topics import TopicFilter, is_pattern
from rowcast.features.rights.explain import PATH as POLICY
from rowcast.features.rights.rule_rows import OWNER, PATH, RuleTable
from rowcast.kernel.reauthorization import stay
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription


@pytest.fixture
async def world():
    return Rightful()


async def test_a_denial_wins_and_names_itself(world):
    """L6: read and write apart; L9."""
    await world.rule("open", filter="home/#", actions=["all"])
    await world.rule("shut", filter="home/+/lock", effect="deny", actions=["write"], users=["ben"])
    await world.write("home/a/lock", {}, ANN)
    assert Code.DENIED == await refusal(world.write("home/a/lock", {}, BEN))
    assert {} == await world.value("home/a/lock", BEN)
    decision = world.rights.decide(BEN, "write", "home/a/lock")
    assert (False, "the rule 'shut' denies it") == (decision.allowed, decision.because)


async def test_the_first_rule_counts_from_the_next_question_and_its_end_too():
    """L8: where nothing is said but grants, nobody is asked; that is never remembered."""
    world = Rightful("type Cat @table @export { id: ID @primaryKey name: String }")
    await world.write("Cat/1", {"name": "a"}, ANN)

    async def answers():
        return [
            await refusal(world.write("home/a", {}, ANN, MESSAGE)),
            await refusal(world.write("Cat/1", {"name": "b"}, ANN)),
            code_of(world.kernel.peek, "Cat/1", ANN),
            code_of(world.rights.check_writer, "Cat/1", ANN),
        ]

    assert ([None] * 4, False) == (await answers(), world.rights.active)
    await world.rule("shut", filter="#", effect="deny", actions=["all"])
    assert [Code.DENIED] * 4 == await answers()
    await world.write(f"{PATH}/shut", None, ROOT, DELETE)
    assert [None] * 4 == await answers()


async def test_places_stand_for_the_caller(world):
    """L6: a name within one level, a claim with several values; a name with signs is none."""
    await world.rule("own", filter="s/${username}/${clientid}/#", actions=["all"])
    await world.rule("sites", filter="site/${user.sites}/x", actions=["read"])
    sites = {"sites": ["n", "s"]}
    nobody = Grants()
    caller = person("eve", grants=nobody, **sites)
    with_client = person("eve", grants=nobody)
    object.__setattr__(with_client, "client_id", "c1")
    decide = world.rights.decide
    assert decide(with_client, "write", "s/eve/c1/t").allowed
    assert not decide(with_client, "write", "s/ann/c1/t").allowed
    assert not decide(caller, "write", "s/eve/c1/t").allowed
    asked = [decide(caller, "read", f"site/{name}/x").allowed for name in ("n", "s", "w")]
    assert [True, True, False] == asked
    assert not decide(person("+", grants=nobody), "read", "s/ann/c1/t").allowed


async def test_who_may_read_nothing_else_may_watch_what_a_rule_allows(world):
    await world.rule("some", filter="home/a/#", actions=["subscribe"], roles=["guest"])
    guest = person("gus", "guest", grants=Grants())
    reader = world.watch("home/#", guest)
    assert Code.DENIED == code_of(world.watch, "garden/#", guest)
    for topic in ("home/a/1", "home/b/1"):
        await world.write(topic, {})
    assert ["home/a/1"] == [topic for _, topic, _ in await world.heard(reader)]


async def test_rules_about_single_records_keep_lists_and_counts_right(world):
    """L12: pages are as full as if what is hidden were not there, and end where that ends."""
    for number in range(1, 7):
        await world.write(f"Cat/{number}", {"name": str(number)})
    for hidden in ("2", "6"):
        await world.rule(f"not{hidden}", filter=f"Cat/{hidden}", effect="deny", actions=["read"])
    table = world.registry.route("Cat").table
    first = await world.kernel.search(table, Query(limit=3), ANN)
    second = await world.kernel.search(table, Query(limit=3, after=first.after), ANN)
    assert ["1", "3", "4"] == [item.topic[4:] for item in first.records]
    assert (["5"], "") == ([item.topic[4:] for item in second.records], second.after)
    skipping = await world.kernel.search(table, Query(limit=2, offset=1), ANN)
    assert ["3", "4"] == [item.topic[4:] for item in skipping.records]
    assert 4 == await world.kernel.count(table, Query(), ANN)
    assert 6 == await world.kernel.count(table, Query(), ROOT)


async def test_attributes_are_rights_of_their_own(world):
    """As HarperDB's attribute permissions, but for events too."""
    await world.write("Cat/1", {"name": "Tom", "age": 3, "chip": "x"})
    await world.rule("chip", filter="Cat/#", effect="deny", actions=["read"], attributes=["chip"])
    await world.rule(
        "guest", filter="Cat/#", actions=["read"], attributes=["name"], roles=["guest"]
    )
    reader = world.watch("Cat/#", ANN)
    assert {"id": "1", "name": "Tom", "age": 3} == await world.value("Cat/1", ANN)
    assert {"id": "1", "name": "Tom"} == await world.value("Cat/1", person("g", "guest"))
    await world.write("Cat/1", {"age": 4}, kind=PATCH)
    ((_, _, payload),) = await world.heard(reader)
    assert b"chip" not in payload
    assert Code.DENIED == await refusal(world.write("Cat/1", {"chip": "y"}, ANN, PATCH))


async def test_what_the_server_tells_of_itself_is_for_administrators(world):
    """L17."""
    await world.rule("any", filter="x", actions=["read"])
    for topic in ("$SYS/brokers/", "$SYS/sessions/c", PATH):
        assert Code.DENIED == code_of(world.kernel.authorise_read, topic, ANN)
        world.kernel.authorise_read(topic, ROOT)
    assert Code.DENIED == code_of(world.kernel.authorise_read, "$SYS/broker/version", ANN)
    await world.rule("mon", filter="$SYS/broker/#", actions=["read"], users=["ann"])
    world.kernel.authorise_read("$SYS/broker/version", ANN)
    assert Code.DENIED == await refusal(world.rule("mine", ANN, filter="#", actions=["all"]))
    assert Code.DENIED == await refusal(world.write("$SYS/brokers/b", {}, ANN))


async def test_a_rule_lasts_and_can_be_changed_and_removed(world):
    """L10: rows of the log; they count from the turn in which they are written."""
    revision = world.kernel.reauthorization.revision
    await world.rule("no", filter="a/#", effect="deny", actions=["write"])
    assert revision < world.kernel.reauthorization.revision
    await world.write(f"{PATH}/no", {"users": ["ben"]}, ROOT, PATCH)
    await world.write("a/b", {}, ANN)
    again = RuleTable(world.kernel, world.rights)
    await again.load()
    assert {"filter": "a/#", "effect": "deny", "actions": ["write"], "users": ["ben"]} == dict(
        again.rows["no"]
    )
    assert Code.DENIED == await refusal(world.write("a/b", {}, BEN))
    await world.write(f"{PATH}/no", None, ROOT, DELETE)
    await world.write("a/b", {}, BEN)
    assert Code.NOT_FOUND == await refusal(world.write(f"{PATH}/no", None, ROOT, DELETE))


async def test_l10_two_changes_of_one_rule_at_a_time_are_both_kept(world):
    """L10: each is acknowledged, so neither is undone by the other."""
    await world.rule("guests", filter="Cat/#", actions=["read"], roles=["guest"])
    topic, ben = f"{PATH}/guests", person("ben", "admin", grants=ALL)
    await asyncio.gather(
        world.write(topic, {"effect": "deny"}, ROOT, PATCH),
        world.write(topic, {"roles": ["guest", "vet"]}, ben, PATCH),
    )
    kept = await world.value(topic, ROOT)
    assert ("deny", ["guest", "vet"]) == (kept.get("effect"), kept["roles"])


async def test_l10_rules_of_before_are_seen_by_administrators_only():
    """Neither the first rule nor the last one's past, also when there are none any more (M9)."""
    world = Rightful("type Cat @table @export { id: ID @primaryKey }")
    reader = world.watch("$SYS/#", BEN)

    def judge():
        with suppress(Error):  # once there are rules, it is ended
            stay(world.kernel, reader)

    world.kernel.reauthorization.listen(judge)
    await world.rule("one", filter="secret/#", actions=["read"], roles=["vet"])
    await world.write(f"{PATH}/one", None, ROOT, DELETE)
    assert [] == await world.heard(reader)
    facts = world.store.states(OWNER)
    later = Rightful("type Cat @table @export { id: ID @primaryKey }", store=world.store)
    await later.rules.load(facts)
    for place in (world, later):
        for caller, seen in ((BEN, []), (ROOT, [f"{PATH}/one"] * 2)):
            window = await place.past.window(TopicFilter("$SYS/#"), None, caller)
            events = await place.past.last(window, caller, 9)
            assert seen == [event.topic for event in events]
        place.kernel.authorise_read("$SYS/broker/version", BEN)  # no rule says anything of it now


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"actions": ["read"]}, "needs a filter"),
        ({"filter": "a/#", "actions": []}, "names actions"),
        ({"filter": "a/#", "actions": ["raed"]}, 'did you mean "read"'),
        ({"filter": "a/#", "actions": ["read"], "effect": "maybe"}, '"allow" or "deny"'),
        ({"filter": "a/#", "actions": ["read"], "effect": []}, '"allow" or "deny"'),
        ({"filter": "a/#/b", "actions": ["read"]}, "#"),
        ({"filter": "a/${name}", "actions": ["read"]}, "unknown place"),
        ({"filter": "a/#", "actions": ["read"], "rolls": ["x"]}, 'did you mean "roles"'),
        ({"filter": "a/#", "actions": ["read"], "roles": "x"}, "list of names"),
        ({"filter": "a/+", "actions": ["read"], "attributes": ["x"]}, "whole table"),
    ],
)
async def test_a_rule_that_says_nothing_is_refused_with_a_reason(world, facts, words):
    with pytest.raises(Error) as refused:
        await world.rule("bad", **facts)
    assert refused.value.code is Code.INVALID
    assert words in refused.value.message
    assert not world.rights.policy.rules


async def test_live_readers_are_judged_by_the_newest_rules(world):
    """L8, with the doors: what they are given changes in the turn of the rule."""
    reader = world.watch("home/#", ANN)
    await world.write("home/1", {})
    await world.rule("no", filter="home/2", effect="deny", actions=["read"])
    world.kernel.attach_caller(reader, ANN)  # as the doors do when Access calls
    await world.write("home/2", {})
    await world.write("home/3", {})
    assert ["home/1", "home/3"] == [topic for _, topic, _ in await world.heard(reader)]


def change(kernel, caller):
    """Let everybody be somebody else from now on."""
    kernel.reauthorization.judges.append(lambda _: caller)
    kernel.reauthorization.changed()


async def test_m9_l8_rights_that_change_while_a_filter_begins_count(world):
    """M9, L8: a connection that waits for the log does not go on with the rights of before."""
    kernel, vet = world.kernel, person("vi", "vet", door="ws")
    reader = world.watch("Dog/#", vet)
    late = SubscribedFilter(TopicFilter("Cat/#"), marks=False)
    await kernel.authorise_waiting(late, vet)
    change(kernel, person("vi", door="ws"))
    stay(kernel, reader)
    kernel.watch(reader, late, vet, current=False, asked=True)
    await world.write("Dog/7", {"owner": "ben"})
    await world.write("Cat/7", {"name": "tom"})
    assert ["Cat/7"] == [topic for _, topic, _ in await world.heard(reader)]


async def test_m9_l8_a_filter_that_is_not_allowed_any_more_does_not_begin(world):
    """M9, L8: a rule may come while it waits for the log; so may the end of a user."""
    kernel = world.kernel
    reader, late = world.watch("Dog/#", ANN), SubscribedFilter(TopicFilter("Cat/#"))
    await kernel.authorise_waiting(late, ANN)
    await world.rule("no", filter="Cat/#", effect="deny", actions=["read", "subscribe"])
    with pytest.raises(Error) as refused:
        kernel.watch(reader, late, ANN, asked=True)
    assert Code.DENIED == refused.value.code
    assert "Cat/#" not in reader.interests


async def test_m3_m9_a_live_query_begins_with_the_rights_of_now(world):
    """M3, M9: it was planned before its cursor was waited for."""
    kernel, vet = world.kernel, person("vi", "vet", door="ws")
    since = kernel.committer.announced
    reader, late = Subscription(world.reader), SubscribedFilter(TopicFilter("$query/Dog/"))
    await kernel.authorise_waiting(late, vet)
    change(kernel, person("vi", door="ws"))
    kernel.watch(reader, late, vet, since, asked=True)
    await world.write("Dog/7", {"owner": "ben"})
    found = []
    for _ in range(8):
        found += [(event.kind, event.topic) for event, _ in reader.take(100)]
        await turns(6)
    assert [("reset", ""), ("current", "")] == found


async def test_the_policy_explains_itself(world):
    """M9: which rule decides, for administrators only."""
    world.people |= {"ann": ANN, "ben": BEN, "vi": VET}
    await world.write("Dog/1", {"owner": "ann"})
    await world.rule("no", filter="a/#", effect="deny", actions=["write"])

    async def ask(question, text="", caller=ROOT):
        where = Condition(("filter",), Operator.EQ, text) if text else None
        return await world.kernel.resource(f"{POLICY}/{question}", caller).get(Query(where))

    answers = {
        "ann/read/Dog/1": (True, '@auth(read: "owner == $user") of Dog'),
        "ben/read/Dog/1": (False, '@auth(read: "owner == $user")'),
        "ben/write/a/b": (False, "the rule 'no' denies it"),
        "vi/write/Dog/1": (True, "@auth of Dog"),
        "ben/subscribe/a/b": (True, "has 'read'"),
        "ben/administer/$SYS/x": (False, "has not 'administer'"),
        "ben/read/$SYS/users/ann": (False, "this is for administrators"),
        "ben/subscribe/a/#": (True, "has 'read'"),
        "ben/read/$SYS/users/#": (False, "this is for administrators"),
        "vi/subscribe/secret/#": (False, "the rule 'shut' denies it"),
        "vi/read/+/x": (True, "has 'read'"),
    }
    await world.rule("shut", filter="secret/#", effect="deny", actions=["read"])
    for question, (allowed, words) in answers.items():
        user, action, text = question.split("/", 2)
        row = await ask(question) if not is_pattern(text) else await ask(f"{user}/{action}", text)
        assert allowed is row["allowed"], question
        assert words in row["because"], question
    assert Code.DENIED == await refusal(ask("ann/read/Dog/1", caller=ANN))
    assert Code.INVALID == await refusal(ask("ann/write", "Dog/#"))
    assert Code.INVALID == await refusal(ask("ann/read", "#/a"))
    assert Code.NOT_FOUND == await refusal(ask("eve/read/Dog/1"))
    assert Code.INVALID == await refusal(ask("ann/raed/Dog/1"))


async def test_callers_that_no_rule_tells_apart_share_what_was_compiled(world):
    many = [person(f"u{number}", "vet") for number in range(50)]
    plain = Rightful("type Cat @table @export { id: ID @primaryKey }")
    await plain.rule("no", filter="a/#", effect="deny", actions=["write"])
    assert 1 == len({id(plain.rights.compiled(caller)) for caller in many})
    assert 50 == len({id(world.rights.compiled(caller)) for caller in many})


async def test_without_rules_nothing_stands_between():
    """The one look: no gate, no compiled policy, and messages go straight to the bus."""
    plain = Rightful("type Cat @table @export { id: ID @primaryKey }")
    assert not plain.rights.active
    assert plain.kernel.stage(ANN) is None
    world = Rightful()
    assert world.kernel.stage(ROOT) is None
    assert world.kernel.stage(person("a", grants=BOTH)) is not None


async def test_who_may_read_what_the_server_tells_is_not_told_the_rules(world):
    """L10: they are for administrators, however wide the rule that lets somebody read."""
    await world.rule("mon", filter="$SYS/#", actions=["read"], users=["ann"])
    reader = world.watch("$SYS/#", ANN)
    await world.rule("new", filter="home/#", effect="deny", actions=["write"])
    await world.write("$SYS/broker/x", 1)
    assert ["$SYS/broker/x"] == [topic for _, topic, _ in await world.heard(reader)]
    assert not world.rights.decide(ANN, "read", f"{PATH}/mon").allowed
    world.kernel.authorise_read(f"{PATH}/mon", ROOT)
