"""A job on a standalone cluster of Spark, of a server with users and TLS, by ``--url`` (S9, S14).

Master, workers, executors and driver are processes of their own, which share nothing but the
address, the credentials and the file of the authority.
"""

import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from java_options import OPTIONS

from free_ports import free_ports
from securing import Authority, ServerFiles
from serving import ROWCAST, Server, environment, wait_until
from test_wheel import top_level

pyspark = pytest.importorskip("pyspark", reason="NO SPARK: its cluster is NOT tested here")

from rowcast_lake.spark.executor_package import NATIVE  # noqa: E402
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
READINGS = [
    {"id": str(n), "site": "AB"[n % 2], "at": f"2026-01-01T{n % 24:02}:00:00Z", "temp": n}
    for n in range(ROWS)
]
AUTHORITY = "authority.pem"
JAVA = {"JDK_JAVA_OPTIONS": OPTIONS}
"""Each process of Spark takes it."""
JOB = (
    "--table", "Reading", "--time", "at", "--by", "site", "--every", "1d", "--values", "temp",
    "--to", "Stats",
)  # fmt: skip


@contextmanager
def spark_process(log, home, *words):
    """Run a class of Spark until the block ends."""
    told = {**environment(), **JAVA, "JAVA_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1"}
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


class Cluster:
    """A master, and workers of one core each."""

    def __init__(self, folder, stack):
        self.folder, self.stack, self.workers = folder, stack, 0
        self.home = str(java_home(dict(os.environ), packaged_java()))
        (port,) = free_ports(1)
        self.address, self.log = f"spark://127.0.0.1:{port}", folder / "master.log"
        self._start(self.log, "master.Master", "--port", port)
        wait_until(lambda: "New state: ALIVE" in self.log.read_text(), "the master is there")

    def work(self, name, memory):
        """Start a worker with this much memory for executors."""
        part = ("--cores", 1, "--memory", memory, "--work-dir", self.folder / name, self.address)
        self._start(self.folder / f"{name}.log", "worker.Worker", *part)
        self.workers += 1
        told = "Registering worker"
        wait_until(lambda: self.log.read_text().count(told) == self.workers, "it has come")

    def _start(self, log, role, *words):
        words = (f"{DEPLOY}.{role}", "--host", "127.0.0.1", "--webui-port", 0, *words)
        self.stack.enter_context(spark_process(log, self.home, *words))


@pytest.fixture
def server(tmp_path):
    """A server with TLS, one user and a snapshot."""
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
        assert running.request("POST", "/Reading/", json=READINGS, auth=ANN).is_success
        data = ("--data", tmp_path / "data")
        subprocess.run([ROWCAST, "export", *data], cwd=tmp_path, env=environment(), check=True)
        yield running


def bare_python(place):
    """Make an environment that has what a cluster has, and nothing of Rowcast."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    packages = next(place.glob("lib/python*/site-packages"))
    for name in NATIVE:
        for item in top_level(name):
            (packages / item.name).symlink_to(item)
    python = place / "bin" / "python"
    for name in ("rowcast", "httpx"):
        found = subprocess.run([python, "-c", f"import {name}"], capture_output=True, check=False)
        assert b"ModuleNotFoundError" in found.stderr
    return str(python)


@contextmanager
def job(server, master):
    """Run a job, in the folder of the authority's file; an executor works in another one."""
    made = subprocess.run(
        [ROWCAST, "pipeline", "package", server.folder],
        env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    [sent] = [line.split()[0] for line in made.stdout.splitlines() if ".zip " in line]
    signed = {"PYSPARK_PYTHON": bare_python(server.folder / "bare")}
    signed |= {"ROWCAST_USER": ANN[0], "ROWCAST_PASSWORD": ANN[1], "ROWCAST_AUTHORITY": AUTHORITY}
    address = f"https://127.0.0.1:{server.settings['http.securePort']}"
    with subprocess.Popen(
        [
            ROWCAST,
            "pipeline",
            "run",
            "rollup",
            "--url",
            address,
            "--master",
            master,
            *JOB,
            "--py-files",
            sent,
        ],
        cwd=server.folder,
        env=environment() | JAVA | signed,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_job_waits_for_a_cluster_and_runs_on_it_over_tls_signed_in(server, tmp_path):
    """It says why it waits; its executors find the format, sign in, and trust the file.

    The Python of the executors has no Rowcast: the driver sends them the zip.
    """
    with ExitStack() as stack:
        cluster = Cluster(tmp_path, stack)
        cluster.work("small", "512m")  # an executor takes 1 GiB
        process = stack.enter_context(job(server, cluster.address))
        told = next(line for line in process.stderr if "has not accepted any resources" in line)
        assert "sufficient resources" in told
        cluster.work("large", "1g")
        problems = process.communicate()[1]
        assert 0 == process.returncode, problems
    stats = server.request("GET", "/Stats/?sort(site)", auth=ANN).json()
    found = [(row["site"], row["count"], row["min"], row["max"]) for row in stats]
    assert [("A", ROWS // 2, 0, ROWS - 2), ("B", ROWS // 2, 1, ROWS - 1)] == found
    assert {"large"} == {path.parts[-4] for path in tmp_path.glob("*/app-*/*/stderr")}
