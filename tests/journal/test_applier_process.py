"""What the server tells its applier process: little, and enough.

A process that waits is woken; one that has not reported all earlier batches has a look of its own,
or is told after its report, whichever comes first.
"""

import os
import select
from concurrent.futures import Future

import pytest

from rowcast.journal.applier_child import Child
from rowcast.journal.applier_process import ProcessApplying
from rowcast.journal.pipes import APPLY, NOTICE, SharedNumber, read_message, write_message
from rowcast.journal.writer_lock import WriterLock
from serving import PATIENCE_SECONDS


class Untaken:
    """The tables and the log, as far as the process of this test changes them."""

    path = "rowcast.db"

    def follow_writer(self):
        """Do nothing."""

    def trim(self, until):
        """Do nothing."""


class Fake:
    """An applier that does what the test says."""

    pid = 0

    def __init__(self):
        self.read, write = os.pipe()
        read, self.write = os.pipe()
        self.wanted = SharedNumber()
        self.child = Child(self, read, write, self.wanted)

    def wait(self, timeout=None):
        return 0

    def kill(self):
        """Do nothing."""

    def notices(self):
        """Return all that it was told and has not read."""
        found = []
        while select.select([self.read], [], [], 0)[0]:
            found.append(NOTICE.unpack(os.read(self.read, NOTICE.size)))
        return found


@pytest.fixture
def applier(tmp_path):
    """Give what talks to the process, the process, and a way to report and see that it is heard."""
    fake, heard = Fake(), []
    applying = ProcessApplying(
        Untaken(), tmp_path, "", Untaken(), WriterLock(tmp_path / "rowcast.db"), lambda: fake.child
    )
    reported = [Future()]

    def told(applied):
        heard.append(applied.number)
        reported.pop().set_result(applied.number)

    def report(number):
        reported.append(waiting := Future())
        message = {"applied": number, "head": 0, "generation": 0, "counts": []}
        write_message(fake.write, message | {"results": {}, "problem": "", "skipped": 0})
        assert number == waiting.result(PATIENCE_SECONDS)

    applying.start((), 7, told)
    assert read_message(fake.read)
    report(7)
    yield applying, fake, report
    os.close(fake.write)
    applying.stop()
    os.close(fake.read)


def test_a_process_that_waits_is_told(applier):
    applying, fake, _ = applier
    applying.push(8)
    assert [(APPLY, 8)] == fake.notices()
    assert 8 == fake.wanted.cell[0]


def test_a_process_that_works_is_not_told_of_each_batch(applier):
    applying, fake, report = applier
    for number in range(8, 100):
        applying.push(number)
    assert [(APPLY, 8)] == fake.notices()
    assert 99 == fake.wanted.cell[0]
    report(99)
    assert [] == fake.notices()
    applying.push(100)
    assert [(APPLY, 100)] == fake.notices()


def test_a_process_that_has_not_looked_is_told_after_its_report(applier):
    """It has seen nothing of the second, and waits."""
    applying, fake, report = applier
    applying.push(8)
    applying.push(9)
    fake.notices()
    report(8)
    assert [(APPLY, 9)] == fake.notices()
