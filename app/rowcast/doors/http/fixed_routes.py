"""The fixed routes as one FastAPI application: login, health and API documents.

FastAPI generates their OpenAPI document from models; paths of the schema are added to it.
"""

from functools import cached_property, lru_cache
from typing import Any, Final

import orjson
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException

from rowcast.codecs import JSON
from rowcast.core.errors import Error
from rowcast.core.limits import HTTP_DOCUMENTS_MAX
from rowcast.doors.http.documents.asyncapi import ASYNCAPI_PATH, AsyncDocument
from rowcast.doors.http.documents.openapi import openapi_document
from rowcast.doors.http.documents.schemas import Document
from rowcast.doors.http.documents.servers import servers_at
from rowcast.doors.http.door import HttpSettings
from rowcast.doors.http.health import health
from rowcast.doors.http.login.routes import router as login
from rowcast.doors.http.login.signing_in import COOKIE
from rowcast.doors.http.messages.responses import refuse
from rowcast.kernel.kernel import Kernel
from rowcast.routes.registry import Registry

OPENAPI_PATH: Final = "/openapi.json"
DOCUMENTATION: Final = "/ui/#/api"
"""The live page renders it, because FastAPI's own pages load scripts from another host."""
SECURITY: Final[Document] = {
    "components": {
        "securitySchemes": {
            "password": {"type": "http", "scheme": "basic"},
            "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            "cookie": {"type": "apiKey", "in": "cookie", "name": COOKIE},
        }
    },
    "security": [{}, {"password": []}, {"token": []}, {"cookie": []}],
}
"""How callers sign in, at every path of the document."""


documents = APIRouter(include_in_schema=False)


@documents.head(OPENAPI_PATH)
@documents.get(OPENAPI_PATH)
def openapi(request: Request) -> Response:
    """Describe the requests. FastAPI calls this on a thread: the first call makes the document."""
    return Response(_documents_of(request).openapi, media_type=JSON)


@documents.head(ASYNCAPI_PATH)
@documents.get(ASYNCAPI_PATH)
def asyncapi(request: Request) -> Response:
    """Describe subscriptions and messages, at the address of the request. On a thread, too."""
    made = _documents_of(request)
    host = request.headers.get("host", "localhost")
    servers = servers_at(request.scope.get("scheme", "http"), host, made.settings.ports())
    return Response(orjson.dumps(made.asyncapi.made(servers)), media_type=JSON)


@documents.head("/docs")
@documents.get("/docs")
async def docs() -> RedirectResponse:
    """Lead to the page that renders the OpenAPI document."""
    return RedirectResponse(DOCUMENTATION)


def make_application(kernel: Kernel, settings: HttpSettings) -> FastAPI:
    """Return the application with the fixed routes."""
    app = FastAPI(
        title=settings.title,
        version=settings.version,
        openapi_url=None,  # the server's own document includes the schema, and is cached as bytes
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},
        exception_handlers={Error: refuse, HTTPException: refuse},
    )
    for router in (login, health, documents):
        app.include_router(router)
    made = app.state.documents = Documents(kernel.registry, settings)
    app.openapi = lambda: orjson.loads(made.openapi)  # type: ignore[method-assign]
    return app


class Documents:
    """The API documents of one server: what its schema declares, and the fixed routes.

    Each is made when it is first asked for: a start does not wait for it. The handlers find them
    by the request, because FastAPI never forgets a function that handles one.
    """

    def __init__(self, registry: Registry, settings: HttpSettings) -> None:
        self._registry = registry
        self.settings = settings

    @cached_property
    def openapi(self) -> bytes:
        """The OpenAPI document as JSON."""
        title, version = self.settings.title, self.settings.version
        declared = openapi_document(self._registry, title, version)
        return orjson.dumps(merged(merged(_own(title, version), declared), SECURITY))

    @cached_property
    def asyncapi(self) -> AsyncDocument:
        """The AsyncAPI document, but for the servers."""
        return AsyncDocument(self._registry, self.settings.title, self.settings.version)


def _documents_of(request: Request) -> Documents:
    made: Documents = request.app.state.documents
    return made


@lru_cache(maxsize=HTTP_DOCUMENTS_MAX)
def _own(title: str, version: str) -> Document:
    """Return the document of the fixed routes, which are the same in each server."""
    routes = [*login.routes, *health.routes]
    return _apart(get_openapi(title=title, version=version, routes=routes))


def _apart(document: Document) -> Document:
    """Return a document with schema names that no declared table can have."""
    at = b"#/components/schemas/"
    own: dict[str, Any] = orjson.loads(orjson.dumps(document).replace(at, at + b"server."))
    schemas = own["components"].pop("schemas")
    own["components"]["schemas"] = {f"server.{name}": made for name, made in schemas.items()}
    return own


def merged(one: Document, other: Document) -> Document:
    """Merge two documents: objects are merged, for other values the second wins."""
    made = dict(one)
    for name, value in other.items():
        known = made.get(name)
        both = isinstance(known, dict) and isinstance(value, dict)
        made[name] = merged(known, value) if both else value  # type: ignore[arg-type]
    return made
