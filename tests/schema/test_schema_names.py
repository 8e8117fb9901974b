"""Names of tables in several databases (A6)."""

import pytest

from rowcast.schema import parse_schema
from rowcast.store.sql_tables import sql_name

DATA, A, B = "type D @table", 'type A @table(database: "a"', 'type B @table(database: "b"'


def named(*types):
    """Return name, name in the database, and SQL name of each type's table."""
    tables = parse_schema("\n".join(types)).tables
    return [(table.name, table.own_name, sql_name(table)) for table in tables]


def test_a_table_alone_has_its_own_name_in_any_database():
    """A6: what exists of it, such as snapshots, is called as before there were others."""
    assert [("Dog", "Dog", "a__Dog")] == named(f'{A}, table: "Dog")')


def test_tables_of_one_name_are_told_apart_by_their_databases():
    """A6."""
    assert [("a.Dog", "Dog", "a__Dog"), ("b.dog", "dog", "b__dog")] == named(
        f'{A}, table: "Dog")', f'{B}, table: "dog")'
    )


def test_a_table_of_the_default_database_keeps_its_name_beside_others():
    """A6."""
    assert [("a.D", "D", "a__D"), ("D", "D", "D")] == named(f'{A}, table: "D")', DATA)


def test_a_relationship_leads_to_the_table_of_the_type_that_it_names():
    """A6: both ends are checked with the right table."""
    text = """
    type Dog @table(database: "a") { owner_id: ID owner: Owner @relationship(from: owner_id) }
    type Dog2 @table(database: "b", table: "Dog") { name: String }
    type Owner @table { dogs: [Dog] @relationship(to: owner_id) }
    """
    _, _, owner = parse_schema(text).tables
    assert "a.Dog" == owner.attributes[0].type_name


@pytest.mark.parametrize(
    ("database", "name", "expected"),
    [
        ("data", "Dog", "Dog"),
        ("a", "Dog", "a__Dog"),
        ("data", "a__Dog", "data__a__Dog"),
        ("a", "b__c", "a__b__c"),
        ("a__b", "c", "a__b.c"),
        ("a_", "Dog", "a_.Dog"),
        ("_", "Dog", "_.Dog"),
    ],
)
def test_sql_names_tell_where_the_database_ends(database, name, expected):
    """A6: whatever underscores are in the names, no two tables have one SQL name."""
    text = f'type X @table(database: "{database}", table: "{name}") @export'
    assert [(name, name, expected)] == named(text)
