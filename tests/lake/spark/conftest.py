"""The one Spark session of all tests in this room: starting it takes as long as ten tests."""

import os
import warnings
from pathlib import Path

import pytest
from java_options import OPTIONS

from object_store import BUCKET, object_store
from rowcast.core.errors import Error

PYSPARK = pytest.importorskip("pyspark", reason="NO SPARK: the pipeline is NOT tested here")
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""Plans are not compiled: each is used once, on few rows, and compiling takes most of the time."""
USUAL = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.adaptive.enabled": "true",
}
"""What Spark does by itself."""
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": OPTIONS,
    **INTERPRETED,
}
PATIENCE_SECONDS = 600
"""On a machine that has other work, Spark alone may take minutes to start."""


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.timeout(PATIENCE_SECONDS))


@pytest.fixture(scope="session", autouse=True)
def spark_home(tmp_path_factory):
    """Spark without the zip of its own Python modules: they come from where pip put them.

    Python compiles what it imports of a zip in each process anew, and each kind of worker is one.
    """
    if "SPARK_HOME" in os.environ:
        yield
        return
    home = tmp_path_factory.mktemp("home")
    for part in ("bin", "jars"):
        (home / part).symlink_to(Path(PYSPARK.__file__).with_name(part))
    os.environ["SPARK_HOME"] = str(home)
    yield
    del os.environ["SPARK_HOME"]


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


@pytest.fixture
def compiled_plans(spark):
    """Let the session compile its plans, as it does for everybody: for jobs over many rows."""
    for name, value in USUAL.items():
        spark.conf.set(name, value)
    yield
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)
