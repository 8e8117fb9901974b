"""Trusted proxies: the client's address from X-Forwarded-For.

Any client can send such a header, so only proxies in ``http.trusted_proxies`` are trusted: the
address is used to count failed logins, and to recognise local clients. A request with such a header
from another peer counts as that peer's, and never as local: otherwise an unlisted local proxy would
make all its clients local.
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
"""Other headers of proxies; only their presence matters."""


def behind_proxies(edge: ASGIApp, trusted: Sequence[str]) -> ASGIApp:
    """Return an application that trusts proxies at these addresses or networks.

    The client is the last address in X-Forwarded-For that is no trusted proxy; addresses before it
    are the client's claim. Requests without a proxy are not wrapped.
    """

    def asked(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        host, port = scope.get("client") or ("", 0)
        if not _is_address(host) or is_loopback(host):
            scope["client"] = f"{scope[_PROXY]} (forwarded)", port
        return edge(scope, receive, send)

    trusting = ProxyHeadersMiddleware(asked, list(trusted))  # type: ignore[arg-type]
    warned: set[str] = set()

    def app(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        for name, _ in scope["headers"]:
            if name.startswith(_PREFIX) or name in _OTHERS:
                break
        else:
            return edge(scope, receive, send)
        host, port = scope.get("client") or ("", 0)
        scope[_PROXY] = host = _plain(host)
        scope["client"] = host, port
        if is_loopback(host) and host not in trusting.trusted_hosts and host not in warned:
            warned.add(host)
            log.warning(
                "a proxy at %s asks for others, who are therefore not taken for callers of this "
                "machine; if it is yours, name it: --set http.trusted_proxies=%s",
                host,
                host,
            )
        return trusting(scope, receive, send)  # type: ignore[arg-type]

    return app


_PROXY: Final = "rowcast.proxy"
"""The key of the proxy's address in the scope."""


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _plain(host: str) -> str:
    """Return an IPv4-mapped IPv6 address of a dual-stack socket as IPv4."""
    if not host.startswith("::ffff:"):
        return host
    address = ip_address(host) if _is_address(host) else None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return host if mapped is None else str(mapped)
