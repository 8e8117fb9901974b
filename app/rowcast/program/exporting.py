"""Wiring of snapshots: the export command, and its schedule."""

import sys
from typing import TYPE_CHECKING

from rowcast.features.snapshots.jobs import Order
from rowcast.program.config import Config
from rowcast.program.settings.snapshots import SnapshotSettings, seconds_of

if TYPE_CHECKING:
    pass


def orders_due(settings: SnapshotSettings) -> dict[Order, float]:
    """Return the regular exports, with their periods in seconds."""
    due = {Order(): settings.every, Order(changes=True): settings.changes}
    return {order: seconds_of(period) for order, period in due.items() if period}


def export_command(config: Config, order: Order) -> list[str]:
    """Return the command of an export on the data of a server with these settings."""
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
