"""The fixed pages: documentation, the OpenAPI document and health, as a FastAPI application."""

from typing import Final

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, Field

from rowcast.core.overload_limits import READY_RETRY_SECONDS
from rowcast.doors.http.documents.asyncapi import ASYNCAPI_PATH, AsyncDocument
from rowcast.doors.http.documents.login_openapi import ENTRANCE
from rowcast.doors.http.documents.openapi import openapi_document
from rowcast.doors.http.documents.schemas import Document
from rowcast.doors.http.documents.servers import servers_at
from rowcast.doors.http.edge import HttpSettings
from rowcast.kernel.kernel import Engine

OPENAPI_PATH: Final = "/openapi.json"
DOCUMENTATION: Final = "/ui/#/api"
"""The live page shows it: pages that come with FastAPI load their scripts from another host."""
SCHEMAS: Final = "#/components/schemas"
DESCRIPTIONS: Final = {200: "Successful Response", 503: "Not now; the checks say why."}


class Health(BaseModel):
    """Whether the server works, and how far its log is."""

    status: str = Field(description="ok")
    version: str
    head: str = Field(description="The cursor of the newest position.")


class Ready(BaseModel):
    """Whether requests should be sent here, and what each check found."""

    ready: bool
    checks: dict[str, str] = Field(description="`ok`, or what is wrong, by check.")


def make_fixed(engine: Engine, settings: HttpSettings) -> FastAPI:
    """Return the application with the fixed pages."""
    app = FastAPI(
        title=settings.title,
        version=settings.version,
        openapi_url=None,  # ours is made from the schema too, and kept as bytes
        docs_url=None,
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )

    @app.get(
        "/health", tags=["Server"], operation_id="health", openapi_extra=_answers({200: Health})
    )
    async def health() -> Response:
        """Tell that the server works, its version, and the newest position of its log."""
        return _json(Health(status="ok", version=settings.version, head=engine.head))

    readiness = settings.readiness
    answers = _answers({200: Ready, 503: Ready})

    @app.get("/health/ready", tags=["Server"], operation_id="ready", openapi_extra=answers)
    async def ready() -> Response:
        """Tell whether writes and reads are carried out, ports open and nothing is shed."""
        checks = dict(await readiness.look())
        is_ready = set(checks.values()) <= {"ok"}
        response = _json(Ready(ready=is_ready, checks=checks))
        if not is_ready:
            response.status_code = 503
            response.headers["retry-after"] = str(READY_RETRY_SECONDS)
        response.headers["cache-control"] = "no-store"
        return response

    own = get_openapi(title=settings.title, version=settings.version, routes=app.routes)
    ours = openapi_document(engine.registry, settings.title, settings.version)
    models = {model.__name__: model.model_json_schema() for model in (Health, Ready)}
    named: Document = {"components": {"schemas": models}}
    document = orjson.dumps(merged(merged(merged(own, named), ours), ENTRANCE))

    @app.get(OPENAPI_PATH, include_in_schema=False)
    async def openapi() -> Response:
        return Response(document, media_type="application/json")

    watched = AsyncDocument(engine.registry, settings.title, settings.version)

    @app.get(ASYNCAPI_PATH, include_in_schema=False)
    async def asyncapi(request: Request) -> Response:
        """Tell what is watched and said, seen from whoever asks."""
        host = request.headers.get("host", "localhost")
        servers = servers_at(request.scope.get("scheme", "http"), host, settings.ports())
        return Response(orjson.dumps(watched.made(servers)), media_type="application/json")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> RedirectResponse:
        return RedirectResponse(DOCUMENTATION)

    app.openapi = lambda: orjson.loads(document)  # type: ignore[method-assign]
    return app


def _json(model: BaseModel) -> Response:
    return Response(model.model_dump_json(), media_type="application/json")


def _answers(models: dict[int, type[BaseModel]]) -> Document:
    """Describe answers ourselves: for a route's model FastAPI imports all of an older Pydantic."""
    return {
        "responses": {
            str(status): {
                "description": DESCRIPTIONS[status],
                "content": {
                    "application/json": {"schema": {"$ref": f"{SCHEMAS}/{model.__name__}"}}
                },
            }
            for status, model in models.items()
        }
    }


def merged(one: Document, other: Document) -> Document:
    """Return two documents as one: objects are joined, of anything else the second's counts."""
    made = dict(one)
    for name, value in other.items():
        known = made.get(name)
        both = isinstance(known, dict) and isinstance(value, dict)
        made[name] = merged(known, value) if both else value  # type: ignore[arg-type]
    return made
