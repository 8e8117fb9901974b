"""What a server refuses, in its own words, and that nobody answers: one exception for both."""

from collections.abc import Mapping
from typing import Final, cast
from urllib.parse import urlsplit

import httpx

from rowcast.codecs import codec_for
from rowcast.core.errors import Code, Error
from rowcast.core.limits import RECONNECT_SECONDS_MAX

AGAIN: Final = frozenset({408, 425, 429})
"""Refusals that another try may change; so may all from 500 on."""


class Problem(Error):  # noqa: N818 - the name that RFC 9457 has for it
    """A refusal: ``status`` of HTTP, ``code`` and ``message``; ``problems`` has a path for each.

    ``status`` is 0 where no server answered.
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
        """Seconds that the server asks to wait before another try."""

    @property
    def problems(self) -> list[dict[str, object]]:
        """What is wrong with a value: ``path`` and ``message`` of each mistake."""
        told = self.details.get("problems")
        return cast("list[dict[str, object]]", told) if isinstance(told, list) else []

    @property
    def is_final(self) -> bool:
        """Whether the same request would be refused again."""
        return _final(self.status)


def _final(status: int) -> bool:
    return 0 < status < httpx.codes.INTERNAL_SERVER_ERROR and status not in AGAIN


def check(response: httpx.Response) -> httpx.Response:
    """Return an answer that was read; raises the problem (RFC 9457) that it carries, if any."""
    if not response.is_error:
        return response
    try:
        details = codec_for(response.headers.get("content-type")).decode(response.content)
    except Error:
        details = None  # of a proxy between, most likely
    reason = f"{response.status_code} {response.reason_phrase}"
    found = Problem(response.status_code, details if isinstance(details, dict) else {}, reason)
    asked = response.headers.get("retry-after", "")
    if asked.isascii() and asked.isdigit():
        found.retry_after = float(min(int(asked), RECONNECT_SECONDS_MAX))
    raise found


def nobody(url: str, failure: Exception) -> Problem:
    """Return what to say when nobody answers."""
    parts = urlsplit(url)
    shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()  # no password
    return Problem(
        0,
        {"code": "busy"},
        f"no server answers at {shown} ({str(failure) or type(failure).__name__}); start one with "
        "'rowcast serve', or give the address of another (--url)",
    )
