"""Fixtures of every room; being here also lets tests import what stands beside it, as `serving`."""

import asyncio
import gc
import os
import signal

import hypothesis
import pytest
import uvicorn.server

from amounts import LONG as ALL_SEEDS
from amounts import amount, few_seeds, spread
from rowcast.core.compiled import CODE
from serving import STARTER, Server
from tracebacks import Tracebacks
from turns import LONG, long_ones_first

WHOLE_PROGRAM = {"e2e", "interop", "browser"}
"""Rooms whose tests start the real server: a second or two each, so the quick part leaves them."""


FIRST = ("spark", "tests")
"""The folders whose tests come first: so they are all in the hands of one process of several, which
starts Spark once, and parses the project's sources once. Processes that have nothing left take over
tests from the end."""


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell has what it runs in the background ignore Ctrl-C, and all that this starts, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis.settings.register_profile(
    "rowcast",
    deadline=None,  # a busy machine fails no test
    max_examples=amount(long=100, short=40),
)
hypothesis.settings.load_profile("rowcast")


class Impatient:
    """What uvicorn takes for asyncio: it looks around every tenth of a second, and at its end too.

    Several hundred tests start a server in their own loop and end it.
    """

    def __getattr__(self, name):
        return getattr(asyncio, name)

    @staticmethod
    async def sleep(seconds):
        loop = asyncio.get_running_loop()
        over = loop.create_future()
        timer = loop.call_later(min(seconds, 0.002), over.set_result, None)
        try:
            await over
        finally:
            timer.cancel()


uvicorn.server.asyncio = Impatient()

gc.disable()  # until all tests are collected, which leaves next to no garbage

YOUNG_OBJECTS, MIDDLE_ROUNDS, OLD_ROUNDS = 20_000, 5, 50
"""Thresholds of the collector: with those of the server it took a tenth of all CPU time."""

LOG_LETTERS = 4000
"""Shown of each log of a failed test, from its end."""


def pytest_addoption(parser):
    parser.addoption("--cases", type=int, help="run at most so many cases of each test")
    times = amount(long=200, short=60)
    parser.addoption("--times", type=int, default=times, help="at which the past is compared (M6)")
    parser.addoption("--inputs", type=int, default=2, help="over which jobs are compared (S9)")


def pytest_collection_modifyitems(config, items):
    items.sort(key=lambda item: _turn(item.path.parent.name))
    for item in items:
        if item.path.parent.name in WHOLE_PROGRAM:
            item.add_marker(pytest.mark.slow)
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if processes > 1:
        items[:] = long_ones_first(items, lambda item: item.path.name in LONG, processes)


def _turn(folder):
    return FIRST.index(folder) if folder in FIRST else len(FIRST)


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc):
    """Leave out cases of a test that has too many, by `--cases` or by their seeds.

    Here, and not among the items of all cases, which take pytest half a millisecond each to make.
    """
    result = yield
    most, cases = metafunc.config.getoption("cases"), metafunc._calls
    if cases and "seed" in cases[0].params and not ALL_SEEDS:
        cases[:] = few_seeds(cases, [_without_seed(case) for case in cases])
    if most:
        cases[:] = spread(cases, most)
    return result


def _without_seed(case):
    """Return the other parameters of a case: as text, for a value may have no hash."""
    return repr([value for name, value in case.params.items() if name != "seed"])


def pytest_collection_finish():
    """Look for garbage seldom, and never among the tests themselves: half a million objects.

    What a test leaves behind is small, and a test that counts what is left collects by itself.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, MIDDLE_ROUNDS, OLD_ROUNDS)
    gc.enable()


def pytest_runtest_setup(item):
    if CODE == "compiled" and item.get_closest_marker("interpreted"):
        pytest.skip("it replaces code that is compiled here")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """Show what the programs of a failed test have written."""
    report = (yield).get_result()
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    if report.failed and folder is not None:
        for file in sorted(folder.rglob("*.log")):
            told = file.read_text(errors="replace")[-LOG_LETTERS:]
            report.sections.append((str(file.relative_to(folder)), told))


def pytest_unconfigure():
    STARTER.end()


TRACEBACKS = Tracebacks()


@pytest.fixture(autouse=True)
def no_tracebacks(request):
    """Fail a test in whose time a subscriber raised; one that uses `caplog` expects it."""
    TRACEBACKS.seen.clear()
    yield
    seen = TRACEBACKS.seen
    assert not seen or "caplog" in request.fixturenames, seen[0]


@pytest.fixture
def server(tmp_path):
    """The whole program, as a process of its own, with the tables of `serving.SCHEMA`."""
    with Server(tmp_path) as running:
        yield running
