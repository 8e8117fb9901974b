"""Settings of the door for REST, SSE and WebSocket."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from rowcast.core.limits import (
    COMMIT_BACKLOG_EVENTS_MAX,
    CONFIG_SECONDS_MAX,
    HTTP_BODY_SECONDS_MAX,
    PAYLOAD_BYTES_MAX,
)
from rowcast.core.query_write_limits import QUERY_WRITE_RECORDS_MAX
from rowcast.core.read_limits import LONG_POLL_SECONDS
from rowcast.settings.sections import (
    Number,
    PortOrNone,
    Seconds,
    Section,
    host_name,
    network_name,
)

HTTP_BODY_BYTES_MAX_MAX: Final = 1024**3
"""Of ``http.max_body_bytes``: a body is in memory as a whole."""
SSE_RETRY_MS_MAX: Final = 86_400_000
"""Of ``sse.retry_ms``: with what the server adds it is five days at most. Timers of browsers have
31 bits, 24 days: a longer wait is none, and clients would connect again without a pause."""


def _origin(value: str) -> str:
    if not re.fullmatch(r"https?://[^/\s]+", value):
        raise ValueError("should be an origin such as http://localhost:3000, without a path")
    return value


class Http(Section):
    """The door for REST, SSE and WebSocket."""

    host: str = Field(default="127.0.0.1", description="Address on which HTTP listens.")
    port: PortOrNone = Field(
        default=9926, description="Port of HTTP; 0 picks a free port, `off` closes it."
    )
    secure_port: PortOrNone = Field(
        default=9927,
        alias="securePort",
        description="Port of HTTPS, open when `tls.certificate` is set; 0 picks a free port, "
        "`off` closes it.",
    )
    cors: tuple[Annotated[str, AfterValidator(_origin)], ...] = Field(
        default=(),
        description="Additional origins whose pages may call the server. Its own origin always "
        "may.",
    )
    allowed_hosts: tuple[Annotated[str, AfterValidator(host_name)], ...] = Field(
        default=(),
        description="Host names under which anonymous callers are served: `rows.example`, "
        "`.example` for all names below it, `*` for any. IP addresses and names without a dot are "
        "always allowed.",
    )
    trusted_proxies: tuple[Annotated[str, AfterValidator(network_name)], ...] = Field(
        default=(),
        description="Addresses and networks of proxies whose X-Forwarded-For and "
        "X-Forwarded-Proto headers are trusted: `10.0.0.1`, `10.1.0.0/16`.",
    )
    max_body_bytes: Annotated[Number, Field(ge=1, le=HTTP_BODY_BYTES_MAX_MAX)] = Field(
        default=PAYLOAD_BYTES_MAX, description="Largest request body, in bytes; at most 1073741824."
    )
    body_seconds: Seconds = Field(
        default=HTTP_BODY_SECONDS_MAX,
        description="Time in which a request body must arrive, in seconds, with one more for each "
        "8 KiB that came; else the answer is 408, and the connection is closed.",
    )
    max_query_writes: Annotated[Number, Field(ge=1, le=COMMIT_BACKLOG_EVENTS_MAX)] = Field(
        default=QUERY_WRITE_RECORDS_MAX,
        description="Most records that one PATCH or DELETE with a query writes; a query that "
        "matches more is refused.",
    )
    poll_seconds: Seconds = Field(
        default=LONG_POLL_SECONDS,
        description="How long a long poll waits for events, in seconds.",
    )
    idempotency_seconds: Annotated[Number, Field(ge=1, le=CONFIG_SECONDS_MAX)] = Field(
        default=86_400,
        description="How long the answer to a request with an `Idempotency-Key` is stored for "
        "repeats, in seconds.",
    )


class Sse(Section):
    """Server-Sent Events."""

    heartbeat_seconds: Seconds = Field(
        default=15,
        description="Silence on an SSE stream after which the server sends a comment, in seconds.",
    )
    retry_ms: Annotated[Number, Field(ge=1, le=SSE_RETRY_MS_MAX)] = Field(
        default=2_000,
        description="Shortest wait before a browser reconnects, in milliseconds; the server adds "
        "up to four times as much at random. At most 86400000.",
    )


class WebSocket(Section):
    """WebSocket."""

    heartbeat_seconds: Seconds = Field(
        default=20,
        description="Interval of WebSocket pings, in seconds. Connections that speak MQTT have "
        "none.",
    )
