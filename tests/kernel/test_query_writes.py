"""Writes by query in the kernel: the caller's rights, and records that change meanwhile (B12)."""

import pytest

from build import ANN, NOTE, Server
from rightful import ANN as OWNER
from rightful import Rightful
from rowcast.core.errors import Code, Error
from rowcast.core.events import DELETE, PATCH, Event
from rowcast.core.query_text import parse_query
from rowcast.core.query_write_limits import QUERY_WRITE_ATTEMPTS_MAX
from rowcast.kernel.query_writes import QueryWrite, QueryWrites

OWNED = """
type Dog @table @export @auth(read: "owner == $user", write: "owner == $user && locked != true") {
  id: ID @primaryKey
  owner: String
  locked: Boolean
  chip: String @auth(roles: ["vet"])
}
"""


def asked(table, query, kind=DELETE, payload=b"", confirm=None):
    event = Event("", kind, payload, "application/json" if payload else None, 1, retain=True)
    return QueryWrite(event, table, parse_query(query, table), 100, confirm)


# -- rights ----------------------------------------------------------------------------------------


@pytest.fixture
async def owned():
    server = Rightful(OWNED)
    for record_id, owner, locked in (("1", "ann", False), ("2", "ben", False), ("3", "ann", True)):
        await server.write(f"Dog/{record_id}", {"owner": owner, "locked": locked})
    return server


def topics(server):
    return [topic for topic in ("Dog/1", "Dog/2", "Dog/3") if server.cache.whole(topic) is not None]


async def test_only_what_the_caller_sees_is_selected(owned):
    """B12, L12: another's record is neither counted nor written."""
    (table,) = owned.tables
    preview = await owned.kernel.query_writes.preview(asked(table, "id=sw="), OWNER)
    assert (preview.count, preview.sample) == (2, ("1", "3"))
    done = await owned.kernel.query_writes.write(asked(table, "locked=false"), OWNER)
    assert (len(done), topics(owned)) == (1, ["Dog/2", "Dog/3"])


async def test_one_record_that_may_not_be_written_refuses_all(owned):
    """B12, M9."""
    (table,) = owned.tables
    with pytest.raises(Error, match="you may not write 'Dog/3'") as failure:
        await owned.kernel.query_writes.write(asked(table, "id=sw="), OWNER)
    assert failure.value.code is Code.DENIED
    assert topics(owned) == ["Dog/1", "Dog/2", "Dog/3"]


async def test_an_attribute_that_is_masked_selects_nothing(owned):
    """L12: otherwise the number of records would tell its value."""
    (table,) = owned.tables
    with pytest.raises(Error, match="no attribute 'chip'"):
        await owned.kernel.query_writes.write(asked(table, "chip=1"), OWNER)


# -- races -----------------------------------------------------------------------------------------


class Racing:
    """Reads of a kernel, after each of which something else happens."""

    def __init__(self, kernel, race):
        self._kernel = kernel
        self._race = race
        self.reads = 0

    async def search(self, table, query, caller):
        page = await self._kernel.search(table, query, caller)
        self.reads += 1
        await self._race(self.reads)
        return page

    async def count(self, table, query, caller):
        return await self._kernel.count(table, query, caller)


async def racing(race, **limits):
    """Return a server with two records, and writes by query that are raced."""
    server = Server()
    for record_id in ("1", "2"):
        await server.put(f"Note/{record_id}", b'{"text":"old"}')
    kernel = server.kernel

    async def raced(number):
        await race(server, number)

    reads = Racing(kernel, raced)
    together = kernel._atomic_batch.write
    writes = QueryWrites(
        reads, kernel.visibility, kernel.transcoder, kernel.now, together, **limits
    )
    return server, reads, writes


async def test_a_record_that_no_longer_matches_is_not_written():
    """B12: all that is written matched where its number was assigned; the rest is read again."""

    async def race(server, number):
        if number == 1:
            await server.put("Note/1", b'{"text":"new"}')

    server, reads, writes = await racing(race)
    done = await writes.write(asked(NOTE, "text==old"), ANN)
    assert ([item.event.topic for item in done], reads.reads) == (["Note/2"], 2)
    assert server.cache.whole("Note/1").payload == b'{"id":"1","text":"new"}'


async def test_a_record_that_was_deleted_is_not_made_by_a_patch():
    """B12: a PATCH of one path creates it; a PATCH by query never does."""

    async def race(server, number):
        if number == 1:
            await server.delete("Note/1")

    server, _, writes = await racing(race)
    done = await writes.write(asked(NOTE, "text==old", PATCH, b'{"text":"x"}'), ANN)
    assert [item.event.topic for item in done] == ["Note/2"]
    assert server.cache.whole("Note/1") is None


async def test_a_change_that_still_matches_is_patched_as_it_is_now():
    async def race(server, number):
        await server.put("Note/1", b'{"text":"old","more":%d}' % number)

    server, reads, writes = await racing(race)
    done = await writes.write(asked(NOTE, "text==old", PATCH, b'{"seen":true}'), ANN)
    assert (len(done), reads.reads) == (2, 1)
    assert server.cache.whole("Note/1").payload == (b'{"id":"1","text":"old","more":1,"seen":true}')


async def test_records_that_never_rest_are_given_up():
    """B12: bounded attempts, and then nothing is written."""

    async def race(server, number):
        text = b"new" if number % 2 else b"old"
        await server.put("Note/1", b'{"text":"%s"}' % text)
        await server.put("Note/2", b'{"text":"%s"}' % (b"old" if number % 2 else b"new"))

    server, reads, writes = await racing(race)
    with pytest.raises(Error) as failure:
        await writes.write(asked(NOTE, "text==old"), ANN)
    assert (failure.value.code, reads.reads) == (Code.BUSY, QUERY_WRITE_ATTEMPTS_MAX)
    assert None not in (server.cache.whole("Note/1"), server.cache.whole("Note/2"))


async def test_a_confirmed_number_is_that_of_the_write():
    """B12: when fewer match in the end, nothing is written."""

    async def race(server, number):
        if number == 1:
            await server.delete("Note/1")

    server, _, writes = await racing(race)
    with pytest.raises(Error, match="matches 1 records, and 2 were confirmed"):
        await writes.write(asked(NOTE, "text==old", confirm=2), ANN)
    assert server.cache.whole("Note/2") is not None


async def test_the_bytes_of_the_records_are_bounded():
    """P2: they are in memory at once."""

    async def race(*_):
        pass

    server, _, writes = await racing(race, bytes_max=30)
    with pytest.raises(Error, match="matches 2 records of Note, and they have more than 30 bytes"):
        await writes.write(asked(NOTE, "text==old"), ANN)
    assert server.cache.whole("Note/1") is not None
