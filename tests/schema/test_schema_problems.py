"""Everything wrong with a schema is told at once, with its place and how to mend it."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rowcast.core.errors import Code, Error
from rowcast.core.limits import IDENTIFIER_CHARS_MAX, NESTED_TYPES_DEPTH_MAX, SCHEMA_CHARS_MAX
from rowcast.schema import Schema, parse_schema


def problems(text):
    """Give the problems of a schema as (line, column, message, suggestion)."""
    with pytest.raises(Error) as caught:
        parse_schema(text)
    error = caught.value
    assert error.code is Code.INVALID
    lines = error.message.split("\n")
    told = error.detail["problems"]
    assert len(lines) == len(told)
    for line, item in zip(lines, told, strict=True):
        assert line.startswith(f"schema.graphql:{item['line']}:{item['column']}: {item['message']}")
    return [(item["line"], item["column"], item["message"], item["suggestion"]) for item in told]


BOTH = 'type A @table @deliver(conflate: "1s", policy: every)'
CASES = {
    "deliver empty": ("type A @table @deliver", 15, "@deliver needs a policy", ""),
    "deliver": ("type A @table @deliver(policy: last)", 32, "policy must be one of", "latest"),
    "deliver often": ('type A @table @deliver(conflate: "1ms")', 34, "conflate is from 10", ""),
    "deliver both": (BOTH, 48, "with conflate, the policy", ""),
    "deadline empty": ("type A @table @export @deadline", 23, "@deadline needs a time", ""),
    "deadline short": ("type A @table @export @deadline(after: 0)", 40, "a deadline is at", ""),
    "deadline word": ('type A @table @export @deadline(after: "x")', 40, "after must be", ""),
    "deadline hidden": ("type A @table @deadline(after: 9)", 15, "@deadline needs @export", ""),
    "alarm empty": ("type A @table @export @alarm", 23, "@alarm needs a name and a condition", ""),
    "alarm hidden": (
        'type A @table @alarm(name: "a", when: "x=1") { x: Int }',
        15,
        "@alarm needs @export",
        "",
    ),
    "alarm name": (
        'type A @table @export @alarm(name: "a/b", when: "x=1") { x: Int }',
        36,
        "an alarm's name has at most 64 letters",
        "",
    ),
    "alarm twice": (
        'type A @table @export @alarm(name: a, when: "x=1") @alarm(name: a, when: "x=2") {x: Int}',
        52,
        'A has an alarm "a" already',
        "",
    ),
    "alarm attribute": (
        'type A @table @export @alarm(name: a, when: "tmp=gt=1") { temp: Int }',
        45,
        'A declares no attribute "tmp", which an alarm needs',
        "temp",
    ),
    "alarm spaces": (
        'type A @table @export @alarm(name: a, when: "temp > 3") { temp: Int }',
        45,
        'no space is beside an operator here: "temp=gt=3" or "temp>3"',
        "",
    ),
    "alarm type": (
        'type A @table @export @alarm(name: a, when: "x=gt=warm") { x: Int }',
        45,
        "when: ",
        "",
    ),
    "alarm function": (
        'type A @table @export @alarm(name: a, when: "x=1", clear: "x=2&limit(1)") { x: Int }',
        59,
        "clear takes conditions alone",
        "",
    ),
    "alarm severity": (
        'type A @table @export @alarm(name: a, when: "x=1", severity: mayor) { x: Int }',
        62,
        "severity must be one of critical, major",
        "major",
    ),
    "alarm long": (
        'type A @table @export @alarm(name: a, when: "x=1", for: "31d") { x: Int }',
        57,
        "a condition holds for at most",
        "",
    ),
    "directive": ("type A @tabel", 8, "Unknown directive '@tabel'", "table"),
    "argument": ("type A @table(expire: 1)", 15, "Unknown argument 'expire'", ""),
    "argument near": ("type A @table(databse: 1)", 15, "Unknown argument", "database"),
    "type": ("type A @table { x: Strng }", 20, "Unknown type 'Strng'", "String"),
    "place": ("type A { x: Int @table }", 17, "Directive '@table' may not be used", ""),
    "syntax": ("typ A", 1, "Unexpected Name 'typ'", "type"),
    "syntax end": ("type A {", 9, "Expected Name, found <EOF>", ""),
    "string": ('type A @table(table: "x)', 25, "Unterminated string", ""),
    "twice": ("type A @table @table", 15, "The directive '@table' can only be used once", ""),
    "enum": ("enum Color { RED }", 1, "an enum is not supported here", ""),
    "input": ("input I { a: Int }", 1, "an input type is not supported here", ""),
    "union": ("type A union U = A", 8, "a union is not supported here", ""),
    "scalar": ("scalar Money", 1, "a scalar is not supported here", ""),
    "query": ("{ a }", 1, "a named query has a name and @query, and no braces", ""),
    "mutation": ('mutation M @query(table: A, where: "x=1")', 1, "a named query has a name", ""),
    "extend": ("type A extend type A @sealed", 8, "this definition is not supported", ""),
    "implements": ("type A implements I @table", 19, "Unknown type 'I'", "A"),
    "builtin": ("type Long @table", 6, "There can be only one type named 'Long'", ""),
    "key twice": (
        "type A @table { a: ID @primaryKey b: ID @primaryKey }",
        41,
        'a table has one @primaryKey; "a" (line 1) is it',
        "",
    ),
    "key type": ("type A @table { a: Date @primaryKey }", 25, 'the key "a" must be a stored', ""),
    "key computed": (
        "type A @table { a: ID @primaryKey @computed }",
        23,
        'the key "a" must be a stored',
        "",
    ),
    "role type": (
        "type A @table { a: Boolean @createdTime }",
        28,
        "@createdTime needs a Date, Long, Float or String",
        "",
    ),
    "two roles": (
        "type A @table { a: Date @createdTime @updatedTime }",
        17,
        '"a" cannot be both @createdTime and @updatedTime',
        "",
    ),
    "role twice": (
        "type A @table { a: Date @expiresAt b: Date @expiresAt }",
        44,
        'a table has one @expiresAt; "a" (line 1) is it',
        "",
    ),
    "index": ("type A @table { a: [Int] @indexed }", 26, '"a" cannot be indexed', ""),
    "nested": ("type A { a: ID @primaryKey }", 16, "@primaryKey belongs into a type with @t", ""),
    "logs": ('type A @table(logs: "qos")', 21, "logs must be one of all, qos1", "qos1"),
    "duration": ('type A @table(expiration: "7 days")', 27, "expiration must be seconds", ""),
    "negative": ("type A @table(history: -1)", 24, "history must be seconds", ""),
    "count": ("type A @table(maxCount: 0)", 25, "maxCount must be a whole number from 1", ""),
    "count text": ('type A @table(maxCount: "9")', 25, "maxCount must be a whole number", ""),
    "count long": (
        f"type A @table(maxCount: {'9' * 5_000})",
        25,
        "maxCount must be a whole number from 1 to 9007199254740992",
        "",
    ),
    "size": ('type A @table(maxBytes: "10 bytes")', 25, "maxBytes must be bytes or a size", ""),
    "size none": ('type A @table(maxBytes: "0.2B")', 25, "maxBytes must be bytes or a size", ""),
    "size huge": ('type A @table(maxBytes: "90000TB")', 25, "maxBytes must be bytes", ""),
    "compact": (
        "type A @table(compact: [client])",
        25,
        'compact names attributes, "topic" or "clientId", and "client" is none of them',
        "clientId",
    ),
    "compact attribute": (
        "type A @table(compact: [sites]) { site: String }",
        25,
        'compact names attributes, "topic" or "clientId", and "sites" is none of them',
        "site",
    ),
    "compact words": ("type A @table(compact: id)", 24, "compact is a list of 1 to 4 words", ""),
    "compact none": ("type A @table(compact: [])", 24, "compact is a list of 1 to 4 words", ""),
    "compact many": (
        "type A @table(compact: [a, b, c, id, topic]) { a: Int b: Int c: Int }",
        24,
        "compact is a list of 1 to 4 words",
        "",
    ),
    "compact number": (
        "type A @table(compact: [1, id])",
        25,
        "a word of compact is text in quotes",
        "",
    ),
    "compact twice": (
        "type A @table(compact: [n, n]) { n: Int }",
        28,
        'compact has "n" twice',
        "",
    ),
    "compact same": (
        "type A @table(compact: [topic, id])",
        24,
        'a topic names one record, so "topic" and "id" are the same',
        "",
    ),
    "compact float": (
        "type A @table(compact: [n]) { n: Float }",
        25,
        'events cannot be kept by "n", which is Float: name an ID, String',
        "",
    ),
    "compact list": (
        "type A @table(compact: [n]) { n: [Int] }",
        25,
        'events cannot be kept by "n", which is List',
        "",
    ),
    "compact computed": (
        'type A @table(compact: [n]) { m: Int n: Int @computed(from: "m") }',
        25,
        'events cannot be kept by "n", which is not stored',
        "",
    ),
    "no compact": ('type A @table(tombstones: "1d")', 27, "tombstones needs compact", ""),
    "tombstones": (
        'type A @table(compact: ["id"], tombstones: "1s")',
        44,
        "tombstones is from 60 s to 366 days",
        "",
    ),
    "near count": ("type A @table(maxcount: 1)", 15, "Unknown argument", "maxCount"),
    "eviction": ("type A @table(eviction: true)", 25, "eviction must be seconds", ""),
    "audit": ('type A @table(audit: "yes")', 22, "audit must be true or false", ""),
    "export": ("type A @table @export(name: 5)", 29, "name must be text in quotes", ""),
    "export door": ("type A @table @export(rest: 0)", 29, "rest must be true or false", ""),
    "export alone": ("type A @export { a: Int }", 8, "@export needs @table beside it", ""),
    "wildcard": ('type A @table @export(name: "a/+")', 29, "the name cannot begin topics", ""),
    "reserved": ('type A @table @export(name: "docs/a")', 29, '"docs" is a path of the', ""),
    "reserved type": ("type login @table @export", 19, '"login" is a path of the server', ""),
    "dollar": ('type A @table @export(name: "$x")', 29, '"$x" is a path of the server', ""),
    "table prefix": ("type Rowcast_x @table", 6, '"Rowcast_x" begins with "rowcast_"', ""),
    "table name": ('type A @table(table: "a b")', 22, '"a b" cannot name a table', ""),
    "underscore": ('type A @table(table: "_a")', 22, '"_a" begins with "_"', ""),
    "database": ('type A @table(database: "a.b")', 25, '"a.b" cannot name a table or data', ""),
    "attribute": ("type A @table { _x: Int }", 17, '"_x" begins with "_"', ""),
    "case": ("type A @table { x: Int X: Int }", 24, '"X" and "x" (line 1) differ only', ""),
    "arguments": ("type A @table { x(a: Int): Int }", 19, "attributes take no arguments", ""),
    "table nested": ("type A @table { b: B } type B @table", 20, "B is a table; add @relati", ""),
    "relation end": (
        "type A @table { b: B @relationship } type B @table",
        22,
        '"b" needs one end',
        "",
    ),
    "relation type": (
        "type A @table { x: ID b: N @relationship(from: x) } type N { a: Int }",
        26,
        "N is no table",
        "",
    ),
    "relation name": (
        "type A @table { dog_id: ID b: A @relationship(from: dog_idd) }",
        33,
        'A has no stored attribute "dog_idd"',
        "dog_id",
    ),
    "relation unknown": (
        "type A @table { x: ID b: Bee @relationship(from: x) }",
        26,
        "Unknown type 'Bee'",
        "",
    ),
    "relation list": (
        "type A @table { x: ID b: A @relationship(to: x) }",
        28,
        '"b" must be a list, as [A]',
        "",
    ),
    "itself": ("type A { b: B } type B { a: [A] }", 30, "A > B > A: a nested type cannot", ""),
    "lists": (
        f"type A @table {{ x: {'[' * 40}Int{']' * 40} }}",
        20 + NESTED_TYPES_DEPTH_MAX,
        "types nest more than",
        "",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_problem_has_its_place_and_its_mending(name):
    text, column, message, suggestion = CASES[name]
    found = [item for item in problems(text) if item[2].startswith(message)]
    assert [(1, column, suggestion)] == [(item[0], item[1], item[3]) for item in found]


def test_all_problems_are_told_at_once():
    text = """type Dog @table @exprt {
  name: Strng
  a: Long @primaryKey
  b: Int @primaryKey
}
type Cat @table(logs: "some") @export(name: "Dog")
type Rex @table @export(name: "Dog") { home: [Home] }
"""
    expected = [(1, 17), (2, 9), (4, 10), (6, 23), (7, 17), (7, 47)]
    assert expected == [item[:2] for item in problems(text)]


def test_the_sentence_ends_with_the_suggestion():
    with pytest.raises(Error) as caught:
        parse_schema("type A @tabel", "my.graphql")
    expected = "my.graphql:1:8: Unknown directive '@tabel'; did you mean \"table\"?"
    assert expected == caught.value.message


def test_two_tables_at_one_path_name_both_places():
    """A7."""
    text = 'type A @table @export\ntype B @table @export(name: "A")'
    message = 'the path "A" is exported already: by A (line 1); a path leads to one table'
    assert [(2, 15, message, "")] == problems(text)


def test_table_names_differ_by_more_than_case():
    ((line, column, message, _),) = problems("type Dog @table\ntype DOG @table")
    assert (2, 6) == (line, column)
    expected = (
        'the database "data" has the table "DOG" already, but for case: Dog (line 1); give one of '
        "them another name or another database"
    )
    assert expected == message


def test_one_database_has_a_table_once():
    """A6: which database, which table, which other type has it, and what to do."""
    text = 'type A @table(database: "a", table: "Dog")\ntype Dog @table(database: "a")'
    message = (
        'the database "a" has the table "Dog" already: A (line 1); give one of them another name '
        "or another database"
    )
    assert [(2, 6, message, "")] == problems(text)


def test_a_type_that_is_there_twice():
    ((line, column, message, _),) = problems("type A @table @export\ntype A @table @export")
    assert (2, 6) == (line, column)
    assert "type A is there already (line 1)" == message


def test_interfaces():
    found = problems("interface I { a: Int } type A implements I @table { a: Int }")
    assert ["an interface is", "interfaces are "] == [item[2][:15] for item in found]


def test_long_names():
    name = "a" * (IDENTIFIER_CHARS_MAX + 1)
    found = problems(f"type {name} @table {{ {name}: Int }}")
    assert [6, 80] == [item[1] for item in found]


def test_nested_types_too_deep():
    types = " ".join(f"type N{n} {{ x: N{n + 1} }}" for n in range(NESTED_TYPES_DEPTH_MAX + 1))
    found = problems(f"{types} type N{NESTED_TYPES_DEPTH_MAX + 1} {{ x: Int }}")
    assert ["types nest more"] == [item[2][:15] for item in found]


def test_a_schema_too_long():
    assert [1] == [item[0] for item in problems("#" * (SCHEMA_CHARS_MAX + 1))]


def test_a_schema_that_nests_without_end():
    ((_, _, message, _),) = problems("type A { x: " + "[" * 100_000)
    assert "the schema nests too deep to be read" == message


WORDS = (
    'type A B Query @table @export @sealed ( ) { } [ ] ! : , # " """ name table logs from to'
    " @primaryKey @relationship @computed @hidden ID Int Date x y 1 -1 true extend enum union |"
    " = & implements directive on scalar interface input schema fragment query $ ..."
)
TEXTS = st.lists(st.sampled_from([*WORDS.split(" "), "\n"]), max_size=30).map(" ".join)


@given(st.one_of(st.text(), TEXTS))
@example('type A @table(x: "\\uD800")')
@example("type A @table { x: A @relationship(from: x, to: x) }")
@example("type A @table { x: A @relationship(to: 5) }")
@example("type Query @table")
@example("fragment F on A { a }")
@example("schema { query: Query }")
@example("directive @x on OBJECT type A @x")
def test_any_text_is_a_schema_or_an_error(text):
    """Whatever the text, the result is a Schema or Error(INVALID) with problems."""
    try:
        schema = parse_schema(text)
    except Error as error:
        assert error.code is Code.INVALID
        assert error.detail["problems"]
    else:
        assert isinstance(schema, Schema)
