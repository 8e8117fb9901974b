"""Figures as rows: what a part of the server counts, read below ``$SYS`` like all system rows.

A part gives its rows when it is asked; nothing is kept of them. They are rows and not topics, so
that their number, which strangers decide, is bounded by how many are asked for (F33).
"""

from collections.abc import Callable, Mapping, Sequence

from rowcast.kernel.rows.system_rows import SystemRows

Facts = dict[str, object]


def figure_rows(
    at: str, ids: Callable[[], Sequence[str]], of: Callable[[str], Facts | None]
) -> type[SystemRows]:
    """Return the resource class at a path, whose rows have these ids; ``of`` gives one of them."""

    class FigureRows(SystemRows):
        """Rows that are made when they are asked for."""

        path = at

        def names(self) -> Sequence[str]:
            return ids()

        def row(self, name: str, *, whole: bool) -> Facts | None:  # noqa: ARG002 - they are short
            return of(name)

    return FigureRows


def listed_rows(at: str, read: Callable[[], Mapping[str, Facts]]) -> type[SystemRows]:
    """Return the resource class of rows that are few, and all made together."""
    return figure_rows(at, lambda: list(read()), lambda name: read().get(name))
