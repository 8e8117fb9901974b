"""How both clients reach a server: the URL, trusted certificates, credentials.

The Spark source trusts the same certificates.
"""

import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit

import httpx

from rowcast.core.errors import Code, Error
from rowcast.core.limits import CLIENT_ANSWER_SECONDS, CLIENT_CONNECTIONS_MAX

LOCAL: Final = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True)
class Way:
    """How a client's sockets reach its server."""

    url: str
    """The URL of the server, without a name and password."""
    format: str
    """The format of values: ``json``, ``cbor`` or ``msgpack``."""
    headers: Mapping[str, str] = field(repr=False)
    """The credentials."""
    trust: ssl.SSLContext | None
    """Trusted certificates; None without TLS."""
    proxied: bool
    """Whether the environment's proxy is used, if there is one."""


class Client(Protocol):
    """A client of either kind."""

    way: Way


def way_of(
    url: str, user: str, password: str, token: str, options: Mapping[str, Any], name: str
) -> Way:
    """Return the way of a client with these options of HTTP, and a format."""
    parts = urlsplit(url.rstrip("/"))
    if not user and parts.username:
        user, password = unquote(parts.username), unquote(parts.password or "")
    headers = dict(options["headers"])
    if user and not token:
        headers["Authorization"] = f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    trust = options["verify"] if parts.scheme == "https" else None
    return Way(bare, name, headers, trust, options["trust_env"])


def http_options(
    url: str, user: str, password: str, token: str, authority: str | Path | None
) -> dict[str, Any]:
    """Return the arguments of an HTTP client."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise Error(Code.INVALID, f"{url!r} is no address; write it as http://127.0.0.1:9926")
    return {
        "auth": httpx.BasicAuth(user, password) if user and not token else None,
        "headers": {"Authorization": f"Bearer {token}"} if token else {},
        "timeout": CLIENT_ANSWER_SECONDS,
        "limits": httpx.Limits(max_connections=CLIENT_CONNECTIONS_MAX),
        # Use the environment's proxy only if the server is on another machine.
        "trust_env": parts.hostname not in LOCAL,
        "verify": trust_for(url, authority),
    }


def trust_for(url: str, authority: str | Path | None) -> ssl.SSLContext:
    """Trust the system's certificates (or SSL_CERT_FILE), and those of a file, unless it is empty.

    For a URL without TLS no certificates are read, which takes some 40 ms: there is nothing to
    verify. Raises INVALID for a file that cannot be read.
    """
    if urlsplit(url).scheme != "https":
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust = ssl.create_default_context()
    if authority:
        try:
            trust.load_verify_locations(authority)
        except OSError as error:
            raise Error(
                Code.INVALID, f"the authority's certificate {authority} cannot be read: {error}"
            ) from error
    return trust
