"""What a node of a cluster is not started with, because it would do wrong.

Each problem is told with what to do instead, before anything is opened.
"""

import ipaddress
import json
import logging
from pathlib import Path
from typing import Final

from rowcast.cluster.agreement import agreement
from rowcast.core.errors import Code, Error
from rowcast.program.archiving import DIRECTORY
from rowcast.program.config import Config
from rowcast.program.settings.cluster import Cluster

log = logging.getLogger("rowcast.cluster")

SECRET_LETTERS: Final = 16
"""Of the cluster's secret: it is no password that somebody types."""


def check_cluster(config: Config) -> None:
    """Raise INVALID for what a node would do wrong."""
    cluster = config.cluster
    problem = ""
    if len(cluster.secret) < SECRET_LETTERS:
        problem = (
            f"cluster.secret has fewer than {SECRET_LETTERS} characters; give all nodes the same "
            "one, such as that of `openssl rand -hex 24`, in ROWCAST_CLUSTER__SECRET"
        )
    elif not (_is_private(cluster) or cluster.tls.certificate or cluster.plaintext):
        problem = (
            "peers are not on loopback, and nodes would speak in the clear; set cluster.tls, or "
            "cluster.plaintext where nobody else reaches their network"
        )
    elif config.workers.count:
        problem = "there are workers, which a node of a cluster does not have; leave --workers out"
    elif config.log.archive and not config.log.archive_location:
        problem = (
            "log.archive is true, and the archive of a cluster is not on the disk of one node; set "
            "log.archive_location to a place in an object store, the same at all nodes"
        )
    elif not config.database_url.startswith("sqlite:"):
        problem = "store.url names no SQLite file, which each node has for itself"
    if problem:
        raise Error(Code.INVALID, f"this node cannot be started: {problem}")


def agreed(config: Config, schema: str) -> str:
    """Return what nodes of a cluster have in common: the schema, the past, the log's version.

    A node without the archive of the others, or with a shorter history, would delete as a sequencer
    what the others keep.
    """
    if not config.cluster.name:
        return schema
    log_, topics = config.log, config.topics
    settings: dict[str, object] = {}
    for name in ("keep_seconds", "keep_events", "keep_bytes"):
        for section, part in (("history", config.history), ("topics", topics)):
            if getattr(part, name) != type(part).model_fields[name].default:
                settings[f"{section}.{name}"] = getattr(part, name)
    if tables := {name: kept.model_dump() for name, kept in topics.tables.items()}:
        settings["topics.tables"] = json.dumps(tables, sort_keys=True)
    if log_.archive and log_.archive_location:
        settings["log.archive_location"] = log_.archive_location.rstrip("/")
        if log_.archive_days:
            settings["log.archive_days"] = log_.archive_days
    return agreement(schema, settings)


def _is_private(cluster: Cluster) -> bool:
    """Whether all nodes are on this machine."""
    for address in cluster.addresses.values():
        host = address.rpartition(":")[0].strip("[]")
        try:
            if not ipaddress.ip_address(host).is_loopback:
                return False
        except ValueError:
            if host != "localhost":
                return False
    return True


def tell_of_archive(data: Path, epoch: str) -> None:
    """Warn of archived events of a node's log, from when it was a server of its own."""
    place = data / DIRECTORY / epoch
    if place.is_dir():
        log.warning(
            "%s has archived events of this log, which this cluster does not read: its past begins "
            "where the tables do, and cursors before that are told so; keep the files, or have "
            "them read (docs/cluster.md, A server becomes a cluster)",
            place,
        )
