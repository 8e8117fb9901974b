"""The service manager is told READY, WATCHDOG and STOPPING; the unit file is one it accepts."""

import asyncio
import os
import shutil
import socket
import subprocess

import pytest

from house import ROOT
from rowcast.program.systemd import service_manager
from serving import PATIENCE_SECONDS, ROWCAST, Server

UNIT = ROOT / "deploy" / "rowcast.service"
DATAGRAM_BYTES = 4096
EXPOSURE_MAX = 20
"""In tenths, of systemd's scale from 0 (nothing is reachable) to 100."""


@pytest.fixture
def listener(tmp_path):
    """A service manager's end: its socket's path, and the socket."""
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(PATIENCE_SECONDS)
        yield path, manager


def manager_of(**variables):
    return service_manager(lambda name: variables.get(name, ""))


async def received(manager):
    manager.setblocking(False)
    data = await asyncio.get_running_loop().sock_recv(manager, DATAGRAM_BYTES)
    return data.decode()


async def test_it_is_told_ready_then_stopping(listener):
    path, theirs = listener
    ours = manager_of(NOTIFY_SOCKET=path)
    ours.ready()
    ours.stopping()
    assert ["READY=1", "STOPPING=1"] == [await received(theirs) for _ in range(2)]


async def test_the_watchdog_hears_from_the_loop_again_and_again(listener):
    path, theirs = listener
    ours = manager_of(NOTIFY_SOCKET=path, WATCHDOG_USEC="2000", WATCHDOG_PID=str(os.getpid()))
    ours.ready()
    said = [await received(theirs) for _ in range(4)]
    assert ["READY=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"] == said


@pytest.mark.parametrize(
    "variables",
    [{}, {"WATCHDOG_USEC": "2000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}],
    ids=["none", "another process's", "no number"],
)
async def test_without_a_watchdog_there_are_no_signs_of_life(listener, variables):
    path, theirs = listener
    ours = manager_of(NOTIFY_SOCKET=path, **variables)
    ours.ready()
    ours.stopping()
    assert ["READY=1", "STOPPING=1"] == [await received(theirs) for _ in range(2)]


async def test_an_address_with_an_at_is_in_the_abstract_namespace():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as theirs:
        theirs.bind("")  # the kernel chooses a name there (unix(7), autobind)
        name = theirs.getsockname()[1:].decode()
        manager_of(NOTIFY_SOCKET=f"@{name}").stopping()
        assert "STOPPING=1" == await received(theirs)


async def test_without_a_manager_nothing_is_sent(caplog):
    ours = manager_of(WATCHDOG_USEC="2000")
    ours.ready()
    ours.stopping()
    assert [] == caplog.records


async def test_a_manager_that_cannot_be_reached_is_logged_and_stops_nothing(tmp_path, caplog):
    manager_of(NOTIFY_SOCKET=str(tmp_path / "absent")).ready()
    assert "the service manager was not told READY=1" in caplog.text


@pytest.mark.slow
def test_the_server_tells_it(listener, tmp_path, monkeypatch):
    """READY comes after the ports are open, so that what systemd starts next finds them."""
    path, theirs = listener
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    with Server(tmp_path) as server:
        assert b"READY=1" == theirs.recv(DATAGRAM_BYTES)
        assert 200 == server.request("GET", "/health").status_code
        assert 0 == server.stop()
        assert b"STOPPING=1" == theirs.recv(DATAGRAM_BYTES)


# -- the unit file ---------------------------------------------------------------------------------


def analyzed(*command):
    """Run systemd-analyze, which says on standard error what is wrong."""
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("systemd-analyze is not here, so deploy/rowcast.service was NOT verified")
    done = subprocess.run(
        [tool, *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    return done.returncode, done.stderr


def test_the_unit_is_accepted_by_systemd(tmp_path):
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/rowcast/bin/rowcast", str(ROWCAST)))
    assert (0, "") == analyzed("verify", "--man=no", unit)


def test_the_unit_is_hardened():
    threshold = f"--threshold={EXPOSURE_MAX}"
    assert (0, "") == analyzed("security", "--offline=true", "--no-pager", threshold, UNIT)


@pytest.mark.slow
def test_the_unit_runs_a_command_that_there_is():
    line = next(line for line in UNIT.read_text().splitlines() if line.startswith("ExecStart="))
    _, verb, *options = line.split()
    help_text = subprocess.run(
        [ROWCAST, verb, "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert [] == [name for name in options if name.startswith("--") and name not in help_text]
