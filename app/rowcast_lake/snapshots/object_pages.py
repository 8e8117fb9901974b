"""Increments in an object store: each file appears once, whole, and is the same whoever ends it.

    .pages/seq=a-b-<word>/Dog/part-00000.parquet   written first, where no stream looks
    .pages/seq=a-b-<word>/manifest.json            written last: from then on the page is decided
    changes/seq=a-b/Dog/part-00000.parquet         copied by the store, each in one step
    changes/seq=a-b/manifest.json                  copied last; then what is in .pages goes

A store renames nothing, so a stream may list the files of an increment one after the other, and a
program that was killed may have copied some of them. What is decided is therefore never decided
again: whoever comes next copies the rest before it looks where the log goes on (``finish``), and
the copies have the names and the bytes that they would have had.
"""

import json
import re
import secrets
from collections.abc import Callable, Iterator
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.core.export_limits import EXPORT_SECONDS_MAX
from rowcast.features.snapshots.snapshot_directory import CHANGES
from rowcast_lake.snapshots.manifest import FILE_NAME
from rowcast_lake.stores.object_paths import ObjectPath

PAGES: Final = ".pages"
_STAGED: Final = re.compile(r"(seq=([0-9]{18})-([0-9]{18}))-[0-9a-f]+", re.ASCII)


class ObjectPages:
    """The increments of a place that are being published."""

    def __init__(self, directory: ObjectPath, now: Callable[[], float]) -> None:
        self._directory, self._now = directory, now

    def begin(self, name: str) -> ObjectPath:
        """Return where the files of an increment are written first."""
        return self._directory / PAGES / f"{name}-{secrets.token_hex(4)}"

    def decide(self, place: ObjectPath, text: str) -> None:
        """Write the manifest: this is the increment. Raises BUSY if another program has another.

        Of two that decide at once each sees the other, or the later one the earlier.
        """
        (place / FILE_NAME).write_bytes(text.encode())
        other = next(self._others(place, str(json.loads(text)["epoch"])), None)
        if other is not None:
            self._clear(place)
            raise Error(
                Code.BUSY,
                f"another program exports the same events: {other}; let one server write to a "
                "place, and try again",
            )

    def _others(self, place: ObjectPath, epoch: str) -> Iterator[ObjectPath]:
        """Yield other increments of this log with positions of one that is decided."""
        found = [path for path in self._decided() if path.key != place.key]
        found += (self._directory / CHANGES).iterdir()
        for path in found:
            if _last(path.name) < _first(place.name) or not (path / FILE_NAME).is_file():
                continue
            same = str(json.loads((path / FILE_NAME).read_bytes())["epoch"]) == epoch
            if same or path.name == _name(place):
                yield path

    def publish(self, place: ObjectPath) -> None:
        """Copy what is decided to where streams look for it, and remove it here."""
        target = self._directory / CHANGES / _name(place)
        there = {path.relative_to(target).key for path in target.rglob()}
        for path in place.rglob():
            name = path.relative_to(place).key
            if name not in there and name != FILE_NAME:
                path.copy(target / name)
        if FILE_NAME not in there:
            (place / FILE_NAME).copy(target / FILE_NAME)
        self._clear(place)

    def finish(self) -> None:
        """Publish what is decided, and remove what was begun longer ago than any export runs."""
        decided = self._decided()
        for place in decided:
            try:
                self.publish(place)
            except OSError:  # whoever else published it has removed it meanwhile
                if not (self._directory / CHANGES / _name(place) / FILE_NAME).is_file():
                    raise
        before = self._now() - EXPORT_SECONDS_MAX
        for place in (self._directory / PAGES).iterdir():
            times = [facts.st_mtime for _, facts in place.listed(deep=True) if facts]
            if place not in decided and max(times, default=0) < before:
                place.remove()

    def forget(self, name: str) -> None:
        """Do not publish an increment again that is about to be removed."""
        for place in self._decided():
            if _name(place) == name:
                self._clear(place)

    def _decided(self) -> list[ObjectPath]:
        """Return what is decided, in the order of the log."""
        found = (self._directory / PAGES).iterdir()
        staged = [path for path in found if _STAGED.fullmatch(path.name)]
        return sorted(
            (path for path in staged if (path / FILE_NAME).is_file()), key=lambda path: path.name
        )

    def _clear(self, place: ObjectPath) -> None:
        (place / FILE_NAME).remove()
        place.remove()


def _name(place: ObjectPath) -> str:
    """Return the name of an increment whose files are at a place."""
    return place.name.rpartition("-")[0]


def _first(name: str) -> int:
    return int(name.partition("=")[2][:18])


def _last(name: str) -> int:
    """Return the last position of an increment; 0 of anything else."""
    digits = name.partition("=")[2][19:37]
    return int(digits) if digits.isdigit() else 0
