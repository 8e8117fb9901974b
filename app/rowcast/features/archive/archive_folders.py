"""The folders of an archive: in which of them the files of each part are.

A server's are the numbers of its parts. The nodes of a cluster share a place, and each numbers its
parts by itself: their folders have the names of parts, some letters of it and its digest, because
names may be longer than those of a file. A server that has become a node has files in folders of
numbers, which ``source`` assigns to parts; they are read, and new files are beside them.
"""

import hashlib
import re
from collections.abc import Collection, Mapping
from typing import Final

from rowcast.features.archive.disk_place import ArchivePlace

_LETTERS: Final = 40
_DIGITS: Final = 16
"""Of a digest: parts are some thousands at most."""


def folder_of(name: str) -> str:
    """Return the folder of a part by its name; never a number."""
    readable = re.sub(r"[^A-Za-z0-9]+", "_", name)[:_LETTERS]
    return f"{readable}-{hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]}"


class ArchiveFolders:
    """The folders of each part; ``named``: several nodes share them. Its methods may block."""

    def __init__(self, place: ArchivePlace, *, named: bool) -> None:
        self._place = place
        self._named = named
        self._names: dict[int, str] = {}
        self._numbered: dict[str, list[str]] = {}
        """Folders of numbers by the names of their parts, from before there was a cluster."""

    def find(self, parts: Mapping[int, tuple[str, int]]) -> Collection[int]:
        """Return the parts that have files. Raises OSError."""
        folders = self._place.folders()
        numbers = [folder for folder in folders if folder.isdecimal()]
        if not self._named:
            return [int(folder) for folder in numbers]
        numbered: dict[str, list[str]] = {}
        for folder in numbers:
            numbered.setdefault(self._place.source(folder), []).append(folder)
        self._numbered = numbered
        for number, (name, _) in parts.items():
            self._names[number] = name
        known = {*folders}
        return [number for number in parts if not known.isdisjoint(self.of(number))]

    def is_of(self, number: int, name: str) -> bool:
        """Whether the folder of a number is that of a part of this name."""
        return self._named or self._place.source(str(number)) in {name, ""}

    def name(self, number: int, name: str) -> None:
        """Note the name of a part."""
        self._names[number] = name

    def of(self, number: int) -> list[str]:
        """Return the folders in which files of a part may be."""
        if not self._named:
            return [str(number)]
        name = self._names.get(number)
        return [] if name is None else [folder_of(name), *self._numbered.get(name, ())]

    def own(self, number: int) -> str:
        """Return the folder in which files of a part are written."""
        return folder_of(self._names.get(number, "")) if self._named else str(number)
