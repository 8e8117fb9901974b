"""Settings of worker processes: how many there are, and where they listen."""

from typing import Annotated

from pydantic import Field

from rowcast.net.heartbeats import HEARTBEAT_TIMEOUT_SECONDS
from rowcast.settings.sections import Number, Section


class Workers(Section):
    """More processes that take clients, beside the sequencer."""

    count: Annotated[Number, Field(ge=0, le=64)] = Field(
        default=0,
        description="Worker processes; 0 starts none. They serve declared tables by REST, SSE and "
        "WebSocket, and pass on the rest to the server.",
    )
    http_port: Annotated[Number, Field(ge=0, le=65_535)] = Field(
        default=9928,
        description="Port of HTTP that all workers share; 0 picks a free one. It is HTTPS where "
        "`tls.certificate` is set.",
    )
    mqtt_port: Annotated[Number, Field(ge=0, le=65_535)] | None = Field(
        default=None,
        description="Port of MQTT that all workers share; 0 picks a free one, and none is opened "
        "unless it is set. Workers end TLS, where `tls.certificate` is set, and pass on the rest.",
    )
    heartbeat_timeout_seconds: Annotated[Number, Field(ge=2, le=86_400)] = Field(
        default=HEARTBEAT_TIMEOUT_SECONDS,
        description="A worker that has sent no heartbeat for so long hangs: it is killed, and "
        "started again. Seconds in which the machine itself was paused do not count.",
    )
