"""What a start of the server imports: all that it waits for before it listens."""

import subprocess
import sys

import pytest

UNUSED = ("sqlalchemy.orm", "sqlmodel")
"""For classes of tables (``rowcast.models``), which few servers use: 0.2 s of CPU."""
STARTS = ("rowcast.program.main", "rowcast.program.resource_loader", "rowcast.journal.applier_main")


def imported(code: str) -> set[str]:
    """Return the modules of a new process after some code."""
    code += "; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize("start", STARTS)
def test_a_start_imports_no_classes_of_tables(start):
    assert set() == imported(f"import {start}") & set(UNUSED)


@pytest.mark.slow
def test_they_come_with_the_first_use():
    """Else the test above would name modules that nothing has."""
    assert set(UNUSED) < imported("from rowcast.models import select")


@pytest.mark.slow
def test_s19_an_import_loads_no_kernel_where_nothing_is_configured(tmp_path, monkeypatch):
    """S19: a short command costs its own imports, not those of the server's configuration."""
    monkeypatch.chdir(tmp_path)
    code = (
        "from rowcast_lake.commands.importing import import_table"
        "; from rowcast.program.client_settings import client_settings"
        "; client_settings('http://127.0.0.1:1')"
    )
    assert set() == imported(code) & {"rowcast.kernel.kernel", "rowcast.program.config", "pydantic"}
    (tmp_path / "rowcast.yaml").write_text("http: {port: 1}\n")
    assert "rowcast.program.config" in imported(code)


@pytest.mark.slow
def test_a_job_of_a_derived_table_reads_no_schema_and_an_export_asks_no_server():
    """Each is a process of its own, which costs little more than its imports."""
    job = imported("import rowcast_lake.commands.derive")
    assert set() == job & {"graphql", "httpx", "pydantic", "sqlalchemy"}
    assert "httpx" not in imported("import rowcast_lake.commands.snapshots")


@pytest.mark.slow
def test_a_worker_of_spark_imports_no_schema_and_no_client():
    """Spark asks several processes for each read, and each imports the format."""
    pytest.importorskip("pyspark", reason="NO SPARK: its workers' imports are NOT tested here")
    found = imported("import rowcast_lake.spark.format")
    assert "rowcast_lake.spark.remote" in found
    assert set() == found & {"graphql", "httpx", "rowcast_client"}
