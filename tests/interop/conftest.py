"""One process serves a module of tests here; each test finds it empty."""

import pytest

from serving import Server
from talking import wipe


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def server(process):
    wipe(process)
    return process
