"""The directories of runs: each run has one of its own, so that none reads what another wrote."""

import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Final

from rowcast.core.errors import Code, Error

SNAPSHOT: Final = "snapshot"
RESULT: Final = "result.ndjson"


class RunPlaces:
    """The directories of the runs of one table: ``<root>/<table>/<run>``.

    That of the last result stays: it has the snapshot that the rows were computed from.
    """

    def __init__(self, root: Path, table: str) -> None:
        self.directory = root / table

    def begin(self, run: int) -> Path:
        """Make the directory of a run, which nobody has used."""
        place = self.directory / str(run)
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        return place

    def keep(self, run: int | None) -> None:
        """Remove the directories of all runs but one."""
        if self.directory.is_dir():
            for place in self.directory.iterdir():
                if place.name != str(run):
                    shutil.rmtree(place, ignore_errors=True)

    @staticmethod
    def forget_others(root: Path, tables: Collection[str]) -> None:
        """Remove the directories of tables that are not derived any more.

        Only those that have runs and nothing else: files of jobs may be beside them.
        """
        for place in root.iterdir() if root.is_dir() else ():
            if place.name in tables or not _is_directory(place):
                continue
            runs = list(place.iterdir())
            if runs and all(run.name.isdecimal() and _is_directory(run) for run in runs):
                shutil.rmtree(place, ignore_errors=True)

    @staticmethod
    def snapshot_of(place: Path) -> Path:
        """Return the snapshot in the directory of a run; raises NOT_FOUND."""
        made = [item for item in (place / SNAPSHOT).iterdir() if (item / "manifest.json").is_file()]
        found = [item for item in made if not item.is_symlink()]
        if len(found) != 1:
            raise Error(Code.NOT_FOUND, "the snapshot of the run is not there")
        return found[0]


def _is_directory(place: Path) -> bool:
    return place.is_dir() and not place.is_symlink()
