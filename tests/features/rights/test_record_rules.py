"""Rules about records of a table: ``where`` and ``mask`` in rows of $SYS/rules (M9, L10)."""

import logging

import pytest

from build import refusal
from rightful import ANN, BEN, ROOT, VET, Rightful, person
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PATCH, PUT
from rowcast.core.masks import stricter
from rowcast.core.query_text import parse_query
from rowcast.core.topics import TopicFilter
from rowcast.features.rights.rule_rows import PATH, RuleTable
from rowcast.features.rights.rule_syntax import rule_of, stored_rule_of
from rowcast.schema import parse_schema

SCHEMA = "type Cat @table @export { id: ID @primaryKey site: String name: String phone: String }"
TABLES = parse_schema(SCHEMA).tables
OWN = {"filter": "Cat/#", "actions": ["read"], "where": "site in $user.sites"}
EVA = person("eva", sites=["n"])


@pytest.fixture
async def world():
    made = Rightful(SCHEMA)
    for number, site in enumerate("nsn"):
        await made.write(f"Cat/{number}", {"site": site, "phone": "123456"})
    return made


async def ids(world, caller, query=""):
    table = world.kernel.registry.route("Cat").table
    page = await world.kernel.search(table, parse_query(query, table), caller)
    return [record.topic[4:] for record in page.records]


async def test_a_rule_narrows_what_its_callers_read_and_count(world):
    """M9: others, and administrators, read what they did."""
    await world.rule("own", **OWN, roles=["guard"])
    guard = person("gus", "guard", sites=["n"])
    table = world.kernel.registry.route("Cat").table
    assert ["0", "2"] == await ids(world, guard)
    assert 2 == await world.kernel.count(table, parse_query("", table), guard)
    assert Code.NOT_FOUND == await refusal(world.value("Cat/1", guard))
    assert ["0", "1", "2"] == await ids(world, ANN) == await ids(world, ROOT)
    await world.write(f"{PATH}/own", None, ROOT, DELETE)
    assert ["0", "1", "2"] == await ids(world, guard)


async def test_any_of_several_rules_is_enough_and_one_for_all_records_lifts_them(world):
    """M9."""
    await world.rule("own", **OWN)
    await world.rule("second", filter="Cat/#", actions=["read"], where="$id == '1'", users=["eva"])
    assert ["0", "1", "2"] == await ids(world, EVA)
    assert ["0", "2"] == await ids(world, person("gus", sites=["n"]))
    assert Code.DENIED == await refusal(ids(world, ANN)), "who has no sites sees none"
    await world.rule("all", filter="Cat/#", actions=["read"], users=["ann"])
    assert ["0", "1", "2"] == await ids(world, ANN)


async def test_a_rule_allows_some_records_to_who_has_no_grants(world):
    """M9: it allows the topic, too; what is beside it stays denied."""
    await world.rule("own", **OWN)
    stranger = person("sid", grants=type(ANN.grants)(), sites=["s"])
    assert ["1"] == await ids(world, stranger)
    assert Code.DENIED == await refusal(world.write("Cat/1", {"site": "s"}, stranger))
    assert Code.DENIED == await refusal(world.kernel.read("home/a", stranger))


async def test_live_readers_are_told_what_a_change_means_to_them(world):
    """M9, L13: the table has no @auth, so that no event had the record before it until then."""
    await world.rule("own", **OWN)
    reader = world.watch("Cat/#", EVA)
    await world.write("Cat/1", {"name": "hidden"}, kind=PATCH)
    await world.write("Cat/1", {"site": "n"}, kind=PATCH)
    await world.write("Cat/0", {"site": "s"}, kind=PATCH)
    await world.write("Cat/1", None, kind=DELETE)
    await world.write("Cat/0", None, kind=DELETE)
    live = [(kind, topic) for kind, topic, _ in await world.heard(reader)]
    assert [(PUT, "Cat/1"), (DELETE, "Cat/0"), (DELETE, "Cat/1")] == live[-3:]
    again = [(kind, topic) for kind, topic, _ in await world.heard(world.watch("Cat/#", EVA, 0))]
    assert [(PUT, "Cat/0"), (PUT, "Cat/2"), *live[-3:]] == again


