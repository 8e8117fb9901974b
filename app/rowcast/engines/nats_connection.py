"""How servers of NATS are reached: addresses, who this node is there, and TLS.

Those that a node starts itself, and those that somebody else runs. It needs nothing of the extra
``cluster``, so settings are understood without it.
"""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach the servers."""

    servers: Sequence[str]
    """``nats://host:port``; any one that is reached is enough."""
    user: str = ""
    password: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = None
    token: str = field(default="", repr=False)
    credentials: Path | None = None
    """A file with a user's JWT and its key (NATS documentation, "Credentials")."""

    @classmethod
    def of(
        cls, urls: Sequence[str], tls: ssl.SSLContext | None, credentials: Path | None
    ) -> "Connection":
        """Return that to ``nats://user:password@host:port`` or ``nats://token@host:port``.

        Names and passwords are percent-encoded, and those of the first address are sent to all: the
        client decodes none.
        """
        first = urlsplit(urls[0])
        user, password = unquote(first.username or ""), unquote(first.password or "")
        servers = tuple(
            f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" for parts in map(urlsplit, urls)
        )
        if password:
            return cls(servers, user, password, tls, credentials=credentials)
        return cls(servers, tls=tls, token=user, credentials=credentials)
