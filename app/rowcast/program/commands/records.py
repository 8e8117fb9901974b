"""The commands that read and write records: ``rowcast get``, ``put``, ``delete`` and ``pub``."""

import json
import sys
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Final

import typer
from httpx import Response

from rowcast.codecs.registry import CBOR, JSON, MSGPACK, RAW
from rowcast.core.errors import Code, Error
from rowcast.program.commands.output import MEDIA_TYPES, Format, write_body
from rowcast.program.commands.server import UrlOption, client_of
from rowcast_client.calls import cursor_of, topic_path
from rowcast_client.problem import Problem

TEXT: Final = "text/plain; charset=utf-8"
_EXAMPLE: Final = """'{"name": "Rex"}', in quotation marks for the shell"""

SUFFIXES: Final = {
    ".json": JSON,
    ".cbor": CBOR,
    ".msgpack": MSGPACK,
    ".txt": TEXT,
}
"""Content types of files, by the end of their name; all others are bytes."""

ContentTypeOption = Annotated[
    str | None, typer.Option("--content-type", help="Media type of the value [default: guessed].")
]


def get(
    path: Annotated[str, typer.Argument(help="Path as in a URL: Dog/1, or Dog/?age=gt=3.")],
    fmt: Annotated[
        Format | None, typer.Option("--format", help="Requested format [default: any].")
    ] = None,
    url: UrlOption = None,
) -> None:
    """Print a record, a table or the result of a query.

    Example: rowcast get Dog/1
    """
    accept = MEDIA_TYPES[fmt] if fmt else "*/*"
    with client_of(url) as client:
        response = client.request("GET", _url_path(path), headers={"Accept": accept})
    body = response.content
    if response.headers.get("content-type", "").startswith(JSON) and sys.stdout.isatty():
        body = json.dumps(response.json(), indent=2, ensure_ascii=False).encode() + b"\n"
    write_body(body)


def put(
    path: Annotated[str, typer.Argument(help="Path of the record, as in a URL: Dog/1.")],
    value: Annotated[
        str, typer.Argument(help="JSON or text; - reads standard input, @FILE reads a file.")
    ] = "-",
    content_type: ContentTypeOption = None,
    url: UrlOption = None,
) -> None:
    """Write a record, and print the cursor of the write.

    Example: rowcast put Dog/1 '{"name": "Rex", "breed": "Labrador"}'
    """
    _send("PUT", _url_path(path), value, content_type, url)


def delete(
    path: Annotated[str, typer.Argument(help="Path as in a URL: Dog/1, or Dog/?age=gt=9.")],
    url: UrlOption = None,
) -> None:
    """Delete a record, and print the cursor of the write; of a query, how many.

    Example: rowcast delete Dog/1
    """
    with client_of(url) as client:
        _print_cursor(client.request("DELETE", _url_path(path)))


def pub(
    topic: Annotated[str, typer.Argument(help="A topic: chat/lobby.")],
    value: Annotated[
        str, typer.Argument(help="JSON or text; - reads standard input, @FILE reads a file.")
    ],
    retain: Annotated[
        bool, typer.Option("--retain", help="Make the value the topic's record.")
    ] = False,
    content_type: ContentTypeOption = None,
    url: UrlOption = None,
) -> None:
    """Publish a message to a topic, and print its cursor.

    Without --retain the topic's record is unchanged.

    Example: rowcast pub chat/lobby '{"from": "ann", "text": "hello"}'
    """
    method, query = ("PUT", "") if retain else ("POST", "?retain=false")
    _send(method, topic_path(topic) + query, value, content_type, url)


def _url_path(text: str) -> str:
    """Return the path and query of an argument, with or without a leading slash.

    A '#' is part of it, as in a topic, and not a fragment, which would not reach the server.
    """
    return "/" + text.removeprefix("/").replace("#", "%23")


def _send(method: str, path: str, value: str, content_type: str | None, url: str | None) -> None:
    """Write a value, and print its cursor; say so if text was given where JSON is needed."""
    body, guess = _value(value)
    with client_of(url) as client:
        try:
            response = client.request(method, path, body, {"Content-Type": content_type or guess})
        except Problem as problem:
            if content_type or guess != TEXT or problem.code != Code.UNSUPPORTED:
                raise
            raise Error(
                Code.UNSUPPORTED,
                f"the value is text, and a table's record is JSON; write it as {_EXAMPLE}",
            ) from problem
        _print_cursor(response)


def _value(text: str) -> tuple[bytes, str]:
    """Return the bytes of an argument, and their content type."""
    if text == "-":
        body = sys.stdin.buffer.read()
        return body, _guess(body)
    if text.startswith("@"):
        try:
            body = Path(text[1:]).read_bytes()
        except OSError as error:
            raise Error(Code.INVALID, f"{text[1:]} cannot be read: {error.strerror}") from error
        return body, SUFFIXES.get(Path(text[1:]).suffix.lower(), RAW)
    body = text.encode("utf-8", "surrogateescape")
    return body, _guess(body)


def _guess(body: bytes) -> str:
    """Return JSON for JSON and for text that resembles it, so that the server reports errors."""
    with suppress(ValueError):
        json.loads(body)
        return JSON
    if body.lstrip()[:1] in {b"{", b"[", b'"'}:
        return JSON
    try:
        body.decode()
    except UnicodeDecodeError:
        return RAW
    return TEXT


def _print_cursor(response: Response) -> None:
    """Print the cursor of a write, if the server returned one, or what a write by query did."""
    if cursor := cursor_of(response):
        print(cursor)
    elif response.content[:9] == b'{"count":':
        print(response.text)
    elif response.status_code == HTTPStatus.MULTI_STATUS:
        refused = [row for row in response.json() if "error" in row]
        raise Error(
            Code.UNPROCESSABLE,
            "\n".join(f"{row['id'] or 'a record'}: {row['error']['detail']}" for row in refused),
        )
