"""Shelves: the shelf of a place, on a disk or in an object store."""

from pathlib import Path

from rowcast.core.places import is_object_store
from rowcast.features.snapshots.catalogue import Catalogue
from rowcast.features.snapshots.shelf import Shelf
from rowcast.features.snapshots.snapshot_directory import SnapshotDirectory
from rowcast_lake.snapshots.catalogs import Catalogs
from rowcast_lake.snapshots.object_shelf import ObjectShelf
from rowcast_lake.stores.object_paths import Directory, ObjectPath


def directory_of(text: str) -> Directory:
    """Return the place that a path or a URL names; raises INVALID."""
    return ObjectPath.of(text) if is_object_store(text) else Path(text).absolute()


def shelf_of(directory: Directory) -> Shelf:
    """Return the shelf of a place; its removals first let the catalogs forget a snapshot."""

    def forget(name: str) -> None:
        Catalogs.there(directory).forget(name)

    if isinstance(directory, ObjectPath):
        return ObjectShelf(directory, forget=forget)
    return SnapshotDirectory(directory, forget)


def served_shelf(url: str) -> Shelf:
    """Return the shelf of a store for a server: it removes no snapshot that a catalog names.

    delta-rs holds Python's lock while it waits for a store, and the server would stand still.
    """
    return ObjectShelf(ObjectPath.of(url))


def catalogue_of(directory: Directory) -> Catalogue:
    """Return what is on the shelf of a place."""
    return Catalogue(directory, shelf_of(directory))
