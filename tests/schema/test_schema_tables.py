"""A schema file becomes tables (A1 to A10)."""

import pytest

from rowcast.core.conditions import Condition, Operator
from rowcast.core.errors import Code, Error
from rowcast.core.tables import Attribute, Logs, Role, Table, Type
from rowcast.schema import Schema, load_schema, parse_schema


def one(text):
    """Give the only table of a schema."""
    (table,) = parse_schema(text).tables
    return table


def attribute(field, *, more=""):
    """Give the attribute of a table that has only this field."""
    return one(f"type T @table {{ {field} }} {more}").attributes[0]


@pytest.mark.parametrize(
    "text",
    [
        "type MyTopic @table @export",
        "type MyTopic @table @export {}",
        "type MyTopic @table @export{ }\n",
        "type MyTopic @table @export # {\n{ # }\n}",
        '"""{}"""\ntype MyTopic @table @export\n{\n}\n',
    ],
)
def test_a_table_needs_no_attributes(text):
    """A1: one line, and with empty braces."""
    table = one(text)
    assert ("MyTopic", "MyTopic", ()) == (table.name, table.path, table.attributes)
    assert table.open


def test_a_line_after_empty_braces_keeps_its_place():
    with pytest.raises(Error) as caught:
        parse_schema('type A @table {}\n"{}"\ntype B @table { x: Strng }')
    assert "schema.graphql:3:20: " in caught.value.message


@pytest.mark.parametrize("text", ["", "# nothing\n", "\ufeff", "type Query { a: Int }"])
def test_a_schema_may_declare_nothing(text):
    assert parse_schema(text) == Schema()


@pytest.mark.parametrize("name", ["ID", "String", "Int", "Long", "Float", "Decimal"])
def test_numbers_and_text(name):
    """A2."""
    assert attribute(f"x: {name}") == Attribute("x", Type(name))


@pytest.mark.parametrize("name", ["Boolean", "Date", "Bytes", "Any"])
def test_other_scalars(name):
    """A2."""
    assert attribute(f"x: {name}!") == Attribute("x", Type(name), required=True)


@pytest.mark.parametrize(("name", "type_"), [("BigInt", Type.LONG), ("Blob", Type.BYTES)])
def test_scalars_of_harper(name, type_):
    assert attribute(f"x: {name}").type is type_


def test_a_list_of_lists():
    """A2."""
    inner = Attribute("", Type.LIST, items=Attribute("", Type.INT, required=True), required=True)
    assert attribute("x: [[Int!]!]") == Attribute("x", Type.LIST, items=inner)


def test_a_nested_type():
    """A2: a type without @table is a shape; it may be sealed and hide parts."""
    expected = Attribute(
        "home",
        Type.OBJECT,
        required=True,
        fields=(Attribute("city", Type.STRING), Attribute("code", Type.INT, hidden=True)),
        type_name="Home",
        sealed=True,
    )
    more = "type Home @sealed { city: String code: Int @hidden }"
    assert attribute("home: Home!", more=more) == expected


def test_a_nested_type_is_shared():
    table = one("type T @table { a: N b: [N] } type N { x: Int }")
    assert table.attributes[0].fields is table.attributes[1].items.fields


def test_the_key_and_an_index():
    """A3, A4."""
    table = one("type T @table { id: ID @primaryKey name: String @indexed }")
    assert table.primary_key == Attribute("id", Type.ID, primary_key=True)
    assert table.attribute("name").indexed


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("type_", ["Date", "Long", "Float", "String"])
def test_roles(role, type_):
    """A5."""
    assert attribute(f"x: {type_} @{role.value}").role is role


def test_settings_of_a_table():
    """A6."""
    table = one(
        'type Dog @table(table: "dogs", database: "farm", expiration: "1h30m", eviction: 5,'
        ' scanInterval: 1, replicate: true, audit: false, logs: "qos1", history: "7d") @sealed'
    )
    expected = Table(
        "dogs", None, database="farm", sealed=True, logs=Logs.QOS1,
        expiration_seconds=5400, history_seconds=604_800,
    )  # fmt: skip
    assert expected == table


