"""The status of the servers that keep a cluster's log, for changes of its nodes.

It needs no client of NATS, so who decides about changes can be imported without the extra.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """By the name of a node: whether its server is there, and has all."""

    servers: Mapping[str, bool]
    """All servers of the cluster, those of nodes that wait to be let in, too."""
    keepers: Sequence[Mapping[str, bool]]
    """Those that keep each stream: the log and the lease, which may be at different servers."""
