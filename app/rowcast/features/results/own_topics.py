"""The topics of a job's own records: those of its last result that replaced the one before.

They are facts, one for each shard (``results/topic_shards.py``), so that a result is compared with
one shard at a time and they are never in memory as a whole. What a result changes of a few is
written in its transaction. Many are written before it, as facts of a new name that nobody reads:
its transaction says which name counts for each shard. What is left of a result that was not
committed, the next one of the job removes first.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from rowcast.core.result_limits import RESULT_NAMES_AT_ONCE, RESULT_SHARDS
from rowcast.core.tables import Table
from rowcast.results.result_changes import TopicShard
from rowcast.store.store import Change

OWN: Final = "own"
"""The fact that says which facts have the topics."""
AHEAD: Final = "ahead"
"""The fact that says under which name some were written before their result."""
TOPICS: Final = "t/"
"""The prefix of facts of earlier versions, with the topics themselves: all in one transaction."""
_OWNER: Final = "result-names/"

Facts = Callable[[str], Awaitable[Iterable[tuple[str, str, bytes]]]]
"""Returns the facts of owners with a prefix."""
Keep = Callable[[Sequence[Change]], Awaitable[None]]
"""Writes changes of facts; raises the Error of a refusal."""


@dataclass(slots=True)
class OwnTopics:
    """What is known of the topics of one job, without them."""

    owner: str
    """The owner of the job's facts, which begins with ``result/``."""
    path: str = ""
    """The path of the table of all of them."""
    rows: int = 0
    """How many there are."""
    names: list[str] = field(default_factory=lambda: [""] * RESULT_SHARDS)
    """The name of the fact of each shard; empty for an empty one."""
    ahead: str = ""
    """The name under which some were written for a result that is not committed."""
    old: dict[int, frozenset[str]] = field(default_factory=dict)
    """Those that are in facts of earlier versions, by shard."""
    _read: dict[int, frozenset[str]] | None = None

    def take(self, name: str, value: bytes) -> None:
        """Take in a fact of the job that is about them."""
        kept = json.loads(value)
        if name == OWN:
            self.path, self.rows, self.names = kept["path"], kept["rows"], kept["names"]
        elif name == AHEAD:
            self.ahead = kept
        else:
            self.old[int(name.removeprefix(TOPICS))] = frozenset(kept)

    def place(self, shard: int) -> str:
        """Return the owner of the facts of a shard."""
        return f"{self.places}{shard}/"

    @property
    def places(self) -> str:
        """The prefix of the owners of all shards."""
        return _OWNER + self.owner.partition("/")[2]

    async def on(
        self, shard: int, facts: Facts, at_once: int = RESULT_NAMES_AT_ONCE
    ) -> frozenset[str]:
        """Return those in a shard. Up to ``at_once`` are read together, and stay in memory."""
        if self.old:
            return self.old.get(shard, frozenset())
        if self._read is None and self.rows <= at_once:
            self._read = self._found(await facts(self.places)) if self.rows else {}
        known = self._read
        if known is None:
            known = self._found(await facts(self.place(shard)) if self.names[shard] else ())
        return known.get(shard, frozenset())

    def _found(self, facts: Iterable[tuple[str, str, bytes]]) -> dict[int, frozenset[str]]:
        found: dict[int, frozenset[str]] = {}
        for owner, name, value in facts:
            shard = int(owner.removeprefix(self.places).rstrip("/"))
            if self.names[shard] == name:
                found[shard] = frozenset(json.loads(value))
        return found

    def outside(self, table: Table, tables: Iterable[Table]) -> int:
        """Return how many are of other ones of these tables."""
        if not self.old:
            elsewhere = {one.path for one in tables if one.path != table.path}
            return self.rows if self.path in elsewhere else 0
        below, declared = f"{table.path}/", tuple(f"{one.path}/" for one in tables)
        others = (topic for some in self.old.values() for topic in some)
        return sum(one.startswith(declared) for one in others if not one.startswith(below))

    def forgotten(self) -> list[Change]:
        """Return the changes that remove what was written for a result that is not committed."""
        if not self.ahead:
            return []
        places = (self.place(shard) for shard in range(RESULT_SHARDS))
        gone = [Change(place, self.ahead, None) for place in places]
        return [*gone, Change(self.owner, AHEAD, None)]


class NewTopics:
    """The topics of a result, as facts that take the place of those of the one before.

    ``name``: what the facts are called that it changes, new for each result. ``keep`` writes some
    before the result, when they have more than ``most`` bytes.
    """

    def __init__(self, before: OwnTopics, name: str, keep: Keep, most: int) -> None:
        self._before = before
        self._name = name
        self._keep = keep
        self._most = most
        self._names = list(before.names)
        self._new: list[Change] = []
        self._gone: list[Change] = []
        self._bytes = 0
        self._ahead = False

    async def take(self, shard: TopicShard) -> None:
        """Take the topics in one shard."""
        before, number = self._before, shard.number
        if shard.rows == shard.before and not before.old:
            return
        place = before.place(number)
        if before.names[number]:
            self._gone.append(Change(place, before.names[number], None))
        self._names[number] = self._name if shard.rows else ""
        if shard.rows:
            value = json.dumps(sorted(shard.rows)).encode()
            self._new.append(Change(place, self._name, value))
            self._bytes += len(value)
        if self._bytes > self._most:
            await self._write()

    async def _write(self) -> None:
        """Write what there is before the result, under a name that nothing says to read yet."""
        noted = Change(self._before.owner, AHEAD, json.dumps(self._name).encode())
        await self._keep(self._new if self._ahead else [noted, *self._new])
        self._ahead, self._new, self._bytes = True, [], 0

    def changes(self, path: str, rows: int) -> list[Change]:
        """Return the changes that make them the job's own; ``path`` is that of their table."""
        owner, before = self._before.owner, self._before
        same = (before.path, before.rows, before.names) == (path, rows, self._names)
        if same and not before.old:
            return []
        own = json.dumps({"path": path, "rows": rows, "names": self._names}).encode()
        old = [Change(owner, f"{TOPICS}{number}", None) for number in before.old]
        ahead = [Change(owner, AHEAD, None)] if self._ahead else []
        return [*self._new, *self._gone, *old, *ahead, Change(owner, OWN, own)]