def test_m4_what_is_delivered():
    assert one('type Sensor @table @deliver(policy: "latest")').delivers_latest
    assert not one("type Sensor @table @deliver(policy: every)").delivers_latest
    assert not one("type Sensor @table").delivers_latest
    paced = one('type Sensor @table @deliver(conflate: "100ms")')
    assert (True, 0.1) == (paced.delivers_latest, paced.conflate_seconds)
    assert not one('type Sensor @table @deliver(policy: "latest")').conflate_seconds


def test_v5_alarms():
    table = one(
        'type Sensor @table @export @alarm(name: "hot", when: "temp=gt=80", for: "30s", '
        'clear: "temp=lt=75", severity: "critical", webhook: "ops") '
        '@alarm(name: "cold", when: "[temp=lt=0|temp=gt=999]&site==A") '
        "{ id: ID @primaryKey temp: Int site: String }"
    )
    hot, cold = table.alarms
    assert (Condition(("temp",), Operator.GT, 80), Condition(("temp",), Operator.LT, 75)) == (
        hot.when, hot.clear
    )  # fmt: skip
    assert ("hot", 30, "critical", "ops") == (
        hot.name, hot.for_seconds, hot.severity, hot.webhook
    )  # fmt: skip
    assert (None, 0, "major", "") == (cold.clear, cold.for_seconds, cold.severity, cold.webhook)
    assert cold.hot({"temp": -1, "site": "A"}, "1")
    assert not cold.hot({"temp": -1, "site": "B"}, "1")
    assert hot.digest != cold.digest
    assert () == one("type Sensor @table @export").alarms


def test_m4_a_deadline():
    assert 30 == one('type Sensor @table @export @deadline(after: "30s")').deadline_seconds
    assert 0 == one("type Sensor @table @export").deadline_seconds


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("60", 60), ("1.5", 1.5), ('"90"', 90), ('"45s"', 45), ('"12h"', 43_200), ('"250ms"', 0.25)],
)
def test_durations(written, seconds):
    """A6."""
    assert one(f"type T @table(expiration: {written})").expiration_seconds == seconds


def test_harpers_name_for_the_database():
    assert one('type T @table(schema: "farm")').database == "farm"


def test_a_bare_word_is_text():
    assert one("type T @table(logs: retained)").logs is Logs.RETAINED


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("", None),
        ("@export", "T"),
        ('@export(name: "dogs")', "dogs"),
        ('@export(name: "/a/b/")', "a/b"),
        ('@export(name: "")', ""),
        ('@export(name: "/")', ""),
    ],
)
def test_where_a_table_is_exported(written, path):
    """A7."""
    assert one(f"type T @table {written}").path == path


def test_doors_that_do_not_offer_a_table():
    """A7."""
    table = one("type T @table @export(rest: false, mqtt: true, sse: false)")
    assert table.hidden_from == {"rest", "sse"}


def test_one_type_related_to_another():
    """A9."""
    schema = parse_schema(
        'type Dog @table(table: "dogs") { owner_id: ID owner: Owner @relationship(from: owner_id) }'
        " type Owner @table { id: ID @primaryKey"
        ' dogs: [Dog] @relationship(to: "owner_id") @enumerable }'
    )
    owner = schema.tables[0].attribute("owner")
    dogs = schema.tables[1].attribute("dogs")
    assert ("from", "owner_id") == owner.relationship
    assert (Type.OBJECT, "Owner", False) == (owner.type, owner.type_name, owner.stored)
    assert ("to", "owner_id") == dogs.relationship
    assert (Type.LIST, "dogs") == (dogs.type, dogs.type_name)


def test_computed_attributes():
    """A9."""
    table = one('type T @table { x: Int @computed(from: "a + b", version: 2) a: Int b: Int }')
    assert table.attribute("x").computed == "a + b"
    assert attribute("x: Int @computed").computed == ""


def test_hidden_attributes():
    """A9."""
    assert attribute("x: Int @hidden").hidden


def test_docstrings():
    """A10."""
    table = one('"A dog."\ntype T @table {\n  """\n  Its name.\n  """\n  x: Int\n}')
    assert ("A dog.", "Its name.") == (table.description, table.attributes[0].description)


