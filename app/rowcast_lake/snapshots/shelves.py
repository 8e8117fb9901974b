"""Shelves: the shelf of a place, on a disk or in an object store."""

from pathlib import Path

from rowcast.core.places import is_object_store
from rowcast.features.snapshots.catalogue import Catalogue
from rowcast.features.snapshots.shelf import Shelf
from rowcast_lake.snapshots.catalogs import forgetting
from rowcast_lake.snapshots.object_shelf import ObjectShelf
from rowcast_lake.stores.object_paths import ObjectPath

Directory = Path | ObjectPath
"""Where snapshots are."""


def directory_of(text: str) -> Directory:
    """Return the place that a path or a URL names; raises INVALID."""
    return ObjectPath.of(text) if is_object_store(text) else Path(text).absolute()


def shelf_of(directory: Directory) -> Shelf:
    """Return the shelf of a place."""
    if isinstance(directory, ObjectPath):
        return ObjectShelf(directory)
    return forgetting(directory)


def catalogue_of(directory: Directory) -> Catalogue:
    """Return what is on the shelf of a place."""
    return Catalogue(directory, shelf_of(directory))
