"""Hosts: under which names this server answers callers who have not signed in (L14).

A page somewhere on the web may have its name point at this machine and then ask it as if it were
its own server ("DNS rebinding"); the browser finds nothing wrong, and a server that trusts this
machine's callers would answer. What cannot be told is the name that the browser asked for. So who
is nobody in particular has to ask for an address, for this machine by name, for a name of one
label, which nobody on the web can own, or for a configured one. Who signs in may ask for any: the
page has nothing to sign in with.
"""

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from rowcast.core.bounded import ClearedCache
from rowcast.core.entry_limits import HOSTS_CACHED_MAX
from rowcast.core.errors import Code, Error
from rowcast.doors.http.messages.asgi import Headers
from rowcast.doors.http.messages.cors import is_address

ANY: Final = "*"


class Hosts:
    """The rule for one server: ``named`` are names, ``.name`` with all below it, or ANY."""

    def __init__(self, named: Sequence[str], origins: Sequence[str] = ()) -> None:
        own = {urlsplit(origin).hostname or "" for origin in origins}
        self._names = {name.lower() for name in named} | own
        self.known: ClearedCache[bytes, bool] = ClearedCache(HOSTS_CACHED_MAX)
        """Whether callers without a name are served, by Host header, for those seen before."""

    def check(self, headers: Headers) -> None:
        """Raise DENIED, told as 421, for a request to a name that may be another's."""
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
    """Return the name in a Host header, without its port and a last dot."""
    text = host.decode("latin-1").strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].removesuffix(".")
