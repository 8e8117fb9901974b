"""Tests with a broker from outside: without one they are skipped, and never red."""

import pytest

from house import ROOT
from remote_broker import NEEDS_MOSQUITTO

USERS = sorted(
    path
    for path in (ROOT / "tests").rglob("test_*.py")
    if "RemoteBroker(" in path.read_text(encoding="utf-8") and path.stem != "test_remote_broker"
)


def test_its_marks_leave_them_out_of_the_quick_part_and_skip_them_without_a_program():
    assert ["interop", "skipif"] == [mark.name for mark in NEEDS_MOSQUITTO]
    assert len(USERS) > 5


@pytest.mark.parametrize("path", USERS, ids=lambda path: path.stem)
def test_each_module_that_starts_one_is_marked(path):
    assert path.read_text(encoding="utf-8").count("NEEDS_MOSQUITTO") > 1  # imported, and used
