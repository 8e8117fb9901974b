"""Fixtures of every room; being here also lets tests import what stands beside it, as `serving`."""

import pytest

from serving import Server


@pytest.fixture
def server(tmp_path):
    """The whole program, as a process of its own, with the tables of `serving.SCHEMA`."""
    with Server(tmp_path) as running:
        yield running
