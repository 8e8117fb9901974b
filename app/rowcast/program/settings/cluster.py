"""Settings of a cluster: nodes on several machines that share one log."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field, model_validator

from rowcast.kernel.settings import CountOfBytes, PlaceOrNone, Seconds, Section

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,32}")
"""What NATS and PostgreSQL take as part of a name."""
NODES: Final = (1, 3, 5)
"""A majority of two is two, so a second node alone makes a cluster less available, not more."""
PORT_MAX: Final = 65_534
"""Of a peer: the next one is used, too."""


def _name(value: str) -> str:
    if value and not NAME.fullmatch(value):
        raise ValueError("a name has up to 32 letters, digits, - and _")
    return value


def _peer(value: str) -> str:
    name, equals, address = value.partition("=")
    host, colon, port = address.rpartition(":")
    if not (equals and NAME.fullmatch(name) and host and colon and port.isdecimal()):
        raise ValueError(f"{value!r} is no peer; write NAME=HOST:PORT, such as a=10.0.0.1:6222")
    if not 0 < int(port) <= PORT_MAX:
        raise ValueError(f"the port of {value!r} must be 1 to {PORT_MAX}")
    return value


def _engine(value: str) -> str:
    if value != "nats" and not value.startswith(("postgresql://", "postgres://")):
        raise ValueError("is `nats` or the address of a database, postgresql://...")
    return value


class ClusterTls(Section):
    """Certificates by which nodes know one another."""

    certificate: PlaceOrNone = Field(
        default=None, description="File with this node's certificate and its chain (PEM)."
    )
    private_key: PlaceOrNone = Field(
        default=None, alias="privateKey", description="File with its private key (PEM)."
    )
    certificate_authority: PlaceOrNone = Field(
        default=None,
        alias="certificateAuthority",
        description="File with the authority that signs the certificates of all nodes (PEM).",
    )

    @model_validator(mode="after")
    def _all_or_none(self) -> "ClusterTls":
        files = (self.certificate, self.private_key, self.certificate_authority)
        if any(files) and not all(files):
            raise ValueError("give certificate, privateKey and certificateAuthority, or none")
        return self


class Cluster(Section):
    """Nodes on several machines that share one log; docs/cluster.md tells what they promise."""

    name: Annotated[str, AfterValidator(_name)] = Field(
        default="", description="Name of the cluster; empty for a server of its own."
    )
    node: Annotated[str, AfterValidator(_name)] = Field(
        default="", description="Name of this node, one of `cluster.peers`."
    )
    peers: tuple[Annotated[str, AfterValidator(_peer)], ...] = Field(
        default=(),
        description="All 1, 3 or 5 nodes, this one too, each `NAME=HOST:PORT`. On that port the "
        "engines of the nodes reach one another, on the next one the nodes themselves.",
    )
    secret: str = Field(
        default="",
        repr=False,
        description="What all nodes know and nobody else, at least 16 characters; set it in the "
        "environment.",
    )
    engine: Annotated[str, AfterValidator(_engine)] = Field(
        default="nats",
        repr=False,
        description="What keeps the log: `nats`, a NATS server that each node starts; or a "
        "database, `postgresql://user:password@host/database`.",
    )
    log_bytes: CountOfBytes = Field(
        default=4 * 1024**3,
        description="How much of the log the engine keeps, in bytes. A node that is further behind "
        "needs a backup of another one.",
    )
    lease_seconds: Seconds = Field(
        default=3.0,
        description="After how long without a sign of life of the node that numbers writes another "
        "one takes over, in seconds.",
    )
    plaintext: bool = Field(
        default=False,
        description="Whether nodes may speak without TLS on other addresses than loopback: on a "
        "network that nobody else reaches.",
    )
    tls: ClusterTls = ClusterTls()

    @property
    def addresses(self) -> dict[str, str]:
        """Host and port of each node by its name."""
        return dict(peer.split("=", 1) for peer in self.peers)

    @model_validator(mode="after")
    def _complete(self) -> "Cluster":
        if not self.name:
            if self.node or self.peers:
                raise ValueError("there are nodes, and no name; give the cluster one: --cluster")
            return self
        addresses = self.addresses
        if len(self.peers) not in NODES or len(addresses) != len(self.peers):
            raise ValueError("a cluster has 1, 3 or 5 peers with different names; name all of them")
        if self.node not in addresses:
            raise ValueError(f"the node {self.node!r} is none of the peers; name it with --node")
        return self
