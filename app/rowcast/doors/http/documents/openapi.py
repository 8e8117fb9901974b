"""The schema as an OpenAPI 3.1 document (B15): data from data, no route per table."""

from typing import Final, cast

from rowcast.codecs import CBOR, JSON, MSGPACK
from rowcast.core.tables import Invalid, Table, is_kept
from rowcast.doors.http.documents.schemas import PROBLEM, ROWS, Document, add_schemas, ref
from rowcast.doors.http.messages.asgi import path_of
from rowcast.features.idempotency.idempotency_keys import KEY_CHARS_MAX
from rowcast.routes.registry import Entry, Registry
from rowcast.rows.topic_rows import LogView

_OUTCOMES: Final[Document] = {
    "type": "array",
    "description": "One outcome for each record of a batch, in its order.",
    "items": {
        "type": "object",
        "required": ["id", "status"],
        "properties": {
            "id": {},
            "status": {"type": "integer"},
            "position": {"type": ["string", "null"]},
            "error": {"$ref": "#/components/schemas/Problem"},
        },
    },
}
_PAST: Final = {
    "from": "History: from this time, or after this cursor; -1h is an hour ago.",
    "to": "History: before this time, or up to this cursor.",
    "last": "History: so many of the last events.",
    "limit": "History: so many of the first events, with a link to what follows.",
    "every": "Series: the length of a bucket, such as 1m.",
    "fn": "Series: of avg, max, min, count, sum, first, last, joined by commas.",
    "select": "History and series: attributes, joined by commas.",
    "since": "Long poll, with live: after this cursor.",
    "live": "Long poll: true waits for events after since.",
    "asof": "Records as they were at this time or cursor.",
}
"""Parameters of a GET for history; prefixed with _ if a table declares such a name."""
_PARAMETERS: Final[Document] = {
    "id": {
        "name": "id",
        "in": "path",
        "required": True,
        "description": "The record's id; it may hold slashes, percent-encoded or not.",
        "schema": {"type": "string"},
    },
    "level": {
        "name": "level",
        "in": "path",
        "required": True,
        "description": "The first level of the topics; messages for topics of one level.",
        "schema": {"type": "string"},
    },
    "meta": {
        "name": "meta",
        "in": "query",
        "description": "Add _seq, _ts, _version, _origin, _client and _op to each record.",
        "schema": {"type": "boolean"},
    },
    "count": {
        "name": "count",
        "in": "query",
        "description": "Only the number of records.",
        "schema": {"type": "boolean"},
    },
    "retain": {
        "name": "retain",
        "in": "query",
        "description": "false: a message to subscribers, which leaves the record as it is.",
        "schema": {"type": "boolean", "default": True},
    },
    "atomic": {
        "name": "atomic",
        "in": "query",
        "description": "Write all records of a batch or none.",
        "schema": {"type": "boolean", "default": False},
    },
    "upsert": {
        "name": "upsert",
        "in": "query",
        "description": "Records replace those of their ids; those without an id get a new one.",
        "schema": {"type": "boolean", "default": False},
    },
    "dryRun": {
        "name": "dry_run",
        "in": "query",
        "description": "Only the number of records that would be written, and some of their ids.",
        "schema": {"type": "boolean", "default": False},
    },
    "confirm": {
        "name": "confirm",
        "in": "query",
        "description": "The number of records that it must write; required without a condition.",
        "schema": {"type": "integer", "minimum": 0},
    },
    "ifMatch": {
        "name": "If-Match",
        "in": "header",
        "description": "ETags, one of which the record must have; * for any record.",
        "schema": {"type": "string"},
    },
    "ifNoneMatch": {
        "name": "If-None-Match",
        "in": "header",
        "description": "ETags, none of which the record may have; * for no record.",
        "schema": {"type": "string"},
    },
    "idempotencyKey": {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "A name of the request: sent again, it is answered as the first time.",
        "schema": {"type": "string", "maxLength": KEY_CHARS_MAX},
    },
} | {
    name: {"name": name, "in": "query", "description": text, "schema": {"type": "string"}}
    for name, text in _PAST.items()
}
_KEY: Final[Document] = {"$ref": "#/components/parameters/idempotencyKey"}
_HEADERS: Final[Document] = {
    "ETag": {
        "description": "The record's cursor, in quotation marks; an unusual format has a suffix.",
        "schema": {"type": "string"},
    },
    "Position": {
        "description": "The cursor to continue from, over any protocol.",
        "schema": {"type": "string"},
    },
}