async def test_writers_keep_to_the_records_that_a_rule_lets_them_write(world):
    """M9: the record must satisfy it before the write and after it."""
    await world.rule("own", **OWN | {"actions": ["read", "write"]})
    await world.write("Cat/0", {"name": "a"}, EVA, PATCH)
    assert Code.DENIED == await refusal(world.write("Cat/0", {"site": "s"}, EVA, PATCH))
    assert Code.DENIED == await refusal(world.write("Cat/1", {"site": "n"}, EVA))
    assert Code.NOT_FOUND == await refusal(world.write("Cat/1", None, EVA, DELETE))
    assert Code.DENIED == await refusal(world.write("Cat/9", {"site": "s"}, EVA))
    await world.write("Cat/9", {"site": "n"}, EVA)


async def test_the_records_written_may_be_others_than_those_read(world):
    """M9: a rule about writing alone leaves reading as it is."""
    await world.rule("named", filter="Cat/#", actions=["write"], where="name == $user")
    assert ["0", "1", "2"] == await ids(world, EVA)
    assert Code.DENIED == await refusal(world.write("Cat/0", {"name": "eva"}, EVA, PATCH))
    await world.write("Cat/7", {"name": "eva"}, EVA)


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        ({}, {"mask": {"phone": "last2"}}, "***56"),
        ({"where": "site == 'n'"}, {"mask": {"phone": "last2"}}, "123456"),
        ({"mask": {"phone": "last4"}}, {"mask": {"phone": "null"}}, "***3456"),
        ({"where": "site == 's'"}, {"mask": {"phone": "null"}}, None),
    ],
)
async def test_an_attribute_is_masked_by_all_rules_that_allow_the_record_or_not_at_all(
    world, one, other, shown
):
    """M9: one that shows it is enough; a masked attribute is not compared or sorted by."""
    if one:
        await world.rule("one", filter="Cat/#", actions=["read"], **one)
    await world.rule("other", filter="Cat/#", actions=["read"], **other)
    assert shown == (await world.value("Cat/0", EVA))["phone"]
    assert Code.INVALID == await refusal(ids(world, EVA, "phone==123456"))
    assert Code.INVALID == await refusal(ids(world, EVA, "sort(phone)"))


async def test_of_the_masks_of_a_rule_and_of_auth_the_stricter_one_holds():
    """M9: the schema shows a vet the last four, and a rule less, or more."""
    world = Rightful()
    await world.write("Dog/1", {"owner": "ann", "phone": "123456"})
    for mask, shown in (("last2", "***56"), ("last6", "***3456"), ("stars", "***"), ("null", None)):
        await world.rule("less", filter="Dog/#", actions=["read"], mask={"phone": mask})
        assert shown == (await world.value("Dog/1", VET))["phone"]
    await world.rule("none", filter="Dog/#", actions=["read"], where="owner == 'ben'")
    await world.write(f"{PATH}/less", None, ROOT, DELETE)
    assert Code.NOT_FOUND == await refusal(world.value("Dog/1", ANN)), "both must let it"


def test_what_is_left_out_shows_less_than_any_mask():
    assert "" == stricter("", "null") == stricter("last1", "")
    assert ("first1", "stars") == (stricter("first1", "last2"), stricter("stars", "first1"))


