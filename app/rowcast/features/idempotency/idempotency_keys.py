"""Idempotency keys: a repeated request has one effect and the same answer (B17).

A caller names a request with a key (the header ``Idempotency-Key`` of HTTP). Each write of the
request has a mark: the key, and the number of the write. Mark, receipt and event are one
transaction; in a repeat, each successful write is answered with its stored receipt, and only failed
ones are tried again. The door's answer depends on receipts only, so it is the same. Where
the writes of a request are one transaction and its answer tells of none by itself, only the last
has a mark.

A key belongs to its user and its first request, of which a digest is stored: another request with
that key is refused, and so is a repeat while the first is pending. Keys expire, and the oldest are
evicted when there are too many.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from math import inf
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from rowcast.core.callers import Caller
from rowcast.core.clock import WallClock
from rowcast.core.errors import Code, Error
from rowcast.core.events import Event
from rowcast.features.idempotency.remembered_receipts import pack, receipt_of
from rowcast.store.store import Change
from rowcast.writes.write import Done, Outcome, Receipt

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Kernel

KEY: Final = "idempotency"
"""The property with the mark of a write up to its admission; not stored."""
OWNER: Final = "once/"
"""The prefix of owners of keys, followed by the user."""
KEY_CHARS_MAX: Final = 255
"""Maximum length of a key: that of other services; UUIDs have 36."""
_PREFIX: Final = 8 + 16
"""Bytes before the receipt in a fact: the time of the key's first use, and the digest."""


@dataclass(slots=True)
class Entry:
    """One key: time of first use in milliseconds, digest of its request, and receipts."""

    at: int
    request: bytes
    done: dict[int, bytes] = field(default_factory=dict)
    running: bool = False


@dataclass(slots=True, frozen=True)
class Claim:
    """A running request with a key; marks its writes."""

    mark_prefix: str

    def mark(self, event: Event, index: int) -> None:
        """Set an event's mark as the request's write of this number."""
        properties = event.properties or {}
        event.properties = {**properties, KEY: f"{self.mark_prefix}:{index}"}


