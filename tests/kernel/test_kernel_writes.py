"""A write on its way, and who hears of its end."""

import pytest

from build import ANN, DOG, NOTE
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PATCH, PUT, Event
from rowcast.rows.compiled_table import CompiledTable
from rowcast.writes.write import FIRE_AND_FORGET, Condition, FireAndForget, Group, Receipt, Write


@pytest.mark.parametrize(
    ("kind", "condition", "shape", "expected"),
    [
        (PUT, None, None, False),
        (PATCH, None, None, True),
        (PUT, Condition(exists=True), None, True),
        (PUT, None, CompiledTable(NOTE), False),
        (PUT, None, CompiledTable(DOG), True),
        (DELETE, None, None, False),
    ],
)
def test_which_outcomes_depend_on_the_record(kind, condition, shape, expected):
    write = Write(Event("u/1", kind, b""), ANN, FIRE_AND_FORGET, condition, shape)
    assert expected == write.depends


def test_nobody_waits_but_refusals_may_be_counted():
    refusals, refusal = [], Error(Code.BUSY, "later")
    counting = FireAndForget(refusals.append)
    for outcome in (Receipt(Event("u/1", PUT, b"")), refusal):
        counting(outcome)
        FIRE_AND_FORGET(outcome)
    assert [refusal] == refusals


def test_b11_a_group_is_its_writes_in_order():
    writes = [Write(Event(topic, PUT, b""), ANN, FIRE_AND_FORGET) for topic in ("u/2", "u/1")]
    assert writes == Group(writes).writes
