"""The catalogue: which complete snapshots and increments there are, as a reader finds them.

It reads names and manifests, never a part: whatever is under construction has a name that begins
with a dot, and what has its own name is complete and never changes. So a manifest is read once.
All of it blocks, and is for a thread.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, cast

from rowcast.core.errors import Code, Error
from rowcast.core.export_limits import SNAPSHOT_MANIFEST_BYTES_MAX
from rowcast.core.snapshot_paths import leads_out, plain_path
from rowcast.features.snapshots.snapshot_directory import PAGES, SnapshotDirectory
from rowcast.features.snapshots.snapshot_store import Folder, Held, SnapshotStore

MANIFEST: Final = "manifest.json"


@dataclass(frozen=True)
class Item:
    """One snapshot, or one increment: its name below the directory, and what its manifest says."""

    name: str
    manifest: Mapping[str, Any]
    problem: str = ""
    """Why the manifest cannot be read."""
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What the manifest says of each file, by its path as if it were below the snapshot."""

    @property
    def is_page(self) -> bool:
        """Whether it is an increment: a part of the log."""
        return self.name.partition("/")[0] in PAGES

    @property
    def seq(self) -> int:
        """The number of the last event that it holds."""
        return int(self.name[-18:] if self.is_page else self.name[:18])

    @property
    def from_seq(self) -> int:
        """The number from which on an increment has every event."""
        return int(self.name.rpartition("=")[2][:18])

    @property
    def rows(self) -> int:
        """How many rows its tables have."""
        return sum(int(table["rows"]) for table in self.manifest.get("tables", {}).values())

    @property
    def size_bytes(self) -> int:
        """How large its files are."""
        return sum(int(file["bytes"]) for file in self.files.values())


class Catalogue:
    """What is in a snapshot store, by default in a directory of a disk, which need not be there."""

    def __init__(self, directory: Folder, snapshots: SnapshotStore | None = None) -> None:
        self.directory = directory
        self._snapshot_store = snapshots or SnapshotDirectory(cast("Path", directory))
        self._known: dict[str, Item] = {}

    def items(self) -> list[Item]:
        """Return all that is complete: increments and snapshots, each in the order of the log."""
        found = {}
        for name in self._names():
            found[name] = self._known.get(name) or self._read(name)
        self._known = {name: item for name, item in found.items() if not item.problem}
        return list(found.values())

    def _names(self) -> Iterator[str]:
        yield from self._snapshot_store.pages()
        yield from self._snapshot_store.names()

    def newest(self) -> str:
        """Return the name of the newest snapshot; empty when there is none."""
        return self._snapshot_store.newest() or ""

    def _read(self, name: str) -> Item:
        try:
            manifest = read_manifest(self.directory / name)
            files = {
                plain_path(str(file["path"])): file
                for table in manifest["tables"].values()
                for file in table["files"]
            }
            if any(leads_out(str(file["path"])) for file in files.values()):
                return Item(name, {}, f"the {MANIFEST} names files that are not of the snapshot")
            return _checked(Item(name, manifest, files=files))
        except Error as error:
            return Item(name, {}, error.message)
        except KeyError as error:
            return Item(name, {}, f"the {MANIFEST} lacks what each has: {error}")
        except (TypeError, AttributeError, ValueError):  # what it holds instead is not told
            return Item(name, {}, f"the {MANIFEST} is not made as each is")

    def open(self, item: Item, path: str) -> IO[bytes]:
        """Open a file that the manifest names, or the manifest; raises NOT_FOUND."""
        if item.problem:
            raise Error(Code.NOT_FOUND, f"{item.name} is damaged: {item.problem}")
        if path != MANIFEST and path not in item.files:
            raise Error(
                Code.NOT_FOUND,
                f"{item.name} has no file {path[:200]!r}; its {MANIFEST} names those it has",
            )
        try:
            return self._place(item, path).open("rb")
        except OSError as error:
            raise Error(
                Code.NOT_FOUND, f"{item.name}/{path} cannot be opened: {error.strerror}"
            ) from error

    def size_bytes(self, item: Item, path: str) -> int:
        """Return the size of a file that the manifest names, or of the manifest."""
        return self._place(item, path).stat().st_size

    def _place(self, item: Item, path: str) -> Folder:
        """Return where a file is: as the manifest says, seen from the snapshot."""
        known = item.files.get(path)
        return self.directory / item.name / (path if known is None else str(known["path"]))

    def pin(self, item: Item) -> Held:
        """Hold a snapshot or increment until what is returned is closed; raises NOT_FOUND."""
        return self._snapshot_store.hold(item.name)

    def free(self, item: Item) -> bool:
        """Whether nobody holds a snapshot or increment."""
        return self._snapshot_store.free(item.name)

    def remove(self, item: Item) -> None:
        """Remove a snapshot or increment: first its name, so that no reader sees a part of it."""
        if item.is_page:
            self._snapshot_store.remove_page(item.name)
        else:
            self._snapshot_store.remove(item.name)


def _checked(item: Item) -> Item:
    """Return an item that has what is told of it; raises KeyError, TypeError or ValueError."""
    texts = [item.manifest["epoch"], *(facts["sha256"] for facts in item.files.values())]
    if not all(isinstance(text, str) for text in texts) or item.rows < 0 or item.size_bytes < 0:
        raise TypeError(item.name)
    return item


def read_manifest(place: Folder) -> dict[str, Any]:
    """Return the manifest of a snapshot or increment; raises INVALID with what is wrong."""
    file = place / MANIFEST
    try:
        if file.stat().st_size > SNAPSHOT_MANIFEST_BYTES_MAX:
            raise _damaged(file, "is larger than any")
        manifest = json.loads(file.read_bytes())
    except OSError as error:
        raise _damaged(file, f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise _damaged(file, "is no JSON") from error
    if not isinstance(manifest, dict):
        raise _damaged(file, "is no manifest: it holds no object")
    return manifest


def _damaged(file: Folder, words: str) -> Error:
    """Return what is told of a manifest: neither what it holds, nor where on this machine it is."""
    error = Error(Code.INVALID, f"the {MANIFEST} {words}")
    error.place = str(file)
    return error
