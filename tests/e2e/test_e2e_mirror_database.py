"""The database of the mirror: what it makes, adapts and leaves alone in PostgreSQL (K16)."""

import os

import pytest

from postgres_server import running_postgres
from rowcast.core.errors import Code, Error
from rowcast.core.events import PUT, Event
from rowcast.features.mirror.columns import row_of
from rowcast.features.mirror.database import KEEPALIVES, MirrorDatabase, Place
from rowcast.features.mirror.settings import MirrorSection
from rowcast.schema import parse_schema
from serving import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(5 * PATIENCE_SECONDS)]


@pytest.fixture(scope="module")
def database():
    with running_postgres() as running:
        yield running


def is_open(filling):
    """Open it; PostgreSQL ends a connection, and its lock, some time after it is closed."""
    try:
        filling.open()
    except Error as error:
        assert error.code is Code.BUSY
        return False
    return True


def test_a_filling_after_an_interrupted_one_keeps_nothing_of_it(database):
    table = parse_schema("type Old @table @export { id: ID @primaryKey, n: Int }").tables[0]
    address = MirrorSection(url=database.url).address
    copies_of = [MirrorDatabase(address, "again", [table]) for _ in range(2)]

    def row(key, seq, n):
        return row_of(
            table, Event(f"Old/{key}", PUT, b"", None, 7, True, seq=seq), {"id": key, "n": n}
        )

    for filling, rows in zip(
        copies_of, ([("a", 900, 1), ("b", 2, 1)], [("a", 5, 42)]), strict=True
    ):
        wait_until(lambda filling=filling: is_open(filling), "the lock of the one before is free")
        generation = filling.begin_filling()
        filling.fill("Old", [row(*one) for one in rows], generation)
        if filling is copies_of[0]:
            filling.close()  # killed; another log, in which there is no b, takes its place
    last = ""
    while last is not None:  # as the mirror does
        last = filling.sweep("Old", generation, last or None, 9)
    filling.filled(Place("other", 6, generation))
    filling.close()
    assert database.ask("SELECT string_agg(id || n, ',') FROM again.\"Old\"") == "a42"


WHOLE = "type Thing @table @export { id: ID @primaryKey, n: Int, name: String }"
WITHOUT_NAME = "type Thing @table @export { id: ID @primaryKey, n: Int }"
ANOTHER = "type Other @table @export { id: ID @primaryKey }"


def opened(database, schema, declared):
    """Open a mirror of tables, and end it as if it were filled; return the place that it had."""
    mirror = MirrorDatabase(
        MirrorSection(url=database.url).address, schema, parse_schema(declared).tables
    )
    wait_until(lambda: is_open(mirror), "the lock of the one before is free")
    found = mirror.open()
    if not found.epoch:
        mirror.filled(Place("log", 9, mirror.begin_filling()))
    mirror.close()
    return found


@pytest.mark.parametrize(
    ("meanwhile", "what"),
    [
        ((), "a copy that was dropped"),
        ((WITHOUT_NAME,), "an attribute that was not declared for a while"),
        ((ANOTHER,), "a table that was not declared for a while"),
    ],
)
def test_a_copy_that_may_lack_something_is_filled_again(database, meanwhile, what):
    schema = f"lacks_{what.split()[1]}_{len(meanwhile)}"
    opened(database, schema, WHOLE)
    assert opened(database, schema, WHOLE).position == 9
    for declared in meanwhile:
        opened(database, schema, declared)
    if not meanwhile:
        database.ask(f'DROP TABLE {schema}."Thing"')
    found = opened(database, schema, WHOLE)
    assert (found.epoch, found.position) == ("", 0), what
    assert opened(database, schema, WHOLE).position == 9


def test_what_a_mirror_of_an_earlier_release_lacks_is_filled(database):
    opened(database, "earlier", WHOLE)
    database.ask("ALTER TABLE earlier._mirror DROP COLUMN columns")
    assert not opened(database, "earlier", WHOLE).epoch
    assert opened(database, "earlier", WHOLE).position == 9


def test_a_table_of_somebody_else_is_left_as_it_is(database):
    database.ask('CREATE SCHEMA theirs; CREATE TABLE theirs."Thing" (id int, name varchar(9))')
    database.ask("INSERT INTO theirs.\"Thing\" VALUES (1, 'mine')")
    mirror = MirrorDatabase(
        MirrorSection(url=database.url).address, "theirs", parse_schema(WHOLE).tables
    )
    with pytest.raises(Error, match=r'theirs\."Thing" is there, and is not a copy'):
        mirror.open()
    mirror.close()
    assert database.ask('SELECT t::text FROM theirs."Thing" t') == "(1,mine)"


def test_a_server_whose_machine_is_gone_does_not_keep_the_lock(database):
    """PostgreSQL asks after its connection; without that it would have it for hours."""
    mirror = MirrorDatabase(MirrorSection(url=database.url).address, "alive", [])
    mirror.open()
    told = [
        mirror._link.exec_driver_sql(f"SHOW tcp_keepalives_{name}").scalar() for name in KEEPALIVES
    ]
    mirror.close()
    assert told == [str(number) for number in KEEPALIVES.values()]


def test_a_text_that_an_index_does_not_take_is_left_out_alone(database):
    """Somebody's index on a column: its limit stops neither other rows nor other tables."""
    table = parse_schema(WHOLE).tables[0]
    opened(database, "indexed", WHOLE)
    database.ask('CREATE INDEX ON indexed."Thing" (name)')
    mirror = MirrorDatabase(MirrorSection(url=database.url).address, "indexed", [table])
    wait_until(lambda: is_open(mirror), "the lock of the one before is free")
    place = mirror.open()

    def changes(first, **names):
        return {"Thing": {
            key: row_of(table, Event(f"Thing/{key}", PUT, b"", None, 7, True, seq=seq),
                        {"id": key, "name": name})
            for seq, (key, name) in enumerate(names.items(), first)
        }}  # fmt: skip

    for at, names in ((10, {"a": "short"}), (11, {"a": os.urandom(5000).hex(), "b": "other"})):
        before, place = place, place._replace(position=at)
        mirror.apply(changes(at, **names), before, place)
    mirror.close()
    assert mirror.refused == 1
    assert database.ask("SELECT string_agg(id || ' ' || name, ',') FROM indexed.\"Thing\"") == (
        "b other"
    )


def test_a_column_that_somebody_has_added_stops_nothing(database):
    opened(database, "added", WHOLE)
    database.ask('ALTER TABLE added."Thing" ADD COLUMN theirs point')
    assert opened(database, "added", WHOLE).position == 9
