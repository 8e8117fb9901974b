"""Uploads: the parts of results that were brought and are not committed.

They are in memory only, bounded in rows, bytes, number and time. Whoever dies before the commit
leaves nothing: an upload that nobody adds to is forgotten, and a restart forgets all of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from app.core.clock import WallClock
from app.core.errors import Code, Error
from app.core.result_limits import (
    RESULT_BYTES_MAX,
    RESULT_IDLE_SECONDS,
    RESULT_NAME_CHARS_MAX,
    RESULT_PARTS_MAX,
    RESULT_ROWS_MAX,
    RESULTS_MAX,
    RESULTS_ROWS_MAX,
)
from app.engine.write import Write


@dataclass(slots=True)
class Upload:
    """What was brought of one result, by whom, and when last."""

    name: str
    user: str
    table: str
    policy: object
    """The rules by which its rows were judged."""
    touched: float
    parts: dict[str, list[Write]] = field(default_factory=dict)
    rows: int = 0
    bytes: int = 0

    def drop(self, part: str) -> None:
        """Forget a part, because it is brought again."""
        for write in self.parts.pop(part, ()):
            self.rows -= 1
            self.bytes -= len(write.event.payload)

    def add(self, part: str, write: Write) -> None:
        """Take a row of a part."""
        self.parts.setdefault(part, []).append(write)
        self.rows += 1
        self.bytes += len(write.event.payload)


class Uploads:
    """All uploads of a server."""

    def __init__(self, now: WallClock) -> None:
        self._now = now
        self._known: dict[str, Upload] = {}

    def __iter__(self) -> Iterator[Upload]:
        self._forget()
        return iter(list(self._known.values()))

    def opened(self, name: str, user: str, table: str, policy: object) -> Upload:
        """Return an upload that a part is for: a new one, if it is the first."""
        self._forget()
        upload = self._known.get(name)
        if upload is None:
            if len(self._known) >= RESULTS_MAX:
                raise Error(
                    Code.BUSY,
                    f"{RESULTS_MAX} results are being brought; try again when one is done",
                    retry_after_seconds=10,
                )
            if len(name) > RESULT_NAME_CHARS_MAX:
                raise Error(Code.INVALID, "the name of an upload is too long")
            upload = self._known[name] = Upload(name, user, table, policy, self._now())
        if (upload.user, upload.table) != (user, table):
            raise Error(
                Code.CONFLICT, f"the upload {name} is of another user, or for another table"
            )
        upload.touched = self._now()
        return upload

    def check(self, upload: Upload, part: str) -> None:
        """Raise TOO_LARGE when there is more than may be committed at once, BUSY with others."""
        if sum(item.rows for item in self._known.values()) > RESULTS_ROWS_MAX:
            self._known.pop(upload.name, None)
            raise Error(
                Code.BUSY,
                f"more than {RESULTS_ROWS_MAX} rows of results are being brought; try again later",
                retry_after_seconds=10,
            )
        if upload.rows > RESULT_ROWS_MAX:
            problem = f"more than {RESULT_ROWS_MAX} rows"
        elif sum(item.bytes for item in self._known.values()) > RESULT_BYTES_MAX:
            problem = f"with the others that are being brought more than {RESULT_BYTES_MAX} bytes"
        elif len(upload.parts) > RESULT_PARTS_MAX or len(part) > RESULT_NAME_CHARS_MAX:
            problem = f"more than {RESULT_PARTS_MAX} parts, or a part with a long name"
        else:
            return
        self._known.pop(upload.name, None)
        raise Error(
            Code.TOO_LARGE,
            f"the result has {problem}: so much is not committed at once. Aggregate further, or "
            "divide it: write it by parts of its keys, each as a job of its own name",
        )

    def find(self, name: str, user: str) -> Upload:
        """Return an upload; raises NOT_FOUND."""
        self._forget()
        upload = self._known.get(name)
        if upload is None or upload.user != user:
            raise Error(
                Code.NOT_FOUND,
                f"there is no upload {name}: the server was restarted, or nothing came for "
                f"{RESULT_IDLE_SECONDS} seconds; bring the result again",
            )
        return upload

    def close(self, name: str) -> None:
        """Forget an upload."""
        self._known.pop(name, None)

    def _forget(self) -> None:
        oldest = self._now() - RESULT_IDLE_SECONDS
        self._known = {
            name: upload for name, upload in self._known.items() if upload.touched >= oldest
        }
