"""Each job beside DuckDB over random inputs; over more of them with ``--inputs 200`` (S9)."""

from contextlib import contextmanager

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
pytest.importorskip("pyspark", reason="NO SPARK: the jobs are NOT tested here")

from random_jobs import World, compare  # noqa: E402

INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""Plans are not compiled: each is used once, on few rows, and compiling takes most of the time."""


def pytest_generate_tests(metafunc):
    metafunc.parametrize("seed", range(metafunc.config.getoption("--inputs")))


@contextmanager
def interpreted(spark):
    """Let a session interpret its plans."""
    usual = {name: spark.conf.get(name, None) for name in INTERPRETED}
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in usual.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def test_jobs_are_those_of_duckdb_over_random_inputs(spark, tmp_path, seed):
    """S9: late, equal, missing, huge, NaN, before 1970, around changes of local time."""
    with interpreted(spark):
        compare(spark, World(tmp_path, seed))
