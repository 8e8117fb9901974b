"""Progress of an export, as lines of JSON on standard output."""

import json
import math
import time
from collections.abc import Callable

from rowcast.core.snapshot_limits import SNAPSHOT_PROGRESS_SECONDS


def row_progress() -> Callable[[str, int, int], None]:
    """Return a progress callback that prints at most a few times a second."""
    said_at = -math.inf

    def report(table: str, rows: int, total: int) -> None:
        nonlocal said_at
        now = time.monotonic()
        if now - said_at >= SNAPSHOT_PROGRESS_SECONDS:
            said_at = now
            print(json.dumps({"table": table, "rows": rows, "of": total}), flush=True)

    return report
