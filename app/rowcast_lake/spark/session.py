"""A configured Spark session: finds Java, uses UTC, and opens no port to the network.

The master is the user's choice: this machine (``local[*]``), a cluster (``spark://…``, ``yarn``,
``k8s://…``) or a Spark Connect server (``sc://…``); jobs and results are the same.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rowcast.core.errors import Code, Error
from rowcast_lake.spark.environment import put, variables
from rowcast_lake.spark.interrupted import end_started
from rowcast_lake.spark.java import INSTALL, java_home, packaged_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_MASTER: Final = "local[*]"
LOOPBACK: Final = "127.0.0.1"
LOGS: Final = Path(__file__).with_name("log4j2.properties").as_uri()
DRIVER: Final = "spark.driver.extraJavaOptions"
SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # With this, .option("pushdown", "true") passes filters to the format rowcast
    "spark.sql.python.filterPushdown.enabled": "true",
}
LOCAL_SETTINGS: Final = {
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.host": LOOPBACK,
    # The default of 200 partitions is for a cluster: each has a task and, in streams, a file
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
}


def start_session(
    name: str, master: str = LOCAL_MASTER, settings: Mapping[str, str] | None = None
) -> "SparkSession":
    """Start Spark, or return the running session; ``settings`` override the defaults here."""
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - optional, and said so when missing
    except ImportError as error:
        raise Error(Code.UNSUPPORTED, f"this needs PySpark: {INSTALL}") from error
    if master.startswith("sc://"):
        return _remote(name, master, settings or {})
    local = master.startswith("local")
    put(_needed(local))
    quiet = (
        {} if "SPARK_CONF_DIR" in variables() else {DRIVER: f"-Dlog4j2.configurationFile={LOGS}"}
    )
    chosen = {**SETTINGS, **quiet, **(LOCAL_SETTINGS if local else {}), **(settings or {})}
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except KeyboardInterrupt as interrupt:
        end_started(interrupt)
        raise


def _needed(local: bool) -> dict[str, str]:
    """Return the settings that Spark's launcher only reads from the environment."""
    environment = variables()
    needed = {"JAVA_HOME": str(java_home(environment, packaged_java()))}
    if not environment.get("PATH"):
        needed["PATH"] = os.defpath  # Spark's launcher is a shell script
    if "PYSPARK_DRIVER_PYTHON" not in environment:
        # Spark asks a Python of the driver for the format rowcast, and by default that of workers
        needed["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if local and "PYSPARK_PYTHON" not in environment:
        needed["PYSPARK_PYTHON"] = sys.executable
    if local:
        needed["SPARK_LOCAL_IP"] = LOOPBACK
    return needed


def sent_to_executors(file: Path | None, master: str) -> dict[str, str]:
    """Return the settings by which executors get a zip of Python modules, and import from it."""
    if file is None:
        return {}
    if not file.is_file():
        raise Error(
            Code.NOT_FOUND,
            f"--py-files {file}: there is no such file; make it with rowcast pipeline package",
        )
    if master.startswith(("local", "sc://")):
        raise Error(
            Code.INVALID, f"--py-files is for executors of a cluster, and --master is {master}"
        )
    # A Python source's own workers get no --py-files of Spark; the file is in their directory
    return {"spark.files": str(file.absolute()), "spark.executorEnv.PYTHONPATH": file.name}


def _remote(name: str, master: str, settings: Mapping[str, str]) -> "SparkSession":
    from pyspark.errors import PySparkImportError  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    try:
        builder = SparkSession.builder.appName(name).remote(master)
        for key, value in {"spark.sql.session.timeZone": "UTC", **settings}.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()
    except (ImportError, PySparkImportError) as error:
        raise Error(
            Code.UNSUPPORTED, f"a master {master} needs pip install 'pyspark[connect]': {error}"
        ) from error
