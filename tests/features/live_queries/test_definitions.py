"""Since when a named query has its conditions."""

from rowcast.core.named_queries import NamedQuery
from rowcast.core.tables import Table
from rowcast.features.live_queries.definitions import OWNER, Definitions

SENSOR = Table("Sensor", "Sensor")
HOT = NamedQuery("Hot", SENSOR, "temp=gt=80")


def begun(query, facts, position):
    """Return the definitions of a start, and what it stored in addition."""
    found = Definitions([query])
    found.restore(facts, position)
    return found, [*facts, *((change.owner, change.name, change.value) for change in found.changes)]


def test_a_name_keeps_its_beginning_until_its_conditions_change():
    found, facts = begun(HOT, [], 7)
    assert (0, 1) == (found.since("Hot"), len(found.changes)), "nobody has older records of it"
    found, facts = begun(HOT, facts, 9)
    assert (0, []) == (found.since("Hot"), found.changes)
    found, facts = begun(NamedQuery("Hot", SENSOR, "temp=gt=90"), facts[-1:], 11)
    assert (11, OWNER) == (found.since("Hot"), found.changes[0].owner)
    found, _ = begun(NamedQuery("Hot", SENSOR, "temp=gt=90"), facts[-1:], 15)
    assert (11, []) == (found.since("Hot"), found.changes)


def test_the_same_conditions_of_another_table_are_others():
    _, facts = begun(HOT, [], 1)
    found, _ = begun(NamedQuery("Hot", Table("Other", "Other"), "temp=gt=80"), facts, 5)
    assert found.since("Hot") == 5
