"""The count of instructions: when callgrind is told to count, and what is read of its files."""

import pytest

from bench.case import flow
from bench.cases import CASES
from bench.instructions import LOADS_COUNTED, USUAL, Callgrind, total_in
from bench.meter import Meter
from bench.proc import BenchError

DUMP = """version: 1
pid: 7
events: Ir
fn=(1) main
16 400
totals: 400
"""


def test_what_lies_between_two_calls_is_counted(tmp_path):
    told = []
    counter = Callgrind(7, tmp_path, lambda *arguments: told.append(arguments))
    assert counter() == 0
    assert told == [("-i", "on", "7")]
    (tmp_path / "callgrind.7").write_text(DUMP.replace("400", "0"))
    (tmp_path / "callgrind.7.1").write_text(DUMP)
    (tmp_path / "callgrind.8.1").write_text(DUMP)  # the applier's
    assert counter() == 400
    assert told[1:] == [("-i", "off", "7"), ("-d", "7")]


def test_a_process_that_was_not_counted_is_told(tmp_path):
    (tmp_path / "callgrind.7").write_text(DUMP.replace("400", "0"))
    with pytest.raises(BenchError, match="counted nothing of process 7"):
        total_in(tmp_path, "7")


def test_a_meter_divides_by_messages():
    spent = iter((0.0, 5_000.0))
    meter = Meter.of({"warmup": 0, "seconds": 0, "counter": lambda: next(spent)})
    meter.start()
    assert not meter.passed(meter.next_mark, 10)
    assert meter.passed(meter.next_mark, 20)
    assert meter.figures()["server_us"] == 500e6


def test_the_usual_cases_can_be_counted():
    loads = {case.name: case.load["load"] for case in CASES}
    assert {loads[name] for name in USUAL} <= LOADS_COUNTED
    assert flow(1, 1, 0, 1)["load"] in LOADS_COUNTED
