"""Wiring of derived tables: where their jobs are, and the commands and environment of a run."""

import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.core.tables import Table
from rowcast.features.derived.commit import ResultBounds
from rowcast.features.derived.settings import JobSection
from rowcast.features.results.settings import ResultSection
from rowcast.program.config import Config, variable

log = logging.getLogger("rowcast.jobs")

_PROGRAM: Final = "rowcast_lake.commands.derive"
_PREFIX: Final = "jobs/"
_PASSED: Final = frozenset(
    {
        *("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV"),
        *("JAVA_HOME", "SPARK_HOME", "SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR"),
        *("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "LD_LIBRARY_PATH", "XDG_CACHE_HOME"),
    }
)
"""The variables that a job is given. Settings of the server, which may have passwords, are not."""


@dataclass(frozen=True)
class JobPlan:
    """How the jobs of one server are run (``features/derived/run.py:Plan``)."""

    config: Config
    section: JobSection

    @property
    def enabled(self) -> bool:
        """Whether jobs are run."""
        return self.section.enabled

    @property
    def seconds(self) -> float:
        """Time of one run."""
        return self.section.timeout_seconds

    @property
    def at_once(self) -> int:
        """Runs at the same time."""
        return self.section.at_once

    @property
    def bounds(self) -> ResultBounds:
        """How large a result may be."""
        section = self.config.of(ResultSection)
        return ResultBounds(size_bytes=section.bytes_max, changes=section.changes_max)

    @property
    def root(self) -> Path:
        """The directory of the directories of runs."""
        return self.config.data / "jobs"

    @property
    def directory(self) -> Path:
        """The directory of jobs."""
        return self.section.directory or self.config.schema_file.parent / "jobs"

    def export(self, tables: Sequence[str], out: Path) -> Sequence[str]:
        """Return the command that makes a snapshot of tables below a directory."""
        command = [sys.executable, "-m", "rowcast.program.cli", "export", "--json"]
        command += ["--schema", str(self.config.schema_file), "--data", str(self.config.data)]
        command += ["--set", f"store.url={self.config.database_url}"]
        return [*command, "--out", str(out), "--tables", ",".join(tables)]

    def work(self, job: str, snapshot: Path, result: Path) -> Sequence[str]:
        """Return the command of a job.

        Raises Error when it has no file in the directory, or what reads snapshots is missing.
        """
        _check_installed()
        file = self.file(job)
        options = ["--job", str(file), "--input", str(snapshot), "--output", str(result)]
        options += ["--seconds", f"{self.seconds:g}", "--bytes", str(self.bounds.size_bytes)]
        master = self.section.master
        if not master:
            return [sys.executable, "-m", _PROGRAM, *options]
        beside = Path(sys.executable).with_name("spark-submit")
        submit = str(beside) if beside.exists() else which("spark-submit")
        if submit is None:
            raise Error(
                Code.UNSUPPORTED,
                f"jobs.master is {master}, and there is no spark-submit: "
                "pip install 'rowcast[spark]'",
            )
        program = Path(__file__).parents[2] / (_PROGRAM.replace(".", "/") + ".py")
        return [submit, "--master", master, str(program), *options, "--master", master]

    def file(self, job: str) -> Path:
        """Return the file of a job; raises NOT_FOUND, DENIED for one that links to outside."""
        directory = self.directory.resolve()
        file = (directory / job.removeprefix(_PREFIX)).resolve()
        if not file.is_relative_to(directory):
            raise Error(Code.DENIED, f"{job} leads out of the directory of jobs")
        if not file.is_file():
            raise Error(Code.NOT_FOUND, f"there is no file {job} in the directory of jobs")
        return file

    def environment(self) -> Mapping[str, str]:
        """Return the environment of a job."""
        values = {name: variable(name) for name in sorted(_PASSED)}
        return {name: value for name, value in values.items() if value}


def _check_installed() -> None:
    """Raise UNSUPPORTED without the library of snapshots, which each job reads."""
    if find_spec("pyarrow") is None:
        raise Error(
            Code.UNSUPPORTED,
            "jobs need pyarrow, which is not installed: pip install 'rowcast[parquet]', or set "
            "jobs.enabled: false",
        )


def job_plan(config: Config, tables: Sequence[Table]) -> JobPlan:
    """Return how the jobs of a server are run; warn of one that cannot be run.

    The server starts nevertheless: its other tables do not need the job, which may come later.
    """
    try:
        check_jobs(config, tables)
    except Error as error:
        log.warning("%s; until then its rows stay as they are", error.message)
    return JobPlan(config, config.of(JobSection))


def check_jobs(config: Config, tables: Sequence[Table]) -> None:
    """Raise Error for a table whose job cannot be run; none where the server runs no jobs."""
    plan = JobPlan(config, config.of(JobSection))
    for table in tables if plan.enabled else ():
        if table.derived is not None:
            where = f"{config.schema_file}: {table.name}: @derived(job:)"
            try:
                _check_installed()
            except Error as error:
                raise Error(error.code, f"{where}: {error.message}") from error
            try:
                plan.file(table.derived.job)
            except Error as error:
                message = f"{where}: {error.message}, {plan.directory}"
                raise Error(error.code, message) from error
