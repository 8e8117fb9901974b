"""What the OpenAPI document says of signing in: the paths of ``entrance``, and what is shown there.

It is data only; the rest of the document is made from the tables (``openapi``).
"""

from typing import Final

from rowcast.core.entry_limits import QUESTIONS_MAX
from rowcast.doors.http.login.login import LOGOUT, ME, TICKETS
from rowcast.doors.http.login.signing_in import COOKIE, LOGIN

Document = dict[str, object]

_PROBLEM: Final = {"$ref": "#/components/responses/Problem"}
_TEXT: Final[Document] = {"type": "string"}
_TIME: Final[Document] = {"type": ["string", "null"], "format": "date-time"}
_ME: Final[Document] = {
    "user": _TEXT,
    "roles": {"type": "array", "items": _TEXT},
    "grants": {"type": "object", "additionalProperties": {"type": "boolean"}},
    "attributes": {"type": "object"},
    "until": _TIME,
}
_READS: Final[Document] = {"reads": {"type": "object", "additionalProperties": {"type": "boolean"}}}
_READ: Final[Document] = {
    "name": "read",
    "in": "query",
    "description": "Topics or filters: whether each may be read, told in `reads`.",
    "schema": {"type": "array", "items": _TEXT, "maxItems": QUESTIONS_MAX},
}
_TOKEN: Final[Document] = {"token": _TEXT, "token_type": _TEXT, "expires_at": _TIME}


def _map(members: Document) -> Document:
    return {"type": "object", "properties": members}


def _json(schema: Document) -> Document:
    return {"application/json": {"schema": schema}}


def _operation(
    name: str, summary: str, answers: Document, body: Document | None = None
) -> Document:
    operation: Document = {
        "tags": ["Signing in"],
        "operationId": name,
        "summary": summary,
        "responses": answers | {"default": _PROBLEM},
    }
    if body is not None:
        schema = _map(body) | {"additionalProperties": False}
        operation["requestBody"] = {"required": False, "content": _json(schema)}
    return operation


def _answer(description: str, members: Document) -> Document:
    return {"description": description, "content": _json(_map(members))}


ENTRANCE: Final[Document] = {
    "paths": {
        LOGIN: {
            "post": _operation(
                "login",
                "Give a token, and a cookie if it is asked for.",
                {"200": _answer("Signed in.", _TOKEN | _ME)},
                {"user": _TEXT, "password": _TEXT, "cookie": {"type": "boolean"}},
            )
        },
        LOGOUT: {
            "post": _operation(
                "logout",
                "Take the cookie away, or end all that the user has signed in with.",
                {"204": {"description": "Signed out."}},
                {"everywhere": {"type": "boolean"}},
            )
        },
        f"{TICKETS}/": {
            "post": _operation(
                "ticket",
                "Give a ticket that opens one stream.",
                {"201": _answer("A ticket.", {"ticket": _TEXT, "expires_at": _TIME})},
            )
        },
        ME: {
            "get": _operation(
                "me", "Tell who one is.", {"200": _answer("The caller.", _ME | _READS)}
            )
            | {"parameters": [_READ]},
        },
    },
    "components": {
        "securitySchemes": {
            "password": {"type": "http", "scheme": "basic"},
            "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            "cookie": {"type": "apiKey", "in": "cookie", "name": COOKIE},
        }
    },
    "security": [{}, {"password": []}, {"token": []}, {"cookie": []}],
}
"""It is merged with the rest."""
