"""``rowcast pipeline run``, ``list`` and ``plot``: each job is a command with options of its own.

A job is data, and its command is created from it on first use: importing Spark is slow, and Spark
may not be installed.
"""

import inspect
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from rowcast.core.errors import Code, Error
from rowcast.core.pipeline_limits import ROWS_SHOWN_MAX
from rowcast.core.places import check_local, is_object_store
from rowcast.core.suggestions import did_you_mean
from rowcast.core.tables import Table
from rowcast.program.client_settings import client_settings
from rowcast.program.commands.options import JsonOption, print_row
from rowcast.program.config import load_config
from rowcast_lake.spark.java import INSTALL
from rowcast_lake.spark.session import LOCAL_MASTER, sent_to_executors

if TYPE_CHECKING:
    from rowcast_lake.spark.jobs.job import Job

ROWS_SHOWN: Final = 20
"""Rows printed when the result has no other target."""

COMMON: Final[Mapping[str, tuple[Any, Any]]] = {
    "table": (
        Annotated[str, typer.Option("--table", help="The table to read, such as Weather.")],
        "",
    ),
    "snapshots": (
        Annotated[
            str | None,
            typer.Option(
                help="Directory of snapshots, or s3://bucket/prefix [default: the server's]."
            ),
        ],
        None,
    ),
    "parquet": (
        Annotated[str, typer.Option(help="Read these Parquet files instead, of any origin.")],
        "",
    ),
    "url": (
        Annotated[str | None, typer.Option(help="Read from this server, and write to it.")],
        None,
    ),
    "schema": (
        Annotated[
            Path | None,
            typer.Option(help="Schema that declares the table [default: the snapshot's]."),
        ],
        None,
    ),
    "out": (
        Annotated[
            str | None,
            typer.Option(help="Publish the result here as Parquet, also s3://bucket/prefix."),
        ],
        None,
    ),
    "to": (Annotated[str, typer.Option(help="Write the result to this table of the server.")], ""),
    "replace": (
        Annotated[
            bool,
            typer.Option(
                "--replace", help="Delete rows of earlier results that are in this one no more."
            ),
        ],
        False,
    ),
    "show": (
        Annotated[
            int | None,
            typer.Option(min=0, max=ROWS_SHOWN_MAX, help="Print N rows [default: 20]."),
        ],
        None,
    ),
    "stream": (
        Annotated[bool, typer.Option("--stream", help="Continue with new data as it arrives.")],
        False,
    ),
    "once": (
        Annotated[bool, typer.Option("--once", help="Process the data that exists, then stop.")],
        False,
    ),
    "checkpoint": (
        Annotated[str, typer.Option(help="Directory of the stream's checkpoint.")],
        "",
    ),
    "master": (
        Annotated[str, typer.Option(help="Master of Spark: local[*], spark://…, yarn, sc://…")],
        LOCAL_MASTER,
    ),
    "py_files": (
        Annotated[
            Path | None,
            typer.Option(help="Zip of `rowcast pipeline package`, sent to a cluster's executors."),
        ],
        None,
    ),
}
"""Options of every job: the type with its help text, and the default."""


def jobs() -> "Mapping[str, Job]":
    """Return all jobs by name; raises Error without PySpark."""
    try:
        from rowcast_lake.spark.jobs import JOBS  # noqa: PLC0415 - needs PySpark, which is optional
    except ImportError as error:
        raise Error(Code.UNSUPPORTED, f"jobs need PySpark: {INSTALL}") from error
    return JOBS


class Jobs(TyperGroup):
    """The commands of the jobs, created on first use."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as click calls it
        """Return the names of all jobs."""
        return list(jobs())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Return a job's command."""
        job = jobs().get(cmd_name)
        if job is None:
            raise Error(
                Code.NOT_FOUND,
                f"there is no job {cmd_name}{did_you_mean(cmd_name, jobs())}; there are "
                f"{', '.join(jobs())}",
            )
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(job.name)(_command(job))
        return typer.main.get_command(single)


run = typer.Typer(
    name="run",
    cls=Jobs,
    help="Run a job; each has options of its own.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@run.callback()
def _run() -> None:
    """Run a job; each has options of its own."""


def _command(job: "Job") -> Callable[..., None]:
    """Return the function whose parameters are the job's options and those of all jobs."""

    def command(**given: Any) -> None:
        chosen = {
            option.name: given.pop(option.name)
            for option in job.options
            if given[option.name] is not None
        }
        for line in _run_job(job, chosen, **given):
            print(line)

    own = {
        option.name: (Annotated[str, typer.Option(help=option.help)], option.default)
        for option in job.options
    }
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
            )
            for name, (annotation, default) in (own | dict(COMMON)).items()
        ]
    )
    command.__annotations__ = {
        name: annotation for name, (annotation, _) in (own | dict(COMMON)).items()
    }
    command.__doc__ = f"{job.summary}\n\nResult: {job.writes}\n\nExample: {job.example}"
    return command