def test_a_file(tmp_path):
    path = tmp_path / "schema.graphql"
    path.write_text("type Hünd_ @table")
    with pytest.raises(Error) as caught:
        load_schema(path)
    assert caught.value.message.startswith(f"{path}:1:7: ")
    path.write_text("type Dog @table")
    assert load_schema(path).tables == (Table("Dog", None),)


@pytest.mark.parametrize("content", [None, b"type \xff"])
def test_a_file_that_cannot_be_read(tmp_path, content):
    path = tmp_path / "schema.graphql"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Error) as caught:
        load_schema(path)
    assert caught.value.code is Code.INVALID
    assert str(path) in caught.value.message


ROUTES = parse_schema(
    'type A @table @export(name: "a") type B @table @export(name: "a/b/c") type Inner @table'
)
CATCH_ALL = parse_schema(
    'type Rest @table @export(name: "/") type A @table @export(name: "a") { x: Int }'
)


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("a", ("A", "")),
        ("a/", ("A", "")),
        ("a/b", ("A", "b")),
        ("a/b/c", ("B", "")),
        ("a/b/c/d/e", ("B", "d/e")),
        ("a/b/cc", ("A", "b/cc")),
        ("ab", None),
        ("Inner/1", None),
        ("/a", None),
        ("", None),
    ],
)
def test_the_longest_path_wins(topic, expected):
    """A7, A11."""
    route = ROUTES.route(topic)
    assert expected == (route and (route[0].name, route[1]))


@pytest.mark.parametrize("topic", ["x", "x/y z/ü.json", "/", "/a", ""])
def test_the_root_takes_what_no_other_path_does(topic):
    """A7."""
    table, record_id = CATCH_ALL.route(topic)
    assert ("Rest", topic) == (table.name, record_id)
    assert CATCH_ALL.route("a/1")[0].name == "A"


def test_topics_of_a_route_lead_back():
    """A11."""
    for topic in ("a/1", "a/b/c/d", "a/ü ."):
        table, record_id = ROUTES.route(topic)
        assert topic == table.topic(record_id)


def test_tables_by_name_and_path():
    assert ROUTES.table("B") is ROUTES.exported("a/b/c")
    assert ROUTES.table("X") is None
    assert ROUTES.exported("Inner") is None


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("10MB", 10_000_000), ("1kB", 1_000), ("1KB", 1_000), ("512 KiB", 524_288), ("7", 7),
        ("1.5MiB", 1_572_864), ("2G", 2_000_000_000), ("1TiB", 1 << 40), ("3B", 3),
    ],
)  # fmt: skip
def test_e24_a_table_says_how_much_history_it_keeps(text, size):
    """E24, X8."""
    table = one(f'type A @table(history: "7d", maxCount: 1000, maxBytes: "{text}")')
    found = (table.history_seconds, table.history_events, table.history_bytes)
    assert (604_800, 1_000, size) == found


def test_e24_a_size_may_be_a_number_and_all_may_be_left_out():
    assert 4_096 == one("type A @table(maxBytes: 4096)").history_bytes
    table = one("type A @table")
    assert (0, 0, 0) == (table.history_seconds, table.history_events, table.history_bytes)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [('compact: ["name"]', 86_400), ('compact: [name], tombstones: "7d"', 604_800)],
)
def test_e16_a_table_says_how_long_it_keeps_tombstones(text, seconds):
    """E16: by the key of its records."""
    table = one(f"type A @table({text}) {{ name: String @primaryKey }}")
    assert (True, seconds) == (table.compacts, table.tombstone_seconds)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('["name"]', ()),
        ("[topic]", ("topic",)),
        ('["clientId"]', ("clientId",)),
        ("[site, name]", ("site", "name")),
    ],
)
def test_e16_a_table_says_by_what_it_keeps_events(text, words):
    """E16: the key of its records alone needs none besides them."""
    table = one(f"type A @table(compact: {text}) {{ name: String @primaryKey site: Long }}")
    assert (True, words) == (table.compacts, table.kept_by)
