"""Writes that only the log has, after a kill, and a schema that has changed since."""

from dataclasses import replace

import pytest
from journal_place import APPLYING, JournalPlace, abandon
from store_cases import DOG, TABLES, Writer, attribute

from rowcast.core.errors import Code, Error
from rowcast.core.tables import Table, Type
from rowcast.journal.log_replay import replay_log
from rowcast.journal.opening import log_directory

OTHERS = [table for table in TABLES if table is not DOG]
REX = {"name": "Rex", "steps": 3}


@pytest.fixture
def killed(tmp_path):
    """A place whose log has a dog that its tables lack."""
    place = JournalPlace(tmp_path, APPLYING["lagging"])
    store = place.start()
    place.applying.paused = True
    store.append(store.pack([Writer().value(DOG, "a", REX)]))
    abandon(place)
    yield place
    place.close()


def test_it_is_applied_with_the_same_schema(killed):
    assert REX.items() <= killed.start().get(DOG, "Dog/a").decoded.items()


@pytest.mark.parametrize(
    "declared",
    [
        OTHERS,
        [*OTHERS, replace(DOG, path="animals/dogs")],
        [*OTHERS, replace(DOG, path=None)],
        [
            *OTHERS,
            replace(
                DOG,
                attributes=tuple(
                    replace(item, type=Type.DATE) if item.name == "steps" else item
                    for item in DOG.attributes
                ),
            ),
        ],
    ],
    ids=["dropped", "moved", "not exported", "another type"],
)
def test_it_is_kept_when_its_table_has_changed(killed, declared):
    """A13, V4: it was acknowledged, and would be other records, or none."""
    with pytest.raises(Error, match="the log has writes of Dog that the tables do not have") as why:
        killed.start(declared)
    assert Code.INVALID is why.value.code
    assert "start the server once with the schema as it was" in why.value.message
    abandon_refused(killed)
    assert REX.items() <= killed.start().get(DOG, "Dog/a").decoded.items()
    killed.close()


def test_other_changes_are_taken(killed):
    """A13: new tables and attributes, others that are dropped, types that are wider."""
    more = replace(DOG, attributes=(*DOG.attributes, attribute("chip")))
    store = killed.start([more, Table("Bird", "Bird", DOG.attributes)])
    assert REX.items() <= store.get(more, "Dog/a").decoded.items()


def test_without_a_schema_it_is_told(killed):
    """O12: a backup that lacks what was acknowledged is none."""
    killed.close()
    with pytest.raises(Error, match="name it with --schema") as why:
        replay_log(killed.path, None)
    assert Code.INVALID is why.value.code
    replay_log(killed.path, TABLES)
    replay_log(killed.path, None)  # nothing is lacking now


@pytest.mark.parametrize("place", [0, -5], ids=["its segment", "its batch"])
def test_a_damaged_log_is_told(killed, place):
    """O12: a backup would lack what was acknowledged, and say nothing."""
    killed.close()
    (segment,) = log_directory(killed.path).glob("*.log")
    data = bytearray(segment.read_bytes().rstrip(b"\0"))
    data[place] ^= 1
    segment.write_bytes(data + data[:1])  # behind the last batch, so it is not cut short
    with pytest.raises(Error, match="the log is damaged") as why:
        replay_log(killed.path, TABLES)
    assert Code.INVALID is why.value.code


def test_a_batch_that_a_crash_cut_short_is_none(killed):
    killed.close()
    (segment,) = log_directory(killed.path).glob("*.log")
    segment.write_bytes(segment.read_bytes().rstrip(b"\0")[:-5])
    replay_log(killed.path, None)
    assert killed.start().get(DOG, "Dog/a") is None


def abandon_refused(place):
    """Close what was opened in vain, as the end of its process does."""
    store = place.stores.pop()
    store._log.close()
    store._tables.close()
