"""A full disk: writers are told, nothing is announced, and the server goes on when there is room.

Twice: a limit on the size of files, which anyone may set on a process of theirs (EFBIG), and a file
system of some megabytes that is filled up (ENOSPC), where this user may mount one.
"""

import json
import resource
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from rowcast.mqtt.packets import MQTT_3_1_1
from serving import Server, wait_until
from talking import Closed, Events, Mqtt, open_websocket, told, user_properties

FILL_BYTES = 65_536
LARGE = b'{"n": 2, "pad": "%s"}' % (b"x" * 10_000)
"""As large as what was refused: a full disk may still take a few bytes."""
TMPFS = 'mount -t tmpfs -o size=8m tmpfs data && exec "$@"'


class FileSizeLimit:
    """Files may not grow, nor be written at all."""

    def __init__(self, server):
        self._pid = server.running.pid

    def fill(self):
        resource.prlimit(self._pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    def free(self):
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(self._pid, resource.RLIMIT_FSIZE, unlimited)


class TablesLimit(FileSizeLimit):
    """The files of the tables may not grow; those of the log may."""

    def __init__(self, server):
        self._pid = server.applier


class SmallFileSystem:
    """A file system of the server's own mount namespace, which ends with it."""

    def __init__(self, server):
        root = Path(f"/proc/{server.running.pid}/root")
        self._file = root / server.folder.relative_to("/") / "data" / "filler"

    def fill(self):
        with self._file.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(FILL_BYTES))

    def free(self):
        self._file.unlink()


