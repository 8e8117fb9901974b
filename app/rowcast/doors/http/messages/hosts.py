"""Host checks: the host names for which anonymous callers are served (L14).

A page on the web may rebind its name to this machine and then call it as if it were its own server
("DNS rebinding"); the browser allows it, and a server that trusts local callers would answer. But
the Host header cannot be forged. So anonymous requests must use an address, a local name, a name of
one label, which cannot exist on the web, or a configured one. Authenticated requests may use any: a
rebound page has no credentials.
"""

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from rowcast.core.bounded import ClearedCache
from rowcast.core.errors import Code, Error
from rowcast.core.listener_limits import HOSTS_CACHED_MAX
from rowcast.doors.http.messages.asgi import Headers, Scope
from rowcast.doors.http.messages.cors import is_address

ANY: Final = "*"
JOINED: Final = b", "
"""What is between the values of repeated headers, and in no name of a host."""


def host_problem(host: bytes | None, scope: Scope) -> Error | None:
    """Return the Error for a request with several Host headers, or none (RFC 9112, 3.2).

    Of several, a proxy in front may have read the one, and this server the other. Before HTTP/1.1
    none is needed.
    """
    if host is not None and JOINED in host:
        return Error(
            Code.INVALID,
            "the request has more than one Host header, or several names in it; send one Host with "
            "one name, as a proxy does whose configuration sets it in one place",
        )
    if host is None and scope.get("http_version") == "1.1":
        return Error(
            Code.INVALID,
            "the request has no Host header, which each request of HTTP/1.1 has; send one with the "
            "name or address of this server, as in Host: localhost:9926",
        )
    return None


class Hosts:
    """The rule for one server: ``named`` are names, ``.name`` with all below it, or ANY."""

    def __init__(self, named: Sequence[str], origins: Sequence[str] = ()) -> None:
        own = {urlsplit(origin).hostname or "" for origin in origins}
        self._names = {name.lower() for name in named} | own
        self.known: ClearedCache[bytes, bool] = ClearedCache(HOSTS_CACHED_MAX)
        """Cached decisions for anonymous callers, by Host header."""

    def check(self, headers: Headers) -> None:
        """Raise DENIED (status 421) for a request to an untrusted name."""
        host = headers.get(b"host", b"")
        allowed = self.known.get(host)
        if allowed is None:
            allowed = self.known.put(host, self._allows(_name(host)))
        if not allowed:
            name = _name(host)[:200]
            raise Error(
                Code.DENIED,
                f"the name {name!r} may be another's that points here, so nobody is served under "
                "it without signing in: sign in, ask by the server's address, or let its operator "
                f"add the name with http.allowed_hosts: --set http.allowed_hosts={name}",
                misdirected=True,
            )

    def _allows(self, name: str) -> bool:
        if "." not in name or is_address(name):
            return ":" not in name or is_address(name)
        if name.endswith(".localhost") or ANY in self._names or name in self._names:
            return True
        return any(name.endswith(item) for item in self._names if item.startswith("."))


def _name(host: bytes) -> str:
    """Return the name in a Host header, without its port and a trailing dot."""
    text = host.decode("latin-1").strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].removesuffix(".")
