"""Settings of the door for REST, SSE and WebSocket."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from rowcast.core.limits import PAYLOAD_BYTES_MAX
from rowcast.kernel.settings import (
    Number,
    PortOrNone,
    Section,
    host_name,
    network_name,
)


def _origin(value: str) -> str:
    if not re.fullmatch(r"https?://[^/\s]+", value):
        raise ValueError("should be an origin such as http://localhost:3000, without a path")
    return value


class Http(Section):
    """The door for REST, SSE and WebSocket."""

    host: str = Field(default="127.0.0.1", description="Address that HTTP listens on.")
    port: PortOrNone = Field(
        default=9926, description="Port of HTTP; 0 takes a free one, `off` opens none."
    )
    secure_port: PortOrNone = Field(
        default=9927,
        alias="securePort",
        description="Port of HTTPS, open when `tls.certificate` is set; `off` opens none.",
    )
    cors: tuple[Annotated[str, AfterValidator(_origin)], ...] = Field(
        default=(), description="Origins whose pages may call besides the server's own."
    )
    allowed_hosts: tuple[Annotated[str, AfterValidator(host_name)], ...] = Field(
        default=(),
        description="Names under which callers who do not sign in are served too: `rows.example`, "
        "`.example` with all below it, `*` any; addresses and names without a dot are anyway.",
    )
    trusted_proxies: tuple[Annotated[str, AfterValidator(network_name)], ...] = Field(
        default=(),
        description="Addresses and networks of proxies whose X-Forwarded-For and X-Forwarded-Proto "
        "are believed: `10.0.0.1`, `10.1.0.0/16`; nobody else's are.",
    )
    max_body_bytes: Annotated[Number, Field(ge=1)] = Field(
        default=PAYLOAD_BYTES_MAX, description="Largest body of one request."
    )
    idempotency_seconds: Annotated[Number, Field(ge=1)] = Field(
        default=86_400,
        description="How long the answer to a request with an `Idempotency-Key` is kept for when "
        "it comes again.",
    )
