"""The server's threads and child processes."""

import gc
import os
import signal
import sys

import pytest

from rowcast.auth.hashes import make_hash
from rowcast.auth.verifier import make_verifier
from rowcast.core.errors import Code, Error
from rowcast.core.fairness_limits import LOCK_SECONDS
from rowcast.program import main
from rowcast.program.commands.serving import serve
from rowcast.program.threads import Threads, checks_at_once

HASHED = make_hash("pencil", b"s" * 16)
OLDER = make_verifier("pencil", b"s" * 16, 4_096)


@pytest.fixture
def threads():
    made = Threads()
    yield made
    made.stop()


@pytest.mark.slow
@pytest.mark.parametrize("kept", [HASHED, OLDER], ids=["argon2id", "PBKDF2"])
async def test_a_password_is_compared_in_a_child_process_that_may_die(threads, kept):
    assert [] == threads.hashes.pids
    assert await threads.check_password(kept.matches, "pencil")
    (child,) = threads.hashes.pids
    assert child != os.getpid()
    os.kill(child, signal.SIGKILL)
    assert not await threads.check_password(kept.matches, "eraser")
    assert [child] != threads.hashes.pids


async def test_passwords_are_refused_once_the_server_stops(threads):
    await threads.check_password(HASHED.matches, "pencil")
    threads.stop()
    with pytest.raises(Error, match="stopping") as caught:
        await threads.check_password(HASHED.matches, "pencil")
    assert Code.BUSY is caught.value.code
    assert [] == threads.hashes.pids


@pytest.mark.parametrize(("cores", "checks"), [(None, 1), (1, 1), (2, 1), (3, 2), (64, 2)])
def test_a_core_is_left_to_the_event_loop(monkeypatch, cores, checks):
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert checks == checks_at_once()


def test_the_event_loop_waits_less_for_the_lock_than_usual(monkeypatch, tmp_path):
    """L11: of searches, which run beside it."""
    usual, seen = sys.getswitchinterval(), []
    monkeypatch.setattr(main, "serve", lambda _: seen.append(sys.getswitchinterval()))
    try:
        serve(data=tmp_path)
    finally:
        sys.setswitchinterval(usual)
        gc.enable()
    assert seen == [pytest.approx(LOCK_SECONDS)]
    assert usual > LOCK_SECONDS