def may_mount():
    """Return whether a server may be given a file system of its own."""
    if not shutil.which("unshare"):
        return False
    probe = ["unshare", "-m", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
    return 0 == subprocess.run(probe, capture_output=True, check=False).returncode


@pytest.fixture(params=[FileSizeLimit, SmallFileSystem], ids=["EFBIG", "ENOSPC"])
def disk(request, tmp_path):
    """A server and the disk that it writes to."""
    wrapper = ()
    if request.param is SmallFileSystem:
        if not may_mount():
            pytest.skip("this user may not mount a file system")
        (tmp_path / "data").mkdir()
        wrapper = ("unshare", "-m", "sh", "-c", TMPFS, "sh")
    with Server(tmp_path, wrapper=wrapper) as server:
        made = request.param(server)
        made.server = server
        yield made


def put(disk, n):
    """Write over HTTP."""
    return disk.server.request("PUT", "/Counter/a", json={"n": n, "pad": "x" * 10_000})


def fill(disk):
    """Fill the disk, and write until there is no room left in the files either."""
    disk.fill()
    return wait_until(lambda: (r := put(disk, 1)).is_error and r, "a write is refused")


def ready(disk):
    """Return what the server says of its health."""
    return disk.server.request("GET", "/health/ready")


def value(disk):
    """Return what is at the record."""
    return disk.server.request("GET", "/Counter/a").json()["n"]


def test_http_is_told_503_and_when_to_come_back(disk):
    put(disk, 0)
    refused = fill(disk)
    assert (503, True) == (refused.status_code, "Retry-After" in refused.headers)
    assert "busy" == refused.json()["code"]


def test_11a_health_says_it_with_the_first_refused_write_and_recovers(disk):
    """Not seconds later, though it had looked a moment before."""
    put(disk, 0)
    wait_until(lambda: ready(disk).is_success, "the server is ready")
    fill(disk)
    refused = ready(disk)
    assert 503 == refused.status_code
    assert "ok" != refused.json()["checks"]["store"], refused.text
    disk.free()
    wait_until(lambda: ready(disk).is_success, "the server is ready again")


def test_mqtt_5_is_told_and_keeps_its_connection(disk):
    put(disk, 0)
    with Mqtt(disk.server.mqtt_port) as client:
        fill(disk)
        refused = client.publish("Counter/a", LARGE)
        disk.free()
        accepted = client.publish("Counter/a", b'{"n": 3}')
    assert [0x97, 0] == [refused.reason, accepted.reason]
    assert 3 == value(disk)


def test_mqtt_3_is_not_acknowledged(disk):
    """It has no word for a refusal: the connection ends, so that the client sends it again."""
    put(disk, 0)
    with Mqtt(disk.server.mqtt_port, MQTT_3_1_1, "c") as client:
        fill(disk)
        with pytest.raises(Closed):
            client.publish("Counter/a", LARGE)


def test_nothing_refused_is_announced_or_kept(disk):
    """Readers by every door hear the write before and the write after, none in between."""
    put(disk, -1)
    path = "/Counter/a?start=new"
    with (
        Events(disk.server, path) as events,
        open_websocket(disk.server, path) as websocket,
        Mqtt(disk.server.mqtt_port) as client,
    ):
        client.subscribe("Counter/a", retain_handling=2)
        disk.fill()
        # In the first of them there may be room left in a file.
        stored = [-1, *(n for n in range(40) if put(disk, n).is_success)]
        assert len(stored) < 40
        assert stored[-1] == value(disk)
        disk.free()
        last = put(disk, 100).headers["Rowcast-Position"]
        stored = [*stored[1:], 100]
        assert stored == heard(events.next, len(stored))
        assert stored == heard(lambda: told(websocket), len(stored))
        messages = [client.message() for _ in stored]
    assert stored == [json.loads(message.payload)["n"] for message in messages]
    assert last == user_properties(messages[-1])["seq"]


def heard(next_event, count):
    """Return the values of the next changes."""
    values = []
    while len(values) < count:
        event = next_event()
        if event.kind == "put":
            values.append(event.value["n"])
    return values


def test_the_server_goes_on_when_there_is_room(disk):
    put(disk, 0)
    fill(disk)
    assert value(disk) in {0, 1}  # reading goes on all the time
    disk.free()
    assert (204, 7) == (put(disk, 7).status_code, value(disk))


def test_tables_that_do_not_follow_refuse_writers_and_readers_soon(tmp_path):
    """What is in the log is a record, and is in every answer when the tables follow again."""
    settings = {"log.lag_events": 3, "log.lag_seconds": 60, "mqtt.sys_interval": 0}
    with Server(tmp_path, settings=settings | {"client_events.enabled": False}) as server:
        disk = TablesLimit(server)
        disk.server = server
        disk.fill()
        refused = [put(disk, n) for n in range(5)][-1]
        listed = server.request("GET", "/Counter/")
        ready = server.request("GET", "/health/ready").json()
        assert (503, 503, False) == (refused.status_code, listed.status_code, ready["ready"])
        assert "disk" in refused.json()["detail"]
        assert refused.json()["detail"] == listed.json()["detail"] == ready["checks"]["store"]
        assert (3, 4) == (value(disk), server.request("GET", "/health").json()["lag_events"])
        metrics = server.request("GET", "/metrics").text
        assert "rowcast_store_lag_events 4.0" in metrics
        disk.free()
        wait_until(lambda: put(disk, 5).is_success, "a write is accepted")
        assert [5] == [record["n"] for record in server.request("GET", "/Counter/").json()]
        history = server.request("GET", "/Counter/a?from=0").json()
        assert [0, 1, 2, 3, 5] == [event["value"]["n"] for event in history]
        assert 0 == server.request("GET", "/health").json()["lag_events"]


@pytest.mark.parametrize("disk", [FileSizeLimit], indirect=True)  # the other's data go with it
def test_a_restart_after_a_full_disk_keeps_what_was_acknowledged(disk):
    put(disk, 0)
    fill(disk)
    kept = value(disk)
    disk.server.kill()
    disk.server.start()
    assert kept == value(disk)


def test_a_result_that_cannot_be_kept_is_refused_whole_and_taken_later(disk):
    """S14: while it is brought it needs the disk, too."""
    rows = [{"id": f"r{n}", "n": n, "pad": "x" * 10_000} for n in range(10)]
    part = {"table": "Counter", "rows": rows}
    order = {"table": "Counter", "job": "hourly", "upload": "up", "parts": ["0"], "rows": 10}
    place = "/$SYS/results/"
    put(disk, 0)
    fill(disk)
    refused = disk.server.request("PUT", f"{place}up/0", json=part)
    assert 503 == refused.status_code
    assert "the rows of a result cannot be kept until its commit" in refused.text
    disk.free()
    wait_until(lambda: put(disk, 1).is_success, "a write is accepted")
    assert "there is no upload up" in disk.server.request("POST", place, json=order).text
    assert disk.server.request("PUT", f"{place}up/0", json=part).is_success
    assert len(rows) == disk.server.request("POST", place, json=order).json()["written"]
    assert len(rows) + 1 == len(disk.server.request("GET", "/Counter/?select(id)").json())
