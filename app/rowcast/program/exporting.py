"""Wiring of snapshots: the command that makes them, and what is due when."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from rowcast.features.snapshots.exports import Exports
from rowcast.features.snapshots.jobs import Order
from rowcast.program.config import Config
from rowcast.program.settings.snapshots import seconds_of

if TYPE_CHECKING:
    from rowcast.kernel.kernel import Engine


def exports_of(config: Config, engine: "Engine", now: Callable[[], float]) -> Exports:
    """Return the snapshots of a server with these settings."""
    settings = config.snapshots
    due = {Order(): settings.every, Order(changes=True): settings.changes}
    return Exports(
        engine,
        settings.place(config.data),
        lambda order: export_command(config, order),
        {order: seconds_of(period) for order, period in due.items() if period},
        now,
    )


def export_command(config: Config, order: Order) -> list[str]:
    """Return the command that carries out an order on the data of a server with these settings."""
    command = [sys.executable, "-m", "rowcast.program.cli", "export", "--json"]
    command += ["--schema", str(config.schema_file), "--data", str(config.data)]
    command += ["--set", f"store.url={config.database_url}"]
    command += ["--out", str(config.snapshots.place(config.data))]
    if config.snapshots.keep and not order.changes:
        command += ["--keep", str(config.snapshots.keep)]
    if config.snapshots.keep_for and not order.changes:
        command += ["--set", f"snapshots.keep_for={config.snapshots.keep_for}"]
    if order.tables:
        command += ["--tables", ",".join(order.tables)]
    if order.changes:
        command.append("--changes")
        if config.snapshots.keep_changes:
            command += ["--set", f"snapshots.keep_changes={config.snapshots.keep_changes}"]
    return command
