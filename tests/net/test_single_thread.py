"""The thread that does one call after the other, in order, and tells how each has ended."""

import logging
import threading
from concurrent.futures import Future

import pytest

from rowcast.net.single_thread import SingleThread

SECONDS = 20


@pytest.fixture
def thread():
    thread = SingleThread("rowcast-test")
    yield thread
    thread.shutdown()


def ended(thread, call):
    """Run a call, and return what it was told to have raised."""
    told = Future()
    thread.call(call, lambda: told.set_result(None), told.set_result)
    return told.result(SECONDS)


def test_calls_are_done_in_order_on_one_thread(thread):
    done = []
    for number in range(100):
        thread.call(lambda number=number: done.append((number, threading.get_ident())), int, id)
    assert ended(thread, lambda: None) is None
    assert [number for number, _ in done] == [*range(100)]
    assert 1 == len({where for _, where in done} - {threading.get_ident()})


def test_what_a_call_raises_is_told(thread):
    error = ValueError("no")

    def fail():
        raise error

    assert ended(thread, fail) is error
    assert ended(thread, lambda: None) is None


def test_it_goes_on_when_nobody_can_be_told(thread, caplog):
    """The loop may be closed meanwhile."""

    def fail(*_error):
        raise RuntimeError("Event loop is closed")

    with caplog.at_level(logging.ERROR):
        thread.call(lambda: None, fail, id)
        thread.call(fail, int, fail)
        assert ended(thread, lambda: None) is None
    assert 2 == caplog.text.count("could be told")


def test_a_result_comes_by_a_future(thread):
    assert 7 == thread.submit(lambda a, b: a + b, 3, b=4).result(SECONDS)
    with pytest.raises(ZeroDivisionError):
        thread.submit(lambda: 1 / 0).result(SECONDS)


def test_a_cancelled_call_is_not_made(thread):
    go, made = threading.Event(), []
    thread.call(lambda: go.wait(SECONDS), int, id)
    future = thread.submit(made.append, 1)
    assert future.cancel()
    go.set()
    assert ended(thread, lambda: None) is None
    assert [] == made


def test_a_stop_waits_for_what_was_asked_and_refuses_more():
    thread, done = SingleThread("rowcast-test"), []
    for number in range(10):
        thread.call(lambda number=number: done.append(number), int, id)
    thread.shutdown()
    assert [*range(10)] == done
    with pytest.raises(RuntimeError, match="rowcast-test has stopped"):
        thread.call(lambda: None, int, id)
    thread.shutdown()


def test_one_that_was_never_asked_stops_at_once():
    SingleThread("rowcast-test").shutdown()


def test_it_holds_nothing_of_a_call_that_has_ended(thread):
    """Else the largest batch would stay in memory until the next."""
    free = threading.Event()

    class Large:
        def __call__(self):
            """Do nothing."""

        def __del__(self):
            free.set()

    thread.call(Large(), int, id)
    assert free.wait(SECONDS)
