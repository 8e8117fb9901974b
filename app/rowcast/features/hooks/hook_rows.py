"""Rows of ``$SYS/hooks``: calls, failures and time of each hook (F33)."""

from typing import Final

from rowcast.features.hooks.hooks import Hooks
from rowcast.routes.figure_rows import Facts, listed_rows
from rowcast.routes.system_rows import SystemRows

HOOKS: Final = "$SYS/hooks"


def hook_rows(hooks: Hooks) -> type[SystemRows]:
    """Return the resource class of one row for each hook."""
    return listed_rows(HOOKS, lambda: _hooks(hooks))


def _hooks(hooks: Hooks) -> dict[str, Facts]:
    """Return the cost of each hook; hooks of one name are numbered."""
    return {
        f"{place}-{figures.id}": {
            "id": figures.id,
            "calls": figures.calls,
            "failures": figures.failures,
            "slow": figures.slow,
            "stuck": figures.stuck,
            "total_seconds": round(figures.total_seconds, 6),
            "max_seconds": round(figures.max_seconds, 6),
        }
        for place, figures in enumerate(hooks.figures(), 1)
    }
