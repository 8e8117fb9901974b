"""Wiring of snapshots: the export command, and its schedule."""

import json
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final, cast

from rowcast.core.errors import Code, Error
from rowcast.core.places import is_object_store
from rowcast.features.snapshots.jobs import Order
from rowcast.features.snapshots.snapshot_directory import SnapshotDirectory
from rowcast.features.snapshots.snapshot_store import SnapshotStore
from rowcast.program.config import Config
from rowcast.program.settings.snapshots import SnapshotSettings, seconds_of
from rowcast.store.private import replace_file

_STORES: Final = "rowcast_lake.snapshots.snapshot_stores"
"""What knows object stores: a program beside the server, loaded where a setting names one."""

_ACCESS_LIST: Final = "export-access.json"
"""Of exports for roles: settings, in YAML as JSON is, which name users, so nobody else reads it."""


def store_of(place: str) -> SnapshotStore:
    """Return the snapshot store of a directory or URL; raises UNSUPPORTED without the library."""
    if not is_object_store(place):
        return SnapshotDirectory(Path(place))
    if find_spec("pyarrow") is None:
        raise Error(
            Code.UNSUPPORTED,
            f"snapshots.location: {place} needs pyarrow, which is not installed: "
            "pip install 'rowcast[parquet]'",
        )
    return cast("SnapshotStore", import_module(_STORES).served_store(place))


def orders_due(settings: SnapshotSettings) -> dict[Order, float]:
    """Return the regular exports, with their periods in seconds."""
    due = {
        Order(changes=changes, audience=audience): period
        for audience in ("", *settings.audiences)
        for changes, period in ((False, settings.every), (True, settings.changes))
    }
    return {order: seconds_of(period) for order, period in due.items() if period}


def audience_stores(config: Config) -> dict[str, SnapshotStore]:
    """Return the snapshot store of each role that has exports of its own; raises CONFLICT.

    Nobody who may read one of them may read the data directory, or the snapshots of all.
    """
    settings, data = config.snapshots, config.data.absolute()
    found = {}
    for role in settings.audiences:
        place = settings.place(data, role)
        if not is_object_store(place) and (
            Path(place).is_relative_to(data) or data.is_relative_to(place)
        ):
            raise Error(
                Code.CONFLICT,
                f"snapshots.audiences: {place}, of the role {role}, is not apart from the data "
                f"directory {data}; name a directory outside of it, which the role may read",
            )
        found[role] = store_of(place)
    return found


def export_command(config: Config, order: Order) -> list[str]:
    """Return the command of an export on the data of a server with these settings.

    That of a role reads the access list from a file in the data directory, which is written here:
    the system bounds the length of one argument (128 KiB on Linux). Raises OSError if it cannot be.
    """
    command = [sys.executable, "-m", "rowcast.program.cli", "export", "--json"]
    command += ["--schema", str(config.schema_file), "--data", str(config.data)]
    command += ["--set", f"store.url={config.database_url}"]
    command += ["--out", config.snapshots.place(config.data, order.audience)]
    if order.audience:
        command += ["--audience", order.audience, "--set", f"security.users={config.users_file}"]
        access = [rule.model_dump(exclude_defaults=True) for rule in config.hooks.acl]
        file = config.data / _ACCESS_LIST
        replace_file(file, json.dumps({"hooks": {"acl": access}}).encode())
        command += ["--config", str(file)]
    if config.snapshots.keep and not order.changes:
        command += ["--keep", str(config.snapshots.keep)]
    if config.snapshots.keep_for and not order.changes:
        command += ["--set", f"snapshots.keep_for={config.snapshots.keep_for}"]
    if config.snapshots.catalog and not order.changes:
        command += ["--set", f"snapshots.catalog={config.snapshots.catalog}"]
    if order.tables:
        command += ["--tables", ",".join(order.tables)]
    if order.changes:
        command.append("--changes")
        for name in ("keep_changes", "keep_small"):
            if period := getattr(config.snapshots, name):
                command += ["--set", f"snapshots.{name}={period}"]
    return command
