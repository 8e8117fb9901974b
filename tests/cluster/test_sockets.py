"""The address of a socket whose path is longer than the system takes (K1)."""

import socket

import pytest

from rowcast.cluster import sockets
from rowcast.cluster.sockets import PATH_BYTES_MAX, address_of
from rowcast.core.errors import Code, Error


@pytest.fixture
def deep(tmp_path):
    """A directory whose name alone is too long."""
    place = tmp_path / ("d" * PATH_BYTES_MAX)
    place.mkdir()
    return place


def test_a_short_path_is_the_address(tmp_path):
    place = tmp_path.relative_to(tmp_path) / "workers.sock"
    with address_of(place) as address:
        assert str(place) == address


@pytest.mark.skipif(not sockets.DESCRIPTORS.is_dir(), reason="this system is not Linux")
def test_a_long_path_is_listened_on_and_reached(deep):
    place = deep / "workers.sock"
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as other:
        with address_of(place) as address:
            listening.bind(address)
        listening.listen()
        assert place.is_socket()
        with address_of(place) as address:
            other.connect(address)
        there, _ = listening.accept()
        with there:
            other.sendall(b"x")
            assert b"x" == there.recv(1)


def test_a_long_path_is_refused_where_there_is_no_short_one(deep):
    with pytest.raises(Error, match="choose a data directory with a shorter path") as refused:
        address_of(deep / "workers.sock", deep / "none").__enter__()
    assert Code.INVALID is refused.value.code


@pytest.mark.skipif(not sockets.DESCRIPTORS.is_dir(), reason="this system is not Linux")
def test_a_directory_that_cannot_be_opened_is_told(deep):
    with pytest.raises(Error, match="cannot be opened") as refused:
        address_of(deep / "none" / "workers.sock").__enter__()
    assert Code.BUSY is refused.value.code
