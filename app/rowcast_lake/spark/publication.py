"""Publication: a result becomes visible complete, and atomically replaces the previous one.

A result is laid out as a snapshot: ``<out>/<when>/<job>/*.parquet`` with a manifest, and
``newest``, a symbolic link that is replaced atomically. Spark writes into a directory that readers
ignore; the next job removes the leftovers of a killed one.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812

from rowcast.core.errors import Code, Error
from rowcast.core.pipeline_limits import RESULTS_KEPT
from rowcast_lake.spark.object_publication import publish_objects
from rowcast_lake.spark.parts import MANIFEST
from rowcast_lake.spark.places import NEWEST
from rowcast_lake.stores.object_paths import ObjectPath

MAKING: Final = ".making-"
NAME: Final = "%Y%m%dT%H%M%S%fZ"


@dataclass(frozen=True, slots=True)
class Published:
    """A published result: its path and size."""

    place: Path | str
    rows: int
    files: int
    bytes: int


def publish(
    frame: DataFrame, out: Path | ObjectPath, name: str, facts: Mapping[str, object]
) -> Published:
    """Write a frame, make it durable, and make it visible to readers."""
    if isinstance(out, ObjectPath):
        return Published(*publish_objects(frame, out, name, facts))
    _check(out)
    out = out.absolute()
    created = datetime.now(UTC)
    version = created.strftime(NAME)
    making = out / f"{MAKING}{os.getpid()}-{version}"
    counted = Observation()
    frame = frame.observe(counted, F.count(F.lit(1)).alias("rows"))
    try:
        frame.write.parquet(str(making / name))
        rows = int(counted.get["rows"])
        files = sorted((making / name).rglob("*.parquet"))
        size = sum(file.stat().st_size for file in files)
        row = {
            "job": name,
            **facts,
            "created": created.isoformat().replace("+00:00", "Z"),
            "rows": rows,
            "columns": [
                {"name": field.name, "type": field.dataType.simpleString()}
                for field in frame.schema
            ],
            "files": [str(file.relative_to(making)) for file in files],
        }
        (making / MANIFEST).write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
        for place in _inside(making):
            _sync(place)
        making.rename(out / version)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    _point(out, version)
    _tidy(out)
    return Published(out / NEWEST / name, rows, len(files), size)


def _check(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        others = [
            place.name
            for place in out.iterdir()
            if place.name != NEWEST and not place.name.startswith(".") and not _is_version(place)
        ]
    except OSError as error:
        raise Error(Code.INVALID, f"--out {out}: {error.strerror}") from error
    if others:
        raise Error(
            Code.CONFLICT,
            f"--out {out} holds other things ({others[0]}); name a directory for results only",
        )


def _is_version(place: Path) -> bool:
    try:
        datetime.strptime(place.name, NAME).replace(tzinfo=UTC)
    except ValueError:
        return False
    return True


def _inside(place: Path) -> Iterator[Path]:
    """Yield all files and directories, the innermost first."""
    for folder, _, names in os.walk(place, topdown=False):
        yield from (Path(folder) / name for name in names)
        yield Path(folder)


def _sync(place: Path) -> None:
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _point(out: Path, version: str) -> None:
    """Point ``newest`` to this version, atomically."""
    link = out / f"{MAKING}link-{os.getpid()}"
    link.unlink(missing_ok=True)
    link.symlink_to(version)
    link.rename(out / NEWEST)
    _sync(out)


def _tidy(out: Path) -> None:
    """Remove old results, except the last ones, which may still be read."""
    versions = sorted(place for place in out.iterdir() if _is_version(place))
    for place in versions[:-RESULTS_KEPT]:
        shutil.rmtree(place, ignore_errors=True)
    for place in out.glob(f"{MAKING}*"):
        if _alive(place.name):
            continue
        if place.is_symlink():
            place.unlink(missing_ok=True)
        else:
            shutil.rmtree(place, ignore_errors=True)


def _alive(name: str) -> bool:
    """Whether the process that writes a result still runs."""
    number = next((part for part in name.split("-") if part.isdigit()), "")
    return not number or Path(f"/proc/{number}").exists() or not Path("/proc").exists()
