"""``$SYS/results``: uploads of results over any door.

    PUT    $SYS/results/<upload>          {"table": "HourlyAvg", "rows": 24, "bytes": 2400}: begins
                                          an upload, refused if so much cannot be committed; with
                                          {"job": "hourly", "replace": true} also if it would
                                          remove too much; of one that is there it says that it
                                          is in use
    PUT    $SYS/results/<upload>/<part>   {"table": "HourlyAvg", "rows": [{...}, ...]}; with
                                          {"after": "<part>"} refused if that one is not there any
                                          more, as after a restart of the server
    POST   $SYS/results/                  {"upload", "table", "job", "cut", "parts", "rows",
                                           "replace", "again"}: commits, answers with the receipt
    DELETE $SYS/results/<upload>          discards the upload
    GET    $SYS/results/                  running uploads

The rights are those of ordinary writes: each row is checked like a separate write.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final, cast

from rowcast.core.errors import Code, Error
from rowcast.core.suggestions import did_you_mean
from rowcast.features.results.pending_commit import Order
from rowcast.features.results.results import BulkCommit
from rowcast.routes.system_rows import SystemRows, time_text

PATH: Final = "$SYS/results"
_HOW: Final = (
    'commit with {"upload": "...", "table": "HourlyAvg", "job": "hourly", "cut": "...", '
    '"parts": ["0"], "rows": 24}'
)
_WORDS: Final = frozenset({"upload", "table", "job", "cut", "parts", "rows", "replace", "again"})


def result_rows(results: BulkCommit) -> type[SystemRows]:
    """Return the resource class of uploads."""

    class ResultRows(SystemRows):
        """One row for each running upload."""

        path = PATH

        def names(self) -> Sequence[str]:
            return [upload.name for upload in results.uploads if upload.user == self.caller.user]

        def row(self, name: str, *, whole: bool) -> dict[str, object] | None:  # noqa: ARG002
            for upload in results.uploads:
                if upload.name == name and upload.user == self.caller.user:
                    return {
                        "id": name,
                        "table": upload.table.name,
                        "parts": len(upload.parts),
                        "rows": upload.rows,
                        "bytes": upload.bytes,
                        "committing": upload.users > 0,
                        "touched": time_text(upload.touched),
                        "changes_max": results.bounds.changes,
                    }
            return None

        async def put(self, value: object) -> None:
            """Begin an upload, or add a part."""
            name, _, part = self.id.partition("/")
            facts = value if isinstance(value, dict) else {}
            table, rows, size = facts.get("table"), facts.get("rows"), facts.get("bytes", 0)
            if not part and isinstance(table, str) and type(rows) is int and type(size) is int:
                job = str(facts.get("job", "")) if facts.get("replace") is True else ""
                await results.declare(name, table, rows, size, self.caller, replaces=job)
                return
            if not part or not isinstance(table, str) or not isinstance(rows, list):
                raise Error(
                    Code.INVALID,
                    f'a part is {{"table": "HourlyAvg", "rows": [...]}} at {PATH}/<upload>/<part>, '
                    'and {"table": "HourlyAvg", "rows": 24} at <upload> alone begins one',
                )
            after = str(facts.get("after") or "")
            await results.stage(name, part, table, rows, self.caller, after=after)

        async def delete(self) -> None:
            """Discard the upload."""
            results.uploads.close(results.uploads.find(self.id, self.caller.user))

        async def post(self, value: object) -> object:
            """Commit the upload."""
            return asdict(await results.commit(_order(value), self.caller))

    return ResultRows


def _order(value: object) -> Order:
    facts = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    unknown = next((name for name in facts if name not in _WORDS), None)
    if unknown is not None:
        raise Error(
            Code.INVALID, f"{unknown!r} is not known{did_you_mean(unknown, sorted(_WORDS))}; {_HOW}"
        )
    parts, rows = facts.get("parts", []), facts.get("rows", 0)
    texts = [facts.get(name, "") for name in ("upload", "table", "job", "cut")]
    flags = [facts.get(name, False) for name in ("replace", "again")]
    if (
        not all(isinstance(item, str) for item in texts)
        or not all(isinstance(item, bool) for item in flags)
        or not isinstance(rows, int)
        or not isinstance(parts, list)
        or not all(isinstance(part, str) for part in parts)
        or not texts[1]
    ):
        raise Error(Code.INVALID, _HOW)
    upload, table, job, cut = map(str, texts)
    return Order(upload, table, job, cut, tuple(parts), rows, bool(flags[0]), bool(flags[1]))
