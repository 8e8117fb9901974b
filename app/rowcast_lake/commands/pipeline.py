"""``rowcast pipeline``: the Spark commands, which run outside the server."""

from pathlib import Path
from typing import Annotated, Final

import typer

from rowcast_lake.commands.jobs import list_jobs, plot_result, run
from rowcast_lake.spark.executor_package import make_package
from rowcast_lake.spark.session import LOCAL_MASTER, start_session

pipeline = typer.Typer(
    name="pipeline",
    help="Run Spark jobs on snapshots and on the live log.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

pipeline.add_typer(run)
pipeline.command("list")(list_jobs)
pipeline.command("plot")(plot_result)

MasterOption = Annotated[
    str, typer.Option("--master", help="Master of Spark: local[*], spark://…, yarn, sc://…")
]
ROWS: Final = 1000


@pipeline.command()
def check(master: MasterOption = LOCAL_MASTER) -> None:
    """Start Spark, run a count, and print its version.

    Example: rowcast pipeline check --master local[2]
    """
    session = start_session("rowcast check", master)
    try:
        counted = session.range(ROWS).count()
        print(f"Spark {session.version} on {master} works: counted {counted} rows")
    finally:
        session.stop()


@pipeline.command()
def package(
    directory: Annotated[Path, typer.Argument(help="Where the two files are written.")] = Path(),
) -> None:
    """Write the part of Rowcast that executors need: a wheel, and a zip for --py-files.

    Example: rowcast pipeline package dist
    """
    for file in make_package(directory):
        print(f"{file}  {file.stat().st_size:,} bytes")
