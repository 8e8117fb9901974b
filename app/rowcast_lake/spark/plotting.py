"""Plots of results: reads their Parquet files and draws their rows as lines.

This needs no Spark: a result that fits on a screen fits into memory, and starting Spark is slow.
"""

from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from rowcast.core.errors import Code, Error
from rowcast.core.pipeline_limits import PLOT_POINTS_MAX, PLOT_SERIES_MAX
from rowcast.core.suggestions import did_you_mean
from rowcast_lake.spark.chart import Points, svg


def plot(place: Path, x: str, y: str, by: tuple[str, ...], where: dict[str, str]) -> str:
    """Return a chart of a result: ``y`` over the time ``x``, a line for each ``by``."""
    if not place.exists():
        raise Error(
            Code.NOT_FOUND,
            f"{place} is not there; name what a job has published with --out, such as "
            "data/results/newest/rollup",
        )
    try:
        data = ds.dataset(str(place), format="parquet")
    except (OSError, pa.ArrowInvalid) as error:
        raise Error(Code.NOT_FOUND, f"{place} cannot be read as Parquet: {error}") from error
    for name in (x, y, *by, *where):
        if name not in data.schema.names:
            raise Error(
                Code.UNPROCESSABLE,
                f"{place} has no column {name}{did_you_mean(name, data.schema.names)}; it has "
                f"{', '.join(data.schema.names)}",
            )
    if not pa.types.is_timestamp(data.schema.field(x).type):
        raise Error(Code.UNPROCESSABLE, f"--x {x}: that is {data.schema.field(x).type}, no time")
    chosen = ds.field(y).is_valid()
    for name, text in where.items():
        chosen &= ds.field(name).cast(pa.string()) == text
    found = data.head(PLOT_POINTS_MAX + 1, columns=list(dict.fromkeys((x, y, *by))), filter=chosen)
    if not found.num_rows:
        raise Error(Code.NOT_FOUND, f"{place} has no such row; --where must name what is there")
    if found.num_rows > PLOT_POINTS_MAX:
        raise Error(
            Code.TOO_LARGE, f"over {PLOT_POINTS_MAX} points are no plot; choose with --where"
        )
    return svg(_title(y, where), _lines(found.to_pylist(), x, y, by))


def _title(y: str, where: dict[str, str]) -> str:
    return f"{y} {', '.join(where.values())}".strip()


def _lines(rows: list[dict[str, Any]], x: str, y: str, by: tuple[str, ...]) -> dict[str, Points]:
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        moment: datetime = row[x]
        name = " ".join(str(row[key]) for key in by) or y
        lines.setdefault(name, []).append((moment.timestamp(), float(row[y])))
    if len(lines) > PLOT_SERIES_MAX:
        raise Error(
            Code.TOO_LARGE,
            f"{len(lines)} lines are more than the {PLOT_SERIES_MAX} that can be told apart; "
            f"choose with --where {by[0]}={min(lines)}",
        )
    return {name: sorted(points) for name, points in sorted(lines.items())}
