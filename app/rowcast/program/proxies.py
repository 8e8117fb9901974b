"""Proxies: for whom a request is asked, when a proxy that is trusted says so (X-Forwarded-For).

Whoever can reach a port can write such a header, so nobody is believed who is not named in
``http.trusted_proxies``: it counts failed logins, and says who is of this machine. A request that
another peer asks for others is taken as that peer's, and not for one of this machine: a proxy that
nobody named would make everybody who reaches it a caller from here.
"""

import logging
from collections.abc import Awaitable, Sequence
from ipaddress import IPv6Address, ip_address
from typing import Final

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from rowcast.auth.anonymous import is_loopback
from rowcast.doors.http.messages.asgi import ASGIApp, Receive, Scope, Send

log = logging.getLogger("rowcast")

_PREFIX: Final = b"x-forwarded-"
_OTHERS: Final = frozenset({b"forwarded", b"x-real-ip", b"via"})
"""What proxies write beside it: of these only that there is one of them is heard."""


def behind_proxies(edge: ASGIApp, trusted: Sequence[str]) -> ASGIApp:
    """Return an application that believes proxies at these addresses or networks.

    Of the addresses in X-Forwarded-For the last one counts that is no trusted proxy's: what stands
    before it, its client wrote. Nothing is around a request that no proxy has touched.
    """

    def asked(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        host, port = scope.get("client") or ("", 0)
        if not _is_address(host) or is_loopback(host):
            scope["client"] = f"{scope[_PROXY]} (forwarded)", port
        return edge(scope, receive, send)

    trusting = ProxyHeadersMiddleware(asked, list(trusted))  # type: ignore[arg-type]
    told: set[str] = set()

    def app(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        for name, _ in scope["headers"]:
            if name.startswith(_PREFIX) or name in _OTHERS:
                break
        else:
            return edge(scope, receive, send)
        host, port = scope.get("client") or ("", 0)
        scope[_PROXY] = host = _plain(host)
        scope["client"] = host, port
        if is_loopback(host) and host not in trusting.trusted_hosts and host not in told:
            told.add(host)
            log.warning(
                "a proxy at %s asks for others, who are therefore not taken for callers of this "
                "machine; if it is yours, name it: --set http.trusted_proxies=%s",
                host,
                host,
            )
        return trusting(scope, receive, send)  # type: ignore[arg-type]

    return app


_PROXY: Final = "rowcast.proxy"
"""Where the scope holds the address of who is asking for others."""


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _plain(host: str) -> str:
    """Return an IPv4 address that a socket of both kinds tells as one of IPv6 as what it is."""
    if not host.startswith("::ffff:"):
        return host
    address = ip_address(host) if _is_address(host) else None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return host if mapped is None else str(mapped)
