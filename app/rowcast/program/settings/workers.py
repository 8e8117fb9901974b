"""Settings of worker processes: how many there are, and where they listen."""

from typing import Annotated

from pydantic import Field

from rowcast.kernel.settings import Number, Section


class Workers(Section):
    """More processes that serve tables over HTTP, beside the one that has everything."""

    count: Annotated[Number, Field(ge=0, le=64)] = Field(
        default=0,
        description="Worker processes; 0 starts none. They serve declared tables by REST, SSE and "
        "WebSocket; docs/cluster.md tells what they refuse.",
    )
    http_port: Annotated[Number, Field(ge=0, le=65_535)] = Field(
        default=9928,
        description="Port of HTTP that all workers share; 0 picks a free one. It is HTTPS where "
        "`tls.certificate` is set.",
    )