async def test_rules_with_attributes_and_with_conditions_show_no_more_than_each(world):
    """M9: where both are there, the attributes named are all that is shown."""
    await world.rule("names", filter="Cat/#", actions=["read"], attributes=["name"])
    await world.rule("own", **OWN)
    assert ["0", "1", "2"] == await ids(world, EVA)
    assert {"id": "0"} == await world.value("Cat/0", EVA)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"where": "sit == 'n'"}, "sit"),
        ({"where": "site = 'n'"}, "write == to compare"),
        ({"where": 7}, "owner == $user"),
        ({"where": "site == 'n'" + " or site == 's'" * 1000}, "at most"),
        ({"where": "true", "effect": "deny"}, "allow the records that remain"),
        ({"where": "true", "attributes": ["name"]}, "hide one by mask"),
        ({"where": "true", "actions": ["publish"]}, "reading or writing records"),
        ({"where": "true", "filter": "Cat/1"}, "whole declared table"),
        ({"where": "true", "filter": "Cats/#"}, 'did you mean "Cat/#"'),
        ({"mask": {"phon": "last4"}}, 'did you mean "phone"'),
        ({"mask": {"id": "last4"}}, "'id'"),
        ({"mask": {"phone": "last"}}, "last4 (any number)"),
        ({"mask": "last4"}, '{"phone": "last4"}'),
        ({"mask": {"phone": "null"}, "actions": ["write"]}, "add it to its actions"),
    ],
)
async def test_a_rule_that_is_wrong_says_what_is_and_changes_nothing(world, facts, words):
    with pytest.raises(Error) as caught:
        await world.rule("own", **{"filter": "Cat/#", "actions": ["read"]} | facts)
    assert (Code.INVALID, True) == (caught.value.code, words in caught.value.message), caught.value
    assert not world.rights.active


def test_a_stored_rule_whose_attribute_is_gone_denies_and_is_told_of(caplog):
    """M9: after a change of the schema its callers see less, and never more."""
    row = {"filter": "Cat/#", "actions": ["read"], "where": "colour == 'red'", "roles": ["r"]}
    with pytest.raises(Error, match="colour"):
        rule_of("red", row, TABLES)
    with caplog.at_level(logging.WARNING, "rowcast.rights"):
        rule = stored_rule_of("red", row, TABLES)
    assert (False, True) == (rule.allows, rule.answers("read"))
    assert "$SYS/rules/red" in caplog.text
    assert stored_rule_of("own", OWN, TABLES) == rule_of("own", OWN, TABLES)


async def test_an_explanation_names_the_rule_and_what_does_not_hold(world):
    """M9: policy explain."""
    await world.rule("own", **OWN | {"actions": ["read", "write"]})
    world.kernel.rights.changed()

    async def explained(action, topic):
        policy = world.rights.compiled_policy_of(EVA).table(TABLES[0])
        record = await world.reader.get(TABLES[0], topic)
        return policy.explain(action == "write", record).because

    assert "the rule 'own' of Cat holds as it is now" == await explained("read", "Cat/0")
    assert "by the rule 'own', which does not hold" in await explained("read", "Cat/1")
    assert "a rule about records of Cat lets it write" in await explained("write", "Cat/0")
    decision = world.rights.decide(BEN, "read", "Cat/0")
    assert (False, True) == (decision.allowed, "no rule about records of Cat" in decision.because)


async def test_a_live_query_that_ends_leaves_events_what_rules_need(world):
    """M9, M3."""
    shape = world.kernel.registry.shapes["Cat"]
    shape.need_before("live queries")
    await world.rule("own", **OWN)
    shape.need_no_more("live queries")
    assert shape.ruled
    reader = world.watch(TopicFilter("Cat/#").text, EVA)
    await world.write("Cat/1", None, kind=DELETE)
    await world.write("Cat/2", None, kind=DELETE)
    assert [(DELETE, "Cat/2", b"")] == await world.heard(reader)


async def test_a_rule_holds_after_a_restart(world):
    """L10: what is stored is read with the tables of the schema."""
    await world.rule("own", **OWN, mask={"phone": "last2"})
    world.rights.replace(())
    again = RuleTable(world.kernel, world.rights)
    await again.load()
    assert OWN | {"mask": {"phone": "last2"}} == again.rows["own"]
    assert ["0", "2"] == await ids(world, EVA)
    assert "***56" == (await world.value("Cat/0", EVA))["phone"]