def openapi_document(registry: Registry, title: str, version: str) -> Document:
    """Return the document of everything that a schema and resource classes export."""
    schemas: Document = {"Problem": PROBLEM, "Outcomes": _OUTCOMES}
    paths: Document = {}
    tags = []
    for entry in registry.entries:
        if entry.shape is None:
            paths[path_of(entry.path)] = _resource_path(entry)
            continue
        table = entry.shape.table
        if "rest" in table.hidden_from or isinstance(entry.view, LogView):
            continue
        tags.append({"name": table.name, "description": table.description})
        add_schemas(table, schemas)
        paths |= _table_paths(table) if entry.view is None else _row_paths(table, entry.path, ())
    if registry.logged:  # one entry for all topic tables, which are dynamic and have equal columns
        tags.append({"name": ROWS.name, "description": "The messages at undeclared topics."})
        add_schemas(ROWS, schemas)
        paths |= _row_paths(ROWS, "mqtt_{level}", (_parameter("level"),))
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version},
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": schemas,
            "parameters": _PARAMETERS,
            "headers": _HEADERS,
            "responses": {"Problem": _problem_response()},
        },
    }


# -- paths -----------------------------------------------------------------------------------------


def _table_paths(table: Table) -> Document:
    collection = path_of(table.topic(""))
    paths: Document = {
        collection: {
            "get": _list(table),
            "post": _create(table),
            "put": _put_batch(table),
            "patch": _patch(table, _by_query("patchAll", table)),
            "delete": _by_query("deleteAll", table),
        },
        f"{collection}{{id}}": {
            "parameters": [_parameter("id")],
            "get": _get(table),
            "put": _put(table),
            "patch": _patch(table),
            "delete": _delete(table),
            "post": _message(table),
        },
    }
    if is_kept(table):
        left = {"parameters", "get", "delete"} if table.rollup else {"parameters", "get"}
        paths = {path: _only(left, verbs) for path, verbs in paths.items()}
    if table.path:
        paths[path_of(table.path)] = {"get": _describe(table)}
    return paths


def _only(names: set[str], verbs: object) -> Document:
    """Return the verbs with these names."""
    known = verbs if isinstance(verbs, dict) else {}
    return {name: value for name, value in known.items() if name in names}


def _row_paths(table: Table, path: str, within: tuple[Document, ...]) -> Document:
    """Return the paths of rows, which are only read; ``within``: parameters of the path."""
    example = "timestamp=gt=2026-01-31T12:00:00Z&sort(-timestamp)&limit(20)"
    paths: Document = {
        f"/{path}": {"get": _describe(table)},
        f"/{path}/": {"get": _list(table, example)},
        f"/{path}/{{id}}": {"parameters": [_parameter("id"), *within], "get": _get(table)},
    }
    for item in paths.values() if within else ():
        cast("Document", item).setdefault("parameters", list(within))
    return paths


_EXAMPLE: Final = "price=gt=100&select(id,price)&sort(-price)&limit(20)"


def _list(table: Table, example: str = _EXAMPLE) -> Document:
    rows: Document = {"type": "array", "items": ref(table.name)}
    operation = _operation(
        "list", table, {"200": _answer("The records that the query selects.", rows)}
    )
    operation["description"] = (
        f"The query follows the question mark, such as {example}; "
        "group(name,count()) returns groups in place of records, select(name,owner(name)) "
        "follows relationships."
    )
    operation["parameters"] = [*map(_parameter, ("meta", "count", *_PAST))]
    return operation


def _create(table: Table) -> Document:
    made: Document = {"type": "object", "properties": {"id": {}}, "required": ["id"]}
    many: Document = {"oneOf": [ref(table.name), {"type": "array", "items": ref(table.name)}]}
    operation = _operation(
        "create",
        table,
        {
            "201": _answer("The new record's id; Location is its path.", made),
            "200": _answer("A batch was written.", ref("Outcomes")),
            "207": _answer("A batch of which not all was written.", ref("Outcomes")),
        }
        | _unfit(table),
    )
    parameters = [_parameter("atomic"), _parameter("upsert"), _KEY]
    return operation | {"requestBody": _body(many), "parameters": parameters}


def _put_batch(table: Table) -> Document:
    operation = _operation(
        "putAll",
        table,
        {
            "200": _answer("All was written.", ref("Outcomes")),
            "207": _answer("Not all was written.", ref("Outcomes")),
        },
    )
    body = _body({"type": "array", "items": ref(table.name)})
    return operation | {"requestBody": body, "parameters": [_parameter("atomic"), _KEY]}


