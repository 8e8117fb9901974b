"""Options of readers and writers of the format ``rowcast``."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.core.pipeline_limits import REMOTE_PATIENCE_SECONDS
from rowcast.core.places import check_local, is_object_store
from rowcast.core.sign_in import CREDENTIALS, credentials_for
from rowcast.core.suggestions import did_you_mean
from rowcast_lake.spark.environment import server_url, variables
from rowcast_lake.spark.places import NEWEST, Directory, Place, Served, Stored
from rowcast_lake.spark.remote import Remote

KNOWN: Final = frozenset({
    "url", "path", "table", "user", "password", "token", "authority", "snapshot", "export",
    "startingcursor", "endingcursor", "patience", "maxeventsperbatch", "eventspertask", "pushdown",
    "minpartitions", "columns", "increments",
    "cut", "job", "mode", "again", "checkpointlocation", "query", "receipt",
    "rows",
})  # fmt: skip
DEFAULT_URL: Final = "http://127.0.0.1:9926"


@dataclass(frozen=True)
class Options:
    """The options of one reader or writer; names are case-insensitive."""

    given: Mapping[str, str]

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "Options":
        """Return options; raises INVALID for an unknown name, which would be ignored otherwise."""
        plain = {name.lower(): value for name, value in given.items()}
        for name in plain:
            if name not in KNOWN and "." not in name:
                raise Error(
                    Code.INVALID,
                    f"the format rowcast has no option {name!r}{did_you_mean(name, sorted(KNOWN))}",
                )
        return cls(plain)

    def text(self, name: str, default: str = "") -> str:
        """Return an option's text."""
        return self.given.get(name) or default

    def flag(self, name: str) -> bool:
        """Return an option's boolean value."""
        text = self.text(name, "false").lower()
        if text not in {"true", "false"}:
            raise Error(Code.INVALID, f"{name}: {text!r} is neither true nor false")
        return text == "true"

    def number(self, name: str, default: int) -> int:
        """Return a number of at least one."""
        text = self.text(name, str(default))
        if not text.isascii() or not text.isdigit() or int(text) < 1:
            raise Error(Code.INVALID, f"{name}: {text!r} is no number of at least 1")
        return int(text)

    @property
    def parts_min(self) -> int:
        """How many tasks read a snapshot at least, if it has as many files or row groups."""
        return self.number("minpartitions", os.cpu_count() or 1)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read; empty for all."""
        names = (name.strip() for name in self.text("columns").split(","))
        return tuple(name for name in names if name)

    @property
    def table(self) -> str:
        """The table that is read or written."""
        name = self.text("table")
        if not name:
            raise Error(Code.INVALID, 'say which table with .option("table", "Dog")')
        return name

    @property
    def snapshot(self) -> str:
        """The snapshot that is read."""
        name = self.text("snapshot", NEWEST)
        cut = name.rpartition(":")[2]
        return f"{int(cut):018d}" if cut.isascii() and cut.isdigit() else name

    @property
    def remote(self) -> Remote:
        """The server: from an option, else from the environment."""
        return self.patient(REMOTE_PATIENCE_SECONDS)

    def patient(self, default_seconds: int) -> Remote:
        """Return the server; a request is repeated for so long, or for the option's seconds."""
        environment = variables()
        url = self.text("url") or server_url() or DEFAULT_URL
        others = credentials_for(url, environment)
        who = {name: self.text(name) or others.get(name, "") for name in CREDENTIALS}
        authority = self.text("authority") or environment.get("ROWCAST_AUTHORITY", "")
        remote = Remote.of(url, authority=authority, **who)
        return replace(remote, patience_seconds=self.number("patience", default_seconds))

    @property
    def place(self) -> Place:
        """The place of snapshots: a directory or store if a path is given, else the server."""
        path = self.text("path")
        if is_object_store(path):
            return Stored(path)
        if path:
            check_local(path.removeprefix("file://"), "path")
            return Directory(path.removeprefix("file://"))
        return Served(self.remote, self.flag("export"))
