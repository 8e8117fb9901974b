"""Nodes that join a cluster and leave it while the others run, one at a time.

A change is refused while a node is missing or behind: servers that change their group while some
cannot be heard have lost acknowledged entries (Jepsen, NATS 2.12.1). A node that joins has started
and waits to be let in; one that leaves was stopped before. The list of nodes is kept with the log.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from rowcast.cluster.sequencer_links import SequencerLinks
from rowcast.core.errors import Code, Error
from rowcast.engines.server_status import ServerStatus
from rowcast.program.settings.cluster import NODES_MAX, parse_peer
from rowcast.routes.system_rows import SystemRows

log = logging.getLogger("rowcast.cluster")

PATH: Final = "$SYS/cluster/nodes"
NODES_LEAST: Final = 2
"""That remain. With two both are needed for each write; one alone is made from a backup."""
COPIES_LEAST: Final = 3
"""Of the log, also while there are two nodes: the third one that joins gets its copy at once."""
BEHIND_MAX: Final = 100
"""Batches that a node in step may be behind: what is on its way while many write."""
STEP_SECONDS: Final = 20.0
"""For the copies of the log to be in step after a change; they go on after that."""
LOOK_SECONDS: Final = 0.5
"""Between two looks at them."""


class Group(Protocol):
    """What keeps the log, as ``engines/nats_group.py:NatsGroup``."""

    def look(self) -> ServerStatus:
        """Return how servers stand. Raises BUSY."""

    def list(self, nodes: Mapping[str, str]) -> None:
        """Keep a list of nodes."""

    def copy_to(self, count: int) -> None:
        """Have the log on so many servers."""

    def remove(self, node: str) -> None:
        """Remove a server that is stopped."""


class NodeChanges:
    """Changes the nodes of a cluster, at the sequencer, which is called ``own``.

    ``nodes`` are the names and addresses as they are now; ``group`` is None where the nodes have no
    servers of their own that could change.
    """

    def __init__(
        self,
        group: Group | None,
        nodes: Mapping[str, str],
        links: SequencerLinks,
        head: Callable[[], int],
        own: str,
        step_seconds: float = STEP_SECONDS,
    ) -> None:
        self._group, self.nodes = group, dict(nodes)
        self._links, self._head, self._own = links, head, own
        self._step_seconds = step_seconds
        self._left_last = ""  # to answer who asks again, having heard that copies are not in step
        self._one = asyncio.Lock()
        links.check_node = self._check_node

    def _check_node(self, node: str) -> str:
        """Return why a node is not to follow; empty if it may."""
        if self._group is None or node in self.nodes:
            return ""
        return f"{node} is no node of this cluster now; let it in with: rowcast cluster join"

    async def join(self, node: str, address: str) -> None:
        """Let in a node that has started. Raises CONFLICT while one is missing, INVALID, BUSY."""
        parse_peer(f"{node}={address}")
        async with self._one:
            group, status = await self._look()
            self._check_address(node, address)
            wanted = self.nodes | {node: address}
            if len(wanted) > NODES_MAX:
                raise _refused(f"a cluster has {NODES_MAX} nodes at most")
            if not status.servers.get(node, False):
                raise _refused(
                    f"node {node} is not there; start it with --node {node}, and --peer for itself "
                    "and two or four others, and ask again; a name that has left can join again "
                    "after five minutes"
                )
            self._check(status, self.nodes, node)
            await asyncio.to_thread(group.list, wanted)
            self.nodes = wanted
            log.warning("node %s has joined: the nodes are %s", node, ", ".join(wanted))
            await self._copy(group)

    async def leave(self, node: str) -> None:
        """Remove a node that is stopped. Raises CONFLICT while another one is missing, BUSY."""
        async with self._one:
            group, status = await self._look()
            if node == self._left_last and node not in self.nodes:
                if node in status.servers:  # its removal had no answer
                    self._check_leaving(status, node)
                    await asyncio.to_thread(group.remove, node)
                await self._copy(group)
                return
            self._check_leaving(status, node)
            wanted = {name: at for name, at in self.nodes.items() if name != node}
            if len(wanted) < NODES_LEAST:
                raise _refused(
                    f"{NODES_LEAST} nodes must remain; make a server of its own from a backup"
                )
            self._check(status, wanted, node)
            await asyncio.to_thread(group.list, wanted)
            self.nodes, self._left_last = wanted, node
            await asyncio.to_thread(group.remove, node)
            log.warning("node %s has left: the nodes are %s", node, ", ".join(wanted))
            await self._copy(group)

    def _check_address(self, node: str, address: str) -> None:
        """Raise CONFLICT for an address other than the one listed, and for one of another node.

        The nodes would look for it there from their next start on, and not find it.
        """
        known = self.nodes.get(node, address)
        if known != address:
            raise _refused(
                f"node {node} is listed at {known}; start it there, or have it leave first and "
                "join again with its new address"
            )
        for other, at in self.nodes.items():
            if other != node and at == address:
                raise _refused(f"{address} is the address of node {other}; give {node} its own")

    def _check_leaving(self, status: ServerStatus, node: str) -> None:
        if node not in self.nodes and node not in status.servers:
            raise Error(Code.NOT_FOUND, f"there is no node {node[:80]!r}")
        if node == self._own:
            raise _refused(
                f"node {node} is the sequencer; stop it, and ask again when another one is"
            )
        if node in self._links.connected() or status.servers.get(node, False):
            raise _refused(f"node {node} runs; stop it first, and ask again in some seconds")

    async def _look(self) -> tuple[Group, ServerStatus]:
        if self._group is None:
            raise Error(
                Code.INVALID,
                "these nodes have no vote for the log, which others keep, or are one alone; so "
                "none joins or leaves: start it or stop it, with its cluster.peers",
            )
        return self._group, await asyncio.to_thread(self._group.look)

    def _check(self, status: ServerStatus, nodes: Mapping[str, str], beside: str) -> None:
        """Raise CONFLICT unless all nodes are there and in step, ``beside`` one."""
        for name, there in status.servers.items():
            if name != beside and not there:
                raise _missing(name, "its NATS server is not there, or behind")
        sent, head = self._links.sent(), self._head()
        for name in nodes:
            if name in {beside, self._own}:
                continue
            if name not in status.servers or name not in sent:
                raise _missing(name, "it is not connected")
            if head - sent[name] > BEHIND_MAX:
                raise _missing(name, f"it is {head - sent[name]} batches behind")
        for keepers in status.keepers:
            for name, in_step in keepers.items():
                if name != beside and not in_step:
                    raise _missing(name, "its copy of the log is behind")

    async def _copy(self, group: Group) -> None:
        """Have as many copies as these nodes allow, and wait until they are in step."""
        count = len(self.nodes)
        copies = max(COPIES_LEAST, count - 1 + count % 2)
        await asyncio.to_thread(group.copy_to, copies)
        loop = asyncio.get_running_loop()
        until = loop.time() + self._step_seconds
        while why := await self._behind(group, copies):
            if loop.time() >= until:
                raise Error(
                    Code.BUSY,
                    f"this was done, and the copies of the log are not in step after "
                    f"{self._step_seconds:g} s ({why}); ask again: they must be before the next "
                    "change",
                    retry_after_seconds=1,
                )
            await asyncio.sleep(LOOK_SECONDS)

    async def _behind(self, group: Group, copies: int) -> str:
        """Return why the copies are not in step; empty if they are."""
        try:
            status = await asyncio.to_thread(group.look)
        except Error as error:
            return error.message
        wanted = min(copies, len(status.servers))  # those of nodes that wait, too
        for keepers in status.keepers:
            late = sorted(name for name, in_step in keepers.items() if not in_step)
            if late or len(keepers) != wanted:
                names = [", ".join(some) or "none" for some in (sorted(keepers), late)]
                return f"wanted: {wanted}, at: {names[0]}, behind: {names[1]}"
        return ""


def _refused(why: str) -> Error:
    return Error(Code.CONFLICT, f"the nodes stay as they are: {why}")


def _missing(node: str, why: str) -> Error:
    return _refused(
        f"node {node} is missing: {why}; nodes change only while all others are there and in step"
    )


def changing_rows(
    changes: NodeChanges, read: Callable[[], Mapping[str, dict[str, object]]]
) -> type[SystemRows]:
    """Return the resource class of the nodes, at the sequencer."""

    class NodeRows(SystemRows):
        """One row for each node: PUT lets one in, DELETE removes one."""

        path = PATH

        def names(self) -> Sequence[str]:
            return list(read())

        def row(self, name: str, *, whole: bool) -> dict[str, object] | None:  # noqa: ARG002
            return read().get(name)

        async def put(self, value: object) -> None:
            """Let a node in."""
            address = value.get("address") if isinstance(value, dict) else None
            if not isinstance(address, str):
                raise Error(Code.UNPROCESSABLE, 'name its address: {"address": "10.0.0.4:6222"}')
            await changes.join(self.id, address)

        async def delete(self) -> None:
            """Remove a node."""
            await changes.leave(self.id)

    return NodeRows
