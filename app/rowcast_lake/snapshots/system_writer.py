"""System tables of a snapshot: the server's own state (S16, M11).

    _sys_sessions       MQTT sessions: user, start, position in the log, filters
    _sys_bridges        of each bridge its position in the log, and its outbox
    _sys_dead_letters   messages that bridges could not deliver

They are read from the facts and records that their owners write
(``doors/mqtt/sessions/session_persistence.py``, ``features/bridges/state.py``,
``features/bridges/dead_letters.py``). They contain no secrets: no wills, no credentials, no
settings of a bridge. An unreadable fact is left out.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import groupby
from typing import Any, Final, cast

import pyarrow as pa

from rowcast.codecs import CBOR, JSON, decode
from rowcast.core.errors import Error
from rowcast.core.partitions import Partition
from rowcast.core.snapshot_limits import SNAPSHOT_FETCH_ROWS_MAX
from rowcast.store.read_transaction import ReadTransaction
from rowcast_lake.snapshots.shapes import MOMENT, Batch, dumps

Row = Mapping[str, object]
Facts = Iterable[tuple[str, bytes]]
"""Names and values of one owner's facts."""

_SESSIONS: Final = "session/"
_BRIDGES: Final = "gateway/"
_LETTERS: Final = "$SYS/gateway/"


class FactSheet:
    """A table of the facts of all owners with one name prefix."""

    partition: Partition | None = None
    rows = 0

    def __init__(
        self,
        name: str,
        owners: str,
        schema: pa.Schema,
        row_of: Callable[[str, Facts], Row | None],
    ) -> None:
        self.name = name
        self.schema = schema
        self.key: str = schema.names[0]
        self.content = tuple(schema.names)
        self._owners = owners
        self._row_of = row_of

    def batches(self, cut: ReadTransaction) -> Iterator[Batch]:
        """Return the rows of a cut, sorted by name."""
        facts = (fact for facts in cut.facts(self._owners) for fact in facts)
        rows = (
            self._row_of(owner.removeprefix(self._owners), ((name, value) for _, name, value in of))
            for owner, of in groupby(facts, key=lambda fact: fact[0])
        )
        yield from _batches((row for row in rows if row is not None), self.schema)


def _session(name: str, facts: Facts) -> Row | None:
    row: dict[str, Any] = {
        "client_id": name, "subscriptions": [], "shared": [], "in_flight_out": 0, "in_flight_in": 0,
    }  # fmt: skip
    known = False
    for fact, value in facts:
        kind, _, rest = fact.partition("/")
        with suppress(Error, TypeError, ValueError, AttributeError, KeyError):
            match kind:
                case "session":
                    about = cast("dict[str, Any]", decode(value, CBOR))
                    known = True
                    row |= {
                        "user": about["user"],
                        "created": _micros(about["created"]),
                        "expires": _micros(about["expires"]),
                        "expiry_seconds": about["expiry"],
                    }
                case "place":
                    place = decode(value, CBOR)
                    row["position"] = place[0] if isinstance(place, list) else place
                case "filter":
                    row["subscriptions"].append(rest)
                case "share":
                    row["shared"].append(rest)
                case "out":
                    row["in_flight_out"] += 1
                case "in":
                    row["in_flight_in"] += 1
    return row if known else None


def _bridge(name: str, facts: Facts) -> Row | None:
    for fact, value in facts:
        if fact == "place":
            with suppress(Error, TypeError, ValueError, KeyError):
                known = cast("dict[str, Any]", decode(value, CBOR))
                return {
                    "bridge": name,
                    "position": known["upto"],
                    "outbox": [
                        {"seq": seq, "topic": topic, "attempts": attempts, "error": error}
                        for seq, topic, attempts, error, _ in known["open"]
                    ],
                }
    return None


def _micros(seconds: float | None) -> int | None:
    """Return a time in microseconds; None for unknown and for infinite times."""
    return None if seconds is None or not math.isfinite(seconds) else round(seconds * 1_000_000)


class LetterSheet:
    """The dead letters of all bridges."""

    name = "_sys_dead_letters"
    key = "topic"
    partition: Partition | None = None
    rows = 0
    schema = pa.schema([
        ("topic", pa.string()),
        ("bridge", pa.string()),
        ("seq", pa.int64()),
        ("sent_to", pa.string()),
        ("payload", pa.string()),
        ("payload_encoding", pa.string()),
        ("content_type", pa.string()),
        ("kind", pa.string()),
        ("client_id", pa.string()),
        ("attempts", pa.int32()),
        ("last_error", pa.string()),
        ("written", MOMENT),
        ("dead_lettered", MOMENT),
        ("_seq", pa.int64()),
    ])  # fmt: skip
    content = tuple(schema.names[:-1])

    def batches(self, cut: ReadTransaction) -> Iterator[Batch]:
        """Return the rows of a cut, sorted by topic."""
        rows = (
            _letter(str(cells[0]), cast("bytes", cells[1]), cells[7])
            for some in cut.retained(_LETTERS)
            for cells in some
        )
        yield from _batches((row for row in rows if row is not None), self.schema)


def _letter(topic: str, payload: bytes, seq: object) -> Row | None:
    bridge, kind, *rest = topic.removeprefix(_LETTERS).split("/")
    if kind != "dead_letters" or len(rest) != 1:
        return None
    with suppress(Error, TypeError, ValueError, KeyError):
        known = cast("dict[str, Any]", decode(payload, JSON))
        said = known["payload"]
        return {
            "topic": topic,
            "bridge": bridge,
            "seq": known["id"],
            "sent_to": known["topic"],
            "payload": said if isinstance(said, str) else dumps(said),
            "payload_encoding": known["payload_encoding"],
            "content_type": known["content_type"],
            "kind": known["kind"],
            "client_id": known["client_id"],
            "attempts": known["attempts"],
            "last_error": known["last_error"],
            "written": known["written_at"] * 1_000,
            "dead_lettered": known["dead_lettered_at"] * 1_000,
            "_seq": seq,
        }
    return None


def _batches(rows: Iterator[Row], schema: pa.Schema) -> Iterator[Batch]:
    some: list[Row] = []
    for row in rows:
        some.append(row)
        if len(some) == SNAPSHOT_FETCH_ROWS_MAX:
            yield pa.RecordBatch.from_pylist(some, schema)
            some = []
    if some:
        yield pa.RecordBatch.from_pylist(some, schema)


_FLIGHT: Final = pa.struct([
    ("seq", pa.int64()), ("topic", pa.string()), ("attempts", pa.int32()), ("error", pa.string()),
])  # fmt: skip


def system_sheets() -> tuple[FactSheet | LetterSheet, ...]:
    """Return the writers of all system tables."""
    sessions = pa.schema([
        ("client_id", pa.string()),
        ("user", pa.string()),
        ("created", MOMENT),
        ("expires", MOMENT),
        ("expiry_seconds", pa.int64()),
        ("position", pa.int64()),
        ("subscriptions", pa.list_(pa.field("element", pa.string()))),
        ("shared", pa.list_(pa.field("element", pa.string()))),
        ("in_flight_out", pa.int32()),
        ("in_flight_in", pa.int32()),
    ])  # fmt: skip
    bridges = pa.schema([
        ("bridge", pa.string()),
        ("position", pa.int64()),
        ("outbox", pa.list_(pa.field("element", _FLIGHT))),
    ])  # fmt: skip
    return (
        FactSheet("_sys_sessions", _SESSIONS, sessions, _session),
        FactSheet("_sys_bridges", _BRIDGES, bridges, _bridge),
        LetterSheet(),
    )
