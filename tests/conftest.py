"""Fixtures of every room; being here also lets tests import what stands beside it, as `serving`."""

import pytest

from serving import STARTER, Server

WHOLE_PROGRAM = {"e2e", "interop", "browser"}
"""Rooms whose tests start the real server: a second or two each, so the quick part leaves them."""


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent.name in WHOLE_PROGRAM:
            item.add_marker(pytest.mark.slow)


def pytest_unconfigure():
    STARTER.end()


@pytest.fixture
def server(tmp_path):
    """The whole program, as a process of its own, with the tables of `serving.SCHEMA`."""
    with Server(tmp_path) as running:
        yield running
