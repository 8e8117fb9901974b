"""Compaction: merges small pages of changes into larger ones (S6).

The larger page is published first, atomically, in a directory of its own (``merged``), and the
small ones stay for a while: a reader that lists the pages sees all events at any moment, and uses
the widest page where they overlap, so it reads no event twice. A stream over the files of
``changes`` sees only what was exported, and has as long as the settings say to come for it. Then
the small pages are removed: first renamed out of sight, then deleted.

Only sixteen neighbours of one size class are merged, so an event is rewritten three times and not
with each new page; ``everything`` leaves the smallest possible number of files.
"""

import logging
import time
from collections.abc import Callable, Container, Iterator, Sequence
from datetime import datetime

import pyarrow as pa

from rowcast.core.errors import Error
from rowcast.core.export_limits import (
    PAGE_BYTES,
    PAGE_BYTES_SMALL,
    PAGES_COVERED_SECONDS,
    PAGES_TOGETHER,
)
from rowcast.core.snapshot_limits import SNAPSHOT_FREE_BYTES_MIN
from rowcast.features.snapshots.catalogue import MANIFEST, Item
from rowcast.features.snapshots.snapshot_directory import MERGED
from rowcast.features.snapshots.snapshot_store import Making
from rowcast_lake.columns.joining import joined_schema, shaped
from rowcast_lake.snapshots.changes import Page, page_name, publish, write_table
from rowcast_lake.snapshots.manifest import FORMAT, Manifest
from rowcast_lake.snapshots.reading import opened
from rowcast_lake.snapshots.shapes import Batch
from rowcast_lake.snapshots.snapshot_stores import catalogue_of, store_of
from rowcast_lake.stores.object_paths import Directory

log = logging.getLogger("rowcast_lake.snapshots")


def compact(
    directory: Directory,
    *,
    everything: bool = False,
    covered_seconds: float = PAGES_COVERED_SECONDS,
    keep_small_seconds: float = 0,
    together: int = PAGES_TOGETHER,
    now: Callable[[], float] = time.time,
    warn: Callable[[str], None] = log.warning,
) -> list[Page]:
    """Merge the pages that are due, and remove those merged long ago. Return the new pages.

    ``together`` neighbours of one size class are due. A merged page goes when the wider one stands
    for ``covered_seconds``; one of ``changes`` also stays until it is ``keep_small_seconds`` old.

    Pages that cannot be merged stay as they are, and ``warn`` receives the reason: no exported
    event is lost.
    """
    catalogue, snapshots = catalogue_of(directory), store_of(directory)
    made: list[Page] = []
    apart = set[str]()
    while pages := _due(widest(catalogue.items()), apart, 0 if everything else together):
        try:
            with snapshots.making() as making:
                made.append(_merge(making, directory, pages))
        except (Error, pa.ArrowException, OSError) as error:
            apart.update(page.name for page in pages)
            warn(
                f"the changes {pages[0].name} to {pages[-1].name} stay apart, as they are: "
                f"{error}; they can be read one by one"
            )
    items = catalogue.items()
    for item, wide in _covered(items):
        stands = now() - (directory / wide.name / MANIFEST).stat().st_mtime
        kept = 0 if item.name.startswith(f"{MERGED}/") else keep_small_seconds
        if stands >= covered_seconds and now() - _made(item) >= kept:
            catalogue.remove(item)
    return made


def forget(directory: Directory, seconds: float, now: Callable[[], float] = time.time) -> list[str]:
    """Remove the oldest pages, created more than ``seconds`` ago; pages being read stay.

    Only the oldest pages are removed, so the rest has no gap. The last one stays, whatever its age:
    the next page begins where it ends, else events would be exported twice, or never. Returns the
    removed names.
    """
    catalogue, gone = catalogue_of(directory), list[str]()
    pages = [item for item in catalogue.items() if item.is_page and not item.problem]
    last = max(pages, key=lambda page: (_made(page), page.seq), default=None)
    for item in sorted(pages, key=lambda item: item.seq):
        if last is not None and _end(item) == _end(last):
            continue
        if now() - _made(item) < seconds or not catalogue.free(item):
            break
        catalogue.remove(item)
        gone.append(item.name)
    return gone


