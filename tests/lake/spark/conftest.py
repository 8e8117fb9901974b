"""The one Spark session of all tests in this room: starting it takes as long as ten tests."""

import os
import warnings
from pathlib import Path

import pytest
from java_options import OPTIONS

from object_store import BUCKET, object_store
from rowcast.core.errors import Error

PYSPARK = pytest.importorskip("pyspark", reason="NO SPARK: the pipeline is NOT tested here")
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": OPTIONS,
}
PATIENCE_SECONDS = 600
"""On a machine that has other work, Spark alone may take minutes to start."""


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.timeout(PATIENCE_SECONDS))


@pytest.fixture(scope="session")
def store():
    """An object store that this process, and those that Spark starts from it, know."""
    with object_store() as variables:
        os.environ.update(variables)
        yield f"s3://{BUCKET}"
        for name in variables:
            del os.environ[name]


@pytest.fixture(scope="session")
def spark(tmp_path_factory, store):
    """A local session with two threads; it finds the object store."""
    from rowcast_lake.spark.session import start_session

    place = tmp_path_factory.mktemp("spark")
    settings = {**SETTINGS, "spark.sql.warehouse.dir": str(place / "warehouse")}
    try:
        session = start_session("rowcast tests", "local[2]", settings)
    except Error as error:
        pytest.skip(f"NO JAVA: Spark is NOT tested here ({error.message})")
    yield session
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        session.stop()
