"""Copies of the tables for nodes that have none (K12)."""

import asyncio
import hashlib
import time

import pytest

from rowcast.cluster.messages import BATCH, COPY, COPY_END, COPY_PART, REFUSED, pack, unpack
from rowcast.cluster.table_copies import PART_BYTES, SUFFIX, CopyReceiver, TableCopies
from rowcast.core.errors import Code, Error
from rowcast.journal.node_opening import inspect_tables, open_follower
from serving import until

EPOCH = "0123abcd"


class CopyTarget:
    """A connection that notes what it is sent; it is full after so many messages."""

    def __init__(self, room=1 << 30):
        self.sent, self.room, self.is_open = [], room, True
        self.on_room = lambda: None

    @property
    def full(self):
        return len(self.sent) >= self.room

    def send(self, message):
        self.sent.append(message)


@pytest.fixture
def database(tmp_path):
    """A database file of some parts."""
    file = tmp_path / "rowcast.db"
    store = open_follower(f"sqlite:///{file}", EPOCH, time.time, "")
    store.open(())
    store.close()
    return file


@pytest.mark.heavy
async def test_what_was_sent_is_what_comes(tmp_path, database):
    copies, target = TableCopies(database), CopyTarget()
    copies.begin(target)
    await until(lambda: target.sent and unpack(target.sent[-1])[0] == COPY_END)
    copy = tmp_path / "target.db"
    receiver, asked = CopyReceiver(copy), []
    receiver.ask(asked.append)
    assert [unpack(message) for message in asked] == [(COPY, None)]
    for message in target.sent:
        receiver.received(message)
    await receiver.done
    assert inspect_tables(f"sqlite:///{copy}") == inspect_tables(f"sqlite:///{database}")
    assert copy.stat().st_mode & 0o777 == 0o600
    assert not database.with_name(database.name + SUFFIX).exists()
    receiver.lost()  # after its end it is nothing


async def test_it_waits_for_room_and_ends_with_the_connection(tmp_path, monkeypatch):
    file = tmp_path / "large"
    file.write_bytes(bytes(5 * PART_BYTES))
    target, copies = CopyTarget(room=2), TableCopies(file)
    sending = asyncio.create_task(copies._send_file(target, file))
    await until(lambda: len(target.sent) == 2)
    target.room = 4
    target.on_room()
    await until(lambda: len(target.sent) == 4)
    target.is_open = False
    target.on_room()
    await sending
    assert len(target.sent) == 4


async def test_tables_that_cannot_be_copied_are_told(tmp_path):
    file = tmp_path / "rowcast.db"
    file.write_bytes(b"no database")
    copies, target = TableCopies(file), CopyTarget()
    copies.begin(target)
    await until(lambda: target.sent)
    receiver = CopyReceiver(tmp_path / "target.db")
    receiver.ask(lambda message: None)
    receiver.received(target.sent[0])
    with pytest.raises(Error, match="the tables cannot be copied"):
        await receiver.done
    assert not (tmp_path / "target.db").exists()


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (lambda it: it.received(pack(COPY_END, hashlib.sha256(b"other").digest())), Code.INVALID),
        (lambda it: it.received(pack(REFUSED, "no")), Code.BUSY),
        (lambda it: it.lost(), Code.BUSY),
    ],
    ids=["damaged", "refused", "lost"],
)
async def test_half_a_copy_is_none(tmp_path, end, code):
    file = tmp_path / "target.db"
    receiver = CopyReceiver(file)
    receiver.ask(lambda message: None)
    receiver.received(pack(COPY_PART, b"half"))
    end(receiver)
    with pytest.raises(Error) as caught:
        await receiver.done
    assert caught.value.code is code
    assert not file.exists()


async def test_anything_else_is_no_copy(tmp_path):
    receiver = CopyReceiver(tmp_path / "target.db")
    with pytest.raises(Error, match="instead of a copy"):
        receiver.received(pack(BATCH, b""))
    receiver.lost()
    with pytest.raises(Error):
        await receiver.done
