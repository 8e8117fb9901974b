"""Settings of a cluster: nodes on several machines that share one log."""

import re
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from rowcast.core.errors import Code, Error
from rowcast.settings.sections import CountFromOne, PlaceOrNone, Seconds, Section

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,32}")
"""What NATS and PostgreSQL take as part of a name."""
NATS: Final = "nats"
NODES: Final = (1, 3, 5)
"""A majority of two is two, so a second node alone makes a cluster less available, not more."""
NODES_MAX: Final = 5
"""Of nodes that vote for nothing, because somebody else's engine keeps the log."""
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


def parse_peer(value: str) -> tuple[str, str]:
    """Return name and address of a peer. Raises INVALID."""
    try:
        name, _, address = _peer(value).partition("=")
    except ValueError as error:
        raise Error(Code.INVALID, str(error)) from error
    return name, address


def beside(address: str) -> tuple[str, int]:
    """Return where a node listens for the others: the port after that of its engine."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port) + 1


def _engine(value: str) -> str:
    if value != NATS and not value.startswith(("postgresql://", "postgres://")):
        raise ValueError("is `nats` or the address of a database, postgresql://...")
    return value


def _nats(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in {"nats", "tls"} or not parts.hostname or parts.path.strip("/"):
        raise ValueError("is the address of a server, nats://host:4222 or tls://host:4222")
    return value


def _monitor(value: str) -> str:
    url = value if "://" in value else f"http://{value}"
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or not parts.port:
        raise ValueError("is a monitoring address (http_port of a server), host:8222")
    return url


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
        files = {
            "cluster.tls.certificate": self.certificate,
            "cluster.tls.privateKey": self.private_key,
            "cluster.tls.certificateAuthority": self.certificate_authority,
        }
        there = [name for name, file in files.items() if file]
        if there and not all(files.values()):
            raise ValueError(
                "give certificate, privateKey and certificateAuthority, or none; there is only "
                f"{' and '.join(there)}"
            )
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
        description="This node and the others, 1, 3 or 5, each `NAME=HOST:PORT`; all at the first "
        "start. On that port the engines of the nodes reach one another, on the next one the nodes "
        "themselves.",
    )
    secret: str = Field(
        default="",
        repr=False,
        description="What all nodes know and nobody else, at least 16 characters; set it in the "
        "environment.",
    )
    engine: Annotated[str, AfterValidator(_engine)] = Field(
        default=NATS,
        repr=False,
        description="What keeps the log: `nats`, a NATS server that each node starts; or a "
        "database, `postgresql://user:password@host/database`.",
    )
    nats: tuple[Annotated[str, AfterValidator(_nats)], ...] = Field(
        default=(),
        repr=False,
        description="NATS servers that somebody else runs, `nats://user:password@host:4222` each, "
        "or `tls://...`; then nodes start none.",
    )
    nats_monitors: tuple[Annotated[str, AfterValidator(_monitor)], ...] = Field(
        default=(),
        description="The monitoring address of each of these servers, `host:8222`: they are "
        "asked whether they sync what they acknowledge.",
    )
    nats_credentials: PlaceOrNone = Field(
        default=None, description="File with the credentials (JWT and key) for these servers."
    )
    nats_authority: PlaceOrNone = Field(
        default=None,
        description="File with the authority that signs these servers' certificates (PEM); by "
        "default those of the system.",
    )
    log_bytes: CountFromOne = Field(
        default=4 * 1024**3,
        description="How much of the log the engine keeps, in bytes. A node that is further behind "
        "gets a copy of another one's tables.",
    )
    lease_seconds: Seconds = Field(
        default=3.0,
        description="Time without a sign of life from the sequencer, after which another node "
        "takes over its role, in seconds.",
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

    @property
    def starts_nats(self) -> bool:
        """Whether each node starts a server of NATS."""
        return self.engine == NATS and not self.nats

    def _check_nats(self) -> None:
        if self.nats and self.engine != NATS:
            raise ValueError("there are NATS servers, and engine names a database; leave one out")
        if bool(self.nats) != bool(self.nats_monitors):
            raise ValueError("give both nats and nats_monitors, the addresses of the same servers")

    def _check_addresses(self) -> None:
        """Refuse addresses of which two nodes would listen at the same: one could not start."""
        taken = dict[tuple[str, int], str]()
        for name, address in self.addresses.items():
            host, port = beside(address)
            for each in (port - 1, port) if self.starts_nats else (port,):
                other = taken.setdefault((host.lower(), each), name)
                if other != name:
                    raise ValueError(
                        f"the peers {other!r} and {name!r} would both listen at {host}:{each}: a "
                        "node uses the next port, too; give nodes of one machine ports that are "
                        "two or more apart"
                    )

    @model_validator(mode="after")
    def _complete(self) -> "Cluster":
        if not self.name:
            if self.node or self.peers:
                raise ValueError("there are nodes, and no name; give the cluster one: --cluster")
            return self
        addresses = self.addresses
        counts = NODES if self.starts_nats else range(1, NODES_MAX + 1)
        if len(self.peers) not in counts or len(addresses) != len(self.peers):
            may = ", ".join(str(count) for count in counts[:-1])
            raise ValueError(
                f"a cluster has {may} or {counts[-1]} peers with different names; name all of them"
            )
        self._check_nats()
        self._check_addresses()
        if self.node not in addresses:
            raise ValueError(f"the node {self.node!r} is none of the peers; name it with --node")
        return self
