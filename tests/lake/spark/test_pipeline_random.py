"""Each job beside DuckDB over random inputs; over more of them with ``--inputs 200`` (S9)."""

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
pytest.importorskip("pyspark", reason="NO SPARK: the jobs are NOT tested here")

from random_jobs import World, compare  # noqa: E402


def pytest_generate_tests(metafunc):
    metafunc.parametrize("seed", range(metafunc.config.getoption("--inputs")))


def test_jobs_are_those_of_duckdb_over_random_inputs(spark, tmp_path, seed):
    """S9: late, equal, missing, huge, NaN, before 1970, around changes of local time."""
    compare(spark, World(tmp_path, seed))
