"""Connections to an object store: a snapshot leaves none open.

pyiceberg's file systems are in cycles, so an export must not make any: a server collects garbage so
seldom that an export each hour would leave hundreds.
"""

import gc
import json
import sys
from pathlib import Path

import pytest

from exported import Exported
from object_store import BUCKET, object_store
from rowcast_lake.snapshots.export import Order, export
from rowcast_lake.snapshots.snapshot_stores import directory_of

SCHEMA = "type Dog @table @export { id: ID! @primaryKey, name: String }"
CONNECTIONS_MAX = 25
"""Of one file system of pyarrow (the SDK's ``maxConnections``)."""


@pytest.fixture
def store(monkeypatch):
    with object_store() as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        yield directory_of(f"s3://{BUCKET}/connections")


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which files are open")
def test_a_snapshot_in_open_tables_leaves_no_connection_open(tmp_path, store):
    world = Exported(tmp_path, SCHEMA)
    gc.collect()
    gc.disable()
    try:
        found = []
        for number in range(5):
            value = {"name": f"dog {number}"}
            text = json.dumps(value).encode()
            world.put("Dog", str(number), value, payload=text, content_type="application/json")
            export(Order(tmp_path / "rowcast.db", store, world.schema, catalogs=("iceberg",)))
            found.append(open_files())
    finally:
        gc.enable()
        world.close()
    assert found[-1] - found[0] < CONNECTIONS_MAX, found
