"""An object store for the tests of this room, and a place of its own in it for each."""

import uuid

import pytest

from object_store import BUCKET, object_store
from rowcast_lake.snapshots.snapshot_stores import directory_of


@pytest.fixture(scope="module")
def variables():
    """The variables of the environment by which clients find the store."""
    with object_store() as found:
        yield found


@pytest.fixture
def store(variables, monkeypatch):
    """A place of its own in the store."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return directory_of(f"s3://{BUCKET}/{uuid.uuid4().hex}")