def _end(page: Item) -> tuple[str, int]:
    return str(page.manifest["epoch"]), page.seq


def widest(items: Sequence[Item]) -> list[Item]:
    """Return the pages that no wider page covers, in the order of the log."""
    pages = [item for item in items if item.is_page and not item.problem]
    found: list[Item] = []
    for page in sorted(pages, key=lambda page: (page.from_seq, -page.seq)):
        if not (found and _covers(found[-1], page)):
            found.append(page)
    return found


def _covered(items: Sequence[Item]) -> Iterator[tuple[Item, Item]]:
    """Return each page that does not count, and the wider one that does."""
    counting = widest(items)
    for item in items:
        if item.is_page and not item.problem and item not in counting:
            yield item, next(page for page in counting if _covers(page, item))


def _made(page: Item) -> float:
    """Return when a page, or the last one in it, was exported, in seconds since 1970."""
    return datetime.fromisoformat(str(page.manifest["created"])).timestamp()


def _covers(wide: Item, page: Item) -> bool:
    same = wide.manifest["epoch"] == page.manifest["epoch"]
    return same and wide.from_seq <= page.from_seq and page.seq <= wide.seq


def _due(pages: Sequence[Item], apart: Container[str], together: int) -> list[Item]:
    """Return neighbours to merge now, none of them in ``apart``; empty if none are due.

    ``together`` of one size class; with 0 as many of any size as fit.
    """
    run: list[Item] = []
    size_bytes = 0
    for page in pages:
        size_bytes += page.size_bytes
        alike = not together or (run and _size(run[-1], together) == _size(page, together))
        fits = size_bytes <= PAGE_BYTES and page.name not in apart
        if run and not (fits and alike and _follows(run[-1], page)):
            if len(run) >= (together or 2):
                return run
            run, size_bytes = [], page.size_bytes
        if page.name in apart:
            size_bytes = 0
            continue
        run.append(page)
        if len(run) == together:
            return run
    return run if len(run) >= (together or 2) else []


def _follows(page: Item, other: Item) -> bool:
    same = page.manifest["epoch"] == other.manifest["epoch"]
    return same and other.from_seq == page.seq + 1


def _size(page: Item, together: int) -> int:
    """Return a page's size class: 0 is small, each next one is ``together`` times as large."""
    size, bound = 0, PAGE_BYTES_SMALL
    while page.size_bytes >= bound:
        size, bound = size + 1, bound * together
    return size


def _merge(making: Making, directory: Directory, pages: Sequence[Item]) -> Page:
    """Write neighbours as one page."""
    making.aim(f"{MERGED}/{page_name(pages[0].from_seq, pages[-1].seq)}")
    facts = {}
    for name in dict.fromkeys(name for page in pages for name in page.manifest["tables"]):
        files = [
            directory / page.name / file["path"]
            for page in pages
            for file in page.manifest["tables"].get(name, {"files": ()})["files"]
        ]
        schema = _current(joined_schema(_schema(path) for path in files))
        batches = _batches(files, schema)
        found = write_table(making, name, schema, batches, SNAPSHOT_FREE_BYTES_MIN)
        if found is not None:
            facts[name] = found
    last = pages[-1].manifest
    manifest = Manifest(
        last["epoch"],
        last["seq"],
        last["created"],
        last["schema"],
        facts,
        pages[0].from_seq,
        last.get("audience"),
        format=1 if any(page.manifest["format"] == 1 for page in pages) else FORMAT,
    )
    return publish(making, directory, manifest, MERGED)


def _current(schema: pa.Schema) -> pa.Schema:
    """Return the columns of the present format: before it, ``_version`` repeated ``_ts``."""
    place = schema.get_field_index("_version")
    return schema if place < 0 else schema.remove(place)


def _schema(path: Directory) -> pa.Schema:
    with opened(path) as file:
        return file.schema_arrow


def _batches(files: Sequence[Directory], schema: pa.Schema) -> Iterator[Batch]:
    """Return the rows of files, one after the other, with the columns of all."""
    for path in files:
        with opened(path) as file:
            for batch in file.iter_batches():
                yield shaped(batch, schema)