def _run_job(
    job: "Job",
    options: Mapping[str, str],
    *,
    table: str,
    snapshots: str | None,
    parquet: str,
    url: str | None,
    schema: Path | None,
    out: str | None,
    to: str,
    replace: bool,
    show: int | None,
    stream: bool,
    once: bool,
    checkpoint: str,
    master: str,
    py_files: Path | None,
) -> list[str]:
    from rowcast_lake.spark.inputs import open_input  # noqa: PLC0415 - needs PySpark
    from rowcast_lake.spark.options import Options  # noqa: PLC0415
    from rowcast_lake.spark.places import root_of  # noqa: PLC0415
    from rowcast_lake.spark.runner import Order, Target, follow, run, session  # noqa: PLC0415
    from rowcast_lake.spark.sink import Bringer  # noqa: PLC0415

    job.read_options(options)  # report a mistake before starting Spark
    for name, place in (("--out", out), ("--snapshots", snapshots)):
        if place is not None and not is_object_store(place):
            check_local(place, name)
    table = table or job.table
    if not (table or parquet):
        raise Error(Code.UNPROCESSABLE, f"{job.name}: name a table, such as --table Weather")
    config, found = load_config(None, None, {"url": url} if url else {}), client_settings(url)
    authority = str(found.authority.resolve()) if found.authority else ""
    server = {"url": found.url, "authority": authority}
    if show is None:
        show = 0 if out or to else ROWS_SHOWN
    target = Target(root_of(out) if out else None, to, server, replace, show, checkpoint, once)
    order = Order(
        job, options, target, lambda text: _declared(schema, text, table), table or parquet
    )
    if to:  # before Spark is started, which takes a while
        Bringer(Options.of({**server, "table": to}), replace=replace).check()
    sent = sent_to_executors(py_files, master)
    with session(f"rowcast {job.name}", master, sent) as spark:
        place = snapshots or ("" if url else config.snapshots.place(config.data))
        root = root_of(place) if place else None
        source = open_input(spark, table, root, parquet, server if url else None)
        if not (stream or once):
            return run(order, source)
        return follow(order, source, partial(print, file=sys.stderr, flush=True))


def _declared(file: Path | None, text: str, table: str) -> Table | None:
    """Return a table as declared by a file or by the snapshot; None if neither declares it."""
    if file is None and not text:
        return None
    from rowcast.schema import load_schema, parse_schema  # noqa: PLC0415 - not for every command

    tables = (load_schema(file) if file else parse_schema(text)).tables
    found = next((item for item in tables if item.name == table), None)
    if found is None and file is not None:
        raise Error(Code.NOT_FOUND, f"{file} declares no table {table}")
    return found


def list_jobs(as_json: JsonOption = False) -> None:
    """List the jobs.

    Example: rowcast pipeline list
    """
    for job in jobs().values():
        if as_json:
            print_row({"name": job.name, "streams": bool(job.streams), "summary": job.summary})
            continue
        kinds = "batch, stream" if job.streams else "batch"
        print(f"{job.name:<10} {kinds:<13} {job.summary}")


def plot_result(
    place: Annotated[
        Path, typer.Argument(help="The result's directory: data/results/newest/rollup.")
    ],
    x: Annotated[str, typer.Option(help="Column of the horizontal axis, a time.")] = "start",
    y: Annotated[str, typer.Option(help="Column of the vertical axis, a number.")] = "mean",
    by: Annotated[
        str, typer.Option(help="Columns, separated by commas: a line for each value.")
    ] = "",
    where: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Only rows with this value.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("plot.svg"),
) -> None:
    """Draw a result as a chart, an SVG file.

    Example: rowcast pipeline plot data/results/newest/rollup --by origin --where measure=temp
    """
    from rowcast_lake.spark.plotting import plot  # noqa: PLC0415 - needs pyarrow

    check_local(str(place), "the result")
    check_local(str(out), "--out")
    chosen = dict(text.partition("=")[::2] for text in where or [])
    out.write_text(plot(place, x, y, tuple(filter(None, by.split(","))), chosen), encoding="utf-8")
    print(f"{out}: open it in a browser")
