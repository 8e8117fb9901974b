"""Stored state of a job: its committed results, and its own records.

It is stored as facts, of one owner for each job and user, in the transaction of the result.
Receipts answer a repeat of (job, cut); the job's own topics (``own_topics.py``) determine the
records that a replacing result must delete.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final
from urllib.parse import quote

from rowcast.core.callers import Caller
from rowcast.core.cursors import parse_cursor
from rowcast.core.errors import Code, Error
from rowcast.core.result_limits import RESULT_RECEIPTS_MAX
from rowcast.features.results.own_topics import OwnTopics
from rowcast.store.store import Change

OWNER: Final = "result/"
_RECEIPT: Final = "r/"


@dataclass(frozen=True, slots=True)
class ResultReceipt:
    """The receipt of a committed result, with counts of changes."""

    job: str
    cut: str
    """The cut that it was computed from: a cursor, or the job's own name; may be empty."""
    upload: str
    table: str
    rows: int
    written: int
    unchanged: int
    removed: int
    position: str
    """The cursor of its last event; empty without events."""
    number: int
    """Its number among the job's results."""
    repeat: bool = False


@dataclass(frozen=True, slots=True)
class Memory:
    """The state of one job of one user."""

    owner: str
    receipts: Sequence[ResultReceipt]
    """The oldest first."""
    own: OwnTopics

    @classmethod
    def of(cls, owner: str, facts: Iterable[tuple[str, str, bytes]]) -> "Memory":
        """Read facts."""
        receipts: list[ResultReceipt] = []
        own = OwnTopics(owner)
        for known, name, value in facts:
            if known != owner:
                continue
            if name.startswith(_RECEIPT):
                receipts.append(ResultReceipt(**json.loads(value)))
            else:
                own.take(name, value)
        return cls(owner, sorted(receipts, key=lambda item: item.number), own)

    def repeated(self, cut: str, upload: str) -> ResultReceipt | None:
        """Return the receipt of a repeated result; raises when it is too old.

        A repeat has the same cut; without one, the same upload; without both, none is a repeat.

        A cut older than the newest is from a program that was replaced.
        """
        for receipt in self.receipts:
            if receipt.cut == cut and (cut or (upload and receipt.upload == upload)):
                return replace(receipt, repeat=True)
        place = _place(cut)
        newest = next((item for item in reversed(self.receipts) if item.cut), None)
        last = _place(newest.cut) if newest is not None else None
        if place is not None and last is not None and place[0] == last[0] and place[1] < last[1]:
            raise Error(
                Code.PRECONDITION,
                f"the job has committed a result of a newer cut ({newest and newest.cut}) than "
                f"{cut}; compute from a newer snapshot, or say again=true to go back",
            )
        return None

    @property
    def next(self) -> int:
        """The number of the next result."""
        return self.receipts[-1].number + 1 if self.receipts else 1

    def changes(self, receipt: ResultReceipt) -> list[Change]:
        """Return the changes that store a receipt, and remove the oldest."""
        value = json.dumps(asdict(receipt)).encode()
        changes = [Change(self.owner, f"{_RECEIPT}{receipt.number}", value)]
        same = [item for item in self.receipts if receipt.cut and item.cut == receipt.cut]
        old = list(self.receipts)[: max(0, len(self.receipts) + 1 - RESULT_RECEIPTS_MAX)]
        gone = {item.number for item in [*same, *old]}
        changes += [Change(self.owner, f"{_RECEIPT}{number}", None) for number in gone]
        return changes


def owner_of(caller: Caller, job: str) -> str:
    """Return the owner of a user's job; no owner is a prefix of another."""
    return f"{OWNER}{quote(caller.user, safe='')}/{quote(job, safe='')}/"


def _place(cut: str) -> tuple[str, int] | None:
    """Return log and position of a cut, or of a stream's ``<query>#<batch>``."""
    name, mark, number = cut.rpartition("#")
    if mark and number.isascii() and number.isdigit():
        return name, int(number)
    try:
        cursor = parse_cursor(cut)
    except Error:
        return None
    return cursor.epoch, cursor.seq
