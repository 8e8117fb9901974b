"""The files that deploy a cluster of Spark: what they say agrees with the package and the program.

No container is started; ``tests/lake/spark/test_pipeline_cluster.py`` runs these classes of Spark,
with the zip of the same package.
"""

import fnmatch
import re
import subprocess
import sys
import tomllib
import zipfile

import pytest
import yaml

from house import ROOT
from test_wheel import top_level

FOLDER = ROOT / "deploy/spark"
IMAGE = (FOLDER / "Dockerfile").read_text()
PORT = 7077


def services():
    return yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_image_has_the_spark_of_the_extra():
    [wanted] = [text for text in project()["optional-dependencies"]["spark"] if "pyspark" in text]
    assert f'"{wanted}"' in IMAGE
    assert not IMAGE.startswith("FROM") and "FROM python:3.11" in IMAGE
    assert project()["requires-python"] == ">=3.11"


def test_workers_find_the_master_and_only_loopback_finds_both():
    found = services()
    assert ["master", "worker-1", "worker-2"] == sorted(found)
    host, port = found["master"]["command"][3::2]
    assert ("master", str(PORT)) == (host, port)
    assert [f"127.0.0.1:{PORT}:{PORT}"] == found["master"]["ports"]
    for name in ("worker-1", "worker-2"):
        worker = found[name]
        assert f"spark://{host}:{port}" == worker["command"][-1]
        assert "ports" not in worker
        assert "2g" == worker["command"][worker["command"].index("--memory") + 1]
    for service in found.values():
        assert (["ALL"], ".") == (service["cap_drop"], service["build"]["context"])


def test_a_worker_keeps_what_it_runs_where_its_user_may_write():
    """By default that is beside Spark, which belongs to root: no worker would start."""
    assert "useradd --system --create-home spark\nUSER spark\nWORKDIR /home/spark\n" in IMAGE
    assert re.search(r"^ENV .*SPARK_WORKER_DIR=/home/spark/", IMAGE, re.MULTILINE)


def test_the_file_names_a_python_that_driver_and_containers_find():
    """What executors run is named by the driver: a path of its machine is not in the containers."""
    text = (FOLDER / "compose.yaml").read_text()
    for variable in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        [name] = re.findall(rf"\b{variable}=(\S+)", text)
        assert "/" not in name


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The wheel and the zip."""
    make_package = pytest.importorskip("rowcast_lake.spark.executor_package").make_package
    return make_package(tmp_path_factory.mktemp("package"))


@pytest.mark.slow
def test_the_image_installs_the_wheel_that_the_command_makes(package, tmp_path):
    wheel, bundle = package
    [copied] = re.findall(r"^COPY (\S+) ", IMAGE, re.MULTILINE)
    assert fnmatch.fnmatch(wheel.name, copied)
    assert not fnmatch.fnmatch(bundle.name, copied)
    from rowcast_lake.spark.executor_package import make_package

    again = make_package(tmp_path)
    assert [file.read_bytes() for file in package] == [file.read_bytes() for file in again]


@pytest.mark.heavy
def test_the_wheel_has_no_server_and_says_what_it_needs(package):
    with zipfile.ZipFile(package[0]) as wheel:
        names = set(wheel.namelist())
        [about] = [name for name in names if name.endswith("/METADATA")]
        needs = re.findall(r"^Requires-Dist: ([\w-]+)", wheel.read(about).decode(), re.MULTILINE)
    assert ["graphql-core", "httpx", "orjson", "pyarrow"] == needs
    rooms = {
        name.split("/")[1]
        for name in names
        if name.startswith("rowcast/") and "." not in name.split("/")[1]
    }
    assert {"codecs", "core", "schema"} == rooms
    assert "pyspark_rowcast/__init__.py" in names
    assert "rowcast_lake/spark/log4j2.properties" in names


@pytest.mark.slow
def test_pip_installs_the_wheel_and_every_module_of_it_can_be_imported(package, tmp_path):
    """With what it needs and Spark, and nothing else of this environment."""
    pytest.importorskip("pyspark", reason="NO SPARK: the wheel is NOT tested here")
    place = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    packages = next(place.glob("lib/python*/site-packages"))
    needed = ("graphql-core", "httpx", "httpcore", "h11", "anyio", "certifi", "idna",
              "typing_extensions", "orjson", "pyarrow", "pyspark", "py4j")  # fmt: skip
    for name in needed:
        for item in top_level(name):
            (packages / item.name).symlink_to(item)
    python = place / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    subprocess.run([*pip, "install", "-q", "--no-index", "--no-deps", package[0]], check=True)
    with zipfile.ZipFile(package[0]) as wheel:
        files = [name for name in wheel.namelist() if name.endswith(".py")]
    modules = [name[:-3].removesuffix("/__init__").replace("/", ".") for name in files]
    script = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"
    done = subprocess.run(
        [python, "-c", script, *modules], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert 0 == done.returncode, done.stderr