class Keys:
    """All idempotency keys of one kernel; the loop's own.

    ``keep_seconds`` is the lifetime of a key. ``receipts_max`` bounds the receipts of all users,
    some 200 bytes each in memory, and ``user_receipts_max`` those of one user, so that no user
    evicts others' receipts; a batch has one for each record. The oldest are evicted.
    """

    def __init__(
        self,
        kernel: "Kernel",
        now: WallClock,
        keep_seconds: float = 86_400,
        receipts_max: int = 200_000,
        user_receipts_max: int = 50_000,
    ) -> None:
        self._kernel = kernel
        self._now = now
        self.keep_seconds = keep_seconds
        self._receipts_max = receipts_max
        self._user_receipts_max = user_receipts_max
        self._entries: dict[tuple[str, str], Entry] = {}
        """By owner and digest of the key, oldest first."""
        self._counts: Counter[str] = Counter()
        """Receipts of each owner."""
        self._total = 0
        """Receipts of all owners."""
        self.ends: Callable[[float], None] | None = None
        """Called with the expiry of a key."""

    def restore(self, facts: Iterable[tuple[str, str, bytes]]) -> None:
        """Restore keys; ``facts`` are those of owners ``once/``."""
        found: dict[tuple[str, str], Entry] = {}
        for owner, name, value in facts:
            digest, _, index = name.partition(":")
            at, request = int.from_bytes(value[:8], "big"), value[8:_PREFIX]
            entry = found.setdefault((owner, digest), Entry(at, request))
            entry.done[int(index)] = value[_PREFIX:]
            self._count(owner, 1)
        self._entries = dict(sorted(found.items(), key=lambda item: item[1].at))
        if self._entries:
            self._report_end(next(iter(self._entries.values())))

    # -- a request ---------------------------------------------------------------------------------

    @contextmanager
    def claim(self, caller: Caller, key: str, request: bytes) -> Iterator[Claim]:
        """Context of a request with a key; ``request`` is the digest of its effect.

        Raises INVALID for an invalid key, CONFLICT while the same one is running, and UNPROCESSABLE
        for a key of another request.
        """
        if not key or len(key) > KEY_CHARS_MAX:
            raise Error(
                Code.INVALID, f"an idempotency key has between 1 and {KEY_CHARS_MAX} characters"
            )
        place = _owner(caller), sha256(key.encode()).hexdigest()[:32]
        entry = self._entries.get(place)
        if entry is not None and not entry.running and self._end(entry) <= self._now():
            self._forget([place])
            entry = None
        if entry is None:
            entry = self._entries[place] = Entry(int(self._now() * 1000), request[:16])
            self._report_end(entry)
        elif entry.request != request[:16]:
            raise _other(key)
        elif entry.running:
            raise _running(key)
        entry.running = True
        try:
            yield Claim(f"{place[1]}:{entry.at}:{entry.request.hex()}")
        finally:
            entry.running = False
            if not entry.done:  # nothing was written: discard the key
                del self._entries[place]
            self._make_room(place[0])

    # -- its writes --------------------------------------------------------------------------------

    def callback_of(self, mark: str, event: Event, caller: Caller, done: Done) -> Done | None:
        """Return the callback of a marked write; None for a repeat, which was answered."""
        digest, _, _, index = mark.split(":")
        owner, number = _owner(caller), int(index)
        entry = self._entries.get((owner, digest))
        if entry is None:
            return done
        known = entry.done.get(number)
        if known is not None:
            done(receipt_of(known, event, self._kernel))
            return None

        def on_outcome(outcome: Outcome) -> None:
            if isinstance(outcome, Receipt) and number not in entry.done:
                entry.done[number] = pack(outcome)
                self._count(owner, 1)
            done(outcome)

        return on_outcome

    # -- expiry ------------------------------------------------------------------------------------

    async def expire_due(self) -> float:
        """Remove expired keys; return the next expiry."""
        now, over = self._kernel.removal_now(), []
        soonest = inf
        for place, entry in self._entries.items():
            if self._end(entry) > now:
                soonest = self._end(entry)
                break
            if not entry.running:
                over.append(place)
        self._forget(over)
        return soonest

    def _report_end(self, entry: Entry) -> None:
        if self.ends is not None:
            self.ends(self._end(entry))

    def _end(self, entry: Entry) -> float:
        return entry.at / 1000 + self.keep_seconds

    def _count(self, owner: str, receipts: int) -> None:
        """Count receipts of an owner, or fewer of them."""
        self._total += receipts
        self._counts[owner] += receipts
        if not self._counts[owner]:
            del self._counts[owner]

    def _make_room(self, owner: str) -> None:
        """Evict the oldest keys when there are too many, a tenth at once, to amortise a scan."""
        if self._counts[owner] > self._user_receipts_max:
            self._forget_oldest(self._user_receipts_max * 9 // 10, owner)
        if self._total > self._receipts_max:
            self._forget_oldest(self._receipts_max * 9 // 10, None)

    def _forget_oldest(self, left: int, owner: str | None) -> None:
        count = self._total if owner is None else self._counts[owner]
        gone: list[tuple[str, str]] = []
        for place, entry in self._entries.items():
            if count <= left:
                break
            if not entry.running and owner in {None, place[0]}:
                gone.append(place)
                count -= len(entry.done)
        self._forget(gone)

    def _forget(self, places: Iterable[tuple[str, str]]) -> None:
        changes: list[Change] = []
        for owner, digest in places:
            entry = self._entries.pop((owner, digest))
            self._count(owner, -len(entry.done))
            changes += [Change(owner, f"{digest}:{index}", None) for index in entry.done]
        if changes:
            self._kernel.committer.keep(changes)


def fact_of_key(mark: str, caller: Caller) -> tuple[str, str, bytes]:
    """Return owner, name and prefix of the fact of a write with this mark."""
    digest, at, request, index = mark.split(":")
    return _owner(caller), f"{digest}:{index}", int(at).to_bytes(8, "big") + bytes.fromhex(request)


def _owner(caller: Caller) -> str:
    return f"{OWNER}{quote(caller.user, safe='')}"


def _other(key: str) -> Error:
    return Error(
        Code.UNPROCESSABLE,
        f"the idempotency key {key[:80]!r} was sent with another request; take a new key for each",
    )


def _running(key: str) -> Error:
    return Error(
        Code.CONFLICT,
        f"the request with the idempotency key {key[:80]!r} is being carried out; send it again "
        "when it had time to end",
        retry_after_seconds=1,
    )
