"""Parts of a directory of snapshots: its cuts, and its pages of the log, as jobs find them.

A part is complete when it has its manifest. Pages may overlap while they are being merged; a chain
of them has each position once.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, cast

from rowcast.core.errors import Code, Error
from rowcast_lake.spark.places import MANIFEST
from rowcast_lake.stores.object_paths import ObjectPath

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


def chain(pages: list[Part]) -> list[Part]:
    """Return the newest pages that follow each other without gap or overlap.

    During compaction small pages and the merged page may both exist: the larger one counts.
    """
    chosen: list[Part] = []
    for page in sorted(pages, key=lambda page: (page.first, -page.last)):
        if chosen and page.last <= chosen[-1].last:
            continue
        if chosen and page.first > chosen[-1].last + 1:
            chosen = []
        chosen.append(page)
    return chosen


def created(part: Part) -> datetime:
    """Return when a part was made."""
    return datetime.fromisoformat(str(part.facts["created"]))


def reached(cut: Part, at: int | datetime) -> bool:
    """Whether a snapshot is no later than a position or a time."""
    return cut.last <= at if isinstance(at, int) else created(cut) <= at
