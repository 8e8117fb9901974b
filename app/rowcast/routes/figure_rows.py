"""Statistics as rows: counters of components, read below ``$SYS`` like all system rows.

A component builds its rows on request; none are stored. They are rows and not topics, so that their
number, which clients determine, is bounded by the request (F33).
"""

from collections.abc import Callable, Mapping, Sequence

from rowcast.routes.system_rows import SystemRows

Facts = dict[str, object]


def figure_rows(
    at: str, ids: Callable[[], Sequence[str]], of: Callable[[str], Facts | None]
) -> type[SystemRows]:
    """Return the resource class at a path, whose rows have these ids; ``of`` returns one."""

    class FigureRows(SystemRows):
        """Rows built on request."""

        path = at

        def names(self) -> Sequence[str]:
            return ids()

        def row(self, name: str, *, whole: bool) -> Facts | None:  # noqa: ARG002 - they are short
            return of(name)

    # OpenAPI calls operations by the class, and each needs a name of its own.
    words = at.removeprefix("$SYS/").replace("/", "_").split("_")
    FigureRows.__name__ = "".join(map(str.capitalize, words)) + "Rows"
    return FigureRows


def listed_rows(at: str, read: Callable[[], Mapping[str, Facts]]) -> type[SystemRows]:
    """Return the resource class of few rows, built together."""
    return figure_rows(at, lambda: list(read()), lambda name: read().get(name))
