"""Threads of a lower priority."""

import os
import sys
import threading

import pytest

from rowcast.net.background_threads import background_threads

NICE_MAX = 19
"""The tests themselves may run at it: then nothing gives way any further."""


def priority():
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a nice value for each thread")
@pytest.mark.parametrize(("asked", "more"), [(3, 3), (0, 0), (-5, 0)])
def test_only_these_threads_give_way(asked, more):
    before = priority()
    with background_threads(2, "late", before + asked) as threads:
        assert min(before + more, NICE_MAX) == threads.submit(priority).result()
        assert "late_0" == threads.submit(lambda: threading.current_thread().name).result()
    assert before == priority()
