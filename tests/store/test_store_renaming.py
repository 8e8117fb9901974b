"""Files of versions whose SQL names could be of two tables keep their rows (A6)."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from store_cases import DOG, Writer, attribute

from rowcast.core.errors import Code, Error
from rowcast.core.tables import Table
from rowcast.store.sql_tables import sql_name

FARM = Table("Dog", "farm", (*DOG.attributes[:1], attribute("name", indexed=True)), database="farm")
PLAIN = replace(FARM, name="farm__Dog", path="plain", database="data")
ODD = replace(FARM, database="a__b")


def written(place, table, former):
    """Leave a file of the version before, in which a table has one record."""
    place.start([table]).commit([Writer().value(table, "a", {"name": "Rex"})])
    place.close()
    name = sql_name(table)
    with closing(sqlite3.connect(place.path)) as file:
        if name != former:
            file.execute(f'ALTER TABLE "{name}" RENAME TO "{former}"')
            file.execute("UPDATE rowcast_tables SET name=? WHERE name=?", (former, name))
            for index in ("_expires", "name"):
                file.execute(f'DROP INDEX "rowcast_by.{name}.{index}"')
                file.execute(f'CREATE INDEX "rowcast_by.{former}.{index}" ON "{former}" ("name")')
        file.execute("UPDATE rowcast_tables SET shape=json_remove(shape,'$.database')")
        file.commit()


def name_of(store, table):
    record = store.get(table, table.topic("a"))
    return record and record.decoded["name"]


@pytest.mark.parametrize(
    ("table", "former"),
    [(FARM, "farm__Dog"), (PLAIN, "farm__Dog"), (ODD, "a__b__Dog"), (DOG, "Dog")],
    ids=["named", "default", "odd", "plain"],
)
def test_a_table_keeps_its_rows_and_its_past(place, table, former):
    """A6: also at the second start, and its indexes are called as it is."""
    written(place, table, former)
    for _ in range(2):
        store = place.start([table])
        assert "Rex" == name_of(store, table)
        assert [table.topic("a")] == [event.topic for event in store.read(0, 9, sources=[table])]
    indexes = place.sql("SELECT name FROM sqlite_master WHERE name LIKE 'rowcast_by.%'")
    assert all(name.startswith(f"rowcast_by.{sql_name(table)}.") for (name,) in indexes)


@pytest.mark.parametrize("owner", [FARM, PLAIN], ids=["named", "default"])
def test_the_path_tells_which_of_two_tables_made_it(place, owner):
    """A6: both could have had the name; the rows are those of the one that wrote them."""
    written(place, owner, "farm__Dog")
    store = place.start([FARM, PLAIN])
    assert {owner.path: "Rex"} == {
        table.path: name for table in (FARM, PLAIN) if (name := name_of(store, table))
    }


def test_what_could_be_of_either_is_not_guessed(place):
    """A6: the start is refused, and nothing has changed."""
    written(place, replace(PLAIN, path="former"), "farm__Dog")
    with pytest.raises(Error, match="'farm__Dog' that may be the one of farm__Dog in 'data'") as no:
        place.start([FARM, PLAIN])
    assert Code.INVALID == no.value.code
    assert "Rex" == name_of(place.start([PLAIN]), PLAIN)


def test_a_table_of_today_is_not_taken_for_another(place):
    """A6: the file says which database each table is in."""
    place.start([FARM]).commit([Writer().value(FARM, "a", {"name": "Rex"})])
    store = place.start([PLAIN])
    assert store.get(PLAIN, "plain/a") is None
    assert "Rex" == name_of(place.start([FARM, PLAIN]), FARM)
