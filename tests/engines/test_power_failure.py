"""What NATS has acknowledged, after a power failure: with our setting, and with its default.

The servers' disk is a file system in a file (a loop device). What the file has at one moment is
what a disk would have kept: all that was synced, and of the rest what the kernel has written.
"""

import shutil
import subprocess

import pytest

from foreign_nats import ForeignNats
from rowcast.core.errors import Error
from rowcast.engines.jetstream import JetStreamEngine, Place
from rowcast.engines.nats_connection import Connection

SECONDS = 30.0
ENTRIES = 50
DISK_BYTES = 96 << 20
MOUNT = 'mount -o loop,commit=300 "$0" "$1" && shift && exec "$@"'
"""In a namespace of its own, which takes the mount with it. The kernel would write metadata every
five seconds by itself."""


@pytest.fixture
def disk(tmp_path):
    """A file with an empty file system, and where it is mounted."""
    image, place = tmp_path / "disk", tmp_path / "mounted"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(DISK_BYTES)
    probe = ["unshare", "-m", "sh", "-c", MOUNT, str(image), str(place), "true"]
    made = shutil.which("mkfs.ext4") and shutil.which("unshare")
    if not made or subprocess.run(["mkfs.ext4", "-q", "-F", image], check=False).returncode:
        pytest.skip("there is no mkfs.ext4")
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a file system")
    return image, place


def servers(tmp_path, name, image, place, sync):
    """Return one server whose streams are on the file system of ``image``."""
    wrapper = ["unshare", "-m", "sh", "-c", MOUNT, str(image), str(place)]
    return ForeignNats(tmp_path / name, 1, [sync], wrapper, place / "streams")


def connected(running):
    place = Place("power", 1, 32 << 20, "000000aa")
    return JetStreamEngine(Connection.of(running.addresses, None, None), place, SECONDS)


def after_power_failure(tmp_path, disk, sync):
    """Return which of the acknowledged entries are there afterwards."""
    image, place = disk
    kept = tmp_path / "kept"
    with servers(tmp_path, "before", image, place, sync) as running:
        engine = connected(running)
        for number in range(1, ENTRIES + 1):
            engine.append(number, b"%d" % number)
        shutil.copyfile(image, kept)
        engine.close()
    with servers(tmp_path, "after", kept, place, sync) as running:
        engine = connected(running)
        try:
            return [int(data) for data in engine.read(0, 1 << 20)]
        except Error:  # not even where it begins
            return []
        finally:
            engine.close()


def test_what_is_synced_always_survives(tmp_path, disk):
    assert after_power_failure(tmp_path, disk, "always") == list(range(1, ENTRIES + 1))


def test_with_the_default_of_nats_acknowledged_entries_are_lost(tmp_path, disk):
    """So this test can see a loss, and a server with the default is refused for a reason."""
    assert len(after_power_failure(tmp_path, disk, "2m")) < ENTRIES
