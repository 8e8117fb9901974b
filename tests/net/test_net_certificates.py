"""Certificates in use, and their renewal without a restart (D2)."""

import asyncio
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from rowcast.core.errors import Error
from rowcast.net.certificates import Certificates, DoorTls
from rowcast.net.identity import ClientCheck, Files
from securing import Authority, ServerFiles

NOW = 1_800_000_000.0
DAY = 86_400.0


class Room:
    """Files and the certificates made of them."""

    def __init__(self, folder):
        self.now = NOW
        self.authority = Authority(folder)
        self.files = ServerFiles(folder, self.authority.issue("localhost", common_name="first"))
        check = ClientCheck(self.authority.file, required=False)
        self.made = Certificates(
            Files(self.files.certificate, self.files.key),
            {"a": DoorTls(("mqtt",), check), "b": DoorTls()},
            lambda: self.now,
        )

    @property
    def contexts(self):
        return [self.made.context(door) for door in "ab"]

    @property
    def counts(self):
        return self.made.renewals, self.made.refusals


@pytest.fixture
async def room(tmp_path):
    return Room(tmp_path)


async def test_each_door_has_its_context(room):
    assert ("localhost", "first") == room.made.load().names
    first, second = room.contexts
    assert (1, 0) == tuple(x.cert_store_stats()["x509"] for x in (first, second))


async def test_an_expired_certificate_is_told_at_the_start(room, caplog):
    room.files.write(room.authority.expired("localhost"))
    room.made.load()
    assert f"tls.certificate: {room.files.certificate}: has expired" in caplog.text


async def test_a_certificate_that_nobody_renews_is_told_of_once_a_day(room, caplog):
    end = datetime.fromtimestamp(NOW + 20 * DAY, UTC)
    room.files.write(room.authority.issue("localhost", not_after=end))
    room.made.load()
    for hour in range(24 * 22):
        room.now = NOW + hour * 3_600
        room.made.renew()
    said = [record.getMessage() for record in caplog.records]
    assert (15, 2) == (sum("expires in" in x for x in said), sum("has expired" in x for x in said))


async def test_files_that_are_as_they_were_are_not_read(room):
    room.made.load()
    before = room.contexts
    room.made.renew()
    assert (before, (0, 0)) == (room.contexts, room.counts)


async def test_new_files_are_taken(room, caplog):
    caplog.set_level(logging.INFO)
    room.made.load()
    before = room.contexts
    room.files.write(room.authority.issue("localhost", common_name="second"))
    room.made.renew()
    assert (1, 0) == room.counts
    assert not set(before) & set(room.contexts)
    assert "certificates renewed: localhost, second" in caplog.text


async def test_another_authority_is_taken_and_the_old_one_is_gone(room, tmp_path):
    """L3."""
    room.made.load()
    before = room.made.context("a").get_ca_certs()
    Authority(tmp_path, "another").file.replace(room.authority.file)
    room.made.renew()
    after = room.made.context("a").get_ca_certs()
    assert (1, 1) == (len(before), len(after))
    assert before != after


async def test_broken_files_are_told_once_and_change_nothing(room, caplog):
    room.made.load()
    before = room.contexts
    room.files.certificate.write_text("nothing")
    for _ in range(3):
        room.made.renew()
    assert (before, (0, 1)) == (room.contexts, room.counts)
    assert 1 == caplog.text.count("certificates stay as they were: tls.certificate: ")


async def test_a_missing_file_is_told_and_changes_nothing(room):
    room.made.load()
    before = room.contexts
    room.files.key.unlink()
    room.made.renew()
    assert (before, (0, 1)) == (room.contexts, room.counts)


async def test_a_certificate_that_comes_before_its_key(room):
    """Between the two they do not match; the second completes the renewal."""
    room.made.load()
    leaf = room.authority.issue("localhost", common_name="second")
    room.files.certificate.write_bytes(leaf.cert_chain_pems[0].bytes())
    room.made.renew()
    leaf.private_key_pem.write_to_path(room.files.key)
    room.made.renew()
    assert (1, 1) == room.counts


async def test_none_of_the_doors_is_renewed_when_one_cannot_be(room):
    room.made.load()
    before = room.contexts
    room.files.write(room.authority.issue("localhost", common_name="second"))
    room.authority.file.write_text("nothing")
    room.made.renew()
    assert (before, (0, 1)) == (room.contexts, room.counts)


async def test_they_are_read_anyway_when_asked(room):
    room.made.load()
    before = room.contexts
    room.made.renew(anyway=True)
    assert not set(before) & set(room.contexts)


async def test_a_change_of_time_alone_is_a_change(room):
    room.made.load()
    os.utime(room.files.certificate, (NOW, NOW))
    room.made.renew()
    assert (1, 0) == room.counts


async def test_the_first_load_raises(room):
    room.files.key.unlink()
    with pytest.raises(Error, match=r"tls\.privateKey"):
        room.made.load()


async def until(condition):
    """Wait, turn by turn, until a condition holds."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - nothing tells it
            await asyncio.sleep(0)


@pytest.mark.parametrize("asked", [True, False], ids=["asked", "of itself"])
async def test_the_watch_renews(room, asked):
    """SIGHUP, or the next look after a change."""
    seconds = 3_600 if asked else 0.001
    room.made.load()
    with ThreadPoolExecutor(1) as threads:
        watching = asyncio.create_task(room.made.watch(threads, seconds))
        if asked:
            room.made.look_now()
        else:
            room.files.write(room.authority.issue("localhost"))
        await until(lambda: room.made.renewals)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    assert watching.cancelled()
