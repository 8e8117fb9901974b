"""A cluster for tests: three nodes as processes of this machine, each with its engine's server."""

import secrets
from pathlib import Path
from typing import Self

import httpx

from free_ports import free_port, free_ports
from networks import Network
from serving import Server, wait_until

SCHEMA = """
type Dog @table @export {
  id: ID @primaryKey
  name: String
  n: Long
  created: String @createdTime
}
type Counter @table @export {
  id: ID @primaryKey
  n: Long
}
type Note @table @export {
  id: ID @primaryKey
  text: String
}
type Stay @table(maxCount: 3, compact: ["site"]) @export {
  id: ID @primaryKey
  site: String
}
"""
LEASE_SECONDS = 1.5
OPEN = {
    "http.host": "0.0.0.0",
    "mqtt.network.host": "0.0.0.0",
    "security.anonymous": "everywhere",
    "cluster.plaintext": "true",
}
"""What a node needs whose clients come from elsewhere."""


class Node(Server):
    """One node; it has no MQTT until it numbers writes."""

    def __init__(self, folder: Path, name: str, peers: list[str], **settings: object) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        given = {
            "cluster.name": "test",
            "cluster.node": name,
            "cluster.peers": ",".join(peers),
            "cluster.lease_seconds": LEASE_SECONDS,
            "cluster.log_bytes": 64 << 20,
            "http.port": free_port(),
            "mqtt.network.port": free_port(),
        }
        super().__init__(folder, SCHEMA, folder / "none", given | settings)

    def ready(self) -> bool:
        """Whether it answers, and reaches the sequencer."""
        try:
            return self.request("GET", "/health/ready").status_code == 200
        except httpx.HTTPError:
            if self.process is None or self.process.poll() is not None:
                raise AssertionError(f"node {self.name} ended:\n{self.log}") from None
            return False

    @property
    def nodes(self) -> dict[str, dict[str, object]]:
        """What it tells of all nodes."""
        rows = self.request("GET", "/$SYS/cluster/nodes/").json()
        return {row["node"]: row for row in rows}

    @property
    def numbers(self) -> bool:
        """Whether it numbers writes now."""
        try:
            return self.ready() and self.nodes[self.name]["role"] == "sequencer"
        except (httpx.HTTPError, KeyError):
            return False

    def kill(self, *, children: bool = True) -> int:
        """End it at once, as a machine that loses its power: with its engine and applier."""
        return super().kill(children=children)


class Cluster:
    """Three nodes; with a ``network`` each on a host of its own, whose links can be cut."""

    def __init__(
        self, folder: Path, count: int = 3, network: Network | None = None, **settings: object
    ) -> None:
        names = "abcde"[:count]
        ports = free_ports(count * 3)
        hosts = ["127.0.0.1"] * count if network is None else network.addresses
        peers = [
            f"{name}={host}:{port}"
            for name, host, port in zip(names, hosts, ports[:count], strict=True)
        ]
        given = {"cluster.secret": secrets.token_hex(16)} | settings
        if network is not None:
            given |= OPEN
        self.network = network
        self.nodes = {}
        for index, name in enumerate(names):
            own = {
                "http.port": ports[count + index],
                "mqtt.network.port": ports[2 * count + index],
            }
            self.nodes[name] = node = Node(folder / name, name, peers, **given, **own)
            if network is not None:
                node.wrapper, node.anew = network.command(index), True
                for port in own.values():
                    network.forward(index, port)

    def number(self, node: Node) -> int:
        """Return which host a node is on."""
        return list(self.nodes.values()).index(node)

    def __enter__(self) -> Self:
        try:
            for node in self.nodes.values():
                node.launch()
            self.settle()
        except BaseException:  # else they would go on beside all other tests
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes.values():
            if node.process is not None:
                node.kill()

    @property
    def running(self) -> list[Node]:
        """The nodes that were started and not stopped."""
        return [node for node in self.nodes.values() if node.process is not None]

    def settle(self) -> "Node":
        """Wait until one of the running nodes numbers, and all others follow it; return it."""

        def settled() -> "Node | None":
            if not all(node.ready() for node in self.running):
                return None  # so far, one look is one request
            numbering = [node for node in self.running if node.numbers]
            return numbering[0] if len(numbering) == 1 else None

        return wait_until(settled, "one node numbers, and the others follow")

    @property
    def followers(self) -> list[Node]:
        """The running nodes that do not number."""
        return [node for node in self.running if not node.numbers]
