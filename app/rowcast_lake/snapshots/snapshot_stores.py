"""Which snapshot store a place has: one on a disk, or one in an object store."""

from pathlib import Path

from rowcast.core.places import is_object_store
from rowcast.features.snapshots.catalogue import Catalogue
from rowcast.features.snapshots.snapshot_directory import SnapshotDirectory
from rowcast.features.snapshots.snapshot_store import SnapshotStore
from rowcast_lake.snapshots.catalogs import Catalogs
from rowcast_lake.snapshots.object_snapshot_store import ObjectSnapshotStore
from rowcast_lake.stores.object_paths import Directory, ObjectPath


def directory_of(text: str) -> Directory:
    """Return the place that a path or a URL names; raises INVALID."""
    return ObjectPath.of(text) if is_object_store(text) else Path(text).absolute()


def store_of(directory: Directory) -> SnapshotStore:
    """Return the snapshot store of a place; a removal first lets the catalogs forget a snapshot."""

    def forget(name: str) -> None:
        Catalogs.there(directory).forget(name)

    if isinstance(directory, ObjectPath):
        return ObjectSnapshotStore(directory, forget=forget)
    return SnapshotDirectory(directory, forget)


def served_store(url: str) -> SnapshotStore:
    """Return an object store's snapshots for a server: it removes none that a catalog names.

    delta-rs holds Python's lock while it waits for a store, and the server would stand still.
    """
    return ObjectSnapshotStore(ObjectPath.of(url))


def catalogue_of(directory: Directory) -> Catalogue:
    """Return what is in the snapshot store of a place."""
    return Catalogue(directory, store_of(directory))
