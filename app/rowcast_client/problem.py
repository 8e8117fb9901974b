"""Problem: one exception for the server's errors and for an unreachable server."""

from collections.abc import Mapping
from typing import Final, cast
from urllib.parse import urlsplit

import httpx

from rowcast.codecs import decode_answer
from rowcast.core.errors import Code, Error
from rowcast.core.limits import RECONNECT_SECONDS_MAX

AGAIN: Final = frozenset({408, 425, 429})
"""Status codes below 500 that are retried; all from 500 on are, too."""


class Problem(Error):  # noqa: N818 - the name that RFC 9457 has for it
    """An error: HTTP ``status``, ``code`` and ``message``; ``problems`` lists invalid values.

    ``status`` is 0 if no server answered.
    """

    def __init__(self, status: int, details: Mapping[str, object], reason: str = "") -> None:
        known = str(details.get("code"))
        usual = Code.INVALID if _final(status) else Code.BUSY
        title, detail = details.get("title") or reason, details.get("detail")
        super().__init__(
            Code(known) if known in set(Code) else usual,
            f"{title}: {detail}" if detail else str(title),
        )
        self.status = status
        self.details = dict(details)
        self.retry_after = 0.0
        """Seconds to wait before a retry, from the server."""
        self.is_unsent = False
        """Whether no connection came about, so that no server can have got the request."""

    @property
    def problems(self) -> list[dict[str, object]]:
        """The mistakes in a value, each with ``path`` and ``message``."""
        problems = self.details.get("problems")
        return cast("list[dict[str, object]]", problems) if isinstance(problems, list) else []

    @property
    def is_final(self) -> bool:
        """Whether a retry would fail, too."""
        return _final(self.status)


def _final(status: int) -> bool:
    return 0 < status < httpx.codes.INTERNAL_SERVER_ERROR and status not in AGAIN


def check(response: httpx.Response) -> httpx.Response:
    """Return a successful response; raises the problem (RFC 9457) of any other."""
    if not response.is_error:
        return response
    try:
        details = decode_answer(response.content, response.headers.get("content-type"))
    except Error:
        details = None  # probably the response of a proxy
    reason = f"{response.status_code} {response.reason_phrase}"
    found = Problem(response.status_code, details if isinstance(details, dict) else {}, reason)
    asked = response.headers.get("retry-after", "")
    if asked.isascii() and asked.isdigit():
        found.retry_after = float(min(int(asked), RECONNECT_SECONDS_MAX))
    raise found


_NOBODY: Final = (
    "no server answers at {shown} ({reason}); start one with 'rowcast serve', or give the address "
    "of another (--url)"
)
_NAME: Final = (
    "the certificate of {shown} is not for this name ({reason}); use a name that the certificate "
    "has"
)
_AUTHORITY: Final = (
    "the certificate of {shown} is not trusted ({reason}); name the file of its authority: "
    "ROWCAST_AUTHORITY for commands, authority= in Python"
)
_PLAIN: Final = (
    "{shown} does not speak TLS ({reason}); begin it with http:, or give the port of HTTPS"
)
_OF_TLS: Final = (
    ("Hostname mismatch", _NAME),
    ("IP address mismatch", _NAME),
    ("CERTIFICATE_VERIFY_FAILED", _AUTHORITY),
    ("WRONG_VERSION_NUMBER", _PLAIN),
)
"""Words of the reasons why TLS failed, and what is told of each; the first found decides."""


def nobody(url: str, failure: Exception) -> Problem:
    """Return the Problem for a server that does not respond."""
    parts = urlsplit(url)
    shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()  # without the password
    reason = str(failure) or type(failure).__name__
    message = next((say for word, say in _OF_TLS if word in reason), _NOBODY)
    found = Problem(0, {"code": "busy"}, message.format(shown=shown, reason=reason))
    refused = httpx.ConnectError | httpx.ConnectTimeout | ConnectionRefusedError
    found.is_unsent = isinstance(failure, refused)
    return found
