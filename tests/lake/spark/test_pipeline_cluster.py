"""A job on a standalone cluster of Spark, of a server with users and TLS, by ``--url`` (S9, S14).

Master, workers, executors and driver are processes of their own, which share nothing but the
address, the credentials and the file of the authority.
"""

import os
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from free_ports import free_ports
from securing import Authority, ServerFiles
from serving import ROWCAST, Server, environment, wait_until

pyspark = pytest.importorskip("pyspark", reason="NO SPARK: its cluster is NOT tested here")

from rowcast_lake.spark.java import java_home, packaged_java  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
HOME = Path(pyspark.__file__).parent
DEPLOY = "org.apache.spark.deploy"
SCHEMA = """
type Reading @table @export { id: ID @primaryKey site: String! at: Date! temp: Float }
type Stats @table @export {
  id: ID @primaryKey site: String measure: String every: String start: Date end: Date
  count: Long min: Float max: Float mean: Float p50: Float p95: Float
}
"""
ANN = ("ann", "secret-ann")
ROWS = 200
JOB = (
    "--table", "Reading", "--time", "at", "--by", "site", "--every", "1d", "--values", "temp",
    "--to", "Stats",
)  # fmt: skip


@contextmanager
def spark_process(log, home, *words):
    """Run a class of Spark until the block ends."""
    told = {**environment(), "JAVA_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1"}
    with (
        log.open("wb") as file,
        subprocess.Popen(
            [HOME / "bin" / "spark-class", *map(str, words)], stdout=file, stderr=file, env=told
        ) as process,
    ):
        try:
            yield
        finally:
            process.terminate()


@pytest.fixture
def master(tmp_path):
    """The address of a master with two workers."""
    home = str(java_home(dict(os.environ), packaged_java()))
    (port,) = free_ports(1)
    address, told = f"spark://127.0.0.1:{port}", tmp_path / "master.log"
    here = ("--host", "127.0.0.1", "--webui-port", 0)
    with ExitStack() as stack:
        words = (f"{DEPLOY}.master.Master", *here, "--port", port)
        stack.enter_context(spark_process(told, home, *words))
        wait_until(lambda: "New state: ALIVE" in told.read_text(), "the master is there")
        for name in ("one", "two"):
            part = ("--cores", 1, "--memory", "1g", "--work-dir", tmp_path / name, address)
            words = (f"{DEPLOY}.worker.Worker", *here, *part)
            stack.enter_context(spark_process(tmp_path / f"{name}.log", home, *words))
        wait_until(lambda: told.read_text().count("Registering worker") == 2, "both have come")
        yield address


@pytest.fixture
def server(tmp_path):
    """A server with TLS and one user."""
    files = ServerFiles(tmp_path, Authority(tmp_path).issue("localhost", "127.0.0.1"))
    (port,) = free_ports(1)
    settings = {
        "tls.certificate": files.certificate,
        "tls.privateKey": files.key,
        "http.securePort": port,
        "mqtt.network.securePort": "off",
    }
    with Server(tmp_path, SCHEMA, settings=settings) as running:
        user = {"password": ANN[1], "roles": ["admin"], "setup_code": running.setup_code}
        assert running.request("PUT", "/$SYS/users/ann", json=user).is_success
        yield running


def test_a_job_runs_on_a_cluster_over_tls_signed_in(server, master, tmp_path):
    """The Python of this environment finds the format; executors sign in, and trust the file."""
    rows = [
        {"id": str(n), "site": "AB"[n % 2], "at": f"2026-01-01T{n % 24:02}:00:00Z", "temp": n}
        for n in range(ROWS)
    ]
    assert server.request("POST", "/Reading/", json=rows, auth=ANN).is_success
    data = tmp_path / "data"
    subprocess.run([ROWCAST, "export", "--data", data], cwd=tmp_path, env=environment(), check=True)
    authority = next(tmp_path.glob("authority*.pem"))
    signed = {
        "ROWCAST_USER": ANN[0],
        "ROWCAST_PASSWORD": ANN[1],
        "ROWCAST_AUTHORITY": authority.name,
    }
    address = f"https://127.0.0.1:{server.settings['http.securePort']}"
    done = subprocess.run(
        [ROWCAST, "pipeline", "run", "rollup", "--url", address, "--master", master, *JOB],
        cwd=tmp_path,  # the file of the authority is here; an executor works elsewhere
        env=environment() | signed,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    stats = server.request("GET", "/Stats/?sort(site)", auth=ANN).json()
    told = [(row["site"], row["count"], row["min"], row["max"]) for row in stats]
    assert [("A", ROWS // 2, 0, ROWS - 2), ("B", ROWS // 2, 1, ROWS - 1)] == told
    for name in ("one", "two"):
        assert list((tmp_path / name).glob("app-*/*/stderr")), f"the worker {name} ran nothing"
