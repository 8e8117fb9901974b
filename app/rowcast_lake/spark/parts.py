"""Parts of a directory of snapshots: its cuts, and its pages of the log, as jobs find them.

A part is complete when it has its manifest. Pages may overlap while they are being merged; a chain
of them has each position once.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar, cast

from rowcast.core.errors import Code, Error
from rowcast_lake.stores.object_paths import ObjectPath

MANIFEST: Final = "manifest.json"
CHANGES: Final = "changes"
MERGED: Final = "merged"
CUT: Final = re.compile(r"(\d{18})(-\d{1,3})?")
PAGE: Final = re.compile(r"seq=(\d{18})-(\d{18})")
Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """A snapshot, or a page of the log: its positions and its manifest."""

    place: Path | ObjectPath
    first: int
    last: int
    facts: Facts

    def has(self, table: str) -> bool:
        """Whether there are files of a table."""
        return bool(self.facts["tables"].get(table, {}).get("files"))

    def columns(self, table: str) -> object:
        """Return a table's columns from the manifest."""
        return self.facts["tables"][table].get("columns")


def parts_in(directory: Path | ObjectPath, pattern: re.Pattern[str], *, of_log: bool) -> list[Part]:
    """Return the complete parts in a directory, in the order of their positions."""
    parts = []
    found: list[Path | ObjectPath] = [*directory.iterdir()] if directory.is_dir() else []
    for place in sorted(found, key=lambda place: place.name):
        match = pattern.fullmatch(place.name)
        if match is not None:
            first, last = (int(match[1]), int(match[2])) if of_log else (0, int(match[1]))
            parts.append(Part(place, first, last, _facts(place)))
    return parts


def epochs_in(directory: Path | ObjectPath, seen: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the complete snapshots and pages in a directory, each with the epoch of its log.

    ``seen`` has those whose manifest was read before, which never changes.
    """
    for folder in ("", MERGED, CHANGES):
        place = directory / folder if folder else directory
        pattern = PAGE if folder else CUT
        found: list[Path | ObjectPath] = [*place.iterdir()] if place.is_dir() else []
        for part in found:
            if not pattern.fullmatch(part.name):
                continue
            name = f"{folder}/{part.name}".strip("/")
            if name not in seen and (epoch := _facts(part).get("epoch")):
                seen[name] = str(epoch)
            if name in seen:
                yield name, seen[name]


def _facts(place: Path | ObjectPath) -> Facts:
    """Return a manifest; empty for a part that was removed meanwhile."""
    try:
        return cast("Facts", json.loads((place / MANIFEST).read_bytes()))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise Error(
            Code.INVALID, f"{place / MANIFEST} is damaged ({error}); take the snapshot again"
        ) from error


class Range(Protocol):
    """A page of the log: its first and its last position."""

    @property
    def first(self) -> int:
        """The first position."""

    @property
    def last(self) -> int:
        """The last position."""


Ranged = TypeVar("Ranged", bound=Range)


def runs(pages: Iterable[Ranged]) -> list[list[Ranged]]:
    """Return pages in runs that follow each other without gap or overlap, the oldest run first.

    During compaction small pages and the merged page may both exist: the larger one counts.
    """
    found: list[list[Ranged]] = []
    for page in sorted(pages, key=lambda page: (page.first, -page.last)):
        if found and page.last <= found[-1][-1].last:
            continue
        if not found or page.first > found[-1][-1].last + 1:
            found.append([])
        found[-1].append(page)
    return found


def chain(pages: Sequence[Ranged]) -> list[Ranged]:
    """Return the newest pages that follow each other without gap or overlap."""
    return runs(pages)[-1] if pages else []


def created(part: Part) -> datetime:
    """Return when a part was made."""
    return datetime.fromisoformat(str(part.facts["created"]))


def reached(cut: Part, at: int | datetime) -> bool:
    """Whether a snapshot is no later than a position or a time."""
    return cut.last <= at if isinstance(at, int) else created(cut) <= at
