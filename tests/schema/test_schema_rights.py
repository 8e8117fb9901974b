"""`@auth` in a schema: what it declares, and what is wrong with it (L7)."""

import pytest

from rowcast.core.errors import Error
from rowcast.schema import parse_schema

NESTING = "type Dog @table { id: ID @primaryKey at: Place }"


def test_clauses_stand_on_tables_and_attributes():
    (table,) = parse_schema(
        'type Dog @table @export @auth(read: "owner == $user") '
        '@auth(roles: ["vet"], mask: {phone: "last4"}) {'
        ' id: ID @primaryKey owner: String phone: String chip: Int @auth(roles: ["vet"]) }'
    ).tables
    assert [frozenset(), frozenset({"vet"})] == [clause.roles for clause in table.auth]
    assert (("phone", "last4"),) == table.auth[1].masks
    assert [frozenset({"vet"})] == [clause.roles for clause in table.attribute("chip").auth]
    assert table.restricted
    assert table.ruled


def test_rules_of_roles_alone_look_at_no_record():
    (table,) = parse_schema(
        'type Dog @table @export @auth(roles: ["vet"]) @auth(read: "true") { id: ID @primaryKey }'
    ).tables
    assert (True, False) == (table.restricted, table.ruled)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("@auth", "@auth needs read, write, roles or mask"),
        ('@auth(read: "ownr == $user")', 'did you mean "owner"'),
        ("@auth(read: 3)", "read must be text"),
        ("@auth(roles: [])", "roles must be a list of names"),
        ("@auth(roles: [3])", "roles must be a list of names"),
        ('@auth(mask: "last4")', "which attributes"),
        ('@auth(mask: {owner: "most"})', "a mask is"),
        ('@auth(mask: {ownr: "last4"})', 'did you mean "owner"'),
        ('@auth(reads: "true")', 'did you mean "read"'),
    ],
)
def test_what_is_wrong_is_told_with_its_place(words, complaint):
    with pytest.raises(Error) as refused:
        parse_schema(f"type Dog @table @export {words} {{ id: ID @primaryKey owner: String }}")
    assert complaint in refused.value.message
    assert "schema.graphql:1:" in refused.value.message


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ('type Dog @table { id: ID @primaryKey @auth(roles: ["x"]) }', "the key cannot have"),
        (
            f'{NESTING} type Place @auth(roles: ["x"]) {{ x: Int }}',
            "belongs on a type with @table",
        ),
        (
            f'{NESTING} type Place {{ x: Int @auth(roles: ["x"]) }}',
            "belongs on a type with @table",
        ),
        ('type Dog @table { id: ID @primaryKey x: String @auth(mask: "x") }', "a mask is"),
    ],
)
def test_where_it_does_not_belong(schema, complaint):
    with pytest.raises(Error) as refused:
        parse_schema(schema)
    assert complaint in refused.value.message
