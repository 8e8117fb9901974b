"""Whether a node is one of its cluster: it waits to be let in, and ends when it has left.

The list of nodes is with the log (``node_changes.py``); where there is none, all that have the
secret are nodes. One that has left notes it in its data directory, and starts nothing any more.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from rowcast.core.errors import Code, Error
from rowcast.program.membership_mark import (
    check_name,
    check_others,
    is_left,
    mark_left,
    marked,
)
from rowcast.program.settings.cluster import Cluster

log = logging.getLogger("rowcast.cluster")

LOOK_SECONDS: Final = 3.0
"""How often a node looks whether it is still one."""

Nodes = Callable[[], Mapping[str, str]]
"""Returns the list; empty where there is none. Blocks; raises BUSY."""


async def admitted(
    nodes: Nodes, cluster: Cluster, data: Path, pause: Callable[[str], Awaitable[bool]]
) -> bool:
    """Wait until a node may be one; ``pause`` is told why, and returns False if it is to stop.

    Raises CONFLICT for one that has left.
    """
    said = False
    while True:
        listed = await _listed(nodes)
        if listed is not None and (not listed or cluster.node in listed):
            return True
        if listed and marked(data):
            raise has_left(cluster, data)
        why = "this node cannot read the list of the cluster's nodes yet"
        if listed:
            command = f"rowcast cluster join {cluster.node}={cluster.addresses[cluster.node]}"
            why = f"this node waits to be let in; run: {command}"
            if not said:
                log.warning("%s", why)
            said = True
        if not await pause(why):
            return False


def has_left(cluster: Cluster, data: Path) -> Error:
    """Note that a node has left, and return what it is told."""
    mark_left(data)
    return _left(cluster.node, data)


def check_begin(data: Path, cluster: Cluster) -> None:
    """Raise CONFLICT where nothing of a node is to start.

    Its tables are of a cluster of another name, whose nodes it would wait for without end; it has
    left; or it would keep the log of several nodes alone.
    """
    check_name(data, cluster.name)
    if is_left(data):
        raise _left(cluster.node, data)
    if cluster.starts_nats and len(cluster.peers) == 1:
        check_others(data)


def _left(node: str, data: Path) -> Error:
    return Error(
        Code.CONFLICT,
        f"node {node} has left the cluster {marked(data)}; to let it join again, move {data} away, "
        "start it, and run: rowcast cluster join",
    )


async def _listed(nodes: Nodes) -> Mapping[str, str] | None:
    try:
        return await asyncio.to_thread(nodes)
    except Error as error:
        log.debug("the list of nodes: %s", error.message)
        return None


class Watch:
    """Looks again and again; ``left`` is called once when a node is none any more."""

    def __init__(self, nodes: Nodes, node: str, left: Callable[[], None]) -> None:
        self._nodes, self._node, self._left = nodes, node, left
        self._task = asyncio.get_running_loop().create_task(self._run(), name="admission")

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            listed = await _listed(self._nodes)
            if listed and self._node not in listed:
                self._left()
                return

    async def stop(self) -> None:
        """End."""
        self._task.cancel()
        await asyncio.wait((self._task,))