def _get(table: Table) -> Document:
    operation = _operation("get", table, {"200": _answer("The record.", ref(table.name))})
    operation["parameters"] = [*map(_parameter, ("meta", "ifNoneMatch", *_PAST))]
    return operation


def _put(table: Table) -> Document:
    return _operation("put", table, _written() | _unfit(table)) | {
        "requestBody": _body(ref(table.name)),
        "parameters": [_parameter("ifMatch"), _parameter("ifNoneMatch"), _KEY],
    }


def _unfit(table: Table) -> Document:
    if table.invalid is Invalid.REJECT:
        return {}
    return {"202": {"description": "The value does not fit, as Rowcast-Unfit says."}}


def _by_query(verb: str, table: Table) -> Document:
    """Return the operation that writes what a query selects (B12)."""
    document: Document = {
        "type": "object",
        "required": ["count"],
        "properties": {
            "count": {"type": "integer"},
            "position": {"type": ["string", "null"]},
            "sample": {"type": "array", "items": {}},
            "dry_run": {"type": "boolean"},
        },
    }
    answers: Document = {"200": _answer("How many records were written, all or none.", document)}
    operation = _operation(verb, table, answers)
    operation["description"] = "The query follows the question mark, such as price=gt=100."
    return operation | {"parameters": [_parameter("dryRun"), _parameter("confirm")]}


def _patch(table: Table, by_query: Document | None = None) -> Document:
    body = _body(ref(f"{table.name}Patch"))
    body["content"] = {"application/merge-patch+json": {"schema": ref(f"{table.name}Patch")}} | (
        dict(body["content"]) if isinstance(body["content"], dict) else {}
    )
    if by_query is not None:
        return by_query | {"requestBody": body}
    return _operation("patch", table, _written()) | {
        "requestBody": body,
        "parameters": [_parameter("ifMatch"), _parameter("ifNoneMatch"), _KEY],
    }


def _delete(table: Table) -> Document:
    answers: Document = {"204": {"description": "The record is gone."}}
    return _operation("delete", table, answers) | {"parameters": [_parameter("ifMatch"), _KEY]}


def _message(table: Table) -> Document:
    answers: Document = {
        "204": {"description": "Sent, and kept in the log."},
        "202": {"description": "Sent to who listens now."},
    }
    return _operation("message", table, answers) | {
        "requestBody": _body(ref(f"{table.name}Patch")),
        "parameters": [_parameter("retain"), _KEY],
    }


def _describe(table: Table) -> Document:
    return _operation("describe", table, {"200": _answer("What the table is.", {"type": "object"})})


def _resource_path(entry: Entry) -> Document:
    """Return the verbs that a resource class overrides; their values are not described."""
    value, done = _answer("What the resource returns.", {}), {"description": "Done."}
    answers: dict[str, Document] = {"get": {"200": value}, "put": _written(), "patch": _written()}
    answers["delete"] = {"204": done}
    answers["post"] = {"200": value, "201": value, "202": value, "204": done}
    name = entry.resource.__name__ if entry.resource else entry.path
    return {
        verb: {
            "operationId": f"{verb}{name}",
            "tags": [name],
            "responses": described | {"default": _ref_response()},
        }
        for verb, described in answers.items()
        if verb in entry.overrides
    }


# -- parts -----------------------------------------------------------------------------------------


def _operation(verb: str, table: Table, answers: Document) -> Document:
    return {
        "operationId": f"{verb}{table.name}",
        "tags": [table.name],
        "responses": answers | {"default": _ref_response()},
    }


def _ref_response() -> Document:
    return {"$ref": "#/components/responses/Problem"}


def _parameter(name: str) -> Document:
    return {"$ref": f"#/components/parameters/{name}"}


def _content(schema: Document) -> Document:
    return {media_type: {"schema": schema} for media_type in (JSON, CBOR, MSGPACK)}


def _body(schema: Document) -> Document:
    return {"required": True, "content": _content(schema)}


def _answer(description: str, schema: Document) -> Document:
    return {
        "description": description,
        "headers": {"Rowcast-Position": {"$ref": "#/components/headers/Position"}},
        "content": _content(schema),
    }


def _written() -> Document:
    headers = {
        "ETag": {"$ref": "#/components/headers/ETag"},
        "Rowcast-Position": {"$ref": "#/components/headers/Position"},
    }
    return {
        "201": {"description": "A new record.", "headers": headers},
        "204": {"description": "The record was replaced.", "headers": headers},
    }


def _problem_response() -> Document:
    return {
        "description": "Why it was refused.",
        "content": {"application/problem+json": {"schema": ref("Problem")}},
    }
