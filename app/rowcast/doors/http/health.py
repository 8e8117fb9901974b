"""``GET /health`` and ``GET /health/ready``, for monitoring and load balancers (O4).

The server is live if it answers. Whether it is ready the checks of ``readiness`` find.
"""

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from rowcast.codecs import JSON
from rowcast.core.compiled import CODE, Code
from rowcast.core.overload_limits import READY_RETRY_SECONDS
from rowcast.doors.http.login.routes import EdgeOf


class Health(BaseModel):
    """Whether the server works, and how far its log is."""

    status: str = Field(description="ok")
    version: str
    code: Code = Field(description="Whether the hot modules are compiled or interpreted.")
    head: str = Field(description="The cursor of the newest position.")
    lag_events: int = Field(description="Events in the log that queries and lists wait for.")
    lag_seconds: float = Field(description="The age of the oldest of them, in seconds.")
    warnings: dict[str, str] = Field(description="What is wrong, and lets it work all the same.")


class Ready(BaseModel):
    """Whether requests should be sent here, and what each check found."""

    ready: bool
    checks: dict[str, str] = Field(description="`ok`, or what is wrong, by check.")


health = APIRouter(tags=["Server"])


@health.head("/health", include_in_schema=False)
@health.get("/health", operation_id="health", response_model=Health)
async def live(edge: EdgeOf) -> Response:
    """Tell that the server works, its version and code, its position, and the tables' lag."""
    version, kernel = edge.settings.version, edge.kernel
    lag, looks = kernel.reader.lag(), edge.settings.readiness.warnings
    return _json(
        Health(
            status="ok",
            version=version,
            code=CODE,
            head=kernel.head,
            lag_events=lag.events,
            lag_seconds=round(lag.seconds, 3),
            warnings={name: why for name, look in looks.items() if (why := look())},
        )
    )


@health.head("/health/ready", include_in_schema=False)
@health.get(
    "/health/ready",
    operation_id="ready",
    response_model=Ready,
    responses={503: {"model": Ready, "description": "Not now; the checks say why."}},
)
async def ready(edge: EdgeOf) -> Response:
    """Whether writes and reads are carried out, ports open and nothing is shed."""
    checks = dict(await edge.settings.readiness.look())
    is_ready = set(checks.values()) <= {"ok"}
    response = _json(Ready(ready=is_ready, checks=checks))
    if not is_ready:
        response.status_code = 503
        response.headers["retry-after"] = str(READY_RETRY_SECONDS)
    response.headers["cache-control"] = "no-store"
    return response


def _json(model: BaseModel) -> Response:
    return Response(model.model_dump_json(), media_type=JSON)
